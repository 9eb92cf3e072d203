"""A second look at moments that miniatures call the same: larger, and in colour.

A miniature shows neither small words nor colour. So moments of both files are laid over each other once more, at up to
a hundred times the pixels. What one file shows in a place where the other shows something else is missing
there: a station's logo, a line of a slide, other colours.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image as pillow

from visil.footage.levels import levelled

if TYPE_CHECKING:
    from visil.video import Image

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]
T = TypeVar("T", bound=np.generic)
PilImage = pillow.Image
BOX = pillow.Resampling.BOX

SIDE = 640
"""Pixels a side, at most: no more than the smaller of the two has,"""
SMALLEST = 64
"""and not less than miniatures have, or there is nothing more to see."""
CELL = 4
"""Pixels a side of the places that are compared: coding noise of one sign does not fill one."""
OTHER = 6.0
"""Levels of 255 by which the mean of a place may differ (coding at CRF 34: 4),"""
OF_CONTRAST = 0.4
"""and by which part of the contrast that both pictures have around it."""
PLACES = 3
"""Of them that must differ at one moment; coarse coding may miss one or two, but not at the same place twice."""

COLOUR_SIDE = 320
COLOUR_CELL = 16
COLOUR_OTHER = 10.0
"""Levels of 255 by which the colour of a place may differ, if it has as much colour."""
PALEST, STRONGEST = 0.8, 1.25
"""Colour of the one to the other: video levels taken for each other come to 0.88 and 1.14."""


@dataclass(frozen=True, eq=False)
class Look:
    """What two pictures of the same moment have that the other has not."""

    shapes: Flags
    """[n, n] places that show something else."""
    colours: tuple[bool, bool]
    """Whether the first has colours that the second has not, and the other way round."""


def look(one: Image, two: Image) -> Look:
    """Two pictures over each other."""
    side = min(SIDE, *one.shape[:2], *two.shape[:2]) // COLOUR_CELL * COLOUR_CELL
    if side < SMALLEST:  # miniatures have shown more
        return Look(np.zeros((1, 1), np.bool_), (False, False))
    pictures = [_square(picture, side) for picture in (one, two)]
    mine, theirs = (np.asarray(picture.convert("L"), np.float32) for picture in pictures)
    few = min(side, COLOUR_SIDE)
    here, there = (_colours(picture.resize((few, few), BOX)) for picture in pictures)
    return Look(_other_shapes(mine, theirs), (_other_colours(here, there), _other_colours(there, here)))


def missing(looks: Iterable[Look]) -> tuple[float, float]:
    """At which part of the moments either shows something that the other does not; ``looks`` are in order of time.

    A place counts by itself where it is another at two moments on end.
    """
    lacking: list[list[bool]] = []
    before: Look | None = None
    for one in looks:
        many = int(one.shapes.sum()) >= PLACES
        again = before is not None and bool((one.shapes & _beside(before.shapes)).any())
        lacking.append([many or again or colour for colour in one.colours])
        before = one
    first, second = np.mean(lacking, axis=0).tolist() if lacking else (0.0, 0.0)
    return first, second


def unlike(one: Image, two: Image) -> float:
    """How far two pictures are apart, at a glance."""
    small = [
        pillow.fromarray(np.ascontiguousarray(picture)).convert("L").resize((64, 64))
        for picture in (one, two)
    ]
    return float(np.mean(np.square(np.asarray(small[0], np.float32) - np.asarray(small[1], np.float32))))


def _square(picture: Image, side: int) -> PilImage:
    """The whole picture made square."""
    return pillow.fromarray(np.ascontiguousarray(picture)).resize((side, side), BOX)


def _colours(picture: PilImage) -> Floats:
    """Two differences of colour [2, side, side]."""
    colours: Floats = np.asarray(picture.convert("YCbCr"), np.float32).transpose(2, 0, 1)
    return colours[1:]


def _other_shapes(one: Floats, two: Floats) -> Flags:
    (mine,) = levelled(one[None], two[None])
    apart = np.abs(_means(mine - two, CELL))
    contrast = np.minimum(_contrast(mine), _contrast(two))
    shapes: Flags = apart > OTHER + OF_CONTRAST * contrast
    return shapes


def _other_colours(mine: Floats, theirs: Floats) -> bool:
    """Whether a place has a colour that the other has not; one without colour lacks nothing."""
    here, there = (_means(colours - 128.0, COLOUR_CELL) for colours in (mine, theirs))
    strength = float((here * there).sum() / max(float((here * here).sum()), 1.0))
    apart = np.hypot(*(here * min(max(strength, PALEST), STRONGEST) - there))
    return bool((apart > COLOUR_OTHER)[np.hypot(*here) > COLOUR_OTHER].any())


def _contrast(picture: Floats) -> Floats:
    """Largest deviation within a place and those beside it."""
    means = _means(picture, CELL)
    spread = np.sqrt(np.maximum(_means(picture * picture, CELL) - means * means, 0.0))
    contrast: Floats = np.maximum(_beside(spread), (_beside(means) + _beside(-means)) / 2)
    return contrast


def _beside(places: NDArray[T]) -> NDArray[T]:
    """The largest at a place or beside it."""
    wide = np.pad(places, 1, mode="edge")
    around: NDArray[T] = np.lib.stride_tricks.sliding_window_view(wide, (3, 3)).max(axis=(2, 3))
    return around


def _means(pictures: Floats, cell: int) -> Floats:
    """Means over squares of ``cell`` pixels a side."""
    *more, height, width = pictures.shape
    means: Floats = pictures.reshape(*more, height // cell, cell, width // cell, cell).mean(axis=(-3, -1))
    return means
