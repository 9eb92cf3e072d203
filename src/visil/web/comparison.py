"""A comparison as the page shows it: its matrices, lines to play both videos along, same moments, and words.

A comparison has a folder of its own: each matrix as numbers (``.bin``) and as a picture (``.png``), and ``meta.json``.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from visil.compare import matches
from visil.compare.visil import ViSiL
from visil.files import replacing
from visil.matching.lines import PER_SECOND
from visil.matching.localize import Segment
from visil.matching.match import Match, Matrices
from visil.model.config import ViSiLConfig
from visil.model.features import VideoFeatures
from visil.plots.heat import heat_png
from visil.plots.times import clock, duration, shared_seconds
from visil.report.pair import percent
from visil.video.pictures import centre_crop, scaled_to_shorter

SIDE = 1200
"""Frames a side of a matrix that is kept, at most: of longer videos every second frame, every third …"""
MOST_LINES = 60
"""Segments that the page shows, and so plays along a line of their own."""

REACH_S = 3.5
"""How far either end of a line may move in the target, seconds."""
STEP_S = 0.25
"""The steps in which it is moved, seconds."""
COST = 0.01
"""Similarity taken off for each second that an end moves: in nearly still footage any line is as good."""
RATIOS = (0.4, 2.5)
"""Slowest and fastest speed of the target against the query."""


def keep_comparison(
    model: ViSiL,
    folder: Path,
    match: Match,
    videos: tuple[VideoFeatures, VideoFeatures],
    refs: list[dict[str, Any]],
    closely: Sequence[Segment] = (),
) -> dict[str, Any]:
    """Write a match's S_f and S_v into a folder; returns the part of a result about them, and about its segments.

    ``closely``: segments whose ends were looked at more closely than these matrices show.
    """
    rows, columns = (-(-len(video) // SIDE) for video in videos)
    frames, output = _matrices(model, match, videos, (rows, columns))
    grids = match.query_times[::rows], match.target_times[::columns]
    times = {"query_times": grids[0].tolist(), "target_times": grids[1].tolist()}
    fresh = folder.with_name(f".{folder.name}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    described: dict[str, Any] = {}
    for name, matrix, low in (("frame_matrix", frames, 0.0), ("output_matrix", output, -1.0)):
        if model.comparator is None:
            low = 0.0  # then S_v is S_f
        (fresh / f"{name}.bin").write_bytes(np.ascontiguousarray(matrix, "<f4").tobytes())
        (fresh / f"{name}.png").write_bytes(heat_png(matrix, low))
        described[name] = {"rows": int(matrix.shape[0]), "columns": int(matrix.shape[1])}
    weighs = model.config.attention in ("context", "hidden")
    (fresh / "meta.json").write_text(
        json.dumps({**described, **times, "refs": refs, "attention": weighs}),
        "utf-8",
    )
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(fresh, folder)
    lines = [
        line_along(segment) if segment in closely else line_through(segment, frames, *grids)
        for segment in match.segments[:MOST_LINES]
    ]
    lined = [{"line": line} for line in lines] + [{}] * (len(match.segments) - len(lines))
    told = [segment.to_dict() | line for segment, line in zip(match.segments, lined, strict=True)]
    return {**described, **times, "segments": told}


def _matrices(
    model: ViSiL, match: Match, videos: tuple[VideoFeatures, VideoFeatures], steps: tuple[int, int]
) -> Matrices:
    """The match's own S_f, every so many frames, and S_v, the highest of as many cells.

    Of a pair too long for a match to hold its matrices, those of every so many frames are computed instead.
    """
    if len(videos[0]) * len(videos[1]) > matches.KEPT_CELLS:
        with torch.inference_mode():
            vectors = (video.vectors[::step] for video, step in zip(videos, steps, strict=True))
            return model.scorer().matrices(*vectors)
    frames = match.frame_matrix[:: steps[0], :: steps[1]]
    if model.comparator is None:
        return frames, frames
    output = match.output_matrix
    for axis, step in enumerate(steps):
        output = np.maximum.reduceat(output, np.arange(0, output.shape[axis], step), axis=axis)
    return frames, output


def line_along(segment: Segment) -> dict[str, Any]:
    """A stretch of the query and what of the target runs along with it, as the stretch itself says."""
    first, last = reversed(segment.target) if segment.reversed else segment.target
    return {"query": list(segment.query), "target": [first, last]}


def line_through(
    segment: Segment,
    frame_matrix: NDArray[np.float32],
    query_times: NDArray[np.float64],
    target_times: NDArray[np.float64],
) -> dict[str, Any]:
    """Where a stretch of the query begins and ends, and what of the target runs along with it, in seconds.

    A stretch is found frame by frame, so its ends may be a second or two off; for two videos of different speed that
    is heard and seen. The line through the matrix on which frames are most alike says it better.
    """
    (start, end), (first, last) = segment.query, segment.target
    if segment.reversed:
        return line_along(segment)
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


def attention_picture(model: ViSiL, shot: NDArray[np.uint8], path: Path) -> None:
    """A frame in grey under the weights of its regions; its scale is the frame's own, blue least and red most."""
    from matplotlib.colors import Normalize
    from PIL import Image as pillow

    from visil.plots.attention_figure import under_weights, weight_maps

    seen = _as_sampled(model, shot)
    weights = model.attention_weights(seen[None]).double().numpy()
    (cells,) = weight_maps(weights, None)
    low, high = float(cells.min()), float(cells.max())
    mixed = under_weights(seen, cells, Normalize(low, max(high, low + 1e-9)))
    height, width = shot.shape[:2] if model.config.sampling.fit == "whole" else seen.shape[:2]
    picture = pillow.fromarray((mixed * 255).round().astype(np.uint8)).resize((width, height))
    with replacing(path) as fresh:
        picture.save(fresh, "PNG")


