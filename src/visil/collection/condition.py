"""The state of a collection, and what may be wrong with it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from visil.collection.catalogue import Failure
from visil.model.codes import Codes


@dataclass(frozen=True)
class IndexInfo:
    """The state of a collection."""

    folder: str
    model: str
    codes: Codes
    """What features are kept as."""
    videos: int
    frames: int
    hours: float
    bytes: int
    failed: list[Failure]

    def to_dict(self) -> dict[str, object]:
        """As ``visil info --json`` prints it."""
        return asdict(self)


@dataclass(frozen=True)
class Problem:
    """Something that ``verify`` found wrong."""

    what: str
    reason: str
