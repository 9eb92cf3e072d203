"""One straight line through a map of frames some parts of a second apart: its place, its speed, and its ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from visil.matching.localize import Segment

Floats = NDArray[np.float64]

PER_SECOND = 4
"""Frames a second of such a map."""

REACH = 1.25
"""Seconds by which either end of the line through a stretch is moved in search of its place."""

STEP = 0.125
"""Seconds between the places tried."""

STRAY = 0.004
"""Worth of a frame by which a line must be better for each step that it lies from where a frame a second saw it."""

TO_THE_EDGE = 0.5
"""The most that a stretch may lose by running on to the beginning or end of a video."""

AT_THE_EDGE = 0.4
"""Seconds from the beginning or end of a video within which a stretch begins or ends with it."""

NEARLY = 1.1
"""Speeds up to which, either way, a stretch is tried at equal speed first."""


@dataclass(frozen=True)
class Line:
    """Which moment of the target belongs to which of the query: from (start, first) to (end, last)."""

    start: float
    end: float
    first: float
    last: float

    @classmethod
    def of(cls, segment: Segment) -> Line:
        """Through a segment's corners."""
        ends = segment.target[::-1] if segment.reversed else segment.target
        return cls(*segment.query, *ends)

    def between(self, start: float, end: float) -> Line:
        """The same line from one time of the query to another."""
        first, last = self.at(np.array([start, end]))
        return Line(start, end, float(first), float(last))

    def at(self, time: Floats) -> Floats:
        """The target's moments."""
        share = (time - self.start) / max(self.end - self.start, 1e-6)
        return np.asarray(self.first + share * (self.last - self.first), np.float64)


@dataclass(frozen=True, eq=False)
class Seen:
    """Worth of the cells [X, Y] of frames at some times (:class:`visil.matching.straight.Relief`)."""

    query: Floats
    target: Floats
    worth: Floats

    def along(self, line: Line) -> Floats:
        """The worth of each frame of the query with its moment of the target, between frames in proportion.

        NaN where that moment was not looked at.
        """
        there = line.at(self.query)
        after = np.searchsorted(self.target, there - 1e-9).clip(1, len(self.target) - 1)
        gap = self.target[after] - self.target[after - 1]
        share = (there - self.target[after - 1]) / gap
        rows = np.arange(len(self.query))
        values = (1 - share) * self.worth[rows, after - 1] + share * self.worth[rows, after]
        off = (share < -0.5) | (share > 1.5) | (gap > 1.5 / PER_SECOND)
        return np.where(off, np.nan, values)


def natural(line: Line) -> Line:
    """The line at equal speed through its middle, where it is nearly that: a frame a second tells it no better."""
    length, there = line.end - line.start, line.last - line.first
    if not 1 / NEARLY <= abs(there) / max(length, 1e-6) <= NEARLY and abs(abs(there) - length) > 1.0:
        return line
    middle, half = (line.first + line.last) / 2, float(np.copysign(length / 2, there))
    return replace(line, first=middle - half, last=middle + half)


def fitted(seen: Seen, line: Line) -> Line:
    """The line moved at both ends to where the frames between are most alike; not without need."""
    inside = (seen.query >= line.start) & (seen.query < line.end)
    if inside.sum() < 2:
        return line
    part = Seen(seen.query[inside], seen.target, seen.worth[inside])
    line = natural(line)
    tries = np.arange(-REACH, REACH + STEP / 2, STEP)
    best, chosen = -np.inf, line
    for at_start in tries:
        for at_end in tries:
            moved = replace(line, first=line.first + at_start, last=line.last + at_end)
            if (moved.last - moved.first) * (line.last - line.first) <= 0:
                continue
            values = part.along(moved)
            known = np.isfinite(values)
            if known.sum() < 0.6 * len(values):
                continue
            stray = abs(at_start - at_end) + 0.25 * abs(at_start + at_end)
            worth = float(values[known].mean()) - STRAY * stray / STEP
            if worth > best:
                best, chosen = worth, moved
    return chosen


def ends(seen: Seen, line: Line, query_duration: float, target_duration: float) -> tuple[float, float]:
    """When the stretch begins and ends in the query: from its middle outwards, for as long as it is worth it."""
    values = seen.along(line)
    low, high = bounds(line, query_duration, target_duration)
    middle = (line.start + line.end) / 2
    known = np.isfinite(values)
    before, after = known & (seen.query <= middle), known & (seen.query > middle)
    start = _end(seen.query[before][::-1], values[before][::-1], low, line.start)
    end = _end(seen.query[after], values[after], high, line.end)
    return (start, end) if end - start >= 1 / PER_SECOND else within(line, query_duration, target_duration)


def within(line: Line, query_duration: float, target_duration: float) -> tuple[float, float]:
    """A line's own ends, as far as both videos run."""
    low, high = bounds(line, query_duration, target_duration)
    return max(low, line.start), min(high, line.end)


def bounds(line: Line, query_duration: float, target_duration: float) -> tuple[float, float]:
    """The first and last moment of the query at which both videos run."""
    speed = (line.last - line.first) / max(line.end - line.start, 1e-6)
    edges = sorted(line.start + (edge - line.first) / speed for edge in (0.0, target_duration))
    return max(0.0, edges[0]), min(query_duration, edges[1])


def _end(times: Floats, values: Floats, bound: float, expected: float) -> float:
    """The time up to which values, from the inside of a stretch outwards, are worth most; ``bound`` is the last."""
    if not len(values):
        return expected
    sums = np.cumsum(values)
    last = int(np.argmax(sums))
    if abs(bound - times[-1]) <= 1.5 / PER_SECOND and sums[-1] >= sums[last] - TO_THE_EDGE:
        last = len(values) - 1
    step = float(np.sign(bound - times[0])) / PER_SECOND
    end = float(times[last]) + step / 2
    reached = last == len(values) - 1 and abs(bound - times[last]) <= 1.5 / PER_SECOND
    return bound if reached or abs(bound - end) <= AT_THE_EDGE else end
