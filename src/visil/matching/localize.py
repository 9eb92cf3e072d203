"""From a frame-to-frame matrix to matching stretches: a local alignment in one pass, in memory for a few rows.

A shared stretch is a rising line in S_f: slope 1 at equal speed, more or less where one copy was sped up or slowed
down. The search is Smith and Waterman's (1981), with ``similarity - threshold`` as the gain of a cell: a path may
step (1,1), (1,2), (1,3) or (1,4) frames, either way, so slopes from 1/4 to 4 in any mixture; it begins where its gain
turns positive, ends where it was highest, and is cut when it falls ``give_up`` below that. Each path carries its
beginning along, so nothing is traced back and the matrix need not be kept: rows may arrive in strips of any height.
Several matches in one pair are several beginnings. docs/localisation.md says why, and how it measures up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from visil.errors import UsageError

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int32]
Flags = NDArray[np.bool_]

STEPS = ((1, 1), (1, 2), (2, 1), (1, 3), (3, 1), (1, 4), (4, 1))
"""Query and target frames that one move of a path may span."""

MEMORY = max(rows for rows, _ in STEPS)
"""Earlier rows that a path can come from."""

GAP = max(columns for _, columns in STEPS)
"""Columns that no path can jump over, if no path can stand on them."""

WALL = -1e6
"""Similarity on which no path can stand."""

MAX_PENDING = 1 << 18
"""Path ends kept before they are reduced to one for each beginning."""

_FOUND = np.dtype(
    [
        ("start", np.int64),  # query frame × columns + target frame
        ("gain", np.float32),
        ("total", np.float32),
        ("cells", np.int32),
        ("row", np.int32),
        ("column", np.int32),
    ]
)

FAINT = 0.05
"""Gain from which a path is kept: too weak to be shown as a match, but evidence that there is one."""

SHORT_SHARE = 0.8
"""Part of a perfect match's gain that videos of very few frames must reach."""


@dataclass(frozen=True)
class LocalizeConfig:
    """How a matrix is read; the defaults suit unit vectors without whitening."""

    threshold: float = 0.5
    """Similarity at which a pair of frames counts neither for nor against a match."""
    min_gain: float = 0.4
    """A path whose summed gain stays below this is no match."""
    give_up: float = 0.6
    """A path that has fallen this far below its best is over."""
    bend: float = 0.15
    """Cost of every step other than (1,1): prefers straight lines."""
    faint: float | None = None
    """The threshold where it is another: models made before 0.3 have one for segments, and this one for the rest."""

    @property
    def reading(self) -> LocalizeConfig:
        """With the one threshold that maps are read at."""
        return self if self.faint is None else replace(self, threshold=self.faint, faint=None)

    def for_length(self, frames: int) -> LocalizeConfig:
        """For a pair whose shorter video has so few frames that even a perfect match could not gain enough."""
        reachable = SHORT_SHARE * (1 - self.threshold) * frames
        return self if self.min_gain <= reachable else replace(self, min_gain=reachable)


@dataclass(frozen=True)
class Path:
    """A matching stretch in frames: [first, last] on both axes, inclusive."""

    query: tuple[int, int]
    target: tuple[int, int]
    gain: float
    """Sum over its cells of similarity minus threshold, less the cost of bends."""
    score: float
    """Mean similarity of its cells."""
    cells: int
    reversed: bool = False
    """Whether the target runs backwards: its last frame belongs to the query's first."""

    def strength(self, config: LocalizeConfig) -> float:
        """How much evidence it is: see :func:`strength`."""
        return float(strength(np.array([self.score]), np.array([self.cells]), config.threshold)[0])


def strength(scores: NDArray[np.floating], cells: NDArray[np.integer], threshold: float) -> Doubles:
    """How much evidence paths are: mean similarity above the threshold, times the logarithm of their length.

    Not the sum over their cells: frames of one shot are alike, so a long weak resemblance of two slow shots is
    little more evidence than a short one.
    """
    return (np.asarray(scores, np.float64) - threshold) * np.log2(1.0 + cells)


