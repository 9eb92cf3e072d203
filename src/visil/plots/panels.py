"""The pieces that the picture of a match is made of. Lengths are in inches, measured from the top left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from matplotlib.patheffects import Normal, Stroke
from numpy.typing import NDArray

from visil.plots.axes import Axis, lanes, shrink, ticks
from visil.plots.heat import HEAT
from visil.plots.times import Stretch
from visil.video import Image

INK, FAINT, TRACK = "#1b1f27", "#5b6472", "#e9ecf0"
LANE = 0.085
MAX_LANES = 3
BADGE = 0.085
"""Radius of a number in its disc."""
SMALLEST = 0.07
"""A stretch too short to be seen is outlined at least this large."""


@dataclass(frozen=True)
class Box:
    """A rectangle on the figure."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Its right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.y + self.height

    def axes(self, figure: Figure) -> Axes:
        """Fresh axes that fill it, without frame and ticks."""
        full_width, full_height = figure.get_size_inches()
        axes = figure.add_axes(
            (
                self.x / full_width,
                1 - self.bottom / full_height,
                self.width / full_width,
                self.height / full_height,
            )
        )
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_visible(False)
        return axes


@dataclass(frozen=True)
class Mark:
    """A stretch that has a number and a colour in the picture."""

    number: int
    colour: str
    segment: Stretch


@dataclass(frozen=True)
class Plane:
    """The axes of a matrix: the query's time downwards, the target's to the right."""

    query: Axis
    target: Axis

    def grouped(self, cells: tuple[int, int], stride: int) -> Plane:
        """The plane of S_v, whose cells each stand for ``stride`` frames on both axes."""
        return Plane(self.query.grouped(cells[0], stride), self.target.grouped(cells[1], stride))


def draw_heatmap(
    figure: Figure,
    box: Box,
    plane: Plane,
    matrix: NDArray[np.floating],
    limits: tuple[float, float],
    cells: Plane | None = None,
    *,
    inset: float = 0.0,
) -> Axes:
    """A matrix in its box, with clock times on both axes, those of the query ``inset`` to the left.

    ``cells`` says where its cells are, if not one for each frame.
    """
    axes = box.axes(figure)
    axes.set_facecolor(TRACK)
    cells = cells or plane
    axes.imshow(
        shrink(matrix, cells.query.bins(), cells.target.bins()),
        cmap=HEAT,
        norm=Normalize(*limits),
        extent=(cells.target.start, cells.target.end, cells.query.end, cells.query.start),
        aspect="auto",
        interpolation="nearest",
    )
    axes.set_xlim(plane.target.start, plane.target.end)
    axes.set_ylim(plane.query.end, plane.query.start)
    axes.set_xticks(*ticks(plane.target, max(2, int(box.width / 0.62))))
    axes.set_yticks(*ticks(plane.query, max(2, int(box.height / 0.55))))
    axes.tick_params(labelsize=8, labelcolor=FAINT, color=FAINT, length=2.5, width=0.6, pad=2)
    if inset:
        axes.tick_params(axis="y", length=0, pad=72 * inset + 3)
    return axes


def draw_stretches(
    axes: Axes, box: Box, plane: Plane, marks: list[Mark], others: Sequence[Stretch]
) -> list[Box]:
    """Outline the shared stretches; gives where inside ``box`` the outlines of the marked ones are."""
    outlines = []
    plain = [(segment, "#ffffff", 0.7) for segment in others]
    for segment, colour, weight in [*plain, *((mark.segment, mark.colour, 1.7) for mark in marks)]:
        x, width = _placed(segment.target, plane.target, box.width)
        y, height = _placed(segment.query, plane.query, box.height)
        outline = Rectangle(
            (x / box.width, 1 - (y + height) / box.height),
            width / box.width,
            height / box.height,
            transform=axes.transAxes,
            fill=False,
            edgecolor=colour,
            linewidth=weight,
            joinstyle="miter",
            clip_on=False,
            path_effects=[Stroke(linewidth=weight + 1.4, foreground="#0c0f24", alpha=0.55), Normal()],
        )
        axes.add_patch(outline)
        outlines.append(Box(x, y, width, height))
    return outlines[len(others) :]


