"""CS_v of Eq. 6 of matrices as they are had: strip by strip, or many beside each other in one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.model.formula import Formula
from visil.model.similarity import Reduction, best_few, reduced


class RunningPool:
    """:meth:`Formula.video_similarity` of a matrix that arrives in strips of whole rows, without holding it."""

    def __init__(self, formula: Formula) -> None:
        self.inner, self.outer = formula.video_pool
        self.symmetric = formula.symmetric
        self._rows: list[Tensor] = []
        self._columns: Tensor | None = None
        self._count = 0

    def update(self, strip: Tensor) -> None:
        """Add ``strip`` [h, Y]."""
        self._rows.append(reduced(strip, self.inner, dim=1))
        self._count += strip.shape[0]
        if self.symmetric:
            self._columns = self._with_columns(strip)

    def result(self) -> float:
        """CS_v of all rows seen."""
        forward = self._outer(torch.cat(self._rows))
        if self._columns is None:
            return forward
        columns = self._columns[0] / self._count if self.inner == "mean" else self._columns.mean(dim=0)
        return (forward + self._outer(columns)) / 2

    def _with_columns(self, strip: Tensor) -> Tensor:
        """The state of each column so far: its sum, or its largest few; [1 or few, Y]."""
        seen = strip if self._columns is None else torch.cat([self._columns, strip])
        if self.inner == "mean":
            return seen.sum(dim=0, keepdim=True)
        few = best_few(self.inner)
        if few is None:
            return seen.amax(dim=0, keepdim=True)
        return seen.topk(min(few, len(seen)), dim=0).values

    def _outer(self, values: Tensor) -> float:
        return float(reduced(values if self.outer == "max" else values.double(), self.outer, dim=0))


def pooled(matrix: Tensor, formula: Formula) -> float:
    """CS_v of a whole matrix [X, Y], summed in float64."""
    pool = RunningPool(formula)
    pool.update(matrix)
    return pool.result()


def pooled_spans(together: Tensor, spans: Sequence[tuple[int, int]], formula: Formula) -> NDArray[np.float64]:
    """CS_v of ``together[:, start:stop]`` for each span, in a few passes over all of them: float64 [spans].

    Spans rise and do not overlap; what lies between them is not read.
    """
    inner, outer = formula.video_pool
    if not spans:
        return np.empty(0)
    if best_few(inner) is not None or best_few(outer) is not None:
        return np.array([pooled(together[:, start:stop], formula) for start, stop in spans])
    values = together.cpu().numpy()
    rows = _over_spans(values, spans, inner)  # [X, spans]
    forward = rows.max(axis=0).astype(np.float64) if outer == "max" else rows.mean(axis=0, dtype=np.float64)
    if not formula.symmetric:
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
