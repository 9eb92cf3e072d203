"""Twelve videos, some of which share footage: what ``visil demo`` finds duplicates in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path

from visil.demo.scenes import render_film
from visil.edits.frames import Edit, border, colour, crop, edited, mirror, overlay, recode, speed
from visil.files import make_folder
from visil.video import Image
from visil.video.writer import write_video

Span = tuple[float, float]
Size = tuple[int, int]

FPS = 12
SIZE = (480, 270)
SMALL = (320, 180)

# Photographs that the model tells apart: of bare textures and of specks on black, it takes some for others.
FILMS: dict[str, tuple[tuple[str, float], ...]] = {
    "at home": (("chelsea", 10.0), ("coffee", 9.0)),
    "launch": (("rocket", 9.0), ("astronaut", 9.0)),
    "ride": (("motorcycle_left", 10.0),),
    "stars": (("hubble_deep_field", 8.0),),
    "eye": (("retina", 7.0),),
    "tissue": (("ihc", 6.0),),
    "coins": (("coins", 9.0),),
    "wall": (("brick", 9.0),),
    "lawn": (("grass", 8.0),),
}
"""Footage that clips are cut from: photographs, and for how many seconds the camera moves over each."""


@dataclass(frozen=True)
class Cut:
    """A stretch of a film as a clip shows it."""

    film: str
    start: float = 0.0
    end: float | None = None
    """In seconds of the film; by default, its end."""
    edits: tuple[Edit, ...] = ()
    faster: float = 1.0

    @property
    def stretch(self) -> Span:
        """From when to when of the film it shows."""
        return self.start, sum(s for _, s in FILMS[self.film]) if self.end is None else self.end

    @property
    def seconds(self) -> float:
        """How long it lasts in the clip."""
        start, end = self.stretch
        return (end - start) / self.faster

    def frames(self, size: Size) -> Iterator[Image]:
        """The content of the clip."""
        pace = () if self.faster == 1 else (speed(self.faster),)
        shots = [(name, seconds, 0) for name, seconds in FILMS[self.film]]
        return edited(render_film(shots, *self.stretch, FPS, size), *pace, *self.edits)


@dataclass(frozen=True)
class Clip:
    """One video of the collection: how it was made."""

    name: str
    parts: tuple[Cut, ...]
    size: Size = SIZE


CLIPS = (
    Clip("at home.mp4", (Cut("at home"),)),
    Clip("at home, cropped and mirrored.mp4", (Cut("at home", 3, 17, (crop(0.8, 0.5, 0.4), mirror())),)),
    Clip("at home, small upload.mp4", (Cut("at home", edits=(recode(60_000, FPS),)),), SMALL),
    Clip("at home, faster.mp4", (Cut("at home", 4, 19, faster=1.25),)),
    Clip("launch.mp4", (Cut("launch"),)),
    Clip(
        "launch, with caption.mp4",
        (Cut("launch", 2, 16, (overlay("LIFT-OFF!"), colour(brightness=0.85, contrast=1.15, middle=128))),),
    ),
    Clip("compilation.mp4", (Cut("stars"), Cut("eye"), Cut("launch", 4, 14), Cut("tissue"))),
    Clip("ride.mp4", (Cut("ride"),)),
    Clip("ride, in a frame.mp4", (Cut("ride", edits=(border(0.15, (120, 20, 40)),)),)),
    Clip("coins.mp4", (Cut("coins"),)),
    Clip("wall.mp4", (Cut("wall"),)),
    Clip("lawn.mp4", (Cut("lawn"),)),
)
"""Four of one film, three of another (one of them inside a longer video), two of a third, and three alone."""


@dataclass(frozen=True)
class SharedFootage:
    """Seconds that two videos have in common, by design."""

    query: Path
    target: Path
    query_span: Span
    target_span: Span


@dataclass(frozen=True)
class DemoCollection:
    """Files and the truth about them."""

    folder: Path
    videos: list[Path]
    truth: list[SharedFootage]
    """Every stretch that two of the videos share."""

    @property
    def groups(self) -> list[set[str]]:
        """Names of the files that belong together."""
        found: list[set[str]] = []
        for shared in self.truth:
            pair = {shared.query.name, shared.target.name}
            touching = [group for group in found if group & pair]
            found = [group for group in found if not group & pair] + [pair.union(*touching)]
        return found


def make_collection(folder: str | os.PathLike[str]) -> DemoCollection:
    """:data:`CLIPS` as files in ``folder``, rendered where they are not there yet."""
    place = make_folder(folder)
    missing = [clip for clip in CLIPS if not (place / clip.name).exists()]
    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(lambda clip: _render(clip, place / clip.name), missing))
    truth = [shared for a, b in combinations(CLIPS, 2) for shared in _shared(place, a, b)]
    return DemoCollection(place, [place / clip.name for clip in CLIPS], truth)


def _render(clip: Clip, path: Path) -> None:
    write_video(path, chain.from_iterable(part.frames(clip.size) for part in clip.parts), FPS)


def _shared(folder: Path, a: Clip, b: Clip) -> Iterator[SharedFootage]:
    """The seconds of a film that two clips both show."""
    for part_a, start_a in _placed(a):
        for part_b, start_b in _placed(b):
            low = max(part_a.stretch[0], part_b.stretch[0])
            high = min(part_a.stretch[1], part_b.stretch[1])
            if part_a.film == part_b.film and low < high:
                spans = (
                    (
                        start + (low - part.stretch[0]) / part.faster,
                        start + (high - part.stretch[0]) / part.faster,
                    )
                    for part, start in ((part_a, start_a), (part_b, start_b))
                )
                yield SharedFootage(folder / a.name, folder / b.name, *spans)


def _placed(clip: Clip) -> Iterator[tuple[Cut, float]]:
    """Parts, and when in the clip each begins."""
    begin = 0.0
    for part in clip.parts:
        yield part, begin
        begin += part.seconds
