"""Temporal Hough voting: matched frames vote for the offset between two videos (after Douze et al. 2010).

Douze, Jégou and Schmid, "An image-based approach to video copy detection with spatio-temporal post-filtering", IEEE
Transactions on Multimedia 12(4), 2010: each pair of matched frames votes with its similarity for the difference of
their times; the offset with most votes is the alignment, and those who voted for it are the match. Here the matched
frames are the cells of S_f (Eq. 5) above the threshold, and offsets are counted in frames.

Left open there, and chosen here:

- Instead of fixed bins, every offset collects the votes of those within ``tolerance`` = 2 frames of it.
- A frame has one vote for an offset, that of its best match there, or still scenes would outvote everything. Votes
  are counted by query frames and by target frames, and the smaller count stands.
- The score is that count over the length of the shorter video: 1 for a video with itself, at most 1 for similarities
  of at most 1. Without any vote it is the largest similarity less the threshold, not above 0.
- One offset means one speed: a copy at another speed is found only as far as it stays within the tolerance.
- Of equally supported offsets, that nearest to the middle of the matrix wins.
"""

from __future__ import annotations

import numpy as np

from visil.errors import UsageError
from visil.paper.baselines.alignment import Alignment, Floats, Ints, MatrixSystem


class Hough(MatrixSystem):
    """Hough voting over offsets on the frame-to-frame matrix."""

    name = "Hough"

    def __init__(self, threshold: float | None = None, *, tolerance: int = 2) -> None:
        super().__init__(threshold)
        if tolerance < 0:
            raise UsageError(f"tolerance must not be below 0, got {tolerance}")
        self.tolerance = tolerance

    def path(self, matrix: Floats) -> Alignment:
        """Those who voted for the winning offset; target frames may step back within the tolerance."""
        if matrix.max() <= self.threshold:
            return self.nothing(matrix)
        by_query, by_target = self._votes(matrix), self._votes(matrix.T)[::-1]
        counts = np.minimum(by_query, by_target)
        winner = self._winner(counts, matrix.shape)
        offset = winner - (matrix.shape[0] - 1)  # target frame less query frame
        if by_query[winner] <= by_target[winner]:
            cells = self._voters(matrix, offset)
        else:
            swapped = self._voters(matrix.T, -offset)[:, ::-1]
            cells = swapped[np.lexsort((swapped[:, 1], swapped[:, 0]))]
        return Alignment(cells, float(counts[winner]) / min(matrix.shape))

    def best(self, matrix: Floats) -> float:
        """The score, without looking for the voters."""
        if matrix.max() <= self.threshold:
            return self.nothing(matrix).score
        counts = np.minimum(self._votes(matrix), self._votes(matrix.T)[::-1])
        return float(counts[self._winner(counts, matrix.shape)]) / min(matrix.shape)

    def _winner(self, counts: Floats, shape: tuple[int, ...]) -> int:
        middle = (shape[1] - shape[0]) / 2 + shape[0] - 1
        most = np.flatnonzero(counts >= counts.max() - 1e-9)
        return int(most[np.abs(most - middle).argmin()])

    def _votes(self, matrix: Floats) -> Floats:
        """Summed votes of the rows for each offset from 1 - X to Y - 1: [X + Y - 1]."""
        (height, width), reach = matrix.shape, self.tolerance
        offsets = height + width - 1
        # Row i of the sheared matrix has cell (i, i + offset) in the column of its offset: one long row, read with
        # a stride one longer than what was written.
        padded = np.zeros((height, offsets + height - 1 + 2 * reach))
        start = height - 1 + reach
        padded[:, start : start + width] = np.where(matrix > self.threshold, matrix, 0)
        row, cell = padded.strides
        sheared = np.lib.stride_tricks.as_strided(
            padded, (height, offsets + 2 * reach), (row + cell, cell), writeable=False
        )
        best = sheared[:, :offsets].copy()
        for k in range(1, 2 * reach + 1):
            np.maximum(best, sheared[:, k : k + offsets], out=best)
        return np.asarray(best.sum(axis=0))

    def _voters(self, matrix: Floats, offset: int) -> Ints:
        """The cell that each row votes with for an offset."""
        reach = np.arange(-self.tolerance, self.tolerance + 1)
        columns = np.arange(len(matrix))[:, None] + offset + reach
        inside = (columns >= 0) & (columns < matrix.shape[1])
        rows = np.arange(len(matrix))[:, None]
        values = np.where(inside, matrix[rows, np.clip(columns, 0, matrix.shape[1] - 1)], -np.inf)
        # Of equally similar cells, the one on the offset itself.
        preferred = np.argsort(np.abs(reach), kind="stable")
        chosen = preferred[values[:, preferred].argmax(axis=1)]
        votes = np.flatnonzero(values.max(axis=1) > self.threshold)
        return np.stack([votes, columns[votes, chosen[votes]]], axis=1)
