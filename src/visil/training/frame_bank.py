"""All frames of some footage in memory, and which of them a batch of the frame stage shows together."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError
from visil.matching.blank import blank_frames
from visil.training.footage import Footage
from visil.training.pictures import Pictures, small_pictures

MOST = 40_000
"""Frames held at once: 6 GB at 224 pixels."""

ALIKE = 0.06
"""Mean difference of small pictures, of 1, below which two frames show the same moment for all one can see."""


@dataclass(frozen=True)
class Drawn:
    """Frames of one batch: row i of both shows the same moment of the same video."""

    plain: Tensor
    edited: Tensor
    """uint8 [B, H, W, 3]; a fraction of a second before or after the plain one."""


class FrameBank:
    """Frames uint8 [N, H, W, 3] on the device, their times, and how many belong to each video in turn.

    ``pictures`` stand behind them, each by itself.
    """

    def __init__(
        self,
        images: Tensor,
        times: NDArray[np.float64],
        lengths: Sequence[int],
        pictures: Pictures | None = None,
    ) -> None:
        if len(lengths) < 2 or min(lengths) < 1 or not sum(lengths) == len(images) == len(times):
            raise UsageError("frames of at least two videos are needed to learn from")
        self.pictures = pictures
        self.first_picture = len(images)
        """Row of the first picture."""
        self.images = images if pictures is None else torch.cat([images, pictures.images.to(images.device)])
        self.times = times
        self.lengths = np.array(lengths)
        self.starts = np.cumsum(self.lengths) - self.lengths
        self._thumbs = small_pictures(images)
        self._near: dict[tuple[int, float], NDArray[np.int64]] = {}
        self._far: dict[tuple[int, float], NDArray[np.int64]] = {}

    @classmethod
    def read(
        cls,
        footage: Footage,
        device: torch.device | str = "cpu",
        pictures: Pictures | None = None,
        *,
        most: int = MOST,
        workers: int = 16,
    ) -> FrameBank:
        """The frames of some footage, thinned out evenly to about ``most``.

        Blank ones are left out: they look alike in all videos.
        """
        every = -(-sum(len(footage.times(video)) for video in range(len(footage))) // most)

        def shown(video: int) -> tuple[Tensor, NDArray[np.float64]]:
            times = footage.times(video)[::every]
            images = footage.images(video, range(0, len(footage.times(video)), every))
            keep = ~blank_frames(images)
            return images[keep], times[keep].numpy()

        with ThreadPoolExecutor(workers) as pool:
            videos = [part for part in pool.map(shown, range(len(footage))) if len(part[0])]
        if not videos:
            raise UsageError("frames of at least two videos are needed to learn from")
        images, times = zip(*videos, strict=True)
        lengths = [len(part) for part in images]
        return cls(torch.cat(images).to(device), np.concatenate(times), lengths, pictures)

    def __len__(self) -> int:
        return len(self.lengths)

    def draw(
        self,
        count: int,
        rng: np.random.Generator,
        *,
        twice: float = 0.0,
        apart: float = 1.5,
        shift: float = 0.0,
        pictured: float = 0.0,
    ) -> Drawn:
        """Frames of different videos, at most ``count``; a share ``pictured`` are pictures, where there are any.

        A share ``twice`` of the videos' are a second moment of a video that is there already, ``apart`` seconds or more
        from the first and to be told from it: the hardest strangers there are. The edited frame lies up to ``shift``
        seconds beside the plain one, as two samplings of one video do.
        """
        pictures = self._some_pictures(round(count * pictured), rng)
        count -= len(pictures)
        seconds = round(count * twice)
        order = rng.permutation(len(self))
        rows = [int(self.starts[v] + rng.integers(self.lengths[v])) for v in order[: count - seconds]]
        for row in rows[:seconds]:
            others = self._others(row, apart)
            if len(others):
                rows.append(int(others[rng.integers(len(others))]))
        # As many in every batch, where there are videos enough: new sizes cost a GPU time to plan for.
        spare = order[count - seconds :][: count - len(rows)]
        rows += [int(self.starts[v] + rng.integers(self.lengths[v])) for v in spare]
        beside = [self._beside(row, shift, rng) for row in rows]
        return Drawn(self._at(rows + pictures), self._at(beside + pictures))

    def _some_pictures(self, count: int, rng: np.random.Generator) -> list[int]:
        """Rows of different pictures of all kinds."""
        if self.pictures is None or not count:
            return []
        weights = self.pictures.weights
        chosen = rng.choice(len(weights), min(count, len(weights)), replace=False, p=weights)
        return [self.first_picture + int(picture) for picture in chosen]

    def _at(self, rows: Sequence[int]) -> Tensor:
        return self.images[torch.tensor(rows, device=self.images.device)]

    def _video(self, row: int) -> slice:
        video = int(np.searchsorted(self.starts, row, side="right")) - 1
        return slice(int(self.starts[video]), int(self.starts[video] + self.lengths[video]))

    def _others(self, row: int, apart: float) -> NDArray[np.int64]:
        """Frames of the same video that can be told from this one."""
        if (row, apart) not in self._far:
            own = self._video(row)
            far = np.abs(self.times[own] - self.times[row]) >= apart
            self._far[row, apart] = own.start + np.flatnonzero(far & (self._difference(own, row) > ALIKE))
        return self._far[row, apart]

    def _beside(self, row: int, shift: float, rng: np.random.Generator) -> int:
        """A frame at most ``shift`` seconds away, in the same shot."""
        if (row, shift) not in self._near:
            own = self._video(row)
            near = np.abs(self.times[own] - self.times[row]) <= shift
            alike = self._difference(own, row) <= 2 * ALIKE
            self._near[row, shift] = own.start + np.flatnonzero(near & alike)
        frames = self._near[row, shift]
        return int(frames[rng.integers(len(frames))])

    def _difference(self, own: slice, row: int) -> NDArray[np.float32]:
        return np.abs(self._thumbs[own] - self._thumbs[row]).mean(axis=1)
