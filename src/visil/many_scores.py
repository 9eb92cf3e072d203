"""Scores alone, of one query with many targets at hand: few large products instead of many small ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.comparator import Comparator
from visil.comparing import WIDE_CELLS, WIDE_FRAMES, read_matrix, repeated
from visil.errors import UsageError
from visil.kernels import FrameMatrix, RunningPool, score_pair
from visil.similarity import Reduction

MP_AP: tuple[Reduction, Reduction] = ("max", "mean")
"""Chamfer similarity: the best, then the mean."""


@torch.inference_mode()
def matrix_scores(
    query: Tensor,
    targets: Sequence[Tensor],
    *,
    symmetric: bool = False,
    frame_pool: tuple[Reduction, Reduction] = MP_AP,
    video_pool: tuple[Reduction, Reduction] = MP_AP,
    comparator: Comparator | None = None,
) -> NDArray[np.float64]:
    """CS_v of one query [X, R, C] with many targets, by the product's own engine: float64 [targets].

    The frames of several targets stand side by side in one matrix, so that products are few and large; a long pair is
    read by itself, strip by strip. Equal to the score of :meth:`visil.ViSiL.compare` with the same settings.
    """
    results = np.empty(len(targets), np.float64)
    matrix = partial(FrameMatrix, symmetric=symmetric, inner=frame_pool[0], outer=frame_pool[1])
    for start, stop in _batches(len(query), [len(target) for target in targets]):
        batch = targets[start:stop]
        _check_widths(query, batch)
        if len(query) * len(batch[0]) > WIDE_CELLS:
            pair = matrix(repeated(query, comparator), repeated(batch[0], comparator))
            results[start] = score_pair(pair, comparator, RunningPool(*video_pool, symmetric=symmetric))
            continue
        together = matrix(query, torch.cat(list(batch))).full()
        for place, strip in enumerate(together.split([len(target) for target in batch], dim=1), start):
            pool = RunningPool(*video_pool, symmetric=symmetric)
            results[place], _ = read_matrix(strip, comparator, pool)
    return results


def _batches(query: int, lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Runs of targets, start and end, whose frames fit side by side; one that is too long is a run of its own."""
    most = max(1, min(WIDE_FRAMES, WIDE_CELLS // query))
    start, frames = 0, 0
    for place, length in enumerate(lengths):
        if place > start and frames + length > most:
            yield start, place
            start, frames = place, 0
        frames += length
    if start < len(lengths):
        yield start, len(lengths)


def _check_widths(query: Tensor, targets: Sequence[Tensor]) -> None:
    for target in targets:
        if target.shape[1:] != query.shape[1:]:
            raise UsageError(
                f"videos to compare must have the same regions and channels, got {list(query.shape[1:])} and "
                f"{list(target.shape[1:])}: make their features alike"
            )
