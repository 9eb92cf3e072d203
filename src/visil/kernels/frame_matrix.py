"""S_f of Eq. 5 for videos of any length: matrix products with the maximum folded in, strip by strip.

The R·S·X·Y tensor of Eq. 1 is never written: one tile of it at a time is a matrix product of region-major query and
target, reduced at once, so the work space does not depend on the videos' lengths.
"""

from __future__ import annotations

import torch
from torch import Tensor

from visil.similarity import Reduction, best_few, reduced

TILE_FRAMES = (128, 128)
"""Query and target frames of one tile: with nine regions, 5 MB of products, near the processor's cache."""


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
        self._target = target
        self.shape = (query.shape[0], target.shape[0])

    def rows(self, start: int, stop: int) -> Tensor:
        """S_f[start:stop, :]."""
        height, width = TILE_FRAMES
        result = torch.empty(stop - start, self.shape[1], dtype=self.dtype, device=self.device)
        for left in range(0, self.shape[1], width):
            right = min(left + width, self.shape[1])
            # Region-major and in the arithmetic's precision one tile at a time: a day of half-precision features
            # mapped from disk is never copied whole.
            target = self._target[left:right].to(self.dtype).transpose(0, 1)
            if self.inner == "mean" and not self.symmetric:
                target = target.mean(dim=0, keepdim=True)  # linear: average first, multiply once
            target = target.contiguous()  # [S, y, C]
            for top in range(start, stop, height):
                bottom = min(top + height, stop)
                query = self._query[top:bottom].to(self.dtype).transpose(0, 1)  # [R, x, C]
                result[top - start : bottom - start, left:right] = self._tile(query, target)
        return result

    def full(self) -> Tensor:
        """The whole matrix, [X, Y]."""
        return self.rows(0, self.shape[0])

    def _tile(self, query: Tensor, target: Tensor) -> Tensor:
        """One tile: ``query`` [R, x, C], ``target`` [S, y, C], returns [x, y]."""
        regions, x, channels = query.shape
        others, y, _ = target.shape
        flat = query.reshape(regions * x, channels) @ target.reshape(others * y, channels).T
        products = flat.view(regions, x, others, y)
        forward = _reduce(_reduce(products, self.inner, 2), self.outer, 0)
        if not self.symmetric:
            return forward
        # The same products read the other way: each target region meets its best query region.
        backward = _reduce(_reduce(products, self.inner, 0), self.outer, 1)
        return (forward + backward) / 2


def _reduce(values: Tensor, how: Reduction, dim: int) -> Tensor:
    few = best_few(how)
    if few is not None:
        return _mean_of_best(values, few, dim)
    return reduced(values, how, dim)


def _mean_of_best(values: Tensor, few: int, dim: int) -> Tensor:
    """Mean of the ``few`` largest along ``dim``: a few sorted places that each slice is let sink into.

    Faster than ``topk``, which wants ``dim`` last and sorts: regions are few, and whole planes are compared at once.
    """
    few = min(few, values.shape[dim])
    places: list[Tensor] = []
    for value in values.unbind(dim):
        for i, place in enumerate(places):
            places[i], value = torch.maximum(place, value), torch.minimum(place, value)
        if len(places) < few:
            places.append(value)
    total = places[0]
    for place in places[1:]:
        total = total + place
    return total / few
