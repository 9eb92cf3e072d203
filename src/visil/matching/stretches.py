"""From the localiser's paths to the stretches that an answer names: split at jumps, trimmed, none told twice.

What is read is a map: a number for each pair of frames, with one threshold at which it speaks neither for a match nor
against one. S_f is such a map.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from visil.matching.localize import LocalizeConfig, Path, strength
from visil.matching.straight import SPEEDS, Relief
from visil.matching.trace import Cells, inner, level_of, split_at_jumps, traced

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]

Block = Callable[[tuple[int, int], tuple[int, int]], Floats]
"""The map within first and last rows and columns, both included."""

Changes = Callable[[], tuple[Floats, Floats]]
"""How much either video changes around each of its frames (:func:`visil.matching.straight.changes`)."""

MOST_PATHS = 32
"""Paths of a pair that are looked at cell by cell, the strongest."""

MOST_CELLS = 1 << 22
"""A path in a box of more cells stays as the localiser found it: its way is not looked for."""

EVERY_SPEED = 1 << 16
"""Cells around a path up to which lines of every speed are looked for; beyond, of the path's own."""

WHOLE = 128
"""Frames of both videos up to which all of the map is looked at around a path."""

ASIDE = 8
"""Frames around a path that are looked at, at least."""

MOST_PASSES = 4
"""How often lines are looked for around a path: once, and again for footage that occurs more than once."""

AS_SHARP = 0.5
"""Part of a stronger stretch's sharpness from which a second one of the same frames is footage that occurs twice."""

LEAST_SHARP = 0.1
"""Sharpness below which nothing tells one moment of a shot from another."""

AS_ALIKE = 0.9
"""Part of a stronger stretch's height that a second one of the same frames must reach."""


@dataclass(frozen=True, eq=False)
class Stretch:
    """Frames of two videos that show the same, pair by pair."""

    cells: Cells
    """[N, 2]: frames of the query, which rise, and of the target, which rise or, backwards, fall."""
    values: Floats
    """The map along them, [N]."""
    sharp: float = 0.0
    """How far it stands out above what lies beside it: nothing, in a shot that stands still."""

    @property
    def reversed(self) -> bool:
        """Whether one of the two runs backwards."""
        return bool(self.cells[-1, 1] < self.cells[0, 1])

    @property
    def query(self) -> tuple[int, int]:
        """First and last frame."""
        return int(self.cells[0, 0]), int(self.cells[-1, 0])

    @property
    def target(self) -> tuple[int, int]:
        """First and last frame."""
        ends = int(self.cells[0, 1]), int(self.cells[-1, 1])
        return min(ends), max(ends)

    @property
    def score(self) -> float:
        """Mean of the map along it."""
        return float(self.values.mean())

    def strength(self, threshold: float) -> float:
        """How much evidence it is: see :func:`visil.matching.localize.strength`."""
        return float(strength(np.array([self.score]), np.array([len(self.cells)]), threshold)[0])


def stretches(
    forwards: Sequence[Path],
    backwards: Sequence[Path],
    block: Block,
    shape: tuple[int, int],
    config: LocalizeConfig,
    changes: Changes | None = None,
    promising: float = 0.0,
) -> list[Stretch]:
    """The stretches of a pair, from its paths, the strongest first; ``backwards`` in columns counted from the last.

    ``changes``: None where the map is worth at each cell what it stands above the threshold there. Lines are looked for
    around paths of strength ``promising`` or more.
    """
    turned = [_turned(path, shape[1]) for path in backwards]
    found: list[Stretch] = []
    searched: set[Search] = set()
    for path in sorted([*forwards, *turned], key=lambda path: -path.gain)[:MOST_PATHS]:
        if path.strength(config) >= promising and not any(_holds(stretch, path) for stretch in found):
            search = _search(path, shape)
            if search not in searched:  # else its lines are known: paths of short videos are all in one box
                found += _lines(search, block, config, changes)
            searched.add(search)
        if not path.reversed and not any(_holds(stretch, path) for stretch in found):
            found += _pieces(path, block, config)
    found.sort(key=lambda stretch: -stretch.strength(config.threshold))
    kept: list[Stretch] = []
    for stretch in found:
        if not any(_explains(stronger, stretch, block, config.threshold) for stronger in kept):
            kept.append(stretch)
    return sorted(_joined(kept), key=lambda stretch: -stretch.strength(config.threshold))


