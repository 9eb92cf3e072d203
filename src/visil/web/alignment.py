"""Which moment of the target belongs to which of the query, finely enough to play both in step.

A stretch is found frame by frame, so its ends may be a second or two off; for two videos of different speed that is
heard and seen. The line through the matrix on which frames are most alike says it better.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visil.matching.localize import Segment

REACH_S = 3.5
"""How far either end of a line may move in the target, seconds,"""
STEP_S = 0.25
"""in such steps,"""
COST = 0.002
"""and how much more alike its frames must be for each second: where nothing moves, every line is as good."""
RATIOS = (0.4, 2.5)
"""A target is played at no other speed than that."""


def line_through(
    segment: Segment,
    frame_matrix: NDArray[np.float32],
    query_times: NDArray[np.float64],
    target_times: NDArray[np.float64],
) -> dict[str, Any]:
    """Where a stretch of the query begins and ends, and what of the target runs along with it, in seconds."""
    (start, end), (first, last) = segment.query, segment.target
    rows = np.flatnonzero((query_times >= start - 1e-6) & (query_times <= end + 1e-6))
    length, span = end - start, last - first
    found = (first, last)
    if len(rows) >= 3 and len(target_times) >= 2 and length > 0 and span > 0:
        moves = np.arange(-REACH_S, REACH_S + STEP_S / 2, STEP_S)
        begins, ends = (grid.ravel() for grid in np.meshgrid(first + moves, last + moves, indexing="ij"))
        ratios = (ends - begins) / length
        fits = (ratios >= RATIOS[0]) & (ratios <= RATIOS[1])
        begins, ends = begins[fits], ends[fits]
        if len(begins):
            part = (query_times[rows] - start) / length
            times = begins[:, None] + (ends - begins)[:, None] * part  # [lines, rows]
            alike = _between(np.nan_to_num(frame_matrix[rows]), target_times, times).mean(axis=1)
            best = int(np.argmax(alike - COST * (np.abs(begins - first) + np.abs(ends - last))))
            found = (float(begins[best]), float(ends[best]))
    return {"query": [start, end], "target": list(found)}


def _between(
    matrix: NDArray[np.float32], times: NDArray[np.float64], wanted: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Each row at times of its own: [R, M] at [L, R] to [L, R], from the two frames next to each."""
    inside = np.clip(wanted, times[0], times[-1])
    after = np.clip(np.searchsorted(times, inside), 1, len(times) - 1)
    share = (inside - times[after - 1]) / (times[after] - times[after - 1])
    rows = np.arange(len(matrix))
    value: NDArray[np.float64] = (1 - share) * matrix[rows, after - 1] + share * matrix[rows, after]
    return value
