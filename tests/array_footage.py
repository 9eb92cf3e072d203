"""Footage that lies in memory, for tests of what learns from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class ArrayFootage:
    """A uint8 [T, H, W, 3] array a video, all frames of one size, a second apart where no ``times`` are given."""

    def __init__(
        self,
        videos: Sequence[NDArray[np.uint8] | Tensor],
        times: Sequence[Sequence[float] | Tensor] | None = None,
    ) -> None:
        self._videos = [torch.as_tensor(video) for video in videos]
        given = times if times is not None else [range(len(video)) for video in self._videos]
        self._times = [torch.as_tensor(t, dtype=torch.float64) for t in given]
        self.names = [f"video {i}" for i in range(len(self._videos))]

    def __len__(self) -> int:
        return len(self._videos)

    def times(self, video: int) -> Tensor:
        return self._times[video]

    def images(self, video: int, positions: Sequence[int]) -> Tensor:
        return self._videos[video][torch.as_tensor(positions, dtype=torch.long)]