def _joined(found: Sequence[Stretch]) -> list[Stretch]:
    """Stretches that follow each other but for a jump of one frame are one: frames far apart tell no more."""
    joined: list[Stretch] = []
    for stretch in sorted(found, key=lambda stretch: stretch.query):
        last = joined[-1] if joined else None
        if last is not None and _goes_on(last, stretch):
            more = stretch.cells[:, 1] >= last.cells[-1, 1]
            cells = np.concatenate([last.cells, stretch.cells[more]])
            values = np.concatenate([last.values, stretch.values[more]])
            joined[-1] = Stretch(cells, values, max(last.sharp, stretch.sharp))
        else:
            joined.append(stretch)
    return joined


def _goes_on(first: Stretch, then: Stretch) -> bool:
    if first.reversed or then.reversed or not 1 <= then.query[0] - first.query[1] <= 2:
        return False
    jump = (then.cells[0, 1] - then.cells[0, 0]) - (first.cells[-1, 1] - first.cells[-1, 0])
    return abs(int(jump)) <= 1 and then.target[1] > first.target[1]


def _turned(path: Path, columns: int) -> Path:
    first, last = path.target
    return replace(path, target=(columns - 1 - last, columns - 1 - first), reversed=True)


def _holds(stretch: Stretch, path: Path) -> bool:
    """Whether half of a path or more, on both axes, lies within a stretch."""
    return all(
        2 * _common(mine, theirs) >= theirs[1] - theirs[0] + 1
        for mine, theirs in ((stretch.query, path.query), (stretch.target, path.target))
    )


def _common(a: tuple[int, int], b: tuple[int, int]) -> int:
    """Frames that two spans share; below zero, the frames between them."""
    return min(a[1], b[1]) - max(a[0], b[0]) + 1


Search = tuple[tuple[int, int], tuple[int, int], Sequence[float]]
"""First and last rows and columns among which lines are looked for, and at which speeds."""


def _search(path: Path, shape: tuple[int, int]) -> Search:
    """Where to look for the straight stretches around a path."""
    spans = path.query, path.target
    around = max(ASIDE, *(last - first + 1 for first, last in spans))
    if max(shape) <= WHOLE:
        rows, columns = ((0, length - 1) for length in shape)
    else:
        rows, columns = (
            (max(0, first - around), min(length - 1, last + around))
            for (first, last), length in zip(spans, shape, strict=True)
        )
    if (rows[1] - rows[0] + 1) * (columns[1] - columns[0] + 1) <= EVERY_SPEED:
        return rows, columns, SPEEDS
    own = (spans[1][1] - spans[1][0] + 1) / (spans[0][1] - spans[0][0] + 1)
    return rows, columns, (min(SPEEDS, key=lambda s: abs(np.log(s / own))),)


def _lines(search: Search, block: Block, config: LocalizeConfig, changes: Changes | None) -> list[Stretch]:
    """The straight stretches of a part of the map."""
    rows, columns, speeds = search
    height, width = rows[1] - rows[0] + 1, columns[1] - columns[0] + 1
    if height * width > MOST_CELLS or min(height, width) < 3:
        return []
    seen = block(rows, columns)
    query, target = (None, None) if changes is None else changes()
    relief = Relief.of(
        seen,
        config.threshold,
        None if query is None else query[rows[0] : rows[1] + 1],
        None if target is None else target[columns[0] : columns[1] + 1],
    )
    found: list[Stretch] = []
    left = relief
    for _ in range(MOST_PASSES):
        runs = left.runs(speeds)
        if not runs:
            break
        for run in runs:
            left = left.without(run.cells)
            values = seen[run.cells[:, 0], run.cells[:, 1]]
            if values.mean() > config.threshold:
                sharp = float(relief.stands_out[run.cells[:, 0], run.cells[:, 1]].mean())
                found.append(Stretch(run.cells + np.array([rows[0], columns[0]]), values, sharp))
    return found


