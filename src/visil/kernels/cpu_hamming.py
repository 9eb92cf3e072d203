"""S_f straight from codes: bits that differ for binary codes, integer products for int8; nothing is decoded.

Of two binary codes, the share of bits that differ says how wide the angle between the vectors is: for vectors without a
preferred direction it is angle / π. So cos(π · share) stands for their similarity, on the scale that thresholds and
calibration know; the plain product of the signs (1 - 2 · share) is flatter.

The bits are counted by FAISS (2.2 G pairs of 256 bits a second and core), which was measured against numpy's
``bitwise_count`` (0.27 G) and int8 products of the signs (0.83 G); the last stand in where FAISS lacks the function.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import pi

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError
from visil.kernels.cpu_products import PRODUCTS, WorkSpace, tile_width, work_space
from visil.kernels.frame_matrix import reduce_regions
from visil.kernels.pooling import pooled
from visil.kernels.precision import integer_product
from visil.model.codes import STEPS, Coded
from visil.model.formula import Formula
from visil.model.similarity import Reduction

TILE_ROWS = 128
"""Query frames of one tile."""

CLOSEST_ROWS = 32
"""Query frames of one tile where only the closest regions count."""


@torch.no_grad()
def coded_matrix(query: Coded, target: Coded, formula: Formula) -> Tensor:
    """S_f [X, Y] of two videos' codes [X, R, ...] and [Y, S, ...], int8 or binary: float32."""
    _check(query, target)
    inner, outer = formula.frame_pool
    space = work_space()
    height = min(TILE_ROWS, len(query.values))
    width = tile_width(query.values.shape[1], target.values.shape[1], height)
    result = torch.empty(len(query.values), len(target.values))
    for top in range(0, len(result), height):
        rows = _Tile(query, slice(top, top + height))
        for left in range(0, result.shape[1], width):
            columns = _Tile(target, slice(left, left + width))
            products = _products(rows, columns, space)
            forward = reduce_regions(_best(products, rows, columns, inner, 2, space), outer, 0)
            if formula.symmetric:
                backward = reduce_regions(_best(products, rows, columns, inner, 0, space), outer, 1)
                forward = (forward + backward) / 2
            result[top : top + height, left : left + width] = forward
    return result


def coded_scores(query: Coded, targets: Sequence[Coded], formula: Formula) -> NDArray[np.float64]:
    """CS_v of one query's codes with those of many targets, read off S_f: float64 [targets].

    A first look over many videos; the best of them are then compared by their features.
    """
    return np.array([pooled(coded_matrix(query, target, formula), formula) for target in targets], np.float64)


