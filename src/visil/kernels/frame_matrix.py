"""S_f of Eq. 5 for videos of any length: matrix products with the maximum folded in, strip by strip.

The R·S·X·Y tensor of Eq. 1 is never written: one tile of it at a time is a matrix product of region-major query and
target, reduced at once, so the work space does not depend on the videos' lengths.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from visil.kernels import devices
from visil.kernels.cpu_products import packed, products, tile_width, work_space
from visil.kernels.precision import Arithmetic
from visil.kernels.signs import signs_only, straighten
from visil.model.codes import encode
from visil.model.formula import Formula
from visil.model.similarity import Reduction, best_few, reduced

TILE_FRAMES = (128, 128)
"""Query and target frames of one tile: with nine regions, 5 MB of products, near the processor's cache."""

GPU_FRAMES = 16384
"""Target frames that a GPU is given at once."""

CODED_FRAMES = 1024
"""Target frames that are packed into bits at once."""


class Joined:
    """Videos [T, R, C] one after another, never copied whole."""

    def __init__(self, videos: Sequence[Tensor]) -> None:
        self.videos = videos
        self.ends = list(accumulate(len(video) for video in videos))
        self.shape = (self.ends[-1], *videos[0].shape[1:])

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Where each video begins and ends."""
        return list(pairwise([0, *self.ends]))

    def pieces(self, start: int, stop: int) -> list[Tensor]:
        """Frames from ``start`` to before ``stop``, as views of the videos they belong to."""
        first = bisect_right(self.ends, start)
        found = []
        for video, end in zip(self.videos[first:], self.ends[first:], strict=True):
            begin = end - len(video)
            found.append(video[max(start - begin, 0) : stop - begin])
            if end >= stop:
                break
        return found


class FrameMatrix:
    """S_f of one query with one target or several joined, by a formula's poolings, computed where it is asked for.

    ``query`` is [X, R, C], ``target`` is [Y, S, C], in any float dtype; the matrix is where the query is. In "fp32" it
    is computed in float32 (float64 for a float64 query) and equal to :meth:`Formula.frame_matrix` up to the order of
    additions; the other arithmetics are faster and less exact (:mod:`visil.kernels.precision`). Vectors that were kept
    as signs are compared by the angles they stand for (:mod:`visil.kernels.signs`), but not in float64, nor where the
    formula says that signs are what the model makes.
    """

    def __init__(
        self, query: Tensor, target: Tensor | Joined, formula: Formula, arithmetic: Arithmetic = "fp32"
    ) -> None:
        self.device = query.device
        self.dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
        self.formula = formula
        self.symmetric = formula.symmetric
        self.inner, self.outer = formula.frame_pool
        self.arithmetic: Arithmetic = "fp32" if self.dtype == torch.float64 else arithmetic
        self._query = query
        self._target = target
        self.shape = (query.shape[0], target.shape[0])
        self._parts: list[tuple[Tensor, tuple[int, int]]] = (
            list(zip(target.videos, target.spans, strict=True))
            if isinstance(target, Joined)
            else [(target, (0, target.shape[0]))]
        )

    def rows(self, start: int, stop: int) -> Tensor:
        """S_f[start:stop, :]."""
        result = torch.empty(stop - start, self.shape[1], dtype=self.dtype, device=self.device)
        bits = self.device.type == "cpu" and self.dtype == torch.float32 and self._all_signs()
        if bits:
            self._fill_from_bits(result, start, stop)
        elif self.arithmetic == "fp32":
            self._fill(result, start, stop)
        elif not devices.has_kernels(self.device):
            self._fill_reduced(result, start, stop)
        elif self.inner == "max":
            self._fill_by_kernel(result, start, stop)
        else:  # not known to the kernel
            self._fill(result, start, stop)
        if self.dtype == torch.float32 and not self.formula.binary:
            straighten(result, self._query, self._parts, self.formula, cosines=bits)
        return result

    def _fill_from_bits(self, result: Tensor, start: int, stop: int) -> None:
        """``result`` written over with S_f[start:stop, :] of videos that were all kept as signs."""
        from visil.kernels.cpu_hamming import coded_matrix

        query = encode(self._query[start:stop], "binary")
        for left in range(0, self.shape[1], CODED_FRAMES):
            right = min(left + CODED_FRAMES, self.shape[1])
            target = encode(torch.cat(self._target_pieces(left, right)), "binary")
            result[:, left:right] = coded_matrix(query, target, self.formula)

    def _fill(self, result: Tensor, start: int, stop: int) -> None:
        """``result`` written over with S_f[start:stop, :]."""
        height, width = TILE_FRAMES
        for left in range(0, self.shape[1], width):
            right = min(left + width, self.shape[1])
            # Region-major and in the arithmetic's precision one tile at a time: a day of half-precision features
            # mapped from disk is never copied whole.
            target = torch.cat(self._target_pieces(left, right)).to(self.device, self.dtype).transpose(0, 1)
            if self.inner == "mean" and not self.symmetric:
                target = target.mean(dim=0, keepdim=True)  # linear: average first, multiply once
            target = target.contiguous()  # [S, y, C]
            for top in range(start, stop, height):
                bottom = min(top + height, stop)
                query = self._query[top:bottom].to(self.dtype).transpose(0, 1)  # [R, x, C]
                result[top - start : bottom - start, left:right] = self._tile(query, target)

    @torch.no_grad()
    def _fill_by_kernel(self, result: Tensor, start: int, stop: int) -> None:
        """``result`` written over with S_f[start:stop, :] by the GPU's kernel."""
        from visil.kernels.triton_frames import DTYPES, frame_products, prepared

        dtype = DTYPES[self.arithmetic]
        query = prepared(self._query[start:stop], dtype)
        for left in range(0, self.shape[1], GPU_FRAMES):
            right = min(left + GPU_FRAMES, self.shape[1])
            target = prepared(torch.cat(self._target_pieces(left, right)).to(self.device), dtype)
            part = result[:, left:right]
            frame_products(query, target, part, outer=self.outer, symmetric=self.symmetric)

    def full(self) -> Tensor:
        """The whole matrix, [X, Y]."""
        return self.rows(0, self.shape[0])

    def _all_signs(self) -> bool:
        if self.formula.binary:
            return False
        return signs_only(self._query) and all(signs_only(video) for video, _ in self._parts)

    def _target_pieces(self, start: int, stop: int) -> list[Tensor]:
        if isinstance(self._target, Joined):
            return self._target.pieces(start, stop)
        return [self._target[start:stop]]

    def _tile(self, query: Tensor, target: Tensor) -> Tensor:
        """One tile: ``query`` [R, x, C], ``target`` [S, y, C], returns [x, y]."""
        regions, x, channels = query.shape
        others, y, _ = target.shape
        flat = query.reshape(regions * x, channels) @ target.reshape(others * y, channels).T
        return self._pooled(flat.view(regions, x, others, y), 1.0)

    @torch.no_grad()
    def _fill_reduced(self, result: Tensor, start: int, stop: int) -> None:
        """``result`` written over with S_f[start:stop, :] in reduced precision."""
        height, space = TILE_FRAMES[0], work_space()
        for top in range(start, stop, height):
            bottom = min(top + height, stop)
            query = packed([self._query[top:bottom]], self.arithmetic, space, "query")
            width = tile_width(query.regions, self._target.shape[1], bottom - top)
            for left in range(0, self.shape[1], width):
                right = min(left + width, self.shape[1])
                target = packed(self._target_pieces(left, right), self.arithmetic, space, "target")
                tile = self._pooled(*products(query, target, space))
                result[top - start : bottom - start, left:right] = tile

    def _pooled(self, products: Tensor, step: float) -> Tensor:
        """[R, x, S, y] to [x, y]; ``step`` is what a product of one stands for."""
        forward = reduce_regions(_best(products, self.inner, 2, step), self.outer, 0)
        if not self.symmetric:
            return forward
        # The same products read the other way: each target region meets its best query region.
        backward = reduce_regions(_best(products, self.inner, 0, step), self.outer, 1)
        return (forward + backward) / 2


def _best(products: Tensor, how: Reduction, dim: int, step: float) -> Tensor:
    """One dimension of products reduced, in single precision or more."""
    if products.dtype in (torch.float32, torch.float64):
        return reduce_regions(products, how, dim)
    if how == "max":
        if products.dtype == torch.bfloat16:  # whose amax torch does not vectorise along a middle dimension
            planes = products.unbind(dim)
            best = planes[0].clone()
            for plane in planes[1:]:
                torch.maximum(best, plane, out=best)
            return best.float()
        return products.amax(dim=dim).float().mul_(step)
    return reduce_regions(products.float(), how, dim).mul_(step)


def reduce_regions(values: Tensor, how: Reduction, dim: int) -> Tensor:
    """:func:`visil.model.similarity.reduced` of few large planes: one dimension of regions, gone."""
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
