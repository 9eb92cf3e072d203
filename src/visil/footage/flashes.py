"""Every single picture of two videos that hold the same moments: a frame that only one of them has is found here.

Moments are four a second (:mod:`visil.footage.containment`); what is shown for less lies between them. So all pictures
of both are laid beside each other, as means over blocks. A picture of the one must be seen within an eighth of a second
of its place in the other, up to how much moves from picture to picture around it; and the other must not show,
for a moment, what the one does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from visil.footage.containment import Floats, Stretch
from visil.footage.levels import levelled
from visil.footage.miniatures import CELL_RATE, Miniatures

Flags = NDArray[np.bool_]

NEAR = CELL_RATE // 8
"""Pictures before and after its place that one is looked for at."""
AROUND = CELL_RATE
"""Pictures before and after it by which what moves is measured."""
OTHER = 16.0
"""Levels of 255 by which a block may differ beyond that. Copies of a quarter of the size at CRF 35 stay below 6."""
MOTION = 1.5
"""Times what moves from one picture to the next, around it."""
LONELY = 2.0
"""How many times farther than from each other a flash is from the pictures before and after it."""
SHOWN = 12.0
"""Levels from the darkest to the brightest block of a picture that is looked for though no stretch covers it."""
STEP = 3.0
"""Levels by which a block must change for something to have moved,"""
PART = 0.25
"""and part of what changes around it."""
SMOOTHER = 1.25
"""How many times as often something moves in the smoother of two,"""
FEWEST = 12
"""if it does so as often as that."""
CHUNK = 4096


def unseen(first: Miniatures, other: Miniatures, stretches: Sequence[Stretch]) -> float:
    """Part of the pictures of a video that are not in another, or stand in the other instead of them."""
    mine, theirs = first.cells, other.cells
    if not len(mine) or not len(theirs):
        return 0.0
    count = 0
    owner = _nearest(np.arange(len(mine)) / CELL_RATE, stretches)
    for number, (start, end, offset) in enumerate(stretches):
        late = round(offset * CELL_RATE)
        inside = np.zeros(len(mine), np.bool_)
        inside[round(start * CELL_RATE) : round(end * CELL_RATE)] = True
        beside = (owner == number) & (_range(mine) > SHOWN) & ~inside
        count += int(_unlike(mine, theirs, np.flatnonzero(inside | beside), late).sum())
        there, instead = (
            places[(places >= 0) & (places < len(theirs))]
            for places in (np.flatnonzero(inside) + late, np.flatnonzero(beside) + late)
        )
        others = np.concatenate([there[_lonely(theirs, there)], instead])
        count += int(_unlike(theirs, mine, others, -late).sum())
    return min(1.0, count / len(mine))


def _range(pictures: NDArray[np.uint8]) -> NDArray[np.int16]:
    """From the darkest block of each to the brightest."""
    flat = pictures.reshape(len(pictures), -1).astype(np.int16)
    found: NDArray[np.int16] = flat.max(axis=1) - flat.min(axis=1)
    return found


def _nearest(times: NDArray[np.float64], stretches: Sequence[Stretch]) -> NDArray[np.int64]:
    """Which stretch each time is in, or nearest to."""
    away = [np.maximum(np.maximum(start - times, times - end), 0.0) for start, end, _ in stretches]
    nearest: NDArray[np.int64] = np.argmin(away, axis=0) if away else np.full(len(times), -1)
    return nearest


def _unlike(
    mine: NDArray[np.uint8], theirs: NDArray[np.uint8], places: NDArray[np.int64], late: int
) -> Flags:
    """Which pictures of one video are not in another near their place."""
    found = np.zeros(len(places), np.bool_)
    for start in range(0, len(places), CHUNK):
        part = places[start : start + CHUNK]
        left = np.arange(len(part))
        allowed = OTHER + MOTION * _moves(mine, part)
        for beside in sorted(range(-NEAR, NEAR + 1), key=abs):
            there = np.clip(part[left] + late + beside, 0, len(theirs) - 1)
            one, two = mine[part[left]].astype(np.float32), theirs[there].astype(np.float32)
            apart = np.abs(levelled(one, two) - two).max(axis=(1, 2))
            left = left[apart > allowed[left]]
            if not len(left):
                break
        found[start + left] = True
    return found


def _moves(pictures: NDArray[np.uint8], places: NDArray[np.int64]) -> Floats:
    """By how much a block changes from picture to picture, in most of those around some places."""
    if not len(places):
        return np.zeros(0, np.float32)
    low, high = max(0, int(places.min()) - AROUND), min(len(pictures), int(places.max()) + AROUND + 2)
    near = pictures[low:high].astype(np.float32)
    steps = np.abs(np.diff(near, axis=0)).max(axis=(1, 2))
    if not len(steps):
        return np.zeros(len(places), np.float32)
    width = min(2 * AROUND, len(steps))
    windows = np.lib.stride_tricks.sliding_window_view(steps, width)
    middle = np.clip(places - low - width // 2, 0, len(windows) - 1)
    moves: Floats = np.median(windows[middle], axis=1).astype(np.float32)
    return moves


def _lonely(pictures: NDArray[np.uint8], places: NDArray[np.int64]) -> Flags:
    """Which pictures are unlike those before and after them, though these are alike."""
    last = len(pictures) - 1
    here = pictures[places].astype(np.float32)
    lonely = np.zeros(len(places), np.bool_)
    for beside in range(2, NEAR + 1):
        back, on = places - beside, places + beside
        # At either end, the two next on the one side.
        back, on = np.where(back < 0, on + beside, back), np.where(on > last, back - beside, on)
        before, after = (pictures[np.clip(one, 0, last)].astype(np.float32) for one in (back, on))
        near = np.minimum(*(np.abs(here - other).max(axis=(1, 2)) for other in (before, after)))
        lonely |= near > OTHER + LONELY * np.abs(after - before).max(axis=(1, 2))
    return lonely


def smoother(first: Miniatures, other: Miniatures, stretches: Sequence[Stretch]) -> bool:
    """Whether a video goes on from picture to picture where another, at as many frames a second, holds some."""
    counts = np.zeros(2, np.int64)
    for start, end, offset in stretches:
        late = round(offset * CELL_RATE)
        begin = max(round(start * CELL_RATE), -late)
        stop = min(round(end * CELL_RATE), len(first.cells), len(other.cells) - late)
        if stop - begin < 2:
            continue
        mine, theirs = (
            _steps(cells) for cells in (first.cells[begin:stop], other.cells[begin + late : stop + late])
        )
        around = np.ones(2 * AROUND + 1) / (2 * AROUND + 1)
        usual = np.convolve(np.pad(mine, AROUND, mode="edge"), around, mode="valid")
        least = np.maximum(STEP, PART * usual)
        counts += [int((steps > least).sum()) for steps in (mine, theirs)]
    return bool(counts[0] >= FEWEST and counts[0] > SMOOTHER * counts[1])


def _steps(cells: NDArray[np.uint8]) -> Floats:
    """By how much the block that changes most does so, from each picture to the next."""
    parts = [
        np.abs(np.diff(cells[at : at + CHUNK + 1].astype(np.float32), axis=0)).max(axis=(1, 2))
        for at in range(0, len(cells) - 1, CHUNK)
    ]
    steps: Floats = np.concatenate(parts)
    return steps