def _as_sampled(model: ViSiL, shot: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The square of a frame that the model sees."""
    from PIL import Image as pillow

    sampling = model.config.sampling
    picture = pillow.fromarray(shot)
    if sampling.fit == "whole":
        return np.asarray(picture.resize((sampling.crop, sampling.crop), pillow.Resampling.BICUBIC))
    size = scaled_to_shorter(picture.width, picture.height, sampling.resize)
    return np.ascontiguousarray(
        centre_crop(np.asarray(picture.resize(size, pillow.Resampling.BICUBIC)), sampling.crop)
    )


def in_words(segments: Sequence[Segment]) -> str:
    """As in "shares 12 s, from 0:33": how much of the query is in the target, and where the longest stretch begins."""
    if not segments:
        return "no shared footage found"
    parts = f" in {len(segments)} stretches" if len(segments) > 1 else ""
    longest = max(segments, key=lambda segment: (segment.query[1] - segment.query[0], segment.score))
    shared = duration(shared_seconds(list(segments)))
    way = ", backwards" if longest.reversed else ""
    return f"shares {shared}{parts}{way}, from {clock(longest.target[0])}"


def how_it_came_about(
    config: ViSiLConfig, match: Match, common: NDArray[np.float32] | None, *, refined: bool = False
) -> list[str]:
    """The steps from two videos to score, confidence and verdict, a sentence each."""
    rows, columns = len(match.query_times), len(match.target_times)
    rate = "one a second" if config.sampling.fps == 1 else f"{config.sampling.fps:g} a second"
    said = [
        f"{_frames(rows)} of the query and {_frames(columns)} of the target were used, {rate}.",
        f"Every frame of one video was compared with every frame of the other, region by region: "
        f"{rows * columns:,} similarities, the frame-to-frame matrix.",
    ]
    if config.comparator is not None:
        said.append(
            "A neural network read that matrix and kept what looks like the same footage running in both."
        )
    best = "the mean of every frame's best match in the other video, in both directions"
    one_way = "the mean of every query frame's best match in the target"
    said.append(f"Score {match.score:.2f}: {best if config.symmetric else one_way}.")
    if common is not None and float(common.max(initial=0.0)) > 0.005:
        said.append(
            "Some frames look like many others in this collection, so they count less: up to "
            f"{float(common.max()):.2f} was subtracted from their similarities before shared stretches were searched."
        )
    if refined:
        said.append(
            f"What the two may share was looked at again, {PER_SECOND} frames a second around its ends: that says "
            "where shared stretches begin and end, and how sure they are."
        )
    if match.segments:
        count = len(match.segments)
        stretches = "1 shared stretch was found" if count == 1 else f"{count} shared stretches were found"
        said.append(f"{stretches}: the query {in_words(match.segments)} in the target.")
    else:
        said.append("No shared stretch was found.")
    if match.calibrated:
        said.append(
            f"Confidence {percent(match.confidence)}: the share of pairs like this one that have footage in common. "
            f"The verdict is therefore “{match.verdict}”."
        )
    else:
        said.append("This model has no calibrated confidence; the score is shown instead.")
    return said


def _frames(count: int) -> str:
    return "1 frame" if count == 1 else f"{count:,} frames"


NEAR_S = 12.0
"""How far from the middle of a stretch the moment may be, seconds."""
ROUGH_S = 3.5
"""How far the ends of a stretch may be off, seconds; of long ones :data:`ROUGH_SHARE` of their length."""
ROUGH_SHARE = 0.1
OFF_LINE = 0.01
"""Similarity taken off for each second off the line from end to end: still footage is alike anywhere."""
OFF_MIDDLE = 0.05
"""The same at the far end of the search: a frame in the middle stands for a stretch best."""
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
