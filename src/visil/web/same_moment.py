"""The same moments of two videos, to lay side by side: two frames of a hit, and a line for all of a stretch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from visil.compare.visil import ViSiL
from visil.matching.localize import Segment
from visil.model.features import VideoFeatures
from visil.web.comparison import line_through

NEAR_S = 12.0
"""How far from the middle of a stretch the moment may be, seconds."""
ROUGH_S = 3.5
"""How far the ends of a stretch may be off, seconds; of long ones :data:`ROUGH_SHARE` of their length."""
ROUGH_SHARE = 0.1
OFF_LINE = 0.01
"""Similarity taken off for each second off the line from end to end: still footage is alike anywhere."""
OFF_MIDDLE = 0.05
"""The same at the far end of what is looked at: a frame in the middle stands for a stretch best."""
MOST_ROWS = 32
"""Frames of the query that a line is laid through, spread over the stretch."""
MOST_COLUMNS = 1200
"""Frames of the target, in a row, that are looked at for it."""


def same_moment(
    model: ViSiL, query: VideoFeatures, target: VideoFeatures, segments: Sequence[Segment]
) -> list[float] | None:
    """A time of the query and one of the target, in the middle of their longest stretch; None without a stretch.

    A stretch is found frame by frame, so its ends may be off by seconds, and so would be what lies halfway between
    them; frames nearby that look alike say it better.
    """
    if not segments:
        return None
    stretch = max(segments, key=lambda one: one.query[1] - one.query[0])
    (start, end), (first, last) = stretch.query, stretch.target
    if stretch.reversed:
        first, last = last, first
    middle, length = (start + end) / 2, max(end - start, 1e-6)
    near = min(0.35 * length, NEAR_S)
    rough = max(ROUGH_S, ROUGH_SHARE * abs(last - first))

    def mapped(times: np.ndarray) -> np.ndarray:
        return first + (times - start) / length * (last - first)

    query_times, target_times = (np.asarray(video.timestamps, np.float64) for video in (query, target))
    rows = _close(query_times, middle, near)
    columns = _close(target_times, float(mapped(np.array(middle))), near * abs(last - first) / length + rough)
    with torch.inference_mode():
        alike, _ = model.scorer().matrices(
            query.vectors[rows[0] : rows[-1] + 1], target.vectors[columns[0] : columns[-1] + 1]
        )
    off_line = np.abs(target_times[columns][None, :] - mapped(query_times[rows])[:, None])
    off_middle = np.abs(query_times[rows] - middle)[:, None] / max(near, 1e-6)
    worth = np.nan_to_num(np.asarray(alike)) - OFF_LINE * off_line - OFF_MIDDLE * np.minimum(off_middle, 1.0)
    row, column = np.unravel_index(int(np.argmax(worth)), worth.shape)
    return [float(query_times[rows[row]]), float(target_times[columns[column]])]


def same_moments(
    model: ViSiL, query: VideoFeatures, target: VideoFeatures, segments: Sequence[Segment]
) -> dict[str, Any] | None:
    """The line of the longest stretch: see :func:`~visil.web.comparison.line_through`. None of one that is too long."""
    if not segments:
        return None
    stretch = max(segments, key=lambda one: one.query[1] - one.query[0])
    query_times, target_times = (np.asarray(video.timestamps, np.float64) for video in (query, target))
    rows = np.flatnonzero((query_times >= stretch.query[0]) & (query_times <= stretch.query[1]))
    first, last = stretch.target
    columns = _close(target_times, (first + last) / 2, (last - first) / 2 + ROUGH_S)
    if not len(rows) or len(columns) > MOST_COLUMNS:
        return None
    rows = rows[:: -(-len(rows) // MOST_ROWS)]
    with torch.inference_mode():
        alike, _ = model.scorer().matrices(query.vectors[rows], target.vectors[columns[0] : columns[-1] + 1])
    return line_through(stretch, alike, query_times[rows], target_times[columns])


def _close(times: np.ndarray, to: float, by: float) -> np.ndarray:
    """Places of the times that are close to one; never none."""
    found = np.flatnonzero(np.abs(times - to) <= by)
    return found if len(found) else np.array([int(np.argmin(np.abs(times - to)))])