def closest_regions(query: Tensor, target: Tensor) -> NDArray[np.int32]:
    """The fewest bits in which a region of one frame differs from a region of another: int32 [X, Y].

    Binary codes alone, whatever the vectors' norms: uint8 [X, R, W], and region-major [S, Y, W].
    """
    (rows, regions, width), (others, columns, _) = query.shape, target.shape
    height = min(CLOSEST_ROWS, max(1, rows))
    across = max(1, PRODUCTS // (regions * others * height))
    found = np.empty((rows, columns), np.int32)
    space = work_space()
    for left in range(0, columns, across):
        codes = target[:, left : left + across].reshape(-1, width)
        wide = len(codes) // others
        for top in range(0, rows, height):
            part = query[top : top + height]
            bits = space.of("products", len(part) * regions, len(codes), torch.int32)
            differing_bits(part.reshape(-1, width), codes, bits)
            # The query's regions first: their planes are long runs of memory. By numpy: several threads work on this.
            planes = bits.numpy().reshape(len(part), regions, len(codes)).min(axis=1)
            best = planes.reshape(len(part), others, wide).min(axis=1)
            found[top : top + height, left : left + across] = best
    return found


class _Tile:
    """Some frames of a coded video, region-major."""

    def __init__(self, coded: Coded, frames: slice) -> None:
        values = coded.values[frames]
        self.frames, self.regions = values.shape[:2]
        self.binary = coded.kind == "binary"
        self.channels = coded.channels
        self.values = values.transpose(0, 1).reshape(-1, values.shape[2])
        assert coded.scales is not None
        scales = coded.scales[frames].float().transpose(0, 1)  # [R, frames]
        # Of binary codes the scale is the norm / √C; the angle does without it.
        self.sizes = scales * coded.channels**0.5 if self.binary else scales / STEPS


def _products(query: _Tile, target: _Tile, space: WorkSpace) -> Tensor:
    """Products of int8 codes, or bits that are equal less those that differ: int32 [R, x, S, y]."""
    out = space.of("products", len(query.values), len(target.values), torch.int32)
    if query.binary:
        differing_bits(query.values, target.values, out)
        torch.mul(out, -2, out=out).add_(query.channels)
    else:
        integer_product(query.values, target.values, out)
    return out.view(query.regions, query.frames, target.regions, target.frames)


def _best(
    products: Tensor, query: _Tile, target: _Tile, inner: Reduction, dim: int, space: WorkSpace
) -> Tensor:
    """Similarities with one region dimension (0 or 2) reduced by ``inner``: float32."""
    own, other = (
        (query.sizes[..., None], target.sizes) if dim == 2 else (target.sizes, query.sizes[..., None])
    )
    even = bool((other.amax() - other.amin()) <= 1e-3 * other.amax())
    if even and inner == "max":  # the largest similarity has the largest product
        return _similarity(products.amax(dim=dim).float(), query) * own * other.mean()
    whole = space.of("similarities", *_flat(products), torch.float32).view(products.shape)
    whole.copy_(products)
    weights = other[None, None] if dim == 2 else other[..., None]
    return reduce_regions(_similarity(whole, query).mul_(weights), inner, dim) * own


def _similarity(products: Tensor, query: _Tile) -> Tensor:
    """Cosines from sums over signs; products of int8 codes as they are."""
    if not query.binary:
        return products
    return products.mul_(pi / 2 / query.channels).sin_()  # cos(π · share) with share = (1 - product / C) / 2


def _flat(products: Tensor) -> tuple[int, int]:
    regions, x, others, y = products.shape
    return regions * x, others * y


def differing_bits(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    """How many bits differ between packed codes, uint8 [M, W] and [N, W], written to int32 ``out`` [M, N]."""
    left, right = left.contiguous(), right.contiguous()
    if _counts_bits(left.shape[1]):
        import faiss

        pointers = [faiss.swig_ptr(part.numpy()) for part in (left, right, out)]
        faiss.hammings(  # type: ignore[attr-defined]
            pointers[0], pointers[1], len(left), len(right), left.shape[1], pointers[2]
        )
        return out
    signs = [_signs(part) for part in (left, right)]
    integer_product(signs[0], signs[1], out)
    return torch.sub(8 * left.shape[1], out, out=out).div_(2, rounding_mode="floor")


@lru_cache
def _counts_bits(width: int) -> bool:
    """Whether FAISS counts the differing bits of codes of so many bytes, rightly."""
    try:
        import faiss

        left, right = (np.arange(k, k + 5 * width, dtype=np.uint8).reshape(5, width) * k for k in (3, 7))
        found = np.full((5, 5), -1, np.int32)
        faiss.hammings(  # type: ignore[attr-defined]
            *map(faiss.swig_ptr, (left, right)), len(left), len(right), width, faiss.swig_ptr(found)
        )
    except (ImportError, AttributeError, TypeError, RuntimeError):
        return False
    return bool((found == np.bitwise_count(left[:, None] ^ right[None]).sum(axis=2)).all())


def _signs(packed: Tensor) -> Tensor:
    """uint8 [N, W] as int8 1 and -1, [N, 8 W]."""
    bits = np.unpackbits(packed.numpy(), axis=1, bitorder="little")
    return torch.from_numpy(bits.view(np.int8) * 2 - 1)


def _check(query: Coded, target: Coded) -> None:
    if query.kind == "fp16" or query.kind != target.kind or query.channels != target.channels:
        raise UsageError(
            f"codes to compare must both be int8 or both be binary, of as many channels: got {query.kind} of "
            f"{query.channels} and {target.kind} of {target.channels}"
        )
    for coded in (query, target):
        if coded.values.ndim != 3 or len(coded.values) == 0 or coded.scales is None:
            raise UsageError(f"codes to compare are [frames, regions, ...], not {list(coded.values.shape)}")
        if not torch.isfinite(coded.scales).all():
            raise UsageError("codes to compare have NaN or infinity as a scale: make them anew")
