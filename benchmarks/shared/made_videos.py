"""Collections of made videos: features of shots that never were, some of them copied from video to video."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

import visil
from shared.stored_videos import store_video

REGIONS, CHANNELS = 14, 256
"""Of the default model."""

SHOT = 8
"""Frames of a shot, on average."""

ALIKE = 0.35
"""Part of every picture that all of them share: unrelated frames are never quite unlike."""

COPIED = 10
"""Every so-manieth video holds a third of an earlier one."""


@dataclass(frozen=True)
class MadeVideos:
    """Videos by number, always the same."""

    frames: int

    def video(self, number: int) -> Tensor:
        """Features float16 [frames, R, C]."""
        vectors = self._own(number)
        if number % COPIED == 0 and number >= COPIED:
            length = max(1, self.frames // 3)
            source = self._own(number - COPIED // 2)[-length:]
            vectors[:length] = self._disturbed(source, number)
        return vectors.half()

    def numbers(self, number: int) -> NDArray[np.float16]:
        """The same as an array, which crosses from process to process by itself."""
        found: NDArray[np.float16] = self.video(number).numpy()
        return found

    def query(self, number: int) -> visil.VideoFeatures:
        """A disturbed copy of a video, as a query."""
        vectors = self._disturbed(self.video(number).float(), number + 1)
        times = torch.arange(len(vectors), dtype=torch.float64)
        return visil.VideoFeatures(vectors, times, float(len(times)), f"/query {number}")

    def _own(self, number: int) -> Tensor:
        rng = np.random.default_rng(number)
        shots = max(1, self.frames // SHOT)
        pictures = torch.from_numpy(rng.standard_normal((shots, REGIONS, CHANNELS), np.float32))
        # Not the seed of any video: that one would look like all others.
        every = np.random.default_rng(2**40)
        shared = torch.from_numpy(every.standard_normal((REGIONS, CHANNELS), np.float32))
        which = np.sort(rng.integers(0, shots, self.frames))
        return self._disturbed(pictures[which] + ALIKE * shared, number)

    def _disturbed(self, vectors: Tensor, number: int) -> Tensor:
        """As another encoding of the same would be: noise of half a vector's length."""
        rng = np.random.default_rng(number + 10**9)
        noise = torch.from_numpy(rng.standard_normal((1 << 18,), np.float32))
        places = torch.from_numpy(rng.integers(0, len(noise) - CHANNELS, vectors.shape[:2]))
        drawn = noise[places[..., None] + torch.arange(CHANNELS)]
        return F.normalize(F.normalize(vectors, dim=-1) + 0.5 * F.normalize(drawn, dim=-1), dim=-1)


def make_collection(index: visil.Index, made: MadeVideos, videos: int) -> None:
    """All videos in a collection, and its candidates up to date; those that are there stay."""
    for number, vectors in _made(made, range(len(index), videos)):
        store_video(index, f"{number:08}", torch.from_numpy(vectors))
    index.refresh()


def _made(made: MadeVideos, numbers: range) -> Iterator[tuple[int, NDArray[np.float16]]]:
    """Videos of these numbers, made on all cores."""
    if not numbers:
        return
    with multiprocessing.get_context("spawn").Pool(initializer=torch.set_num_threads, initargs=(1,)) as pool:
        yield from zip(numbers, pool.imap(made.numbers, numbers, chunksize=16), strict=True)
