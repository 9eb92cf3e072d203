"""The comparator of Table 1 on a GPU in two kernels, over all pairs of a batch at once; and Eq. 6.

The first kernel reads S_f and makes the twice-pooled activations: padding, 3×3 convolution, ReLU, pooling, and the same
again. What lies between stays in registers: a 4 × 4 patch of S_f is exactly what one pooled cell of the first
convolution sees, so that convolution is one matrix product of 16 numbers with the four shifted copies of its weights.
Each cell of the second convolution makes anew the 16 cells it reads, which costs less than keeping them. The second
kernel is the third convolution with ReLU, the 1×1 convolution and hard tanh. Borders: :mod:`visil.kernels.ragged_axes`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from visil.kernels.ragged_axes import RaggedAxis
from visil.model.comparator import Comparator

ROWS, COLUMNS = 8, 16
"""Output cells of one program."""


@dataclass(frozen=True)
class ComparatorWeights:
    """A comparator's weights, laid out for the kernels, in half precision; biases in single."""

    first: Tensor
    """[4, 16, 32]: for each place in a pooling window, the 4 × 4 patch to the 32 channels."""
    first_bias: Tensor
    second: Tensor
    """[16, 32, 4 · 64]: for each cell of the 4 × 4 neighbourhood, what it adds to each place of the pooling window."""
    second_bias: Tensor
    third: Tensor
    """[9, 64, 128]."""
    third_bias: Tensor
    last: Tensor
    """[128]."""
    last_bias: float
    zeros: bool
    """Whether padding is with zeros."""

    @classmethod
    def of(
        cls, comparator: Comparator, device: torch.device, dtype: torch.dtype = torch.float16
    ) -> ComparatorWeights:
        """From a module."""
        one, two, three = (
            conv.weight.detach().float().to(device)
            for conv in (comparator.conv1, comparator.conv2, comparator.conv3)
        )
        first = one.new_zeros(4, 16, 32)
        second = one.new_zeros(16, 32, 4, 64)
        for place in range(4):
            down, across = divmod(place, 2)
            for y in range(3):
                for x in range(3):
                    patch = (down + y) * 4 + across + x
                    first[place, patch] = one[:, 0, y, x]
                    second[patch, :, place] = two[:, :, y, x].T
        third = three.permute(2, 3, 1, 0).reshape(9, 64, 128)
        biases = [
            conv.bias for conv in (comparator.conv1, comparator.conv2, comparator.conv3, comparator.fconv)
        ]
        b1, b2, b3, b4 = (
            torch.zeros(1) if bias is None else bias.detach().float().to(device) for bias in biases
        )
        return cls(
            first.to(dtype).contiguous(),
            b1,
            second.reshape(16, 32, 256).to(dtype).contiguous(),
            b2,
            third.to(dtype).contiguous(),
            b3,
            comparator.fconv.weight.detach().float().flatten().to(device),
            float(b4),
            comparator.padding == "zeros",
        )