@dataclass(frozen=True)
class Segment:
    """A matching stretch in seconds: where it is in the query, where in the target, and how alike they are."""

    query: tuple[float, float]
    target: tuple[float, float]
    score: float
    confidence: float = 1.0
    """Probability that this stretch is shared footage, in [0, 1]."""
    reversed: bool = False
    """Whether one of the two runs backwards."""

    def to_dict(self) -> dict[str, object]:
        """As every ``--json`` prints it."""
        return {
            "query": list(self.query),
            "target": list(self.target),
            "score": self.score,
            "confidence": self.confidence,
            "reversed": self.reversed,
        }


@dataclass
class _PathEnds:
    """The paths that end in each column of one row."""

    gain: Floats
    """Summed gain of the best path that ends here; 0 where none does."""
    best: Floats
    """The highest gain on that path so far."""
    total: Floats
    """Summed similarity."""
    cells: Ints
    query: Ints
    target: Ints
    """Where it began."""

    @staticmethod
    def empty(columns: int) -> _PathEnds:
        def floats() -> Floats:
            return np.zeros(columns, np.float32)

        def ints() -> Ints:
            return np.zeros(columns, np.int32)

        return _PathEnds(floats(), floats(), floats(), ints(), ints(), ints())


class Localizer:
    """Reads S_f row by row; :meth:`paths` tells what it found."""

    def __init__(self, columns: int, config: LocalizeConfig | None = None) -> None:
        if columns < 1:
            raise UsageError("a matrix needs at least one column")
        self.config = config or LocalizeConfig()
        self._least = min(FAINT, self.config.min_gain)
        self._columns = columns
        self._rows = [_PathEnds.empty(columns) for _ in range(MEMORY)]  # the latest first
        self._next = 0
        self._quiet = MEMORY
        """Rows since the last one that a path runs through."""
        self._found: list[NDArray[np.void]] = []
        self._pending = 0

    def feed(self, strip: NDArray[np.floating]) -> None:
        """Take in the next rows, [h, columns]."""
        if strip.ndim != 2 or strip.shape[1] != self._columns:
            raise UsageError(f"expected rows of {self._columns} frames, got {list(strip.shape)}")
        strip = np.asarray(strip, np.float32)
        promising = strip.max(axis=1) > self.config.threshold
        for row, may_begin in zip(strip, promising, strict=True):
            if may_begin or self._quiet < MEMORY:
                self._step(row)
            else:  # no path is under way and none can begin: most rows of most pairs
                self._next += 1

    def _step(self, similarity: Floats) -> None:
        config, columns = self.config, self._columns
        gain = similarity - np.float32(config.threshold)
        new = _PathEnds.empty(columns)
        new.cells += 1
        new.query += self._next
        new.target += np.arange(columns, dtype=np.int32)
        new.total += similarity
        arriving = np.zeros(columns, np.float32)
        for rows, step in STEPS:
            if step >= columns:
                continue
            cost = np.float32(0 if rows == step else config.bend)
            source = self._rows[rows - 1]
            offered = source.gain[: columns - step] - cost
            better = np.flatnonzero(offered > arriving[step:])
            at = better + step
            arriving[at] = offered[better]
            new.best[at] = source.best[better]
            new.total[at] = source.total[better] + similarity[at]
            new.cells[at] = source.cells[better] + 1
            new.query[at] = source.query[better]
            new.target[at] = source.target[better]
        new.gain = arriving + gain
        np.maximum(new.best, new.gain, out=new.best)
        over = (new.gain <= 0) | (new.gain < new.best - config.give_up)
        new.gain[over] = 0
        new.best[over] = 0
        self._quiet = 0 if new.gain.any() else self._quiet + 1
        self._note(new)
        self._rows = [new, *self._rows[:-1]]
        self._next += 1

    def _note(self, row: _PathEnds) -> None:
        """Keep every path whose gain is at its highest here."""
        peaks = np.flatnonzero((row.gain >= self._least) & (row.gain >= row.best))
        if not len(peaks):
            return
        start = row.query[peaks].astype(np.int64) * self._columns + row.target[peaks]
        found = np.empty(len(peaks), _FOUND)
        found["start"] = start
        found["gain"] = row.gain[peaks]
        found["total"] = row.total[peaks]
        found["cells"] = row.cells[peaks]
        found["row"] = self._next
        found["column"] = peaks
        self._found.append(found)
        self._pending += len(found)
        if self._pending > MAX_PENDING:
            self._consolidate()

    def _consolidate(self) -> None:
        """Keep, for every beginning, only the end at which its path's gain was highest."""
        found = np.concatenate([np.empty(0, _FOUND), *self._found])
        found = found[np.lexsort((-found["gain"], found["start"]))]
        first = np.ones(len(found), bool)
        first[1:] = found["start"][1:] != found["start"][:-1]
        self._found = [found[first]]
        self._pending = 0

    def paths(self) -> list[Path]:
        """The matches, strongest first, none within another."""
        return self.paths_within([(0, self._columns)], [self.config.min_gain])[0]

    def paths_within(self, spans: Sequence[tuple[int, int]], min_gains: Sequence[float]) -> list[list[Path]]:
        """The matches of several targets that stand side by side: columns [start, stop) of each, counted from there.

        Between them there must be :data:`GAP` columns that no path can cross (see :func:`walled_spans`).
        """
        self._consolidate()
        found = np.sort(self._found[0], order="gain")[::-1]
        return [
            self._apart(
                found[(found["column"] >= start) & (found["column"] < stop) & (found["gain"] >= least)], start
            )
            for (start, stop), least in zip(spans, min_gains, strict=True)
        ]

    def strongest(self, spans: Sequence[tuple[int, int]]) -> list[Path | None]:
        """The path of the greatest strength in each, faint ones too; None without any."""
        self._consolidate()
        found = self._found[0]
        strengths = strength(found["total"] / found["cells"], found["cells"], self.config.threshold)
        best: list[Path | None] = []
        for start, stop in spans:
            inside = np.flatnonzero((found["column"] >= start) & (found["column"] < stop))
            if not len(inside):
                best.append(None)
                continue
            chosen = found[inside[[int(strengths[inside].argmax())]]]
            best += self._apart(chosen, start)
        return best

    def _apart(self, strongest_first: NDArray[np.void], offset: int) -> list[Path]:
        """Each path that does not lie within a stronger one: that is the same footage at another slope."""
        rows, columns = np.divmod(strongest_first["start"], self._columns)
        query = np.stack([rows, strongest_first["row"].astype(np.int64)])
        target = np.stack([columns, strongest_first["column"].astype(np.int64)]) - offset
        scores = strongest_first["total"] / strongest_first["cells"]
        left = np.ones(len(strongest_first), bool)
        kept: list[Path] = []
        while left.any():
            i = int(left.argmax())
            kept.append(
                Path(
                    (int(query[0, i]), int(query[1, i])),
                    (int(target[0, i]), int(target[1, i])),
                    float(strongest_first["gain"][i]),
                    float(scores[i]),
                    int(strongest_first["cells"][i]),
                )
            )
            left &= ~_within(i, query, target)
            left[i] = False
        return kept


