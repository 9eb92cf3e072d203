"""Tensor Dot and Chamfer similarity (Eq. 1, 4, 5) as one GPU kernel: nothing of size R·S·X·Y is ever written.

One program owns a tile of frames. For each query region it walks through all target regions as matrix products on the
tensor cores, keeps the larger of what it has and what it sees (the maximum of Eq. 4), and folds the result into the
mean over query regions, or into its best few. The frames of many videos stand one after another on both axes, so that
batches of different lengths need no padding; which frames belong together matters only later.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from visil.errors import UsageError
from visil.kernels.precision import Arithmetic
from visil.model.similarity import Reduction, best_few

FP8 = torch.float8_e4m3fn
DTYPES: dict[Arithmetic, torch.dtype] = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp8": FP8}
"""The type of the factors."""

FP8_SCALE = 256.0
"""Vectors have unit length at most; so scaled, their channels use what the eight bits can tell apart."""

LINE = 128
"""Bytes that are read at once: a vector's channels are filled up to a multiple of these."""

GROUP = 16
"""Rows of tiles that are worked on together."""


@dataclass(frozen=True)
class Tile:
    """How the work is cut: frames of a tile, channels at a time, warps, loads in flight."""

    x: int
    y: int
    channels: int
    warps: int
    stages: int
    resident: bool = False
    """The query's tile stays in shared memory while all targets pass: where it fits whole."""


