"""The picture of a match: what goes where. Lengths are in inches, measured from the top left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from visil.errors import VisilError
from visil.plots.axes import Axis
from visil.plots.lettering import file_name, shortened, visible, write, write_within
from visil.plots.panels import (
    FAINT,
    INK,
    Box,
    Mark,
    Plane,
    bars_size,
    draw_bars,
    draw_colour_bar,
    draw_heatmap,
    draw_number,
    draw_numbers,
    draw_stretches,
    draw_thumbnails,
)
from visil.plots.times import Stretch, duration, shared_seconds, span
from visil.video import Image

AREA = 27.0
"""Square inches of S_f."""
FLATTEST = 3.0
"""A matrix longer than this for its height is drawn this long, with seconds of two lengths."""
WIDE = 1.6
"""From this shape on, S_v and the list stand below S_f, not beside it."""
OUTPUT_SHARE = 0.55
"""S_v's sides, as shares of S_f's."""
MOST_THUMBNAILS = 14
STRIDE = 4
"""Frames to a cell of S_v, on each axis: Table 1 of the paper halves both twice."""

MARGIN = 0.3
HEADER = 1.0
NAME = 0.24
TIMES = 0.42
GAP = 0.05
COLOUR_BAR = 0.78
ROW = 0.25
LIST = 2.9
"""Width of the list of stretches."""
NARROWEST = 8.2

# Okabe and Ito's colours that stand out against white and against the blues of the matrix.
COLOURS = ("#e69f00", "#cc79a7", "#d55e00", "#009e73")
VERDICT_COLOURS = {"copy": "#c44e00", "related": "#a06c00", "unrelated": "#6b7280", "unclear": "#6b7280"}


class Pictured(Protocol):
    """The parts of a match that are drawn: :class:`visil.Match` is one."""

    @property
    def score(self) -> float:
        """CS_v of Eq. 6."""

    @property
    def confidence(self) -> float:
        """Probability that the two share footage."""

    @property
    def calibrated(self) -> bool:
        """Whether the confidence was fitted for the model."""

    @property
    def verdict(self) -> str:
        """ "copy", "related", "unrelated" or "unclear"."""

    @property
    def segments(self) -> Sequence[Stretch]:
        """Where they match."""

    @property
    def query_path(self) -> str | None:
        """The query's file, for its name and its thumbnails."""

    @property
    def target_path(self) -> str | None:
        """The target's."""

    @property
    def query_times(self) -> NDArray[np.float64]:
        """When each frame of the query is on screen, seconds."""

    @property
    def target_times(self) -> NDArray[np.float64]:
        """And of the target."""

    @property
    def frame_matrix(self) -> NDArray[np.float32]:
        """S_f, [X, Y]."""

    @property
    def output_matrix(self) -> NDArray[np.float32]:
        """S_v, [X', Y']; S_f where the model has no comparator."""


