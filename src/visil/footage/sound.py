"""Whether the sound of one file is heard in another: all of it, also where there is nothing to see.

Pictures say how far apart in time two files are. Each moment of a track, also one over black or after the last picture,
is compared at the distance of the nearest stretch that pictures show.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visil.video.sound import BLOCKS, SILENCE

if TYPE_CHECKING:
    from visil.footage.containment import Stretch
    from visil.video.sound import Bands

Flags = NDArray[np.bool_]

LOUD = (-65.0, 60.0)
"""Decibels that a moment must reach to be heard: outright, and below the loudest."""
DEPTH = 30.0
"""Decibels below the loudest band of a moment at which a band is no longer heard beside it."""
LOUDER = 18.0
"""Decibels by which all of a track may be louder or softer: what is silent is not the same, only softer."""
SAME = 6.0
"""Decibels by which the bands of one moment that are heard may differ, on the average."""
MOSTLY = 0.9
"""Part of the moments that are heard which must sound the same,"""
FEW = 6
"""and how many within one second of them may not: three eighths of a second. Coding may miss these, never a word."""
LATENESS = range(-BLOCKS // 2, BLOCKS // 2 + 1)
"""Halves of moments by which sound may be ahead or behind in the other file: a quarter of a second."""


def heard_in(mine: Sequence[Bands], theirs: Sequence[Bands], stretches: Sequence[Stretch]) -> bool:
    """Whether each sound track of a file is one of another's; a silent one is in any."""
    return all(_is_silent(one) or any(_same(one, two, stretches) for two in theirs) for one in mine)


def _is_silent(track: Bands) -> bool:
    return not len(track) or float(track.max()) < LOUD[0]


def _same(one: Bands, two: Bands, stretches: Sequence[Stretch]) -> bool:
    loudness = one.max(axis=1)
    heard = np.flatnonzero(loudness > max(LOUD[0], float(loudness.max()) - LOUD[1]))
    nearest = _nearest(heard, stretches)
    same = np.zeros(len(heard), np.bool_)
    for number, (_, _, offset) in enumerate(stretches):
        part = heard[nearest == number]
        if len(part):
            there = part + round(offset * BLOCKS)
            tries = (_alike(one[part], _at(two, there, late / 2)) for late in LATENESS)
            same[nearest == number] = max(tries, key=np.count_nonzero)
    other = np.convolve(~same, np.ones(BLOCKS, np.int64))
    return float(same.mean()) >= MOSTLY and int(other.max()) <= FEW


def _nearest(moments: NDArray[np.intp], stretches: Sequence[Stretch]) -> NDArray[np.intp]:
    """Which stretch is the nearest to each moment."""
    distance = np.full(len(moments), np.inf)
    nearest = np.zeros(len(moments), np.intp)
    for number, (start, end, _) in enumerate(stretches):
        away = np.maximum(np.maximum(start - moments / BLOCKS, moments / BLOCKS - end), 0.0)
        nearest[away < distance] = number
        distance = np.minimum(distance, away)
    return nearest


def _at(track: Bands, moments: NDArray[np.intp], late: float) -> Bands:
    """A track some moments later, if need be between two; silence before and after it."""
    if late % 1:
        between: Bands = np.float32(0.5) * (_at(track, moments, late - 0.5) + _at(track, moments, late + 0.5))
        return between
    moments = moments + int(late)
    found = np.full((len(moments), track.shape[1]), SILENCE, np.float32)
    inside = (moments >= 0) & (moments < len(track))
    found[inside] = track[moments[inside]]
    return found


def _alike(mine: Bands, theirs: Bands) -> Flags:
    """Which moments sound the same, louder or softer as a whole apart."""
    clear = mine > mine.max(axis=1, keepdims=True) - DEPTH
    theirs = theirs + np.clip(np.median((mine - theirs)[clear]), -LOUDER, LOUDER)
    floor = np.maximum(mine, theirs).max(axis=1, keepdims=True) - DEPTH
    mine, theirs = np.maximum(mine, floor), np.maximum(theirs, floor)
    heard = np.maximum(mine, theirs) > floor
    alike: Flags = (np.abs(mine - theirs) * heard).sum(axis=1) < SAME * heard.sum(axis=1)
    return alike
