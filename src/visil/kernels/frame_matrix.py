"""S_f of Eq. 5 for videos of any length: matrix products with the maximum folded in, strip by strip.

With the target laid out region-major, ``max_j Q_i·P_j`` is a running maximum over S matrix products, so the
R·S·X·Y tensor of Eq. 1 is never written: the work space is one tile, whatever the videos' lengths.
"""

from __future__ import annotations

import torch
from torch import Tensor

from visil.similarity import Reduction

TILE_FRAMES = (64, 1024)
"""Query and target frames of one tile: the two work buffers stay near the processor's cache."""


class FrameMatrix:
    """The frame-to-frame matrix of one pair, computed where it is asked for.

    ``query`` is [X, R, C], ``target`` is [Y, S, C], in any float dtype; the arithmetic is float32 (float64 for
    float64 input). Equal to :func:`visil.similarity.frame_matrix` up to the order of additions.
    """

    def __init__(
        self,
        query: Tensor,
        target: Tensor,
        *,
        symmetric: bool = False,
        inner: Reduction = "max",
        outer: Reduction = "mean",
    ) -> None:
        self.device = query.device
        self.dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
        self.symmetric = symmetric
        self.inner: Reduction = inner
        self.outer: Reduction = outer
        self._query = query
        regions = target.to(self.dtype)
        if inner == "mean" and not symmetric:
            # The mean over target regions is linear: average them first, once.
            regions = regions.mean(dim=1, keepdim=True)
        self._target = regions.transpose(0, 1).contiguous()  # [S, Y, C]
        self.shape = (query.shape[0], target.shape[0])

    def rows(self, start: int, stop: int) -> Tensor:
        """S_f[start:stop, :]."""
        height, width = TILE_FRAMES
        result = torch.empty(stop - start, self.shape[1], dtype=self.dtype, device=self._target.device)
        for top in range(start, stop, height):
            bottom = min(top + height, stop)
            query = self._query[top:bottom].to(self.dtype).transpose(0, 1)  # [R, x, C]
            for left in range(0, self.shape[1], width):
                right = min(left + width, self.shape[1])
                result[top - start : bottom - start, left:right] = self._tile(
                    query, self._target[:, left:right]
                )
        return result

    def full(self) -> Tensor:
        """The whole matrix, [X, Y]."""
        return self.rows(0, self.shape[0])

    def _tile(self, query: Tensor, target: Tensor) -> Tensor:
        """One tile: ``query`` [R, x, C], ``target`` [S, y, C], returns [x, y]."""
        count, x, _ = query.shape
        stacked = query.reshape(count * x, -1)
        product = torch.empty(count * x, target.shape[1], dtype=self.dtype, device=target.device)
        over_target: Tensor | None = None
        over_query: Tensor | None = None
        for region in target:
            torch.mm(stacked, region.T, out=product)
            if over_target is None:
                over_target = product.clone()
            elif self.inner == "max":
                torch.maximum(over_target, product, out=over_target)
            else:
                over_target += product
            if self.symmetric:
                # The same products read the other way: each target region meets its best query region.
                reduced = _reduce(product.view(count, x, -1), self.inner)
                over_query = reduced if over_query is None else self._outer_step(over_query, reduced)
        assert over_target is not None, "a frame has at least one region"
        if self.inner == "mean":
            over_target /= target.shape[0]
        forward = _reduce(over_target.view(count, x, -1), self.outer)
        if over_query is None:
            return forward
        backward = over_query / target.shape[0] if self.outer == "mean" else over_query
        return (forward + backward) / 2

    def _outer_step(self, total: Tensor, term: Tensor) -> Tensor:
        return total + term if self.outer == "mean" else torch.maximum(total, term)


def _reduce(values: Tensor, how: Reduction) -> Tensor:
    return values.amax(dim=0) if how == "max" else values.mean(dim=0)
