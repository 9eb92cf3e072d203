"""Frames spread evenly over many videos, however many there are, to fit a whitening on (Sec. 5.2).

Where all of them are more than are wanted, the videos are taken as one long row of samples and every n-th of the row is
read by itself, by seeking: a million region vectors of VCDB are 111,112 of its seven million frames.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from math import ceil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visil.errors import VideoError
from visil.machine.processor import usable_cores
from visil.progress import Counted
from visil.video import Sampling, probe, samples_at, stream_frames

Images = NDArray[np.uint8]
"""uint8 [t, H, W, 3]."""

AHEAD = 4
"""Videos read ahead of those that are asked for, for each core."""


class SampledFrames:
    """Iterates over frames of ``files``, about ``most`` in all; videos that cannot be read are left out."""

    def __init__(
        self, files: Sequence[Path], sampling: Sampling, most: int, progress: Counted | None = None
    ) -> None:
        self.sampling, self.progress = sampling, progress
        self.files: list[Path] = []
        self.failed: list[tuple[str, str]] = []
        counts = []
        for file in files:
            try:
                counts.append(max(1, int((probe(file).duration or 0.0) * sampling.fps)))
                self.files.append(file)
            except VideoError as error:
                self.failed.append((os.fspath(file), error.reason))
        self.every = max(1.0, sum(counts) / most)
        """Samples of the row from one that is taken to the next."""
        self._plan = list(spread(counts, self.every))

    def __iter__(self) -> Iterator[Images]:
        if self.every == 1.0:
            yield from self._all()
            return
        cores = usable_cores()
        with ThreadPoolExecutor(cores, "visil-frames") as pool:
            waiting: deque[tuple[int, Future[list[Images]]]] = deque()
            for number, positions in enumerate(self._plan):
                waiting.append((number, pool.submit(self._some, self.files[number], positions)))
                if len(waiting) > AHEAD * cores:
                    yield from self._taken(*waiting.popleft())
            while waiting:
                yield from self._taken(*waiting.popleft())

    def _all(self) -> Iterator[Images]:
        for number, file in enumerate(self.files):
            try:
                with stream_frames(file, self.sampling) as stream:
                    for batch in stream:
                        yield batch.images
            except VideoError as error:
                self.failed.append((os.fspath(file), error.reason))
            self._tell(number)

    def _some(self, file: Path, positions: Sequence[int]) -> list[Images]:
        if not positions:
            return []
        seekable = not file.is_dir() and self.sampling.mode == "time"
        if seekable:
            times = [position / self.sampling.fps for position in positions]
            return [np.stack(samples_at(file, times, self.sampling))]
        step = max(1, round(self.every))
        with stream_frames(file, self.sampling) as stream:
            images = [batch.images for batch in stream]
        return [np.concatenate(images)[positions[0] :: step]] if images else []

    def _taken(self, number: int, reading: Future[list[Images]]) -> Iterator[Images]:
        try:
            yield from (images for images in reading.result() if len(images))
        except VideoError as error:
            self.failed.append((os.fspath(self.files[number]), error.reason))
        self._tell(number)

    def _tell(self, number: int) -> None:
        if self.progress is not None:
            self.progress(number + 1, len(self.files), os.fspath(self.files[number]))


def spread(counts: Iterable[int], every: float) -> Iterator[list[int]]:
    """Of rows laid end to end, every n-th item, by its place in its own row: the first, and so on, n any number."""
    before, taken = 0, 0
    for count in counts:
        own: list[int] = []
        while ceil(taken * every) < before + count:
            own.append(ceil(taken * every) - before)
            taken += 1
        before += count
        yield own