def _pieces(path: Path, block: Block, config: LocalizeConfig) -> list[Stretch]:
    """A path between its jumps, each piece without the ends that hang on to it."""
    (top, bottom), (left, right) = path.query, path.target
    if (bottom - top + 1) * (right - left + 1) > MOST_CELLS:
        steps = np.linspace(0, 1, path.cells)
        line = np.stack([top + steps * (bottom - top), left + steps * (right - left)], axis=1)
        return [Stretch(line.round().astype(np.int64), np.full(path.cells, path.score, np.float32))]
    seen = block(path.query, path.target)
    pieces = []
    for cells in split_at_jumps(traced(seen, config.threshold, config.bend)):
        values = seen[cells[:, 0], cells[:, 1]]
        # A cell belongs to the stretch that is nearer to the stretch's own level than to the threshold.
        first, last = inner(values, (level_of(values) + config.threshold) / 2)
        if values[first : last + 1].mean() > config.threshold:
            placed = (cells + np.array([top, left]))[first : last + 1]
            pieces.append(Stretch(placed, np.asarray(values[first : last + 1], np.float32)))
    return pieces


def _explains(stronger: Stretch, stretch: Stretch, block: Block, threshold: float) -> bool:
    """Whether a stretch follows from a stronger one: the same footage again, or the stillness of a shot."""
    spans = ((stronger.query, stretch.query), (stronger.target, stretch.target))
    inside = [2 * _common(_grown(strong), weak) >= weak[1] - weak[0] + 1 for strong, weak in spans]
    if all(inside) or not any(inside):
        return all(inside)
    if 2 * len(stretch.cells) >= len(stronger.cells) and _told_apart(stronger, stretch, block, threshold):
        return False
    if stretch.score - threshold < AS_ALIKE * (stronger.score - threshold):
        return True
    return stretch.sharp < max(AS_SHARP * stronger.sharp, LEAST_SHARP)


def _grown(span: tuple[int, int]) -> tuple[int, int]:
    """With a frame to either side, which may show some of the same second."""
    return span[0] - 1, span[1] + 1


def _told_apart(stronger: Stretch, stretch: Stretch, block: Block, threshold: float) -> bool:
    """Whether, between two places of one video that match the same frames, something else is shown."""
    spans = ((stronger.query, stretch.query), (stronger.target, stretch.target))
    overlaps = [_common(*pair) for pair in spans]
    across = int(np.argmin(overlaps))  # the axis on which they lie apart
    if overlaps[across] >= 0 or overlaps[1 - across] < 1:
        return False
    (first, second), (one, other) = spans[across], spans[1 - across]
    between = min(first[1], second[1]) + 1, max(first[0], second[0]) - 1
    shared = max(one[0], other[0]), min(one[1], other[1])
    if (between[1] - between[0] + 1) * (shared[1] - shared[0] + 1) > MOST_CELLS:
        return True
    seen = block(shared, between).mean(axis=0) if across else block(between, shared).mean(axis=1)
    return bool(seen.min() < threshold)


def grown(
    stretch: Stretch, query_blank: Flags | None, target_blank: Flags | None
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Its frames, with the blank ones that border it in both videos: a copied fade belongs to the copy."""
    (top, bottom), (left, right) = stretch.query, stretch.target
    if query_blank is None or target_blank is None or stretch.reversed:
        return (top, bottom), (left, right)
    while top > 0 and left > 0 and query_blank[top - 1] and target_blank[left - 1]:
        top, left = top - 1, left - 1
    while (
        bottom + 1 < len(query_blank)
        and right + 1 < len(target_blank)
        and query_blank[bottom + 1]
        and target_blank[right + 1]
    ):
        bottom, right = bottom + 1, right + 1
    return (top, bottom), (left, right)


def block_of(matrix: NDArray[np.floating]) -> Block:
    """A whole map as a source of blocks."""

    def block(rows: tuple[int, int], columns: tuple[int, int]) -> Floats:
        return np.asarray(matrix[rows[0] : rows[1] + 1, columns[0] : columns[1] + 1], np.float32)

    return block
