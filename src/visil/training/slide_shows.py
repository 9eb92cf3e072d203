"""Videos made of pictures: slides, screens and charts, each shown for some seconds, look-alikes in one show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.training.frame_bank import small_pictures
from visil.training.pictures import Pictures

SLIDES = (3, 8)
"""Least and most pictures of a show."""

SECONDS = (1.5, 5.0)
"""Least and greatest time that a picture stays."""

NEAREST = 24
"""Pictures of the same kind that are most like a show's first one: the others of the show are among them."""


class SlideShows:
    """Footage: at most ``count`` shows of pictures, none of which is in two of them.

    A show's pictures are of one kind and look alike, as the slides of one deck and the windows of one program do; the
    next show of such pictures is its hardest stranger.
    """

    def __init__(self, pictures: Pictures, count: int, *, fps: float = 4.0, seed: int = 0) -> None:
        self._images = pictures.images
        rng = np.random.default_rng(seed)
        self._frames = [
            np.repeat(show, np.ceil(rng.uniform(*SECONDS, len(show)) * fps).astype(np.int64))
            for show in decks(small_pictures(pictures.images), pictures.kinds, count, rng)
        ]
        self._fps = fps
        self.identity = f"{len(self._frames)} shows of {pictures.identity}"
        """Tells such footage apart."""
        self.names = [f"slide show {number + 1}" for number in range(len(self._frames))]

    def __len__(self) -> int:
        return len(self._frames)

    def times(self, video: int) -> Tensor:
        """Seconds of each frame."""
        return torch.arange(len(self._frames[video]), dtype=torch.float64) / self._fps

    def images(self, video: int, positions: Sequence[int]) -> Tensor:
        """The frames at these positions."""
        return self._images[torch.from_numpy(self._frames[video][list(positions)])]


def decks(
    thumbs: NDArray[np.float32], kinds: Sequence[str], count: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Numbers of the pictures of each show: kinds in turn, look-alikes together, none twice."""
    left = {
        kind: rng.permutation([i for i, own in enumerate(kinds) if own == kind])
        for kind in sorted(set(kinds))
    }
    shows: list[NDArray[np.int64]] = []
    while len(shows) < count and left:
        for kind in list(left):
            pictures = left[kind]
            if len(pictures) < SLIDES[0]:
                del left[kind]
                continue
            apart = np.abs(thumbs[pictures] - thumbs[pictures[0]]).mean(axis=1)
            near = np.argsort(apart, kind="stable")[1 : NEAREST + 1]
            size = min(int(rng.integers(SLIDES[0], SLIDES[1] + 1)), len(pictures)) - 1
            chosen = np.concatenate([[0], rng.permutation(near)[:size]])
            shows.append(pictures[chosen])
            left[kind] = np.delete(pictures, chosen)
    return shows[:count]
