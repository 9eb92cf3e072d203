"""Facts about a collection and its parts, and problems that ``verify`` finds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visil.collection.catalogue import Failure
    from visil.model.code_kinds import Codes


EMBEDDED_IN = {name: f"embedded in {name}" for name in ("bf16", "fp16", "fp32")}
"""Facts of a catalogue, one for each arithmetic that videos went through the backbone in: writers at the same time may
use several."""


@dataclass(frozen=True)
class IndexInfo:
    """The state of a collection."""

    folder: str
    model: str
    codes: Codes
    """The kind of codes that features are kept as."""
    videos: int
    frames: int
    hours: float
    bytes: int
    failed: list[Failure]
    embedding: str | None = None
    """The arithmetic its videos were embedded in, as far as known: fp32, bf16, fp16 (a GPU's), or several of these."""

    def to_dict(self) -> dict[str, object]:
        """As ``visil info --json`` prints it."""
        return asdict(self)


@dataclass(frozen=True)
class Problem:
    """Something that ``verify`` found wrong."""

    what: str
    reason: str


@dataclass(frozen=True)
class PartFacts:
    """The state of a part."""

    location: str
    model: str | None
    fingerprint: str | None
    """Of its model; None while none was chosen."""
    codes: Codes | None
    """The kind of codes that features are kept as; None while nothing was added and no kind was asked for."""
    writable: bool
    videos: int
    frames: int
    seconds: float
    bytes: int
    """On disk; 0 where it was not asked for."""
    failed: list[Failure]
