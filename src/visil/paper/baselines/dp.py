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
"""

from __future__ import annotations

import numpy as np

from visil.errors import UsageError
from visil.paper.baselines.alignment import Alignment, Floats, MatrixSystem


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