@triton.jit
def _cells(rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """This program's output cells: row and column of each, the last ones again beyond the end, and which are real."""
    tiles = tl.cdiv(columns, COLUMNS)
    cell = tl.arange(0, ROWS * COLUMNS)
    row = (tl.program_id(0) // tiles) * ROWS + cell // COLUMNS
    column = (tl.program_id(0) % tiles) * COLUMNS + cell % COLUMNS
    inside = (row < rows) & (column < columns)
    return tl.minimum(row, rows - 1), tl.minimum(column, columns - 1), inside


# Counts come in all sizes: a kernel for each kind of number would be compiled again and again.
@triton.jit(do_not_specialize=["rows", "columns"])
def _pooled_twice_kernel(
    matrix,
    matrix_x,
    matrix_y,
    row_map,
    column_map,
    row_exists,
    column_exists,
    rows,
    columns,
    first,
    first_bias,
    second,
    second_bias,
    out,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    ZEROS: tl.constexpr,
):
    CELLS: tl.constexpr = ROWS * COLUMNS
    row, column, inside = _cells(rows, columns, ROWS, COLUMNS)
    patch = tl.arange(0, 16)
    channels = tl.arange(0, 32)
    w = first + patch[:, None] * 32 + channels[None, :]
    w0, w1, w2, w3 = tl.load(w), tl.load(w + 512), tl.load(w + 1024), tl.load(w + 1536)
    bias = tl.load(first_bias + channels)[None, :]
    wide = tl.arange(0, 256)
    weights = second + channels[:, None] * 256 + wide[None, :]
    total = tl.zeros((CELLS, 256), tl.float32)
    for place in range(16):
        # The patch of S_f below one cell of the once-pooled level.
        r = tl.load(row_map + row[:, None] * 16 + (place // 4) * 4 + patch[None, :] // 4)
        c = tl.load(column_map + column[:, None] * 16 + (place % 4) * 4 + patch[None, :] % 4)
        at = r.to(tl.int64) * matrix_x + c.to(tl.int64) * matrix_y
        if ZEROS:
            seen = tl.load(matrix + at, mask=(r >= 0) & (c >= 0), other=0.0)
        else:
            seen = tl.load(matrix + at)
        pooled = tl.maximum(
            tl.maximum(tl.dot(seen, w0), tl.dot(seen, w1)), tl.maximum(tl.dot(seen, w2), tl.dot(seen, w3))
        )
        once = tl.maximum(pooled + bias, 0.0)
        if ZEROS:
            there = tl.load(row_exists + row * 4 + place // 4) & tl.load(
                column_exists + column * 4 + place % 4
            )
            once = tl.where(there[:, None], once, 0.0)
        total = tl.dot(once.to(first.dtype.element_ty), tl.load(weights + place * 8192), total)
    best = tl.max(tl.reshape(total, (CELLS, 4, 64)), axis=1)
    outputs = tl.arange(0, 64)
    twice = tl.maximum(best + tl.load(second_bias + outputs)[None, :], 0.0)
    places = (row.to(tl.int64) * columns + column)[:, None] * 64 + outputs[None, :]
    tl.store(out + places, twice.to(out.dtype.element_ty), mask=inside[:, None])


@triton.jit(do_not_specialize=["rows", "columns"])
def _output_kernel(
    twice,
    row_map,
    column_map,
    rows,
    columns,
    third,
    third_bias,
    last,
    last_bias,
    out,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    ZEROS: tl.constexpr,
    CLIP: tl.constexpr,
):
    CELLS: tl.constexpr = ROWS * COLUMNS
    row, column, inside = _cells(rows, columns, ROWS, COLUMNS)
    channels, outputs = tl.arange(0, 64), tl.arange(0, 128)
    weights = third + channels[:, None] * 128 + outputs[None, :]
    total = tl.zeros((CELLS, 128), tl.float32)
    for tap in range(9):
        r = tl.load(row_map + row * 3 + tap // 3)
        c = tl.load(column_map + column * 3 + tap % 3)
        at = (r.to(tl.int64) * columns + c)[:, None] * 64 + channels[None, :]
        if ZEROS:
            seen = tl.load(twice + at, mask=((r >= 0) & (c >= 0))[:, None], other=0.0)
        else:
            seen = tl.load(twice + at)
        total = tl.dot(seen, tl.load(weights + tap * 8192), total)
    hidden = tl.maximum(total + tl.load(third_bias + outputs)[None, :], 0.0)
    value = tl.sum(hidden * tl.load(last + outputs)[None, :], axis=1) + last_bias
    if CLIP:
        value = tl.minimum(tl.maximum(value, -1.0), 1.0)
    tl.store(out + row.to(tl.int64) * columns + column, value, mask=inside)


def compared(
    matrix: Tensor, rows: RaggedAxis, columns: RaggedAxis, weights: ComparatorWeights, *, clip: bool = True
) -> Tensor:
    """S_v of every pair, float32 [row cells, column cells], from S_f [query frames, target frames]."""
    height, width = len(rows.around), len(columns.around)
    grid = (triton.cdiv(height, ROWS) * triton.cdiv(width, COLUMNS),)
    twice = torch.empty(height, width, 64, dtype=weights.first.dtype, device=matrix.device)
    _pooled_twice_kernel[grid](
        matrix,
        matrix.stride(0),
        matrix.stride(1),
        rows.pooled,
        columns.pooled,
        rows.exists,
        columns.exists,
        height,
        width,
        weights.first,
        weights.first_bias,
        weights.second,
        weights.second_bias,
        twice,
        ROWS=ROWS,
        COLUMNS=COLUMNS,
        ZEROS=weights.zeros,
        num_warps=8,
        num_stages=2,
    )
    out = torch.empty(height, width, dtype=torch.float32, device=matrix.device)
    _output_kernel[grid](
        twice,
        rows.around,
        columns.around,
        height,
        width,
        weights.third,
        weights.third_bias,
        weights.last,
        weights.last_bias,
        out,
        ROWS=ROWS,
        COLUMNS=COLUMNS,
        ZEROS=weights.zeros,
        CLIP=clip,
        num_warps=8,
        num_stages=2,
    )
    return out


@triton.jit(do_not_specialize=["rows", "segments"])
def _segment_max_kernel(
    matrix, stride_row, stride_column, starts, out, rows, segments, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    segment = tl.program_id(1)
    begin, end = tl.load(starts + segment), tl.load(starts + segment + 1)
    best = tl.full((ROWS, COLUMNS), float("-inf"), tl.float32)
    at = matrix + tl.minimum(row, rows - 1).to(tl.int64)[:, None] * stride_row
    left = begin
    while left < end:
        column = left + tl.arange(0, COLUMNS)
        seen = tl.load(
            at + column.to(tl.int64)[None, :] * stride_column,
            mask=(column < end)[None, :],
            other=float("-inf"),
        )
        best = tl.maximum(best, seen.to(tl.float32))
        left += COLUMNS
    tl.store(out + row.to(tl.int64) * segments + segment, tl.max(best, axis=1), mask=row < rows)


def segment_max(matrix: Tensor, starts: Tensor) -> Tensor:
    """The largest of each row within each run of columns: [N, M] and run borders [V + 1] to float32 [N, V]."""
    rows, segments = len(matrix), len(starts) - 1
    out = torch.empty(rows, segments, dtype=torch.float32, device=matrix.device)
    grid = (triton.cdiv(rows, 32), segments)
    _segment_max_kernel[grid](
        matrix, matrix.stride(0), matrix.stride(1), starts, out, rows, segments, ROWS=32, COLUMNS=32
    )
    return out


def chamfer_scores(matrix: Tensor, rows: Tensor, columns: Tensor, *, symmetric: bool = False) -> Tensor:
    """Eq. 6 (SCS where ``symmetric``) of every pair: [N, M] and borders on both axes to [queries, targets]."""
    forward = _means(segment_max(matrix, columns), rows)
    if not symmetric:
        return forward
    return (forward + _means(segment_max(matrix.T, rows), columns).T) / 2


def _means(values: Tensor, starts: Tensor) -> Tensor:
    """Mean over each run of rows: [N, V] to [runs, V]."""
    return torch.segment_reduce(values, "mean", lengths=starts.diff().long(), axis=0)
