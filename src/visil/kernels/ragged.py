"""CS_v of Eq. 6 for many matrices side by side, in a few passes over all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from visil.kernels.scoring import RunningPool
from visil.model.similarity import Reduction, best_few


def pooled_spans(
    together: Tensor,
    spans: Sequence[tuple[int, int]],
    inner: Reduction = "max",
    outer: Reduction = "mean",
    symmetric: bool = False,
) -> NDArray[np.float64]:
    """:func:`visil.model.similarity.pool` of ``together[:, start:stop]`` for each span: float64 [spans].

    Spans rise and do not overlap; what lies between them is not read.
    """
    if not spans:
        return np.empty(0)
    if best_few(inner) is not None or best_few(outer) is not None:
        return np.array([_alone(together[:, a:b], inner, outer, symmetric) for a, b in spans])
    values = together.cpu().numpy()
    rows = _over_spans(values, spans, inner)  # [X, spans]
    forward = rows.max(axis=0).astype(np.float64) if outer == "max" else rows.mean(axis=0, dtype=np.float64)
    if not symmetric:
        return forward
    columns = values.max(axis=0) if inner == "max" else values.mean(axis=0, dtype=np.float64)
    backward = _over_spans(columns[None], spans, outer)[0]
    return (forward + backward) / 2


def _over_spans(
    values: NDArray[np.floating], spans: Sequence[tuple[int, int]], how: Reduction
) -> NDArray[np.floating]:
    """[X, W] reduced over the columns of each span: [X, spans]."""
    # ``reduceat`` reduces from each edge to the next, the last to the end: a gap is a run of its own, not kept.
    edges, every = np.array(spans).reshape(-1), 2
    if edges[-1] == values.shape[1]:
        edges = edges[:-1]
        if (edges[1::2] == edges[2::2]).all():
            edges, every = edges[::2], 1
    if how == "max":
        return np.maximum.reduceat(values, edges, axis=1)[:, ::every]
    sums = np.add.reduceat(values, edges, axis=1, dtype=np.float64)[:, ::every]
    return sums / np.array([stop - start for start, stop in spans])


def _alone(matrix: Tensor, inner: Reduction, outer: Reduction, symmetric: bool) -> float:
    pool = RunningPool(inner, outer, symmetric)
    pool.update(matrix)
    return pool.result()
