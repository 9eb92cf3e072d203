"""Whether the sound of one file is heard in another, at the moments that show the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from visil.video.sound import BLOCKS, SILENCE

if TYPE_CHECKING:
    from visil.footage.containment import Stretch
    from visil.video.sound import Bands

LOUD = (-55.0, 40.0)
"""Decibels that a moment must reach to be heard: outright, and below the loudest."""
SAME = 6.0
"""Decibels by which bands of one moment may differ, on the average: another coding stays below 3."""
MOSTLY = 0.9
"""Part of the moments that are heard which must sound the same."""
EARLY_OR_LATE = 2
"""Eighths of a second by which sound may be ahead or behind in the other file."""


def heard_in(mine: Sequence[Bands], theirs: Sequence[Bands], stretches: Sequence[Stretch]) -> bool:
    """Whether each sound track of a file is one of another's; a silent one is in any."""
    return all(any(_same(one, two, stretches) for two in theirs) or _is_silent(one) for one in mine)


def _is_silent(track: Bands) -> bool:
    return not len(track) or float(track.max()) < LOUD[0]


def _same(one: Bands, two: Bands, stretches: Sequence[Stretch]) -> bool:
    places = [
        (np.arange(round(start * BLOCKS), round(end * BLOCKS)), round(offset * BLOCKS))
        for start, end, offset in stretches
    ]
    here = np.concatenate([moments for moments, _ in places])
    there = np.concatenate([moments + offset for moments, offset in places])
    mine = _at(one, here)
    loudness = mine.max(axis=1)
    heard = loudness > max(LOUD[0], float(loudness.max(initial=SILENCE)) - LOUD[1])
    if not heard.any():
        return True
    return (
        max(
            _agreeing(mine[heard], _at(two, there[heard] + late))
            for late in range(-EARLY_OR_LATE, EARLY_OR_LATE + 1)
        )
        >= MOSTLY
    )


def _at(track: Bands, moments: np.ndarray) -> Bands:
    """A track at some moments; silence before and after it."""
    found = np.full((len(moments), track.shape[1]), SILENCE, np.float32)
    inside = (moments >= 0) & (moments < len(track))
    found[inside] = track[moments[inside]]
    return found


def _agreeing(mine: Bands, theirs: Bands) -> float:
    """Part of the moments that sound the same, louder or softer as a whole apart."""
    apart = mine - theirs
    apart = apart - np.median(apart)
    return float((np.abs(apart).mean(axis=1) < SAME).mean())
