"""Frames that are, byte by byte, the frame before: a still picture is embedded once, however long it is shown."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Repeats:
    """Tells which frames of one video are new, batch after batch, and gives the others the features of those."""

    def __init__(self) -> None:
        self._image: Tensor | None = None
        self._vectors: Tensor | None = None
        self._blank: Tensor | None = None

    def new(self, images: Tensor) -> Tensor:
        """Which of the next frames uint8 [T, H, W, 3] differ from the one before: [T]. On a GPU nobody looks."""
        if images.device.type != "cpu":
            return torch.ones(len(images), dtype=torch.bool)
        # numpy: torch would share out each of these small comparisons to all its threads, and wait for them.
        frames = images.numpy()
        first = self._image is None or not _same(self._image.numpy(), frames[0])
        found = [first, *(not _same(a, b) for a, b in pairwise(frames))]
        self._image = images[-1].clone()  # they may lie in memory that is used again
        return torch.tensor(found)

    def spread(self, new: Tensor, vectors: Tensor, blank: Tensor) -> tuple[Tensor, Tensor]:
        """Features [T, R, C] and blanks [T] of all frames, from those of the new ones."""
        places = new.cumsum(0) - 1
        if not new[0]:  # it goes on as the batch before ended
            assert self._vectors is not None
            assert self._blank is not None
            vectors, blank = torch.cat([self._vectors, vectors]), torch.cat([self._blank, blank])
            places += 1
        if not new.all():
            vectors, blank = vectors[places], blank[places]
        self._vectors, self._blank = vectors[-1:].clone(), blank[-1:].clone()
        return vectors, blank


def _same(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> bool:
    """Most that differ do so in the middle line."""
    middle = len(a) // 2
    return np.array_equal(a[middle], b[middle]) and np.array_equal(a, b)
