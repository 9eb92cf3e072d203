"""A second look at moments that miniatures call the same: larger, and in colour.

A miniature shows neither small words nor colour. So some moments of both files are laid over each other once more, at
up to twenty-five times the pixels. What one file shows in a place where the other shows something else is missing there: a
station's logo, a line of a slide, other colours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visil.footage.levels import levelled

if TYPE_CHECKING:
    from visil.video import Image

Floats = NDArray[np.float32]

SIDE = 320
"""Pixels a side, at most: no more than the smaller of the two has."""
CELL = 4
"""Pixels a side of the places that are compared: coding noise of one sign does not fill one."""
OTHER = 6.0
"""Levels of 255 by which the mean of a place may differ (coding at CRF 34: 4),"""
OF_CONTRAST = 0.4
"""and by which part of the contrast that both pictures have around it."""

COLOUR_CELL = 16
COLOUR_OTHER = 10.0
"""Levels of 255 by which the colour of a place may differ, if it has as much colour."""
PALEST, STRONGEST = 0.8, 1.25
"""Colour of the one to the other: video levels taken for each other come to 0.88 and 1.14."""


def missing(one: Image, two: Image) -> tuple[bool, bool]:
    """Whether a picture shows something that another of the same moment does not, and the other way round."""
    side = min(SIDE, *one.shape[:2], *two.shape[:2]) // COLOUR_CELL * COLOUR_CELL
    if side == 0:
        return True, True  # too small to tell
    mine, theirs = (_colours(picture, side) for picture in (one, two))
    if _other_shapes(mine[0], theirs[0]):
        return True, True
    return _other_colours(mine[1:], theirs[1:]), _other_colours(theirs[1:], mine[1:])


def unlike(one: Image, two: Image) -> float:
    """How far two pictures are apart, at a glance."""
    from PIL import Image as pillow

    small = [
        pillow.fromarray(np.ascontiguousarray(picture)).convert("L").resize((64, 64))
        for picture in (one, two)
    ]
    return float(np.mean(np.square(np.asarray(small[0], np.float32) - np.asarray(small[1], np.float32))))


def _colours(picture: Image, side: int) -> Floats:
    """Brightness and two differences of colour [3, side, side], the whole picture made square."""
    from PIL import Image as pillow

    small = pillow.fromarray(np.ascontiguousarray(picture)).resize((side, side), pillow.Resampling.BOX)
    colours: Floats = np.asarray(small.convert("YCbCr"), np.float32).transpose(2, 0, 1)
    return colours


def _other_shapes(one: Floats, two: Floats) -> bool:
    (mine,) = levelled(one[None], two[None])
    apart = np.abs(_means(mine - two, CELL))
    contrast = np.minimum(_contrast(mine), _contrast(two))
    return bool((apart > OTHER + OF_CONTRAST * contrast).any())


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
    wide = np.pad(np.stack([spread, means, -means]), ((0, 0), (1, 1), (1, 1)), mode="edge")
    around = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(1, 2)).max(axis=(3, 4))
    contrast: Floats = np.maximum(around[0], (around[1] + around[2]) / 2)
    return contrast


def _means(pictures: Floats, cell: int) -> Floats:
    """Means over squares of ``cell`` pixels a side."""
    *more, height, width = pictures.shape
    means: Floats = pictures.reshape(*more, height // cell, cell, width // cell, cell).mean(axis=(-3, -1))
    return means
