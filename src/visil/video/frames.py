"""Frames: what this package hands out, pictures with the time each was taken from."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
"""One picture, [height, width, 3], RGB."""


class Sample(NamedTuple):
    """One kept frame and its time in seconds from the first frame."""

    image: Image
    timestamp: float


@dataclass(frozen=True)
class Frames:
    """Frames of one video, in order."""

    images: NDArray[np.uint8]
    """[T, H, W, 3], RGB."""
    timestamps: NDArray[np.float64]
    """[T], seconds from the first frame."""

    def __len__(self) -> int:
        return len(self.timestamps)

    @classmethod
    def from_samples(cls, samples: list[Sample], side: int) -> Frames:
        """Stack samples of ``side`` x ``side`` pixels; none at all gives arrays of length zero."""
        images = np.empty((len(samples), side, side, 3), np.uint8)
        for slot, sample in zip(images, samples, strict=True):
            slot[...] = sample.image
        return cls(images, np.array([sample.timestamp for sample in samples], np.float64))


def batched(samples: Iterable[Sample], batch_size: int, side: int) -> Generator[Frames, None, None]:
    """Group samples into :class:`Frames` of ``batch_size``, the last one shorter; holds one batch at most."""
    batch: list[Sample] = []
    for sample in samples:
        batch.append(sample)
        if len(batch) == batch_size:
            yield Frames.from_samples(batch, side)
            batch = []
    if batch:
        yield Frames.from_samples(batch, side)
