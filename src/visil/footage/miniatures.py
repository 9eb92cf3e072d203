"""A video as small grey pictures, many a second: what is compared to show that one file holds another's footage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from visil.errors import VideoError
from visil.video import Frames, Sampling, VideoInfo, stream_frames

SIDE = 64
"""Pixels a side: a changed word of a slide is still seen, coding noise is not."""

RATES = (16, 8, 4)
"""Pictures a second. Longer videos get fewer; the more there are, the closer a moment of one file meets its own."""

CELL = 8
CELL_RATE = 32
"""Pictures a second of which only the means over blocks of CELL × CELL pixels are kept, however long a video is."""

MOST_BYTES = 320_000_000
"""That one video's pictures may take."""

GREY = np.array([77, 150, 29], np.uint32)
"""Weights of red, green and blue, in 256ths."""


class Stream(Protocol):
    """A video while it is decoded."""

    info: VideoInfo
    duration: float
    damaged: int

    def __iter__(self) -> Iterator[Frames]: ...


OpenStream = Callable[[Path, Sampling], AbstractContextManager[Stream]]
"""Opens a video: :func:`visil.video.stream_frames`, or one that decodes in a process of its own."""


@dataclass(frozen=True, eq=False)
class Miniatures:
    """All of a video, small and grey."""

    pictures: NDArray[np.uint8]
    """[n, SIDE, SIDE]"""
    rate: int
    """Of them a second."""
    seconds: float
    colours: NDArray[np.float32]
    """[n]: how far apart red, green and blue are in each, on the average, of 255."""
    info: VideoInfo
    cells: NDArray[np.uint8]
    """[m, SIDE / CELL, SIDE / CELL], CELL_RATE a second."""

    def colour(self, start: float = 0.0, end: float = inf) -> float:
        """How far apart red, green and blue are on the average of some seconds."""
        places = slice(*(round(max(0.0, min(at, self.seconds)) * self.rate) for at in (start, end)))
        found = self.colours[places]
        return float(found.mean()) if len(found) else 0.0

    def at(self, rate: int) -> NDArray[np.uint8]:
        """The pictures at a lower rate."""
        return self.pictures[:: self.rate // rate]


def rate_for(seconds: float) -> int | None:
    """How many pictures a second a video of this length gets; None where it is too long for the fewest."""
    return next((rate for rate in RATES if seconds * rate * SIDE * SIDE <= MOST_BYTES), None)


def open_here(path: Path, sampling: Sampling) -> AbstractContextManager[Stream]:
    """The frames of a video, decoded in this process."""
    return stream_frames(path, sampling, batch_size=64)


def read_miniatures(path: str, seconds: float, open_stream: OpenStream = open_here) -> Miniatures:
    """Decode all of a file of about ``seconds``; a :class:`VideoError` where that cannot be done."""
    rate = rate_for(seconds)
    if rate is None:
        raise VideoError(path, f"is too long to be compared picture by picture ({seconds / 3600:.1f} hours)")
    sampling = Sampling(fps=CELL_RATE, resize=SIDE, crop=SIDE, fit="whole")
    every = CELL_RATE // rate
    parts: list[NDArray[np.uint8]] = []
    cells: list[NDArray[np.uint8]] = []
    colours: list[NDArray[np.float32]] = []
    seen, size = 0, 0
    with open_stream(Path(path), sampling) as stream:
        for frames in stream:
            grey = ((frames.images @ GREY) >> 8).astype(np.uint8)
            blocks = grey.reshape(-1, SIDE // CELL, CELL, SIDE // CELL, CELL)
            cells.append(blocks.mean(axis=(2, 4), dtype=np.float32).round().astype(np.uint8))
            kept = slice(-seen % every, None, every)
            seen += len(grey)
            parts.append(np.ascontiguousarray(grey[kept]))
            size += parts[-1].size
            images = frames.images[kept]
            apart = images.max(axis=3) - images.min(axis=3)
            colours.append(apart.mean(axis=(1, 2), dtype=np.float32))
            if size > 2 * MOST_BYTES:
                raise VideoError(path, "is longer than it was when it was added")
        pictures = np.concatenate(parts) if parts else np.empty((0, SIDE, SIDE), np.uint8)
        if not len(pictures):
            raise VideoError(path, "no frame could be decoded")
        return Miniatures(
            *(pictures, rate, stream.duration, np.concatenate(colours), stream.info), np.concatenate(cells)
        )
