"""Tiles of S_f on a processor in reduced precision: a matrix product, and the maximum while it is in the cache.

Eight-bit codes here live for one tile and share one step, so that largest and largest few are found among the exact
integers; the step is multiplied in afterwards. Vectors whose largest channel stands out would be rounded too coarsely:
such a tile is computed in float32 instead.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from visil.errors import UsageError
from visil.kernels.precision import Arithmetic, integer_product

STEPS = 127
"""Of int8 on each side of zero."""

COARSEST = 1.2e-3
"""Standard deviation that rounding may give one product of two vectors; beyond it a tile is computed in float32."""

PRODUCTS = 1 << 20
"""Products of one tile: 4 MB, which stay near the processor until they are reduced."""


class WorkSpace:
    """Memory that tiles use again and again: fresh memory of megabytes costs more than the arithmetic in it."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, torch.dtype], Tensor] = {}

    def of(self, name: str, rows: int, columns: int, dtype: torch.dtype) -> Tensor:
        """A matrix to be written over; the one of the same name and dtype before it is lost."""
        kept = self._kept.get((name, dtype))
        if kept is None or kept.numel() < rows * columns:
            with torch.inference_mode(False):  # or it could not be written to outside that mode again
                kept = self._kept[name, dtype] = torch.empty(rows * columns, dtype=dtype)
        return kept[: rows * columns].view(rows, columns)


_of_thread = threading.local()


def work_space() -> WorkSpace:
    """The calling thread's own: some 20 MB that it keeps."""
    if not hasattr(_of_thread, "space"):
        _of_thread.space = WorkSpace()
    space: WorkSpace = _of_thread.space
    return space


@dataclass(frozen=True, eq=False)
class Packed:
    """Region vectors of some frames, region-major, [R · frames, C], as one arithmetic takes them."""

    pieces: Sequence[Tensor]
    """The frames themselves, [frames, R, C] in one or more parts."""
    values: Tensor
    """bfloat16 or int8."""
    step: float
    """Of int8, the value of one step; 1 otherwise."""
    longest: float
    """The largest norm, where it is needed."""

    @property
    def regions(self) -> int:
        """Vectors a frame."""
        return self.pieces[0].shape[1]

    @property
    def frames(self) -> int:
        """How many frames these are."""
        return sum(map(len, self.pieces))

    def exact(self) -> Tensor:
        """The same in float32."""
        vectors = torch.cat(list(self.pieces))
        return vectors.float().transpose(0, 1).reshape(-1, vectors.shape[2])


def packed(pieces: Sequence[Tensor], arithmetic: Arithmetic, space: WorkSpace, name: str) -> Packed:
    """Frames [T, R, C] of any float dtype in a place of its own, ``name``; NaN and infinity are refused."""
    frames, (regions, channels) = sum(map(len, pieces)), pieces[0].shape[1:]
    exact = space.of("exact", regions * frames, channels, torch.float32)
    start = 0
    for piece in pieces:
        stop = start + len(piece)
        exact.view(regions, frames, channels)[:, start:stop].copy_(piece.transpose(0, 1))
        start = stop
    low, high = torch.aminmax(exact)
    peak = max(-float(low), float(high))
    if not peak < float("inf"):
        raise UsageError("features contain NaN or infinity: make them anew")
    if arithmetic == "bf16":
        halves = space.of(name, regions * frames, channels, torch.bfloat16)
        return Packed(pieces, halves.copy_(exact), 1.0, 1.0)
    squares = torch.mul(exact, exact, out=space.of("squares", regions * frames, channels, torch.float32))
    longest = sqrt(float(squares.sum(dim=1).amax()))
    step = peak / STEPS or 1.0
    codes = space.of(name, regions * frames, channels, torch.int8)
    return Packed(pieces, codes.copy_(exact.mul_(1 / step).round_()), step, longest)


def products(query: Packed, target: Packed, space: WorkSpace) -> tuple[Tensor, float]:
    """All products of two tiles, [R, x, S, y], and the step to multiply them by; valid until the next call."""
    left, right, step = query.values, target.values, query.step * target.step
    if left.dtype == torch.int8 and too_coarse(query, target):
        left, right, step = query.exact(), target.exact(), 1.0
    dtype = torch.int32 if left.dtype == torch.int8 else left.dtype
    out = space.of("products", len(left), len(right), dtype)
    if dtype == torch.int32:
        integer_product(left, right, out)
    else:
        torch.mm(left, right.T, out=out)
    return out.view(query.regions, query.frames, target.regions, target.frames), step


def too_coarse(query: Packed, target: Packed) -> bool:
    """Whether rounding to int8 would blur a product of these vectors more than allowed."""
    blur = sqrt((query.step * target.longest) ** 2 + (target.step * query.longest) ** 2) / sqrt(12)
    return blur > COARSEST


def tile_width(regions: int, others: int, rows: int) -> int:
    """Target frames of a tile with ``rows`` query frames."""
    return max(16, PRODUCTS // (regions * others * max(rows, 1)))
