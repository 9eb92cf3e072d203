"""One path looked at cell by cell: where it runs, where it jumps, and where it truly begins and ends.

The localiser keeps no way back, so that a pair of any length fits into memory. Here the cells of one of its paths are
found again inside the path's own box; that is small, and a few paths of a pair are worth it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visil.matching.localize import MEMORY, STEPS

Floats = NDArray[np.floating]
Cells = NDArray[np.int64]
"""[N, 2]: row and column of each cell of a path, in order."""

JUMP = 1.5
"""Frames by which two straight pieces of a path must miss each other to be two stretches."""

STRAIGHTER = 1.5
"""Squared frames by which two lines must fit better than one."""


def traced(block: Floats, threshold: float, bend: float) -> Cells:
    """The cells of the best path from the first corner of a block to the last, by the localiser's own rules.

    Without a way from corner to corner in its steps, the cells nearest to the straight line.
    """
    rows, columns = block.shape
    gain = block.astype(np.float32) - np.float32(threshold)
    best = np.full((MEMORY + 1, columns), -np.inf, np.float32)
    came = np.zeros((rows, columns), np.uint8)
    for row in range(rows):
        best[1:] = best[:-1]
        best[0] = -np.inf
        if row == 0:
            best[0, 0] = 0
        for name, (down, right) in enumerate(STEPS, 1):
            if down > row or right >= columns:
                continue
            offered = best[down, : columns - right] - np.float32(0 if down == right else bend)
            better = offered > best[0, right:]
            best[0, right:][better] = offered[better]
            came[row, right:][better] = name
        best[0] += gain[row]
    if not np.isfinite(best[0, -1]):
        row_of = np.arange(rows)
        column_of = np.round(row_of * (columns - 1) / max(rows - 1, 1)).astype(np.int64)
        return np.stack([row_of, column_of], axis=1)
    cells = [(rows - 1, columns - 1)]
    while cells[-1] != (0, 0):
        row, column = cells[-1]
        down, right = STEPS[came[row, column] - 1]
        cells.append((row - down, column - right))
    return np.array(cells[::-1], np.int64)


def split_at_jumps(cells: Cells) -> list[Cells]:
    """The pieces of a path between jumps: seconds cut out of one video, or put into it, shift all that follows.

    A change of speed is no jump: there two lines meet.
    """
    if len(cells) < 4:
        return [cells]
    whole = _misfit(cells)
    halves = [(_misfit(cells[:k]) + _misfit(cells[k:]), k) for k in range(2, len(cells) - 1)]
    least, k = min(halves)
    if whole - least < STRAIGHTER:
        return [cells]
    first, second = cells[:k], cells[k:]
    if abs(_miss(first, second)) >= JUMP:
        return [*split_at_jumps(first), *split_at_jumps(second)]
    before, after = split_at_jumps(first), split_at_jumps(second)
    return [*before[:-1], np.concatenate([before[-1], after[0]]), *after[1:]]


def _misfit(cells: Cells) -> float:
    """Sum of squared distances, in frames, from the best straight line."""
    rows, columns = (cells - cells.mean(axis=0)).T.astype(np.float64)
    # Total least squares: neither video is the one that is exact.
    spread = np.cov(rows, columns, bias=True) * len(cells) if len(cells) > 1 else np.zeros((2, 2))
    return float(np.linalg.eigvalsh(spread)[0])


def _slope(cells: Cells) -> float:
    (top, left), (bottom, right) = cells[0], cells[-1]
    return (right - left) / (bottom - top) if bottom > top else 1.0


def _miss(first: Cells, second: Cells) -> float:
    """Frames by which the second piece begins beside where the first would go on, or the first beside the second."""
    (row, column), (row_after, column_after) = first[-1], second[0]
    on = column_after - column
    steps = [(row_after - row) * _slope(piece) for piece in (first, second) if len(piece) > 1]
    misses = [on - step for step in steps] or [0.0]
    least = min(misses, key=abs)
    # Where one video stands still for the other, the distance counts along the other axis.
    return float(least if abs(least) > 1 else 0.0) if min(misses) * max(misses) > 0 else 0.0


def level_of(values: Floats) -> float:
    """How high a path stands for the most part."""
    return float(np.median(values))


def inner(values: Floats, level: float) -> tuple[int, int]:
    """The first and last cell of the run that is worth most, if a cell at ``level`` is worth nothing."""
    worth = np.asarray(values, np.float64) - level
    sums = np.concatenate([[0.0], np.cumsum(worth)])
    lowest = np.minimum.accumulate(sums[:-1])
    last = int(np.argmax(sums[1:] - lowest))
    first = int(np.argmin(sums[: last + 1]))
    return first, last