def draw_numbers(figure: Figure, box: Box, marks: list[Mark], outlines: list[Box]) -> None:
    """The marks' numbers, each at a corner that its diagonal leaves free, out of the way of the others."""
    taken: list[tuple[float, float]] = []
    for mark, outline in zip(marks, outlines, strict=True):
        step = BADGE * 1.25
        roomy = min(outline.width, outline.height) > 6 * BADGE
        inner, outer = (step, -step) if roomy else (-step, step)
        corners = [
            (outline.right - inner, outline.y + inner),
            (outline.x + inner, outline.bottom - inner),
            (outline.right - outer, outline.y + outer),
            (outline.x + outer, outline.bottom - outer),
        ]
        inside = [(x, y) for x, y in corners if 0 <= x <= box.width and 0 <= y <= box.height]
        free = [c for c in inside if all(_apart(c, other) > 2 * BADGE for other in taken)]
        spot = next(iter(free or inside or corners))
        taken.append(spot)
        draw_number(figure, box.x + spot[0], box.y + spot[1], mark)


def draw_number(figure: Figure, x: float, y: float, mark: Mark) -> None:
    """A mark's number in a disc of its colour."""
    axes = Box(x - 1.4 * BADGE, y - 1.4 * BADGE, 2.8 * BADGE, 2.8 * BADGE).axes(figure)
    axes.set_xlim(-1.4, 1.4)
    axes.set_ylim(-1.4, 1.4)
    axes.patch.set_alpha(0)
    axes.add_patch(Circle((0, 0), 1.2, facecolor=mark.colour, edgecolor="white", linewidth=0.8))
    size = 7.5 if mark.number < 10 else 6.0
    axes.text(0, -0.08, str(mark.number), color="white", size=size, weight="bold", ha="center", va="center")


def draw_bars(
    figure: Figure, box: Box, times: Axis, stretches: list[tuple[float, float]], colours: list[str]
) -> None:
    """The matched stretches of one video as coloured bars, along the longer side of ``box``."""
    axes = box.axes(figure)
    axes.set_facecolor(TRACK)
    down = box.height > box.width
    rows = max(1, round((box.width if down else box.height) / LANE))
    length = box.height if down else box.width
    axes.set_xlim(0, rows if down else length)
    axes.set_ylim(length if down else rows, 0)
    for stretch, colour, lane in zip(stretches, colours, lanes(stretches, rows), strict=True):
        start, size = _placed(stretch, times, length)
        corner, sides = ((lane, start), (1, size)) if down else ((start, lane), (size, 1))
        axes.add_patch(Rectangle(corner, *sides, facecolor=colour, edgecolor="white", linewidth=0.6))


def bars_size(stretches: list[tuple[float, float]]) -> float:
    """How thick the bars of these stretches are."""
    return LANE * max((lane + 1 for lane in lanes(stretches, MAX_LANES)), default=0)


def draw_thumbnails(figure: Figure, box: Box, images: list[Image]) -> None:
    """Pictures at even distances along the longer side of ``box``, whole and in their proportions."""
    axes = box.axes(figure)
    axes.patch.set_alpha(0)
    down = box.height > box.width
    across, along = (box.height, box.width) if down else (box.width, box.height)
    slot = across / len(images)
    for i, image in enumerate(images):
        height, width = image.shape[:2]
        room = (along, slot - 0.03) if down else (slot - 0.03, along)
        scale = min(room[0] / width, room[1] / height)
        half_width, half_height = width * scale / 2, height * scale / 2
        middle = (i + 0.5) * slot
        x, y = (box.width - half_width, middle) if down else (middle, box.height - half_height)
        extent = (x - half_width, x + half_width, y + half_height, y - half_height)
        axes.imshow(image, extent=extent, aspect="auto")
    axes.set_xlim(0, box.width)
    axes.set_ylim(box.height, 0)


def draw_colour_bar(figure: Figure, box: Box, limits: tuple[float, float], label: str) -> None:
    """The colour scale of the matrix in ``box``, at its right."""
    axes = Box(box.right + 0.1, box.y, 0.09, box.height).axes(figure)
    bar = figure.colorbar(ScalarMappable(Normalize(*limits), HEAT), cax=axes)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7.5, labelcolor=FAINT, color=FAINT, length=2, width=0.6, pad=2)
    bar.set_label(label, size=8.5, color=FAINT, labelpad=5)


def _placed(stretch: tuple[float, float], times: Axis, length: float) -> tuple[float, float]:
    """Where along ``length`` inches of axis a stretch begins, and its length; never too short to see."""
    start, end = ((time - times.start) / times.seconds * length for time in stretch)
    start, end = min(max(start, 0.0), length), min(max(end, 0.0), length)
    grow = max(0.0, min(SMALLEST, length) - (end - start))
    start = min(max(start - grow / 2, 0.0), length)
    return start, min(end + grow / 2, length) - start


def _apart(a: tuple[float, float], b: tuple[float, float]) -> float:
    return float(np.hypot(a[0] - b[0], a[1] - b[1]))
