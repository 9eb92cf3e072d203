"""Many queries, each with targets of its own, on a GPU: CS_v of every such pair, and its most similar two frames.

What a search for duplicates asks first: thousands of videos, each with the few that it may share footage with. Frames
of queries and targets stand one after another; the matrices of all pairs are made by one launch, and read by another.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError
from visil.kernels.precision import Arithmetic
from visil.kernels.torch_engine import finite
from visil.kernels.triton_frames import DTYPES, Blocks, listed_products, prepared
from visil.model.formula import Formula

SIDE = 32
"""Frames of a matrix that are read at once, along both sides."""


@triton.jit
def _best_kernel(frames, pairs, sums, peaks, SIDE: tl.constexpr):
    # One program reads one pair one way: rows of the matrix, or its columns.
    pair = tl.program_id(0)
    known = pairs + pair * 5
    place, step, along = tl.load(known), tl.load(known + 1), tl.load(known + 2)
    count, length = tl.load(known + 3), tl.load(known + 4)
    total = 0.0
    peak = float("-inf")
    for top in range(0, count, SIDE):
        own = top + tl.arange(0, SIDE)
        best = tl.full((SIDE, SIDE), float("-inf"), tl.float32)
        for left in range(0, length, SIDE):
            other = left + tl.arange(0, SIDE)
            seen = tl.load(
                frames + place + own[:, None] * step + other[None, :] * along,
                mask=(own < count)[:, None] & (other < length)[None, :],
                other=float("-inf"),
            )
            best = tl.maximum(best, seen.to(tl.float32))
        highest = tl.max(best, axis=1)
        total += tl.sum(tl.where(own < count, highest, 0.0))
        peak = tl.maximum(peak, tl.max(highest))
    tl.store(sums + pair, total / count)
    tl.store(peaks + pair, peak)


def pair_scores(
    asked: Sequence[tuple[Tensor, Sequence[Tensor]]], formula: Formula, arithmetic: Arithmetic
) -> tuple[Tensor, Tensor]:
    """CS_v, and the largest of S_f, of each query [X, R, C] with each of its targets: float32 [pairs], on the device.

    By a formula without a comparator that the kernels know (:func:`visil.kernels.devices.kernels_know`).
    """
    dtype = DTYPES[arithmetic]
    queries, targets = [query for query, _ in asked], [some for _, some in asked]
    heights = np.array([len(query) for query in queries])
    lengths = [np.array([len(target) for target in some], np.int64) for some in targets]
    widths = np.array([some.sum() for some in lengths])
    rows, columns = (np.concatenate([[0], np.cumsum(each)[:-1]]) for each in (heights, widths))
    blocks = Blocks(rows, heights, columns, widths)
    together = prepared(torch.cat(queries), dtype)
    others = prepared(torch.cat([target for some in targets for target in some]), dtype)
    if not finite(together, others):
        raise UsageError("features contain NaN or infinity: make them anew")
    frames = listed_products(
        together, others, blocks, outer=formula.frame_pool[1], symmetric=formula.symmetric
    )
    forwards = _rows_of(blocks, lengths)
    means, peaks = _read(frames, forwards)
    if formula.symmetric:
        place, step, along, count, length = forwards.T
        backwards, _ = _read(frames, np.stack([place, along, step, length, count], axis=1))
        means = (means + backwards) / 2
    return means, peaks


def _rows_of(blocks: Blocks, lengths: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """[pairs, 5]: where each pair's matrix is, its steps from row to row and along a row, its rows and columns."""
    owner = np.repeat(np.arange(len(lengths)), [len(some) for some in lengths])
    before = np.concatenate([np.cumsum(some) - some for some in lengths])
    every = np.concatenate(lengths)
    place = blocks.starts[owner] + before
    return np.stack([place, blocks.widths[owner], np.ones_like(every), blocks.heights[owner], every], axis=1)


def _read(frames: Tensor, pairs: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """The mean of the rows' largest of each pair, and the largest of all."""
    means, peaks = (torch.empty(len(pairs), device=frames.device) for _ in range(2))
    known = torch.from_numpy(np.ascontiguousarray(pairs)).to(frames.device, non_blocking=True)
    _best_kernel[(len(pairs),)](frames, known, means, peaks, SIDE=SIDE)
    return means, peaks
