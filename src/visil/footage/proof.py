"""What is known for certain of two files: how much of each the other shows, what only one has, and which is finer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from visil.errors import VideoError
from visil.footage.containment import NOTHING, Containment, Span, contained
from visil.footage.detail import UNTOLD, Finer, FramesAt, Shown, finer
from visil.footage.miniatures import Miniatures, OpenStream, open_here, read_miniatures
from visil.video import frames_at

Which = Literal["first", "second"] | None

KEPT_BYTES = 400_000_000
"""Of miniatures that are kept for the next pair; the two of a pair are kept in any case."""

GREYER = 0.6
"""Part of the colour of another file below which a file has lost colour,"""
COLOURED = 6.0
"""if the other has more than so much: levels of 255 between red, green and blue."""

MORE_FRAMES = 1.3
"""Ratio of frames a second from which a file moves more smoothly than another."""


TURNED: dict[Which, Which] = {"first": "second", "second": "first", None: None}


@dataclass(frozen=True)
class Proof:
    """Of two files."""

    first_in_second: Containment = NOTHING
    second_in_first: Containment = NOTHING
    finer: Finer = UNTOLD
    first_only: str | None = None
    """What the first has that is lost without it, whatever the pictures show: "has sound"."""
    second_only: str | None = None
    unread: str | None = None
    """Why the files could not be compared picture by picture, where that is so."""

    def turned(self) -> Proof:
        """The same of the second file and the first."""
        return Proof(
            *(
                self.second_in_first,
                self.first_in_second,
                replace(self.finer, which=TURNED[self.finer.which]),
            ),
            *(self.second_only, self.first_only, self.unread),
        )

    def to_dict(self, first: str = "first", second: str = "second") -> dict[str, Any]:
        """As JSON says it, with names for the two."""
        return {
            f"{first}_in_{second}": _as_dict(self.first_in_second),
            f"{second}_in_{first}": _as_dict(self.second_in_first),
            "finer": {"first": first, "second": second, None: None}[self.finer.which],
            "clearly": self.finer.clearly,
            f"{first}_only": self.first_only,
            f"{second}_only": self.second_only,
            "unread": self.unread,
        }

    @classmethod
    def from_dict(cls, told: dict[str, Any], first: str = "first", second: str = "second") -> Proof:
        """What :meth:`to_dict` made."""
        which: dict[str | None, Which] = {first: "first", second: "second", None: None}
        return cls(
            Containment(**told[f"{first}_in_{second}"]),
            Containment(**told[f"{second}_in_{first}"]),
            Finer(which[told["finer"]], told["clearly"]),
            *(told[f"{first}_only"], told[f"{second}_only"], told["unread"]),
        )


@dataclass(frozen=True)
class File:
    """A file as the collection knows it."""

    path: str
    seconds: float
    bytes: int

    def shown(self, pictures: Miniatures) -> Shown:
        """What its detail is measured of."""
        return Shown(self.path, pictures.info, self.bytes, pictures.seconds)


class Prover:
    """Compares files picture by picture; each is decoded once, as long as there is room for what it looks like."""

    def __init__(self, open_stream: OpenStream = open_here, frames_at: FramesAt = frames_at) -> None:
        self._open_stream = open_stream
        self._frames_at = frames_at
        self._kept: OrderedDict[str, Miniatures | VideoError] = OrderedDict()

    def prove(self, first: File, second: File, matching: Sequence[tuple[Span, Span]]) -> Proof:
        """What is known for certain; ``matching`` are stretches that features say are alike."""
        try:
            one, two = self._miniatures(first), self._miniatures(second)
            turned = [(there, here) for here, there in matching]
            here, there = contained(one, two, matching), contained(two, one, turned)
            better = UNTOLD
            if here.whole or there.whole:
                moments = here.moments if here.whole else tuple((a, b) for b, a in there.moments)
                better = finer(first.shown(one), second.shown(two), moments, self._frames_at)
        except VideoError as error:
            return Proof(unread=str(error))
        return Proof(here, there, better, only(one, two), only(two, one))

    def _miniatures(self, file: File) -> Miniatures:
        known = self._kept.pop(file.path, None)
        if known is None:
            try:
                known = read_miniatures(file.path, file.seconds, self._open_stream)
            except VideoError as error:
                known = error
        self._kept[file.path] = known
        sizes = {path: one.pictures.nbytes for path, one in self._kept.items() if isinstance(one, Miniatures)}
        for path in list(sizes)[:-2]:
            if sum(sizes.values()) > KEPT_BYTES:
                del self._kept[path], sizes[path]
        if isinstance(known, VideoError):
            raise known
        return known


def only(mine: Miniatures, theirs: Miniatures) -> str | None:
    """What a file has beside the pictures that were compared, and another has not; None where that is nothing."""
    here, there = mine.info, theirs.info
    if here.videos > 1:
        return "holds a second video, which was not compared"
    if here.sounds > there.sounds:
        return "has sound" if there.sounds == 0 else f"has {here.sounds} sound tracks"
    if here.subtitles > there.subtitles:
        return "has subtitles" if there.subtitles == 0 else f"has {here.subtitles} tracks of subtitles"
    if mine.colour > COLOURED and theirs.colour < GREYER * mine.colour:
        return "has more colour"
    if here.fps and there.fps and here.fps > MORE_FRAMES * there.fps:
        return f"has {here.fps:.0f} frames a second"
    return None


def _as_dict(containment: Containment) -> dict[str, Any]:
    told = asdict(containment)
    del told["moments"]  # for whoever measures detail
    return told
