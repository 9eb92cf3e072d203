"""Straight lines in a map: where one video runs along the other at some speed, either way, and where it jumps.

Slow footage is alike from end to end, so that its likeness is a plateau and a path over it may run anywhere. What
changes tells: a frame is a little more like its own moment than like the moments around. So a cell is worth what it
stands out by above its row and its column nearby, in proportion to how much the footage changes there, and where
nothing changes, its height above the threshold.

Lines of one speed are the columns of the map once it is sheared by that speed. The best way through it, row by row,
stays on its line, or pays for going over to another one, or for being on none: the jumps come out exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Cells = NDArray[np.int64]

AROUND = 6
"""Frames to either side that a cell is held against."""

NOISE = 0.02
"""Change below which frames hardly differ but by how they were encoded."""

SPEEDS = (1.0, 0.25, 1 / 3, 0.5, 2 / 3, 0.75, 0.8, 1.25, 4 / 3, 1.5, 2.0, 3.0, 4.0)
"""Frames of the target for one of the query that are tried, either way."""

LINE = 1.0
"""Cost of a line, which must be worth more."""

PLATEAU, OFF = 0.3, 0.12
"""Weight of height alone where footage changes, and cost of a cell there that does not stand out."""

OTHERWISE = 0.92
"""Part of their worth that lines count for which do not run forwards at equal speed."""

BESIDE = 3
"""Frames beside a line that show the same, too."""

HALF = 2
"""Places between two frames that a line may pass through."""

SLACK = 1e-4
"""By which sums of worth may be off as they are rounded."""


@dataclass(frozen=True, eq=False)
class Run:
    """Cells of one line, [N, 2], and what they are worth."""

    cells: Cells
    worth: float
    speed: float

    def turned(self, columns: int) -> Run:
        """The same in a map of so many columns that was read from right to left."""
        cells = np.stack([self.cells[:, 0], columns - 1 - self.cells[:, 1]], axis=1)
        return Run(cells, self.worth, -self.speed)


def changes(own: Floats) -> Floats:
    """How much each frame of a video differs from those around, [T], from the likeness of its frames [T, T].

    Of those around, less than half count, the most alike: the rest may belong to another shot.
    """
    frames = len(own)
    if frames < 2:
        return np.zeros(frames, np.float32)
    apart = np.abs(np.arange(frames)[:, None] - np.arange(frames)[None, :])
    near = np.where((apart >= 1) & (apart <= AROUND), 1 - own, np.nan)
    return np.asarray(np.nanquantile(near, 0.4, axis=1), np.float32)


@dataclass(frozen=True, eq=False)
class Relief:
    """Worth of the cells of a map, [X, Y], and how far they stand out."""

    worth: Floats
    stands_out: Floats

    @classmethod
    def of(cls, block: Floats, threshold: float, query: Floats | None, target: Floats | None) -> Relief:
        """From a map, and how much both videos change around each frame.

        None: that is in the map already, whose cells are worth what they stand above the threshold.
        """
        level = np.asarray(block, np.float32) - np.float32(threshold)
        beside = np.maximum.reduce([_half(level, axis, way) for axis in (0, 1) for way in (1, -1)])
        out = level - beside
        if query is None or target is None:
            return cls(level, out)
        change = np.sqrt(np.maximum(query, 0)[:, None] * np.maximum(target, 0)[None, :])
        out = np.clip(out / (change + NOISE), -1, 1)
        told = change / (change + NOISE)
        plain = np.clip(level, -0.5, 0.5)
        out = np.where(level < 0, np.minimum(out, 0), out)  # among strangers something always stands out
        worth = (1 - told) * plain + told * (out + PLATEAU * plain - OFF)
        return cls(worth.astype(np.float32), (told * out).astype(np.float32))

    def without(self, cells: Cells) -> Relief:
        """Less what lies within :data:`BESIDE` frames of some cells."""
        worth = self.worth.copy()
        for aside in range(-BESIDE, BESIDE + 1):
            places = (cells[:, 1] + aside).clip(0, worth.shape[1] - 1)
            worth[cells[:, 0], places] = -1.0
        return Relief(worth, self.stands_out)

    def runs(
        self, speeds: Sequence[float] = SPEEDS, ways: Sequence[int] = (1, -1), price: float = LINE
    ) -> list[Run]:
        """The lines of the one speed and direction that are worth most together; none where none is worth it.

        Frames of one video that are met on several lines count once: one speed is likelier than many repeats.
        """
        best: tuple[float, list[Run]] = (0.0, [])
        columns = self.worth.shape[1]
        # No way is worth more than the best cells of all rows; or of all columns, where it is on each of those once.
        most = [float(np.maximum(self.worth.max(axis=axis), 0).sum()) - price + SLACK for axis in (1, 0)]
        left = [(speed, way) for speed in speeds for way in ways]
        while left := [one for one in left if most[one[0] < 1] * _share(*one) > best[0]]:
            # The usual one by itself: what it is worth mostly tells that no other need be looked at.
            tried, left = (left[:1], left[1:]) if _share(*left[0]) == 1.0 else (left, [])
            for (speed, way), runs in zip(tried, _at_speeds(self.worth, tried, price), strict=True):
                total = _together(runs) * _share(speed, way)
                if total > best[0] + 1e-6:
                    best = total, runs if way > 0 else [run.turned(columns) for run in runs]
        return best[1]


def _share(speed: float, way: int) -> float:
    """Part of their worth that lines of a speed and direction count for."""
    return 1.0 if speed == 1.0 and way == 1 else OTHERWISE


def _half(level: Floats, axis: int, way: int) -> Floats:
    """The mean of the cells that follow each cell on an axis, or come before it; of none, the lowest there is.

    By halves, since at the edge of a plateau one side is low and the other tells.
    """
    along = np.moveaxis(level, axis, 1)[:, ::way].astype(np.float64)
    sums = np.pad(np.cumsum(along, axis=1), ((0, 0), (1, AROUND)), mode="edge")
    sums[:, 0] = 0
    length = along.shape[1]
    first = np.arange(1, length + 1)
    last = np.minimum(first + AROUND, length)
    count = last - first
    mean = (sums[:, last] - sums[:, first]) / np.maximum(count, 1)
    found = np.where(count > 0, mean, along.min())
    return np.moveaxis(found[:, ::way], 1, axis).astype(np.float32)


def _together(runs: Sequence[Run]) -> float:
    """Worth of runs; those of frames that another run has taken count less."""
    total = 0.0
    taken: tuple[set[int], set[int]] = set(), set()
    for run in sorted(runs, key=lambda run: -run.worth):
        fresh = 1.0
        for axis in range(2):
            frames = set(run.cells[:, axis].tolist())
            fresh = min(fresh, len(frames - taken[axis]) / len(frames))
            taken[axis].update(frames)
        total += run.worth * fresh
    return total


def _at_speeds(value: Floats, tried: Sequence[tuple[float, int]], price: float) -> list[list[Run]]:
    """For each speed and direction, the best way through a map along its lines; all in one pass, and turned, another.

    Lines that cannot be worth their price are not looked at.
    """
    found: list[list[Run]] = [[] for _ in tried]
    for slow in (False, True):  # slower than the query: then each frame of the target is on a line once
        chosen = [i for i, (speed, _) in enumerate(tried) if (speed < 1) is slow]
        maps = {way: value[:, ::way].T if slow else value[:, ::way] for _, way in tried}
        gaining = np.flatnonzero(np.any([(one > 0).any(axis=1) for one in maps.values()], axis=0))
        if not len(gaining) or not chosen:
            continue
        rows = np.arange(gaining[0], gaining[-1] + 1)
        sheared, places = zip(
            *(_sheared(maps[tried[i][1]], rows, tried[i][0], price) for i in chosen), strict=True
        )
        for i, where, pieces in zip(chosen, places, _ways(sheared, price), strict=True):
            for first, last, line, total in pieces:
                cells = np.stack([rows[first : last + 1], where[first : last + 1, line]], axis=1)
                found[i].append(Run(cells[:, ::-1] if slow else cells, total, tried[i][0]))
    return found


def _sheared(value: Floats, rows: Cells, speed: float, price: float) -> tuple[Floats, Cells]:
    """The cells that lines of a speed meet on some rows of a map, and their columns, [rows, lines]."""
    speed = max(speed, 1 / speed)
    columns = value.shape[1]
    offsets = _worthwhile(value, speed, price) / HALF
    places = np.rint(rows[:, None] * speed + offsets[None, :]).astype(np.int64)
    there = (places >= 0) & (places < columns)
    return np.where(there, value[rows[:, None], places.clip(0, columns - 1)], np.float32(-1.0)), places


def _worthwhile(value: Floats, speed: float, price: float) -> Cells:
    """The lines of a speed that gain more than they cost, by where they meet the first row, in steps of 1 / HALF."""
    rows, columns = np.nonzero(value > 0)
    # A line meets a cell that it passes within half a frame of.
    first = np.ceil(HALF * (columns - rows * speed - 0.5) - 1e-6).astype(np.int64)
    met = first[:, None] + np.arange(HALF + 1)
    lowest = int(met.min())
    sums = np.bincount((met - lowest).ravel(), np.repeat(value[rows, columns], HALF + 1))
    return np.flatnonzero(sums > price - SLACK) + lowest


def _ways(maps: Sequence[Floats], price: float) -> list[list[tuple[int, int, int, float]]]:
    """First row, last row, line and worth of each piece of the best way down each map, on a line or on none.

    Maps [rows, lines] are gone through side by side.
    """
    known = [number for number, one in enumerate(maps) if one.shape[1]]
    found: list[list[tuple[int, int, int, float]]] = [[] for _ in maps]
    if not known:
        return found
    lines = np.array([maps[number].shape[1] for number in known])
    stops = np.cumsum(lines)
    starts = stops - lines
    owner = np.repeat(np.arange(len(known)), lines)
    wide = np.concatenate([maps[number] for number in known], axis=1)
    rows = len(wide)
    stay = np.zeros(wide.shape, bool)
    came = np.full((rows + 1, len(known)), -1, np.int64)  # the line that the best way off all lines came from
    off = np.zeros(len(known))
    on = np.full(wide.shape[1], -np.inf)
    offs = np.zeros((rows + 1, len(known)))
    for row in range(rows):
        entering = (off - price)[owner]
        np.greater(on, entering, out=stay[row])
        on = np.maximum(on, entering) + wide[row]
        highest = np.maximum.reduceat(on, starts)
        for place in np.flatnonzero(highest > off).tolist():
            came[row + 1, place] = int(np.argmax(on[starts[place] : stops[place]]))
        off = np.maximum(off, highest)
        offs[row + 1] = off
    for place, number in enumerate(known):
        own = slice(starts[place], stops[place])
        found[number] = _pieces(stay[:, own], came[:, place], offs[:, place])
    return found


def _pieces(
    stay: NDArray[np.bool_], came: Cells, offs: NDArray[np.float64]
) -> list[tuple[int, int, int, float]]:
    """The way back up one map: where it stayed on its line, which line it came from, what it was worth by then."""
    pieces = []
    row = len(stay)
    while row > 0:
        line = int(came[row])
        if line < 0:
            row -= 1
            continue
        last = row - 1
        while stay[row - 1, line]:
            row -= 1
        first = row - 1
        pieces.append((first, last, line, float(offs[last + 1] - offs[first])))
        row = first
    return pieces[::-1]