def match_figure(match: Pictured, title: str | None = None) -> Figure:
    """The whole picture."""
    frames, output = match.frame_matrix, match.output_matrix
    plane = Plane(Axis.of(match.query_times), Axis.of(match.target_times))
    shape = min(max(plane.target.seconds / plane.query.seconds, 1 / FLATTEST), FLATTEST)
    width, height = (AREA * shape) ** 0.5, (AREA / shape) ** 0.5
    beside = _thumbnails(match.query_path, plane.query, height / 0.36)
    above = _thumbnails(match.target_path, plane.target, width / 0.6)
    queries, targets = [s.query for s in match.segments], [s.target for s in match.segments]

    # From the outside in: name, thumbnails, clock times (on the left only), bars, matrix.
    left = Box(MARGIN + NAME, 0, _strip_width(beside, height), height)
    top = Box(0, HEADER, width, _strip_height(above, width))
    query_bars = Box(left.right + TIMES, 0, bars_size(queries), height)
    target_bars = Box(0, top.bottom + (GAP if above else 0), width, bars_size(targets))
    main = Box(query_bars.right + GAP, target_bars.bottom + GAP, width, height)
    left, query_bars = _at(left, left.x, main.y), _at(query_bars, query_bars.x, main.y)
    top, target_bars = _at(top, main.x, top.y), _at(target_bars, main.x, target_bars.y)

    has_output = output.shape != frames.shape  # otherwise the model has no comparator
    small, listing = _second_row(main) if shape > WIDE else _second_column(main)
    if not has_output:
        listing = Box(small.x - TIMES, main.y, LIST, height)
        if shape > WIDE:
            listing = Box(main.x, small.y, LIST, 6 * ROW)
    marks, others = _marks(match.segments, int(listing.height / ROW) - 1)
    drawn = [Box(main.x, main.y, width + COLOUR_BAR, height + 0.5)]
    if has_output:
        drawn.append(Box(small.x, small.y, small.width + COLOUR_BAR, small.height + 0.25))
    if marks:
        rows = 1 + len(marks) + bool(others)
        drawn.append(Box(listing.x, listing.y, listing.width, rows * ROW))
    full_width = max(NARROWEST, *(box.right for box in drawn)) + 0.1
    figure = Figure((full_width, max(box.bottom for box in drawn) + 0.2), facecolor="white")

    limits = _limits(frames)
    axes = draw_heatmap(figure, main, plane, frames, limits, inset=main.x - query_bars.x)
    outlines = draw_stretches(axes, main, plane, marks, others)
    draw_colour_bar(figure, main, limits, "similarity of frames, S_f")
    for images, box in ((beside, left), (above, top)):
        if images:
            draw_thumbnails(figure, box, images)
    if has_output:
        _draw_output(figure, small, plane, output, marks)
    if match.segments:
        colours = {id(mark.segment): mark.colour for mark in marks}
        painted = [colours.get(id(segment), "#9aa3af") for segment in match.segments]
        draw_bars(figure, query_bars, plane.query, queries, painted)
        draw_bars(figure, target_bars, plane.target, targets, painted)
    draw_numbers(figure, main, marks, outlines)
    if marks:
        _draw_list(figure, listing, marks, len(others), plane)
    _draw_names(figure, match, main)
    _draw_header(figure, match, title)
    return figure


# ---------------------------------------------------------------------- where things go


def _second_column(main: Box) -> tuple[Box, Box]:
    """Places beside S_f: S_v, and under it the list."""
    small = Box(
        main.right + COLOUR_BAR + TIMES + 0.25, main.y, main.width * OUTPUT_SHARE, main.height * OUTPUT_SHARE
    )
    top = small.bottom + 0.6
    return small, Box(small.x - TIMES, top, LIST, main.bottom + 0.45 - top)


def _second_row(main: Box) -> tuple[Box, Box]:
    """Places under S_f: S_v, and beside it the list."""
    small = Box(
        main.x, main.bottom + 0.85, main.width * OUTPUT_SHARE, max(main.height * OUTPUT_SHARE, 4.5 * ROW)
    )
    return small, Box(small.right + COLOUR_BAR + 0.3, small.y, LIST, small.height + 0.25)


def _at(box: Box, x: float, y: float) -> Box:
    return Box(x, y, box.width, box.height)


def _strip_width(images: list[Image], height: float) -> float:
    """The width of thumbnails that stand below one another along ``height``."""
    return min(max(height / len(images) * _shape(images[0]), 0.35), 1.1) if images else 0.0


def _strip_height(images: list[Image], width: float) -> float:
    """The height of thumbnails that stand side by side along ``width``."""
    return min(max(width / len(images) / _shape(images[0]), 0.25), 0.95) if images else 0.0


def _shape(image: Image) -> float:
    return float(image.shape[1] / image.shape[0])


# ---------------------------------------------------------------------- what they show


def _thumbnails(path: str | None, times: Axis, room: float) -> list[Image]:
    """Evenly spaced pictures of a video, or all of its few frames; none where it cannot be read."""
    from visil.video import frames_at

    if path is None:
        return []
    count = min(max(1, round(room)), MOST_THUMBNAILS)
    edges = np.linspace(times.start, times.end, count + 1)
    wanted = times.starts if len(times) <= count else (edges[:-1] + edges[1:]) / 2
    try:
        return frames_at(path, wanted.tolist(), 120)
    except (VisilError, OSError):
        return []


def _limits(matrix: NDArray[np.floating]) -> tuple[float, float]:
    """The values drawn darkest and lightest, far enough apart that noise does not look like a match."""
    step = max(1, int((matrix.size / 1e6) ** 0.5))
    low = float(np.percentile(matrix[::step, ::step], 5))
    return low, max(float(matrix.max()), min(1.0, low + 0.6), low + 0.05)


