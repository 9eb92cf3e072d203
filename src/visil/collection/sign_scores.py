"""How much each of many videos looks like a query by the signs of their vectors alone: what a first look goes by.

Two frames are as alike as their two most alike regions: a copy may be a small picture in the frame. A frame of the
query is as alike to a video as to that video's nearest frame, less how common it is in the collection; and a video
scores the mean of its ``BEST`` query frames, because a copy may be a short stretch of a long query. How this was
chosen: docs/performance-cpu.md, "Codes".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby, islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.collection.sign_file import Signs
from visil.compare.pair_reading import Common
from visil.kernels.cpu_hamming import closest_regions
from visil.kernels.packing import runs

BEST = 2
"""Frames of the query that a video's score is the mean of."""

FRAMES = 1024
"""Frames of targets that are compared side by side: half a megabyte of signs."""

CELLS = 1 << 22
"""Frame pairs that are compared at once (16 MB), however long the query is."""

NOTHING = -2.0
"""The score of a video, or for a query, without a frame that is not blank: below all others."""

Rows = NDArray[np.int32]


def sign_scores(
    query: Tensor, targets: Iterable[Signs], channels: int, common: Common | None = None
) -> NDArray[np.float64]:
    """Scores of targets [R, T, W] for a query uint8 [X, R, W]; ``common`` [X] is taken off its frames' similarities.

    As many threads work as torch would use; of the targets only some are held in memory at a time.
    """
    cosines = np.cos(np.pi * np.arange(channels + 1) / channels)
    scores: list[float] = []
    for rows in _rows(query, targets):
        if rows is None or not len(rows):
            scores.append(NOTHING)
            continue
        alike = cosines[rows] if common is None else cosines[rows] - common
        few = min(BEST, len(alike))
        scores.append(float(np.partition(alike, len(alike) - few)[-few:].mean()))
    return np.array(scores, np.float64)


def _rows(query: Tensor, targets: Iterable[Signs]) -> Iterator[Rows | None]:
    """For each target, the fewest bits in which each frame of the query differs from one of its regions, [X]."""
    most = max(1, min(FRAMES, CELLS // max(1, len(query))))
    groups = _groups(targets, most)
    threads = torch.get_num_threads()
    work = partial(_rows_of_group, query, most)
    if threads == 1:
        for group in groups:
            yield from work(group)
        return
    with ThreadPoolExecutor(threads) as pool:
        while some := list(islice(groups, 4 * threads)):
            for found in pool.map(work, some):
                yield from found


def _groups(targets: Iterable[Signs], most: int) -> Iterator[list[Signs]]:
    """Neighbours with as many regions, of ``most`` frames together; a longer one, or one of no frame, is alone."""
    for _, alike in groupby(targets, lambda signs: (len(signs), signs.shape[1] > 0)):
        yield from runs(alike, lambda signs: signs.shape[1] or most, most)


def _rows_of_group(query: Tensor, most: int, group: Sequence[Signs]) -> Sequence[Rows | None]:
    if not group[0].shape[1]:
        return [None]
    if len(group) == 1:
        strips = (group[0][:, start : start + most] for start in range(0, group[0].shape[1], most))
        fewest = np.full(len(query), np.iinfo(np.int32).max, np.int32)
        for strip in strips:
            np.minimum(fewest, closest_regions(query, _tensor(strip)).min(axis=1), out=fewest)
        return [fewest]
    starts = np.cumsum([0, *(signs.shape[1] for signs in group[:-1])])
    bits = closest_regions(query, _tensor(np.concatenate(group, axis=1)))
    return list(np.minimum.reduceat(bits, starts, axis=1).T)


def _tensor(signs: Signs) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(signs))
