"""The two frames that show best what two videos share: the same moment in both, to lay side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from visil.compare.visil import ViSiL
from visil.matching.localize import Segment
from visil.model.features import VideoFeatures

NEAR_S = 12.0
"""How far from the middle of a stretch the moment may be, seconds."""
ROUGH_S = 3.5
"""How far the ends of a stretch may be off, seconds; of long ones :data:`ROUGH_SHARE` of their length."""
ROUGH_SHARE = 0.1
OFF_LINE = 0.01
"""Similarity taken off for each second off the line from end to end: still footage is alike anywhere."""
OFF_MIDDLE = 0.05
"""The same at the far end of what is looked at: a frame in the middle stands for a stretch best."""


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


def _close(times: np.ndarray, to: float, by: float) -> np.ndarray:
    """Places of the times that are close to one; never none."""
    found = np.flatnonzero(np.abs(times - to) <= by)
    return found if len(found) else np.array([int(np.argmin(np.abs(times - to)))])