def tile_for(channels: int, bytes_each: int, few: int, shared_memory: int, bytes_out: int = 2) -> Tile:
    """The fastest measured on an H200; where shared memory is smaller, fewer loads in flight."""
    y = 64 if few > 1 else 128  # the best few need registers
    if bytes_out > 2 and channels * bytes_each == 512:
        y = 64  # a tile on its way out needs shared memory too
    if shared_memory >= 200_000 and channels * bytes_each in (256, 512):
        return Tile(128, y, channels // 2, 8, 3 if y == 64 else 2, resident=True)
    step = LINE // bytes_each
    return Tile(128, y, step, 8, max(2, min(4, shared_memory // (LINE * (128 + y)))))


# Counts come in all sizes: a kernel for each kind of number would be compiled again and again.
@triton.jit(do_not_specialize=["x_count", "y_count", "out_pair"])
def _frames_kernel(
    query,
    target,
    out,
    x_count,
    y_count,
    out_x,
    out_y,
    out_pair,
    scale,
    which,
    tiles,
    R: tl.constexpr,
    S: tl.constexpr,
    C: tl.constexpr,
    X: tl.constexpr,
    Y: tl.constexpr,
    K: tl.constexpr,
    FEW: tl.constexpr,
    ADD: tl.constexpr,
    RESIDENT: tl.constexpr,
    GROUP: tl.constexpr,
    WHICH: tl.constexpr,
    LISTED: tl.constexpr,
):
    program = tl.program_id(0)
    pair = tl.program_id(1)  # what is read beyond the end of this pair is the next one's, and not written
    if LISTED:  # a tile of any two runs of frames: see Tiles
        listed = tiles + program * 7
        row, column = tl.load(listed).to(tl.int32), tl.load(listed + 1).to(tl.int32)
        x_count, y_count = tl.load(listed + 2), tl.load(listed + 3)
        out += tl.load(listed + 4)
        out_x, out_y = tl.load(listed + 5), tl.load(listed + 6)
        xs, ys = tl.arange(0, X).to(tl.int64), tl.arange(0, Y).to(tl.int64)
    else:
        # Neighbouring programs share rows and columns, so that what one reads the next finds in the L2 cache.
        tiles_x, tiles_y = tl.cdiv(x_count, X), tl.cdiv(y_count, Y)
        group = program // (GROUP * tiles_y)
        size = min(tiles_x - group * GROUP, GROUP)
        top = (group * GROUP + (program % (GROUP * tiles_y)) % size) * X
        left = ((program % (GROUP * tiles_y)) // size) * Y
        row, column = pair * x_count + top, pair * y_count + left
        xs = (top + tl.arange(0, X)).to(tl.int64)
        ys = (left + tl.arange(0, Y)).to(tl.int64)
    inside = (xs < x_count)[:, None] & (ys < y_count)[None, :]

    low = float("-inf")
    total = tl.full((X, Y), 0.0 if FEW == 0 else low, tl.float32)
    if FEW > 1:
        second = tl.full((X, Y), low, tl.float32)
    if FEW > 2:
        third = tl.full((X, Y), low, tl.float32)
    if FEW > 3:
        fourth = tl.full((X, Y), low, tl.float32)
    if FEW > 4:
        fifth = tl.full((X, Y), low, tl.float32)
    for i in tl.range(R):
        best = tl.full((X, Y), low, tl.float32)
        if WHICH:
            chosen = tl.zeros((X, Y), tl.int32)
        if RESIDENT:
            a = query.load([row, i * C])
            b = query.load([row, i * C + K])
            for j in tl.range(S):
                product = tl.dot(a, target.load([column, j * C]).T)
                product = tl.dot(b, target.load([column, j * C + K]).T, product)
                if WHICH:
                    chosen = tl.where(product > best, j, chosen)
                best = tl.maximum(best, product)
        else:
            # One loop over regions and channels, so that loads run ahead across the end of a region.
            product = tl.zeros((X, Y), tl.float32)
            steps: tl.constexpr = C // K
            for step in tl.range(S * steps):
                a = query.load([row, i * C + (step % steps) * K])
                product = tl.dot(a, target.load([column, step * K]).T, product)
                if step % steps == steps - 1:
                    if WHICH:
                        chosen = tl.where(product > best, step // steps, chosen)
                    best = tl.maximum(best, product)
                    product = tl.zeros((X, Y), tl.float32)
        if WHICH:
            at = ((pair * R + i).to(tl.int64) * x_count + xs[:, None]) * y_count + ys[None, :]
            tl.store(which + at, chosen.to(tl.uint8), mask=inside)
        if FEW == 0:
            total += best
        else:  # the best few so far, largest first: what is pushed out of one place sinks to the next
            sinking = tl.minimum(total, best)
            total = tl.maximum(total, best)
            if FEW > 1:
                best = tl.minimum(second, sinking)
                second = tl.maximum(second, sinking)
            if FEW > 2:
                sinking = tl.minimum(third, best)
                third = tl.maximum(third, best)
            if FEW > 3:
                best = tl.minimum(fourth, sinking)
                fourth = tl.maximum(fourth, sinking)
            if FEW > 4:
                fifth = tl.maximum(fifth, best)
    if FEW > 1:
        total += second
    if FEW > 2:
        total += third
    if FEW > 3:
        total += fourth
    if FEW > 4:
        total += fifth
    places = out + pair.to(tl.int64) * out_pair + xs[:, None] * out_x + ys[None, :] * out_y
    value = total * scale
    if ADD:
        value += tl.load(places, mask=inside, other=0.0).to(tl.float32)
    tl.store(places, value.to(out.dtype.element_ty), mask=inside)


def prepared(vectors: Tensor, dtype: torch.dtype) -> Tensor:
    """[T, R, C] as the kernel reads it: in ``dtype``, channels filled up with zeros to whole lines."""
    missing = -vectors.shape[-1] % (LINE // dtype.itemsize)
    if missing:
        vectors = torch.nn.functional.pad(vectors, (0, missing))
    if dtype == FP8:
        vectors = (vectors.float() * FP8_SCALE).clamp_(-448, 448)
    return vectors.to(dtype).contiguous()


def frame_products(
    query: Tensor,
    target: Tensor,
    out: Tensor,
    *,
    outer: Reduction = "mean",
    symmetric: bool = False,
    which: Tensor | None = None,
) -> Tensor:
    """S_f of Eq. 5 into ``out`` [X, Y], from :func:`prepared` videos [X, R, C] and [Y, S, C]; inner reduction: the max.

    With one more axis in front of each, many pairs of equal lengths at once. ``which``, uint8 [pairs, R, X, Y], is
    told each region's best partner.
    """
    if query.ndim == 3:
        query, target, out = query[None], target[None], out[None]
    if query.shape[3] != target.shape[3] or query.dtype != target.dtype or query.dtype.itemsize > 2:
        raise UsageError(
            f"cannot compare {query.dtype} {list(query.shape)} with {target.dtype} {list(target.shape)}"
        )
    share = 0.5 if symmetric else 1.0
    _launch(query, target, out, outer, share, add=False, which=which)
    if symmetric:  # each target region meets its best query region
        _launch(target, query, out.transpose(1, 2), outer, share, add=True)
    return out


@dataclass(frozen=True)
class Blocks:
    """Pairs of runs of frames whose S_f are wanted, each a matrix of its own in one flat tensor."""

    rows: NDArray[np.int64]
    """First frame among the queries'."""
    heights: NDArray[np.int64]
    columns: NDArray[np.int64]
    """First frame among the targets'."""
    widths: NDArray[np.int64]

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each matrix begins, and the end of the last."""
        return np.concatenate([[0], np.cumsum(self.heights * self.widths)])

    def tiles(self, tile: Tile, *, turned: bool) -> NDArray[np.int64]:
        """[tiles, 7]: row, column, rows and columns that are left, place in the flat tensor, its steps along both.

        ``turned``: targets are the rows.
        """
        a, b = (self.rows, self.heights), (self.columns, self.widths)
        steps = self.widths, np.ones_like(self.widths)
        if turned:
            a, b, steps = b, a, steps[::-1]
        across = -(-b[1] // tile.y)
        each = -(-a[1] // tile.x) * across
        block = np.repeat(np.arange(len(each)), each)
        number = np.arange(len(block)) - np.repeat(np.cumsum(each) - each, each)
        top, left = (number // across[block]) * tile.x, (number % across[block]) * tile.y
        place = self.starts[block] + top * steps[0][block] + left * steps[1][block]
        return np.stack(
            [
                *(a[0][block] + top, b[0][block] + left, a[1][block] - top, b[1][block] - left),
                *(place, steps[0][block], steps[1][block]),
            ],
            axis=1,
        )


def listed_products(
    query: Tensor, target: Tensor, blocks: Blocks, *, outer: Reduction = "mean", symmetric: bool = False
) -> Tensor:
    """S_f of each of some ``blocks`` of :func:`prepared` queries [X, R, C] and targets [Y, S, C]: float16, flat."""
    out = torch.empty(int(blocks.starts[-1]), dtype=torch.float16, device=query.device)
    share = 0.5 if symmetric else 1.0
    _launch(query[None], target[None], out, outer, share, add=False, blocks=blocks)
    if symmetric:
        _launch(target[None], query[None], out, outer, share, add=True, blocks=blocks)
    return out


def _launch(
    query: Tensor,
    target: Tensor,
    out: Tensor,
    outer: Reduction,
    share: float,
    *,
    add: bool,
    which: Tensor | None = None,
    blocks: Blocks | None = None,
) -> None:
    (pairs, x, regions, channels), (_, y, others, _) = query.shape, target.shape
    few = 1 if outer == "max" else min(best_few(outer) or 0, regions)
    if few == regions:
        few = 0  # the mean of all
    tile = tile_for(channels, query.dtype.itemsize, few, shared_memory(query.device), out.dtype.itemsize)
    scale = share / (few or regions) / (FP8_SCALE**2 if query.dtype == FP8 else 1.0)
    grid = (triton.cdiv(x, tile.x) * triton.cdiv(y, tile.y), pairs)
    steps, tiles = (0, 0, 0), None
    if blocks is None:
        steps = (out.stride(1), out.stride(2), out.stride(0))
    else:
        listed = torch.from_numpy(blocks.tiles(tile, turned=add))
        grid, tiles = (len(listed), 1), listed.to(query.device, non_blocking=True)
    _frames_kernel[grid](
        TensorDescriptor.from_tensor(query.view(pairs * x, regions * channels), [tile.x, tile.channels]),
        TensorDescriptor.from_tensor(target.view(pairs * y, others * channels), [tile.y, tile.channels]),
        out,
        x,
        y,
        *steps,
        scale,
        which,
        tiles,
        R=regions,
        S=others,
        C=channels,
        X=tile.x,
        Y=tile.y,
        K=tile.channels,
        FEW=few,
        ADD=add,
        RESIDENT=tile.resident,
        GROUP=GROUP,
        WHICH=which is not None,
        LISTED=blocks is not None,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )


def shared_memory(device: torch.device) -> int:
    """Bytes that one program may use."""
    if device.type != "cuda":
        return 232_448  # the interpreter's: as an H200
    return int(getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin"))  # noqa: B009
