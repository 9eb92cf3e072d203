"""The base of the systems on the frame-to-frame matrix: S_f of ViSiL_f in, the frames that match and a score out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError
from visil.kernels import Scorer
from visil.model.features import VideoFeatures
from visil.model.formula import Formula
from visil.paper.baselines.system import PlacedSystem, ScoreArray, checked
from visil.paper.baselines.triplets import TripletSource

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

THRESHOLD = 0.3
"""Where it is neither given nor learned."""

LEARNED_RANGE = (0.0, 0.95)
"""Between what a learned threshold stays: vectors that are not whitened have all a high similarity."""

PAIRS, FRAMES = 200, 16
"""Pairs of videos, and frames of each, that a threshold is learned from."""


@dataclass(frozen=True, eq=False)
class Alignment:
    """Which frames match, and how alike the two videos are by it."""

    cells: Ints
    """Query frame and target frame of each match, [N, 2] in the query's order; empty where nothing matches."""
    score: float

    @property
    def segment(self) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """First and last frame of the matched stretch in the query and in the target."""
        if not len(self.cells):
            return None
        (top, left), (bottom, right) = self.cells.min(axis=0).tolist(), self.cells.max(axis=0).tolist()
        return (top, bottom), (left, right)


class MatrixSystem(PlacedSystem):
    """A system that reads S_f of ViSiL_f, computed where it is placed; what is read off it, on the processor.

    ``threshold`` is the similarity from which two frames speak for a match. Where it is not given, ``learn`` sets it
    to the median of S_f between different videos plus three robust standard deviations (1.4826 times the median
    absolute deviation), so that one setting serves features of any kind.
    """

    name: str
    reads = "l3-imac"  # as ViSiL_f: "the proposed feature extraction scheme" (Sec. 6)
    learns = True

    def __init__(self, threshold: float | None = None) -> None:
        if threshold is not None and not 0 <= threshold < 1:
            raise UsageError(f"threshold must be from 0 to below 1, not {threshold}")
        self.threshold = THRESHOLD if threshold is None else threshold
        self._fixed = threshold is not None

    def learn(
        self,
        videos: Sequence[VideoFeatures],
        *,
        seed: int = 0,
        triplets: TripletSource | None = None,  # noqa: ARG002
    ) -> None:
        """Set the threshold, unless it was given or there are not two videos."""
        if not self._fixed and len(videos) > 1:
            low, high = LEARNED_RANGE
            self.threshold = min(max(_background(videos, seed), low), high)

    def describe(self, video: VideoFeatures) -> Tensor:
        """The region vectors as they are, [T, R, C]."""
        return checked(video).to(self._device)

    def align(self, query: Tensor, target: Tensor) -> Alignment:
        """The best match of two described videos."""
        return self.path(_matrix(query, target))

    def scores(self, query: Tensor, targets: Sequence[Tensor]) -> ScoreArray:
        """Score of the best match with each target."""
        return np.array([self.best(_matrix(query, target)) for target in targets], np.float64)

    @abstractmethod
    def path(self, matrix: Floats) -> Alignment:
        """The best match in a frame-to-frame matrix [X, Y]."""

    def best(self, matrix: Floats) -> float:
        """Its score alone."""
        return self.path(matrix).score

    def nothing(self, matrix: Floats) -> Alignment:
        """The score where no pair of frames passes the threshold: not above 0, but it still ranks."""
        return Alignment(np.empty((0, 2), np.int64), float(matrix.max()) - self.threshold)


def _matrix(query: Tensor, target: Tensor) -> Floats:
    """S_f of Eq. 5, [X, Y], by the product's own kernel."""
    if query.shape[-1] != target.shape[-1]:
        raise UsageError(f"features of {query.shape[-1]} and {target.shape[-1]} channels cannot be compared")
    with torch.inference_mode():
        return Scorer(Formula(), query.device).frames(query, [target]).double().cpu().numpy()


def _background(videos: Sequence[VideoFeatures], seed: int) -> float:
    """Similarity that frames of different videos hardly reach."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(PAIRS):
        chosen = rng.choice(len(videos), 2, replace=False)
        first, second = (
            checked(videos[v])[
                np.sort(rng.choice(len(videos[v]), min(FRAMES, len(videos[v])), replace=False))
            ]
            for v in chosen
        )
        found.append(_matrix(first, second).ravel())
    values = np.concatenate(found)
    median = float(np.median(values))
    return median + 3 * 1.4826 * float(np.median(np.abs(values - median)))
