"""DP: the most alike path through the frame-to-frame matrix, by dynamic programming (after Chou et al. 2015).

Chou, Chen and Lee, "Pattern-based near-duplicate video retrieval and localization on web-scale videos", IEEE
Transactions on Multimedia 17(3), 2015. The ViSiL paper (Sec. 2 and 5) keeps of it the search for the diagonal block of
largest similarity, with limited horizontal and vertical movement, and runs it on S_f of Eq. 5; so does this file.

Left open there, and chosen here:

- A cell (i, j) gains S_f(i, j) - threshold, so that a path begins and ends where it is worth it (local alignment).
- Between two diagonal steps a path may move up to ``slack`` frames along one video. Such cells repeat a frame that was
  already counted: they never gain, they cost ``bend`` each and what they lack to the threshold.
- The score is the path's gain over that of a perfect path through the shorter video, (1 - threshold) · min(X, Y): 1
  for a video with itself, at most 1 for similarities of at most 1, not above 0 where no cell passes the threshold.
- Blank frames are matched like any other.

:class:`MatrixSystem` is what the methods on S_f share: :mod:`visil.baselines.tn`, :mod:`visil.baselines.hough`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.baselines.system import Scores
from visil.errors import UsageError
from visil.features import VideoFeatures
from visil.kernels import FrameMatrix

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

THRESHOLD = 0.3
"""Where it is neither given nor learned."""

LEARNED_RANGE = (0.0, 0.9)
"""Between what a learned threshold stays."""

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


class MatrixSystem(ABC):
    """A :class:`visil.baselines.system.System` that reads S_f of ViSiL_f.

    ``threshold`` is the similarity from which two frames speak for a match. Where it is not given, ``learn`` sets it
    to the median of S_f between different videos plus three robust standard deviations (1.4826 times the median
    absolute deviation), so that one setting serves features of any kind.
    """

    name: str
    reads = "l3-imac+pca"

    def __init__(self, threshold: float | None = None) -> None:
        if threshold is not None and not 0 <= threshold < 1:
            raise UsageError(f"threshold must be from 0 to below 1, not {threshold}")
        self.threshold = THRESHOLD if threshold is None else threshold
        self._fixed = threshold is not None

    def learn(self, videos: Sequence[VideoFeatures], *, seed: int = 0) -> None:
        """Set the threshold, unless it was given or there are not two videos."""
        if not self._fixed and len(videos) > 1:
            low, high = LEARNED_RANGE
            self.threshold = min(max(_background(videos, seed), low), high)

    def describe(self, video: VideoFeatures) -> Tensor:
        """The region vectors as they are, [T, R, C]."""
        return checked(video)

    def align(self, query: Tensor, target: Tensor) -> Alignment:
        """The best match of two described videos."""
        return self.path(_matrix(query, target))

    def scores(self, query: Tensor, targets: Sequence[Tensor]) -> Scores:
        """Score of the best match with each target."""
        return np.array([self.best(_matrix(query, target)) for target in targets], np.float64)

    @abstractmethod
    def path(self, matrix: Floats) -> Alignment:
        """The best match in a frame-to-frame matrix [X, Y]."""

    def best(self, matrix: Floats) -> float:
        """Its score alone."""
        return self.path(matrix).score

    def nothing(self, matrix: Floats) -> Alignment:
        """What is said where no pair of frames passes the threshold: not above 0, but still ranks."""
        return Alignment(np.empty((0, 2), np.int64), float(matrix.max()) - self.threshold)


class DP(MatrixSystem):
    """Dynamic programming on the frame-to-frame matrix."""

    name = "DP"

    def __init__(self, threshold: float | None = None, *, slack: int = 2, bend: float = 0.05) -> None:
        super().__init__(threshold)
        if slack < 0 or bend < 0:
            raise UsageError(f"slack and bend must not be below 0, got {slack} and {bend}")
        self.slack, self.bend = slack, bend

    def path(self, matrix: Floats) -> Alignment:
        """The path of largest gain."""
        totals = self._totals(matrix)
        row, column = (int(i) for i in np.unravel_index(totals.argmax(), totals.shape))
        score = self._normalised(totals)
        if totals[row, column] <= 0:
            return Alignment(np.empty((0, 2), np.int64), score)
        margin = self.slack + 1
        steps = self._steps(matrix)
        cells = []
        while True:
            i, j = row - margin, column - margin
            cells.append((i, j))
            arriving = [totals[row - di, column - dj] + toll[i, j] for di, dj, toll in steps]
            best = int(np.argmax(arriving))
            if arriving[best] <= 0:
                return Alignment(np.array(cells[::-1], np.int64), score)
            row, column = row - steps[best][0], column - steps[best][1]

    def best(self, matrix: Floats) -> float:
        """The score, without tracing the path."""
        return self._normalised(self._totals(matrix))

    def _normalised(self, totals: Floats) -> float:
        margin = self.slack + 1
        shorter = min(totals.shape) - margin
        return float(totals.max() / ((1 - self.threshold) * shorter))

    def _totals(self, matrix: Floats) -> Floats:
        """Gain of the best path that ends in each cell, with a margin of -inf above and to the left."""
        (height, width), margin = matrix.shape, self.slack + 1
        gain = matrix - self.threshold
        steps = self._steps(matrix)
        totals = np.full((height + margin, width + margin), -np.inf)
        offered = np.empty(width)
        for i in range(height):
            arriving = np.zeros(width)  # a path may begin anywhere
            for di, dj, toll in steps:
                source = totals[margin + i - di, margin - dj : margin - dj + width]
                np.maximum(arriving, np.add(source, toll[i], out=offered), out=arriving)
            np.add(arriving, gain[i], out=totals[margin + i, margin:])
        return totals

    def _steps(self, matrix: Floats) -> list[tuple[int, int, Floats]]:
        """Rows and columns that each kind of step spans, and what it costs to arrive by it in each cell [X, Y].

        The step from (i-1, j-1-h) moves along row i-1 first, that from (i-1-v, j-1) along column j-1.
        """
        (height, width), margin = matrix.shape, self.slack + 1
        repeated = np.zeros((height + margin, width + margin))
        repeated[margin:, margin:] = np.minimum(matrix - self.threshold, 0) - self.bend
        across, down = np.zeros(matrix.shape), np.zeros(matrix.shape)
        steps = [(1, 1, np.zeros(matrix.shape))]
        above = slice(margin - 1, margin - 1 + height)
        left = slice(margin - 1, margin - 1 + width)
        for k in range(1, self.slack + 1):
            across = across + repeated[above, margin - k : margin - k + width]
            down = down + repeated[margin - k : margin - k + height, left]
            steps += [(1, 1 + k, across), (1 + k, 1, down)]
        return steps


def checked(video: VideoFeatures) -> Tensor:
    """A video's vectors, after a look for NaN and infinity."""
    if not torch.isfinite(video.vectors).all():
        raise UsageError(f"{video.path or 'a video'}: features contain NaN or infinity: extract them again")
    return video.vectors


def _matrix(query: Tensor, target: Tensor) -> Floats:
    """S_f of Eq. 5, [X, Y], by the product's own kernel."""
    if query.shape[-1] != target.shape[-1]:
        raise UsageError(f"features of {query.shape[-1]} and {target.shape[-1]} channels cannot be compared")
    with torch.inference_mode():
        return FrameMatrix(query, target).full().double().cpu().numpy()


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
