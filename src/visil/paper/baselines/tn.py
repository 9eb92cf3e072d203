"""TN: the heaviest path through a network of frame matches (after Tan et al. 2009).

Tan, Ngo, Hong and Chua, "Scalable detection of partial near-duplicate videos by visual-temporal consistency", ACM
Multimedia 2009: each query frame's most similar target frames are nodes, edges lead forward in both videos within a
window, and the path of largest summed similarity is the match. The ViSiL paper (Sec. 5) runs it on S_f of Eq. 5.

Left open there, and chosen here:

- ``top`` = 5 nodes for a query frame, and only those above the threshold; of target frames equally similar to
  :data:`TIE` the ones nearest to the matrix's diagonal, so that a still picture is followed, too.
- Edges go forward by 1 to ``window`` = 10 frames in both videos; a frame is used once. An edge weighs the similarity
  of the node it leads to, a path's first node its own; frames jumped over cost nothing.
- The path is found by going through the query frames once: without cycles, the maximum flow of the paper's linear
  programme is the longest path.
- The score is the path's summed similarity over the length of the shorter video: 1 for a video with itself, at most
  1 for similarities of at most 1. Without any node it is the largest similarity less the threshold, not above 0.
"""

from __future__ import annotations

import numpy as np

from visil.errors import UsageError
from visil.paper.baselines.alignment import Alignment, Floats, Ints, MatrixSystem

TIE = 1e-4
"""Similarities that differ by less are not told apart when nodes are chosen."""


class TN(MatrixSystem):
    """Temporal network on the frame-to-frame matrix."""

    name = "TN"

    def __init__(self, threshold: float | None = None, *, top: int = 5, window: int = 10) -> None:
        super().__init__(threshold)
        if top < 1 or window < 1:
            raise UsageError(f"top and window must be at least 1, got {top} and {window}")
        self.top, self.window = top, window

    def path(self, matrix: Floats) -> Alignment:
        """The path of largest summed similarity."""
        (height, width), window = matrix.shape, self.window
        columns = self._nodes(matrix)
        weights = np.take_along_axis(matrix, columns, axis=1)
        weights[weights <= self.threshold] = -np.inf  # no node
        if np.isneginf(weights).all():
            return self.nothing(matrix)
        count = columns.shape[1]
        # As many rows without nodes in front as an edge can reach back.
        places = np.concatenate([np.zeros((window, count), np.int64), columns]).ravel()
        totals = np.full((window + height) * count, -np.inf)
        previous = np.full((window + height) * count, -1)
        for i in range(height):
            first, here = i * count, (i + window) * count
            moves = columns[i][:, None] - places[first:here]
            reached = np.where((moves > 0) & (moves <= window), totals[first:here], -np.inf)
            chosen = reached.argmax(axis=1)
            best = reached[np.arange(count), chosen]
            totals[here : here + count] = weights[i] + np.maximum(best, 0)
            previous[here : here + count] = np.where(best > 0, first + chosen, -1)
        node = last = int(totals.argmax())
        cells = []
        while node >= 0:
            cells.append((node // count - window, int(places[node])))
            node = int(previous[node])
        return Alignment(np.array(cells[::-1], np.int64), float(totals[last]) / min(height, width))

    def _nodes(self, matrix: Floats) -> Ints:
        """The target frames that each query frame may match, [X, top]."""
        height, width = matrix.shape
        place = np.arange(height)[:, None] / max(1, height - 1) - np.arange(width) / max(1, width - 1)
        preference = np.round(matrix / TIE) - np.abs(place) / 2
        return np.argsort(-preference, axis=1, kind="stable")[:, : self.top]