def _marks(segments: Sequence[Stretch], most: int) -> tuple[list[Mark], list[Stretch]]:
    """The stretches that get a number and a line in the list, the longest if there are too many; the rest."""
    most = max(1, most)
    if len(segments) > most:
        most -= 1  # the list needs a line to say how many more there are
    by_length = sorted(segments, key=lambda s: s.query[0] - s.query[1])
    chosen = {id(segment) for segment in by_length[:most]}
    kept = [segment for segment in segments if id(segment) in chosen]
    marks = [Mark(i + 1, COLOURS[i % len(COLOURS)], segment) for i, segment in enumerate(kept)]
    return marks, [segment for segment in segments if id(segment) not in chosen]


def _draw_output(
    figure: Figure, box: Box, plane: Plane, output: NDArray[np.floating], marks: list[Mark]
) -> None:
    limits = (-1.0, 1.0)
    cells = plane.grouped((output.shape[0], output.shape[1]), STRIDE)
    axes = draw_heatmap(figure, box, plane, output, limits, cells)
    draw_stretches(axes, box, plane, marks, [])
    draw_colour_bar(figure, box, limits, "network output, S_v")


def _draw_names(figure: Figure, match: Pictured, main: Box) -> None:
    """Which axis is which video."""
    style: dict[str, Any] = {"size": 9.5, "color": INK, "ha": "center", "va": "center"}
    middle_x, middle_y = main.x + main.width / 2, main.y + main.height / 2
    query = _labelled("query", match.query_path)
    write_within(figure, MARGIN + 0.06, middle_y, query, main.height, rotation=90, **style)
    write_within(
        figure, middle_x, main.bottom + 0.4, _labelled("target", match.target_path), main.width, **style
    )


def _labelled(role: str, path: str | None) -> Callable[[int], str]:
    name = file_name(path, "")
    return lambda limit: f"{role}: {shortened(name, limit)}" if name else role


def _draw_header(figure: Figure, match: Pictured, title: str | None) -> None:
    query, target = file_name(match.query_path, "query"), file_name(match.target_path, "target")

    def headline(limit: int) -> str:
        if title is not None:
            return shortened(visible(title), limit)
        each = limit // 2
        spare = max(0, each - len(query)), max(0, each - len(target))
        return f"{shortened(query, each + spare[1])}  →  {shortened(target, each + spare[0])}"

    room = figure.get_size_inches()[0] - 2 * MARGIN
    write_within(figure, MARGIN, 0.33, headline, room, size=14, weight="bold", color=INK, va="center")
    chip = {"boxstyle": "round,pad=0.35", "facecolor": VERDICT_COLOURS[match.verdict], "edgecolor": "none"}
    style: dict[str, Any] = {"size": 10, "va": "center"}
    x = MARGIN + 0.05
    x += write(figure, x, 0.7, match.verdict, color="white", weight="bold", bbox=chip, **style)
    write(figure, x + 0.22, 0.7, _sentence(match), color=INK, **style)


def _sentence(match: Pictured) -> str:
    sure = f"confidence {match.confidence:.0%}" + ("" if match.calibrated else " (not calibrated)")
    shares = "no shared stretch found"
    if match.segments:
        shares = f"shares {duration(shared_seconds(match.segments))}"
        if len(match.segments) > 1:
            shares += f" in {len(match.segments)} stretches"
    return f"{sure}   ·   score {match.score:.2f}   ·   {shares}"


def _draw_list(figure: Figure, box: Box, marks: list[Mark], more: int, plane: Plane) -> None:
    tenths = min(plane.query.seconds, plane.target.seconds) < 10
    style: dict[str, Any] = {"size": 9, "va": "center"}
    middle = box.y + ROW / 2
    write(figure, box.x, middle, "query → target", color=FAINT, **style)
    write(figure, box.right, middle, "similarity", color=FAINT, ha="right", **style)
    for mark in marks:
        middle += ROW
        draw_number(figure, box.x + 0.09, middle, mark)
        segment = mark.segment
        times = f"{span(segment.query, tenths=tenths)} → {span(segment.target, tenths=tenths)}"
        write(figure, box.x + 0.3, middle, times, color=INK, **style)
        write(figure, box.right, middle, f"{segment.score:.2f}", color=INK, ha="right", **style)
    if more:
        write(figure, box.x + 0.3, middle + ROW, f"and {more} more", color=FAINT, **style)
