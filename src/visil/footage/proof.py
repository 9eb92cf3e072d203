"""Proof about two files: how much of each the other shows, what only one has, and which is finer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from visil.errors import VideoError
from visil.footage.blank import seen
from visil.footage.closer import SIDE, Look, look, missing, unlike
from visil.footage.containment import MOMENTS, NOTHING, Containment, Span, Stretch, contained
from visil.footage.detail import UNTOLD, Finer, Shown, finer
from visil.footage.flashes import smoother, unseen
from visil.footage.miniatures import Miniatures, OpenStream, open_here, read_miniatures
from visil.footage.sound import lost_with
from visil.video import Image, frames_at
from visil.video.sound import Track, read_sound

Which = Literal["first", "second"] | None

FramesAt = Callable[[str, list[float], int], list[Image]]
"""Path, times, height: :func:`visil.video.frames_at`, or one that decodes in a process of its own."""
SoundOf = Callable[[str], Sequence[Track]]
"""Path: :func:`visil.video.sound.read_sound`, or one that decodes in a process of its own."""

FRAMES = 16.0
"""Frames a second of a file that does not say."""

FEW = 24
"""Moments of two files that are looked at first, at full height."""
TOGETHER = 16
"""Moments whose frames are read at once after that."""

KEPT_BYTES = 400_000_000
"""Of miniatures that are kept for the next pair; the two of a pair are kept in any case."""

GREYER = 0.8
"""Part of the colour of another file below which a file has lost colour,"""
COLOURED = 6.0
"""if the other has more than so much: levels of 255 between red, green and blue."""

MORE_FRAMES = 1.1
"""Ratio of frames a second from which a file moves more smoothly than another; 25 for 24 is another clock."""


TURNED: dict[Which, Which] = {"first": "second", "second": "first", None: None}


@dataclass(frozen=True)
class Proof:
    """Of two files."""

    first_in_second: Containment = NOTHING
    second_in_first: Containment = NOTHING
    finer: Finer = UNTOLD
    first_only: str | None = None
    """The thing that is lost without the first, whatever the pictures show: "has sound"."""
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
        """Read the outcome of :meth:`to_dict`."""
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
        """The file and its pictures, for measuring its detail."""
        return Shown(self.path, pictures.info, self.bytes, pictures.seconds)


class Prover:
    """Compares files picture by picture; each is decoded once, as long as there is room for what it looks like."""

    def __init__(
        self,
        open_stream: OpenStream = open_here,
        frames_at: FramesAt = frames_at,
        sound_of: SoundOf = read_sound,
    ) -> None:
        self._open_stream = open_stream
        self._frames_at = frames_at
        self._sound_of = sound_of
        self._kept: OrderedDict[str, Miniatures | VideoError] = OrderedDict()
        self._sounds: dict[str, Sequence[Track] | None] = {}

    def prove(self, first: File, second: File, matching: Sequence[tuple[Span, Span]]) -> Proof:
        """The proof; ``matching`` are stretches that features say are alike."""
        try:
            one, two = self._miniatures(first), self._miniatures(second)
            turned = [(there, here) for here, there in matching]
            here, there = contained(one, two, matching), contained(two, one, turned)
            here = here.less(unseen(one, two, here.stretches)) if here.whole else here
            there = there.less(unseen(two, one, there.stretches)) if there.whole else there
            better = UNTOLD
            if here.whole or there.whole:
                moments = here.moments if here.whole else tuple((a, b) for b, a in there.moments)
                looks = _Looks(first.shown(one), second.shown(two), moments, self._frames_at)
                better = finer(looks.first, looks.second, looks)
                lacking = missing(looks.found)
                if not any(lacking):
                    lacking = missing(looks.all())
                here, there = here.less(lacking[0]), there.less(lacking[1])
                here, there = self._blank(looks.first, here), self._blank(looks.second, there)
        except VideoError as error:
            return Proof(unread=str(error))
        sharper = better.which if better.clearly else None
        return Proof(
            *(here, there, better),
            only(one, two, here, worse=sharper == "second") or self._only_sound(first, second, here),
            only(two, one, there, worse=sharper == "first") or self._only_sound(second, first, there),
        )

    def _blank(self, shown: Shown, found: Containment) -> Containment:
        """Less the moments that only seem blank, as they are small in miniatures."""
        if not found.whole:
            return found
        part = seen(lambda times: self._frames_at(shown.path, list(times), shown.height), found.blank)
        return found.less(part * len(found.blank) / MOMENTS / found.of) if part else found

    def _only_sound(self, mine: File, theirs: File, shown: Containment) -> str | None:
        """What is heard in a file and not in one that shows all of it."""
        if not shown.whole:
            return None
        here = self._sound(mine)
        if here is not None and not here:
            return None
        there = self._sound(theirs)
        if here is None or there is None:
            return "has sound that could not be compared"
        return lost_with(here, there, shown.stretches)

    def _sound(self, file: File) -> Sequence[Track] | None:
        if file.path not in self._sounds:
            try:
                self._sounds[file.path] = self._sound_of(file.path)
            except VideoError:
                self._sounds[file.path] = None
        return self._sounds[file.path]

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


class _Looks:
    """Frames of the same moments of two files, and what a closer look at them finds.

    A few moments are gone through at full height. If nothing is wrong there, :meth:`all` looks at every one.
    """

    def __init__(self, first: Shown, second: Shown, moments: Sequence[Span], frames_at: FramesAt) -> None:
        self.first, self.second = first, second
        self._moments = moments
        self._frames_at = frames_at
        self._step = 1 / (second.info.fps or FRAMES)
        self.found: list[Look] = []

    def __iter__(self) -> Iterator[tuple[Image, Image]]:
        for place in np.unique(np.linspace(0, len(self._moments) - 1, min(len(self._moments), FEW)).round()):
            ((one, two),) = self._pairs([self._moments[int(place)]], self.first.height, self.second.height)
            self.found.append(look(one, two))
            yield one, two

    def all(self) -> Iterator[Look]:
        """A look at every moment."""
        heights = [_height(shown) for shown in (self.first, self.second)]
        for start in range(0, len(self._moments), TOGETHER):
            for one, two in self._pairs(self._moments[start : start + TOGETHER], *heights):
                yield look(one, two)

    def _pairs(self, moments: Sequence[Span], height: int, other: int) -> Iterator[tuple[Image, Image]]:
        ones = self._frames_at(self.first.path, [here for here, _ in moments], height)
        # One of them is the same frame, if the other file has it.
        times = [there + late * self._step for _, there in moments for late in (0, -1, 1)]
        twos = self._frames_at(self.second.path, times, other)
        for place, one in enumerate(ones):
            yield one, min(twos[3 * place : 3 * place + 3], key=partial(unlike, one))


def _height(shown: Shown) -> int:
    """Pixels in height at which a frame's shorter side is as long as a look needs it."""
    info = shown.info
    return min(shown.height, SIDE * max(1, -(-info.height // max(info.width, 1))))


def only(
    mine: Miniatures, theirs: Miniatures, shown: Containment = NOTHING, *, worse: bool = False
) -> str | None:
    """What a file has beside the pictures that were compared, and another has not; None where that is nothing.

    ``shown``: how much of it the other shows. ``worse``: its pictures show clearly less, so that it matters no more
    how finely their colours are told.
    """
    here, there = mine.info, theirs.info
    if here.videos > 1:
        return "holds a second video, which was not compared"
    if here.sounds > there.sounds:
        return "has sound" if there.sounds == 0 else f"has {here.sounds} sound tracks"
    if here.subtitles:
        return "has subtitles" if there.subtitles == 0 else "has subtitles, which were not compared"
    if _paler(theirs, mine, shown.stretches):
        return "has more colour"
    if here.fps and there.fps and here.fps > MORE_FRAMES * there.fps:
        return f"has {here.fps:.0f} frames a second"
    if shown.whole and smoother(mine, theirs, shown.stretches):
        return "moves more smoothly"
    if here.interlaced and not there.interlaced:
        return "is interlaced, with two moments in each frame"
    if here.hdr and not there.hdr:
        return "is HDR"
    if here.transparent and not there.transparent:
        return "is transparent in places"
    if here.chapters > there.chapters:
        return "has chapters" if there.chapters == 0 else f"has {here.chapters} chapters"
    if here.attachments > there.attachments:
        return "holds other data (fonts, files, measurements)"
    if here.depth > there.depth and not worse:
        return f"has colours of {here.depth} bits"
    if here.chroma > there.chroma and not worse:
        return "has colours for each pixel" if here.chroma == 1 else "has finer colours"
    return None


def _paler(theirs: Miniatures, mine: Miniatures, stretches: Sequence[Stretch]) -> bool:
    """Whether a file has less colour than another where both show the same; anywhere, if that is nowhere."""
    here, there = mine.colour(), theirs.colour()
    if stretches:
        lengths = [end - start for start, end, _ in stretches]
        colours = [
            (mine.colour(start, end), theirs.colour(start + late, end + late))
            for start, end, late in stretches
        ]
        here, there = np.average(colours, axis=0, weights=lengths).tolist()
    return here > COLOURED and there < GREYER * here


def _as_dict(containment: Containment) -> dict[str, Any]:
    told = asdict(containment)
    del told["moments"], told["stretches"], told["blank"]  # for whoever looks closer
    return told