def walled_spans(
    lengths: Sequence[int],
) -> tuple[int, list[tuple[int, int]]]:
    """Columns of one matrix that holds several targets, and where each lies: apart by more than a path can jump."""
    spans = []
    start = 0
    for length in lengths:
        spans.append((start, start + length))
        start += length + GAP
    return max(1, start - GAP), spans


def neutral(
    strip: NDArray[np.floating], config: LocalizeConfig, rows: Flags | None, columns: Flags | None
) -> Floats:
    """A strip of S_f in which blank frames count neither for nor against a match."""
    quiet = np.array(strip, np.float32)
    if rows is not None:
        quiet[rows] = config.threshold
    if columns is not None:
        quiet[:, columns] = config.threshold
    return quiet


def localize(matrix: NDArray[np.floating], config: LocalizeConfig | None = None) -> list[Path]:
    """The matching stretches of a whole matrix [X, Y]."""
    localizer = Localizer(matrix.shape[1], config)
    localizer.feed(matrix)
    return localizer.paths()


def _within(i: int, query: NDArray[np.int64], target: NDArray[np.int64]) -> Flags:
    """Which paths lie for half or more, on both axes, within path ``i``; spans are [2, N], first and last frames."""
    inside = np.ones(query.shape[1], bool)
    for spans in (query, target):
        common = np.minimum(spans[1], spans[1, i]) - np.maximum(spans[0], spans[0, i]) + 1
        inside &= 2 * common >= spans[1] - spans[0] + 1
    return inside
