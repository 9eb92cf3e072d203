"""One pass over a pair of videos: S_f strip by strip, the comparator with exact halos, Eq. 6 on the run."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from visil.kernels.frame_matrix import FrameMatrix
from visil.model.comparator import Comparator, hard_tanh, windows
from visil.model.similarity import Reduction, best_few, reduced

STRIP_CELLS = 32
"""Output rows of one strip: 128 query frames, and a halo of 14 that is kept, not computed again."""

TILE_CELLS = 256
"""Output columns of one comparator tile: bounds its activations to some 20 MB."""

OnRows = Callable[[int, Tensor], None]
"""Receives (first row, rows) of a matrix, each row once, in order."""


class RunningPool:
    """:func:`visil.model.similarity.pool` of a matrix that arrives in strips of whole rows, without holding it."""

    def __init__(self, inner: Reduction = "max", outer: Reduction = "mean", symmetric: bool = False) -> None:
        self.inner: Reduction = inner
        self.outer: Reduction = outer
        self.symmetric = symmetric
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
        """CS (or what ``inner`` and ``outer`` make of it) of all rows seen."""
        forward = self._outer(torch.cat(self._rows))
        if self._columns is None:
            return forward
        columns = self._columns[0] / self._count if self.inner == "mean" else self._columns.mean(dim=0)
        return (forward + self._outer(columns)) / 2

    def _with_columns(self, strip: Tensor) -> Tensor:
        """What must be known of each column so far: its sum, or its largest few; [1 or few, Y]."""
        seen = strip if self._columns is None else torch.cat([self._columns, strip])
        if self.inner == "mean":
            return seen.sum(dim=0, keepdim=True)
        few = best_few(self.inner)
        if few is None:
            return seen.amax(dim=0, keepdim=True)
        return seen.topk(min(few, len(seen)), dim=0).values

    def _outer(self, values: Tensor) -> float:
        return float(reduced(values if self.outer == "max" else values.double(), self.outer, dim=0))


@torch.inference_mode()
def score_pair(
    matrix: FrameMatrix,
    comparator: Comparator | None,
    pool: RunningPool,
    *,
    on_frames: OnRows | None = None,
    on_output: OnRows | None = None,
) -> float:
    """CS_v of Eq. 6 for one pair; equals the untiled formula and needs memory for one strip only.

    ``on_frames`` sees the rows of S_f, ``on_output`` those of S_v after hard tanh (S_f itself where there is no
    comparator), each once and in order: for whoever wants to keep or search them.
    """
    if comparator is None:
        for start in range(0, matrix.shape[0], STRIP_CELLS * 4):
            strip = matrix.rows(start, min(start + STRIP_CELLS * 4, matrix.shape[0]))
            pool.update(strip)
            for listener in (on_frames, on_output):
                if listener is not None:
                    listener(start, strip)
        return pool.result()

    columns = windows(matrix.shape[1], TILE_CELLS)
    held = torch.empty(
        0, matrix.shape[1], dtype=matrix.dtype, device=matrix.device
    )  # S_f[done - len(held):done]
    done = 0
    for window in windows(matrix.shape[0], STRIP_CELLS):
        fresh = matrix.rows(done, window.inputs.stop)
        if on_frames is not None:
            on_frames(done, fresh)
        keep = done - window.inputs.start
        held = torch.cat([held[held.shape[0] - keep :], fresh])
        done = window.inputs.stop
        output = torch.cat([comparator.tile(held[:, tile.inputs], window, tile) for tile in columns], dim=1)
        output = hard_tanh(output)
        pool.update(output)
        if on_output is not None:
            on_output(window.outputs.start, output)
    return pool.result()
