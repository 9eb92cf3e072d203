"""Whether every moment of one video has a counterpart of its own in another, in order and at the same speed.

Both are laid out as small pictures (:mod:`visil.footage.miniatures`). A moment of the one is *shown* where a picture
of the other is the same up to coding noise, and where it lies on a *run*: a stretch of two seconds or more at one
distance in time. Runs follow each other in both videos, so no moment of the other counts twice and a path that bends
over a cut shows nothing. A run must also be where it is and nowhere else: shifted by some seconds it no longer fits.
A camera that sees nothing change fits everywhere, and so shows nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from visil.footage.levels import levelled
from visil.footage.miniatures import CELL, SIDE, Miniatures

Span = tuple[float, float]
Stretch = tuple[float, float, float]
"""From and to which second of one video, and how much later it is in the other."""
Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]

MOMENTS = 4
"""Moments of the first video that are looked for, a second."""

PIXEL = 22.0
"""Levels of 255 by which a pixel of a miniature may differ beyond what moves there,"""
BLOCK = 6.0
"""and the mean over a block of them. Recoding at a quarter of the size and CRF 32 stays below 16 and 4."""
MOVING = 0.75
"""Part of what changes in both within an eighth of a second that counts as motion between the two moments compared."""

PLAIN = 16
"""A picture whose brightest pixel is less than so many levels above its darkest,"""
PLAIN_BLOCK = 3.0
"""and whose brightest block less than so many above its darkest, shows nothing that a miniature could lose."""

SHORTEST_RUN = 2.0
"""Seconds; all of the video, where that is shorter."""

MOSTLY = 0.9
"""Part of a run that must fit for single moments between two that fit to count with them."""

ELSEWHERE = (2.0, 30.0)
"""From and to how many seconds a run is shifted to see that it fits only where it is,"""
ELSEWHERE_STEP = 0.5
CHANGED = 6
"""and at how many moments it must no longer fit then."""
LOOKED_AT = 64
"""Moments of a run that are shifted, those around which it changes most."""

AROUND = 1.5
"""Seconds on both sides of a guessed distance in time that are tried."""
MOST_OFFSETS = 4000
MOST_RUNS = 400

WHOLE = 0.99
"""Share of a video that is all of it,"""
LONGEST_GAP = 0.25
"""if no more than so many seconds in a row are missing; of a short one, so many seconds may be missing."""

CUT = 1.5
"""Seconds by which two runs may lie nearer or farther apart in the other video without anything having been cut:"""
DRIFT = (0.34, 0.01)
"""clocks that are a little off, so many seconds and so large a part of it at most; more is another speed."""

ROUGHLY = 1.5
"""By how much the means of blocks may differ more than blocks, as contrast is fitted to less of the picture."""

FEWEST_LOOKS, LOOK_EVERY, MOST_LOOKS = 8, 0.5, 1200
"""Moments that are looked at closer: at least, every so many seconds, and at most."""

CHUNK = 256
"""Moments that are compared at once."""


@dataclass(frozen=True)
class Containment:
    """How much of one video was shown to be in another."""

    seconds: float
    """Of the first that the other shows,"""
    of: float
    """of so many that it has."""
    whole: bool
    """Whether that is all of it."""
    moments: tuple[tuple[float, float], ...] = ()
    """Some of the moments, in the first and in the other, evenly spread and as still as there are; and those that count
    only because the ones before and after them do."""
    stretches: tuple[Stretch, ...] = ()
    """Where the other shows it."""
    blank: tuple[float, ...] = ()
    """Moments that count only because miniatures show nothing at them."""

    @property
    def share(self) -> float:
        """Part of the first."""
        return self.seconds / self.of if self.of else 0.0

    def less(self, part: float) -> Containment:
        """Where a closer look found something else at a part of the moments."""
        if part == 0:
            return self
        return replace(self, whole=False, seconds=round(self.seconds * (1 - part), 2))


NOTHING = Containment(0.0, 0.0, whole=False)


@dataclass(frozen=True, eq=False)
class Run:
    """Moments [start, stop) that fit at one distance in time, in pictures of the other video."""

    start: int
    stop: int
    offset: int
    fitting: NDArray[np.int64]
    """How many moments before each of the first video fit at this distance, single gaps not bridged."""

    def fit(self, start: int) -> int:
        """How many moments from ``start`` on fit."""
        return int(self.fitting[self.stop] - self.fitting[start])


def contained(first: Miniatures, other: Miniatures, guesses: Iterable[tuple[Span, Span]]) -> Containment:
    """How much of ``first`` is in ``other``; ``guesses`` are stretches of both, in seconds, that match."""
    pair = _Pair(first, other)
    guesses = list(guesses)
    found = NOTHING
    for step in (pair.step, 1):  # a still scene fits at every quarter of a second already
        if pair.count and not found.whole:
            runs = _chained(pair.runs(_offsets(first, other, guesses, pair.rate, step)), pair)
            found = _shown(first, pair, runs)
    return found


def _shown(first: Miniatures, pair: _Pair, runs: Sequence[Run]) -> Containment:
    """The containment that a chain of runs shows: those of them that fit nowhere else."""
    kept = [
        run
        for together in _at_one_place(runs, pair.rate)
        if pair.fits_only_here(together)
        for run in together
    ]
    if not kept:
        return replace(NOTHING, of=round(first.seconds, 2))
    shown = np.zeros(pair.count, np.bool_)
    doubtful: list[Span] = []
    for run in kept:
        fits = pair.fits(run)
        shown[run.start : run.stop] |= _mostly(fits)
        doubtful += [
            pair.times(run.start + at, run.offset) for at in np.flatnonzero(_mostly(fits) & ~fits).tolist()
        ]
    blank = tuple((np.flatnonzero(pair.plain & ~shown) / MOMENTS).tolist())
    shown |= pair.plain
    share, missing = float(shown.mean()), int((~shown).sum())
    most = round(LONGEST_GAP * MOMENTS)
    whole = missing <= max(most, (1 - WHOLE) * pair.count) and _longest(~shown) <= most
    whole = whole and _drift(kept, pair.rate) <= DRIFT[0] + DRIFT[1] * first.seconds
    seconds = round(share * first.seconds, 2), round(first.seconds, 2)
    stretches = tuple((run.start / MOMENTS, run.stop / MOMENTS, run.offset / pair.rate) for run in kept)
    doubtful = doubtful[:: len(doubtful) // MOST_LOOKS + 1]
    moments = tuple(sorted({*pair.still_moments(kept, shown), *doubtful}))
    return Containment(*seconds, whole, moments, stretches, blank)


class _Pair:
    """Two videos at one rate; moments are counted in those of the first."""

    def __init__(self, first: Miniatures, other: Miniatures) -> None:
        self.rate = min(first.rate, other.rate)
        self.step = self.rate // MOMENTS
        self._all = first.at(self.rate)
        self.first = self._all[:: self.step]
        self.other = other.at(self.rate)
        self.count = len(self.first)
        self._cells = (_cells(self.first), _cells(self.other))
        self.plain: Flags = (_range(self.first) < PLAIN) & (_range(self._cells[0]) < PLAIN_BLOCK)
        places = np.arange(0, len(self._all), self.step), np.arange(len(self.other))
        self._motion = self._motion_cells(self._all, places[0]), self._motion_cells(self.other, places[1])
        self.least = min(self.count, round(SHORTEST_RUN * MOMENTS))

    def same(self, moments: NDArray[np.int64], offset: int) -> Flags:
        """Which moments look like those at ``offset`` in the other video, coding noise and motion apart."""
        there = moments * self.step + offset
        found = (there >= 0) & (there < len(self.other))
        chosen = np.flatnonzero(found)
        # Most do not fit at all, which the means of their blocks tell at a 64th of the cost.
        mine, theirs = self._cells[0][moments[chosen]], self._cells[1][there[chosen]]
        motion = np.minimum(self._motion[0][moments[chosen]], self._motion[1][there[chosen]])
        apart = np.abs(levelled(mine, theirs) - theirs) - MOVING * motion
        far = apart.max(axis=(1, 2)) > ROUGHLY * BLOCK
        found[chosen[far]] = False
        close = chosen[~far]
        for start in range(0, len(close), CHUNK):
            part = close[start : start + CHUNK]
            found[part] = self._same(moments[part], there[part])
        return found

    def _same(self, moments: NDArray[np.int64], there: NDArray[np.int64]) -> Flags:
        mine, theirs = self.first[moments].astype(np.float32), self.other[there].astype(np.float32)
        motion = np.minimum(
            self._motion_at(self._all, moments * self.step), self._motion_at(self.other, there)
        )
        apart = np.abs(levelled(mine, theirs) - theirs)
        single = (apart - MOVING * _spread(motion)).max(axis=(1, 2)) <= PIXEL
        blocks = (_cells(apart) - MOVING * _cells(motion)).max(axis=(1, 2)) <= BLOCK
        result: Flags = single & blocks
        return result

    def _motion_at(self, pictures: Bytes, places: NDArray[np.int64]) -> Floats:
        """The change in a video within an eighth of a second before and after."""
        near, last = max(1, self.rate // 8), len(pictures) - 1
        here = pictures[places].astype(np.float32)
        before, after = np.maximum(places - near, 0), np.minimum(places + near, last)
        motion: Floats = np.maximum(np.abs(pictures[before] - here), np.abs(pictures[after] - here))
        return motion

    def _motion_cells(self, pictures: Bytes, places: NDArray[np.int64]) -> Floats:
        parts = (
            self._motion_at(pictures, places[start : start + CHUNK]) for start in range(0, len(places), CHUNK)
        )
        return np.concatenate([_cells(part) for part in parts])

    def fits(self, run: Run) -> Flags:
        """Which moments of a run fit, by a picture more or less."""
        moments = np.arange(run.start, run.stop)
        fits = self.same(moments, run.offset)
        for beside in (run.offset - 1, run.offset + 1):
            left = np.flatnonzero(~fits)
            if len(left):
                fits[left] = self.same(moments[left], beside)
        return fits

    def times(self, moment: int, offset: int) -> Span:
        """When a moment is in both videos, in seconds."""
        return moment / MOMENTS, (moment * self.step + offset) / self.rate

    def runs(self, offsets: Sequence[int]) -> list[Run]:
        """All runs that are long enough, at some distances in time."""
        found: list[Run] = []
        moments = np.arange(self.count)
        for offset in offsets:
            fits = self.same(moments, offset) & ~self.plain
            fitting = np.concatenate([[0], np.cumsum(fits)])
            found += [
                Run(start, stop, offset, fitting)
                for start, stop in _stretches(_bridged(fits))
                if stop - start >= self.least
            ]
        return sorted(found, key=lambda run: run.start - run.stop)[:MOST_RUNS]

    def fits_only_here(self, runs: Sequence[Run]) -> bool:
        """Whether runs at one distance in time no longer fit when they are shifted against the other video."""
        moments = np.concatenate([np.arange(run.start, run.stop) for run in runs])
        around = round(ELSEWHERE[0] * MOMENTS)
        change = np.zeros(len(moments), np.float32)
        for beside in (moments - around, moments + around):
            near = self._cells[0][np.clip(beside, 0, self.count - 1)]
            np.maximum(change, np.abs(near - self._cells[0][moments]).max(axis=(1, 2)), out=change)
        chosen = np.sort(moments[np.argsort(-change, kind="stable")[:LOOKED_AT]])
        offset = runs[0].offset
        first = min(ELSEWHERE[0], self.count / MOMENTS / 3)
        steps = round((ELSEWHERE[1] - first) / ELSEWHERE_STEP)
        tried = False
        for seconds in (first + i * ELSEWHERE_STEP for i in range(steps + 1)):
            for shift in (-round(seconds * self.rate), round(seconds * self.rate)):
                there = chosen * self.step + offset + shift
                inside = chosen[(there >= 0) & (there < len(self.other))]
                if len(inside) < min(CHANGED, len(chosen) / 2):
                    continue  # too little of it is left to tell
                tried = True
                changed = int((~self.same(inside, offset + shift)).sum())
                if changed < min(CHANGED, len(inside) / 2):
                    return False
        return tried

    def still_moments(self, runs: Sequence[Run], shown: Flags) -> tuple[tuple[float, float], ...]:
        """Moments of runs at even distances, each the stillest of its neighbourhood."""
        count = min(max(FEWEST_LOOKS, round(self.count / MOMENTS / LOOK_EVERY)), MOST_LOOKS)
        pairs = [(moment, run.offset) for run in runs for moment in range(run.start, run.stop)]
        pairs = [pair for pair in pairs if shown[pair[0]] and not self.plain[pair[0]]]
        chosen = []
        for part in np.array_split(np.arange(len(pairs)), min(count, len(pairs)) or 1):
            if len(part):
                chosen.append(self.times(*min((pairs[i] for i in part), key=self._moves)))
        return tuple(chosen)

    def _moves(self, at: tuple[int, int]) -> float:
        moment, offset = at
        return float(self._motion[1][moment * self.step + offset].max())


def _offsets(
    first: Miniatures, other: Miniatures, guesses: Iterable[tuple[Span, Span]], rate: int, step: int
) -> list[int]:
    """Distances in time to try, in pictures: around those that were guessed, and around equal starts and ends."""
    ranges = [(0.0, 0.0), (other.seconds - first.seconds, other.seconds - first.seconds)]
    for (start, end), (start_there, end_there) in guesses:
        both = (start_there - start, end_there - end)
        ranges.append((min(both), max(both)))
    found: set[int] = set()
    for low, high in ranges:
        found.update(range(floor((low - AROUND) * rate), ceil((high + AROUND) * rate) + 1, step))
    return sorted(found)[:MOST_OFFSETS]


def _chained(runs: list[Run], pair: _Pair) -> list[Run]:
    """The runs that together cover most of the first video, in order in both and without overlap."""
    runs = sorted(runs, key=lambda run: (run.stop, run.offset))
    best: list[tuple[int, int, int]] = []  # covered so far, the run before, where this one starts after it
    for place, run in enumerate(runs):
        covered, before, starts = run.fit(run.start), -1, run.start
        for earlier in range(place):
            ended = runs[earlier]
            after_it = -(-((ended.stop - 1) * pair.step + ended.offset + pair.step - run.offset) // pair.step)
            start = max(run.start, ended.stop, after_it)
            if run.stop - start < min(pair.least, run.stop - run.start):
                continue
            total = best[earlier][0] + run.fit(start)
            if total > covered:
                covered, before, starts = total, earlier, start
        best.append((covered, before, starts))
    chain: list[Run] = []
    place = max(range(len(best)), key=lambda i: best[i][0]) if best else -1
    while place >= 0:
        _, before, start = best[place]
        chain.append(replace(runs[place], start=start))
        place = before
    return chain[::-1]


def _drift(runs: Sequence[Run], rate: int) -> float:
    """Seconds that the distance in time moves by in small steps; the largest step may be a cut."""
    steps = (abs(after.offset - before.offset) / rate for before, after in pairwise(runs))
    return sum(sorted(step for step in steps if step <= CUT)[:-1])


def _at_one_place(runs: Sequence[Run], rate: int) -> Iterator[list[Run]]:
    """Neighbouring runs at nearly the same distance in time (a third of a second): clocks may be a little off."""
    together: list[Run] = []
    for run in runs:
        if together and abs(run.offset - together[-1].offset) > rate / 3:
            yield together
            together = []
        together.append(run)
    if together:
        yield together


def _spread(motion: Floats) -> Floats:
    """The largest motion at a pixel or beside it."""
    wide = np.pad(motion, ((0, 0), (1, 1), (1, 1)), mode="edge")
    rows = np.maximum(np.maximum(wide[:, :-2], wide[:, 1:-1]), wide[:, 2:])
    spread: Floats = np.maximum(np.maximum(rows[:, :, :-2], rows[:, :, 1:-1]), rows[:, :, 2:])
    return spread


def _cells(pictures: NDArray[np.generic]) -> Floats:
    """Means over blocks of CELL × CELL pixels."""
    side = SIDE // CELL
    cells: Floats = pictures.reshape(-1, side, CELL, side, CELL).mean(axis=(2, 4), dtype=np.float32)
    return cells


def _range(pictures: NDArray[np.generic]) -> Floats:
    """From the darkest to the brightest of each."""
    flat = pictures.reshape(len(pictures), -1)
    found: Floats = flat.max(axis=1).astype(np.float32) - flat.min(axis=1)
    return found


def _stretches(flags: Flags) -> Iterator[tuple[int, int]]:
    """[start, stop) of the stretches that are true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _mostly(fits: Flags) -> Flags:
    """Where most of a run fits, few single moments between two that do pass with them."""
    return _bridged(fits) if fits.mean() >= MOSTLY else fits


def _bridged(flags: Flags) -> Flags:
    """Single moments between two that are true are true."""
    bridged = flags.copy()
    bridged[1:-1] |= flags[:-2] & flags[2:]
    return bridged


def _longest(flags: Flags) -> int:
    return max((stop - start for start, stop in _stretches(flags)), default=0)
