"""How well predicted stretches cover the true ones: the measures of VCDB, VCSL and DVSC-2023."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import sqrt
from typing import Literal

import numpy as np

from visil.errors import UsageError
from visil.evaluation.metrics import harmonic_mean
from visil.evaluation.predictions import Pair, Segments
from visil.matching.localize import Segment

Span = tuple[float, float]
Axis = Literal["query", "target"]
AXES: tuple[Axis, Axis] = ("query", "target")

EPSILON = 1e-6
"""Number that VCSL adds to lengths that it divides by."""


def covered(spans: Iterable[Span]) -> float:
    """Seconds in the union of spans."""
    return sum(end - start for start, end in merged(spans))


def merged(spans: Iterable[Span]) -> list[Span]:
    """The union of spans as spans apart from each other, in order; spans without length are left out."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if end <= start:
            continue
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def shared(a: Iterable[Span], b: Iterable[Span]) -> float:
    """Seconds that lie in both unions: |A| + |B| - |A ∪ B|."""
    first, second = merged(a), merged(b)
    return covered(first) + covered(second) - covered([*first, *second])


def overlap(a: Segment, b: Segment) -> tuple[Span, Span] | None:
    """The rectangle that two segments share, None where it has no area."""
    (q_start, q_end), (t_start, t_end) = (
        (max(x[0], y[0]), min(x[1], y[1])) for x, y in ((a.query, b.query), (a.target, b.target))
    )
    return ((q_start, q_end), (t_start, t_end)) if q_start < q_end and t_start < t_end else None


# ---------------------------------------------------------------------- VCSL


@dataclass(frozen=True)
class PairCoverage:
    """Precision and recall of one pair of videos, and whether anything was predicted, and true, there."""

    precision: float
    recall: float
    predicted: bool
    true: bool


def pair_coverage(predicted: Sequence[Segment], truth: Sequence[Segment]) -> PairCoverage:
    """VCSL's measure of one pair: on each axis the share of predicted time inside truth, and of true time found.

    The two axes are multiplied. Nothing predicted has precision 1, nothing true has recall 1, by convention.
    """
    if not predicted or not truth:
        return PairCoverage(0.0 if predicted else 1.0, 0.0 if truth else 1.0, bool(predicted), bool(truth))
    return PairCoverage(_covered_share(predicted, truth), _covered_share(truth, predicted), True, True)


def _covered_share(these: Sequence[Segment], those: Sequence[Segment]) -> float:
    """Of the time of ``these``, segment by segment, what ``those`` that touch them cover; both axes multiplied."""
    inside, whole = [0.0, 0.0], [EPSILON, EPSILON]
    for segment in these:
        common = [both for other in those if (both := overlap(segment, other)) is not None]
        for axis, span in enumerate((segment.query, segment.target)):
            inside[axis] += covered(both[axis] for both in common)
            whole[axis] += span[1] - span[0]
    return inside[0] / whole[0] * (inside[1] / whole[1])


def coverage_figures(pairs: Mapping[Pair, PairCoverage]) -> dict[str, float]:
    """VCSL's figures: precision, recall and F1 over pairs, over queries ("macro"), and false rejections and alarms.

    Over pairs, those with nothing predicted do not count for precision, nor those with nothing true for recall.
    """
    if not pairs:
        raise UsageError("no pair of videos to evaluate")
    precision = _mean([pair.precision for pair in pairs.values() if pair.predicted])
    recall = _mean([pair.recall for pair in pairs.values() if pair.true])
    groups: dict[str, list[PairCoverage]] = defaultdict(list)
    for (query, _), pair in pairs.items():
        groups[query].append(pair)
    macro_precision = _mean([_mean([pair.precision for pair in group]) for group in groups.values()])
    macro_recall = _mean([_mean([pair.recall for pair in group]) for group in groups.values()])
    positive = [pair for pair in pairs.values() if pair.true]
    negative = [pair for pair in pairs.values() if not pair.true]
    return {
        "precision": precision,
        "recall": recall,
        "F1": harmonic_mean(precision, recall),
        "macro_precision": macro_precision,
        "macro_recall": macro_recall,
        "macro_F1": harmonic_mean(macro_precision, macro_recall),
        "false_rejections": _mean([float(not pair.predicted) for pair in positive]),
        "false_alarms": _mean([float(pair.predicted) for pair in negative]),
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


# ---------------------------------------------------------------------- VCDB


def hit_figures(predicted: Segments, truth: Segments) -> dict[str, float]:
    """VCDB's figures: a segment is right where it overlaps a true one on both sides, however little.

    Precision is the share of predicted segments that are right, recall that of true ones that some predicted one
    overlaps. ``best_F1`` is the highest over thresholds of the score, reached with scores from ``best_threshold`` on.
    """
    scores: list[float] = []
    right: list[bool] = []
    found: list[float] = []
    for pair, segments in predicted.items():
        for segment in segments:
            scores.append(segment.score)
            right.append(any(overlap(segment, true) for true in truth.get(pair, ())))
    for pair, segments in truth.items():
        for true in segments:
            own = predicted.get(pair, ())
            found.append(max((s.score for s in own if overlap(s, true)), default=-np.inf))
    best_threshold, best = _best_f1(np.array(scores), np.array(right, bool), np.array(found))
    precision = _mean([float(flag) for flag in right])
    recall = _mean([float(score > -np.inf) for score in found])
    return {
        "precision": precision,
        "recall": recall,
        "F1": harmonic_mean(precision, recall),
        "best_F1": best,
        "best_threshold": best_threshold,
    }


def _best_f1(
    scores: np.typing.NDArray[np.float64],
    right: np.typing.NDArray[np.bool_],
    found: np.typing.NDArray[np.float64],
) -> tuple[float, float]:
    """The threshold with the highest F1, and that."""
    if not len(scores) or not len(found):
        return 0.0, 0.0
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], np.cumsum(right[order])
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
    precision = hits[last] / (last + 1)
    rising = np.sort(found)
    recall = (len(rising) - np.searchsorted(rising, ranked[last])) / len(rising)
    both = precision + recall
    f1 = np.divide(2 * precision * recall, both, out=np.zeros_like(both), where=both > 0)
    best = int(f1.argmax())
    return float(ranked[last][best]), float(f1[best])


# ---------------------------------------------------------------------- DVSC-2023


def matching_average_precision(predicted: Segments, truth: Segments) -> float:
    """DVSC-2023's matching track: segments of all pairs by falling score, AP = Σ P · ΔR.

    P is the root of the precisions on the two axes multiplied, R that of the recalls: lengths of predicted time, of
    true time, and of what they share, each the union within a pair of videos and summed over pairs. True segments
    that no prediction overlaps share nothing. Segments of equal score come all at once.
    """
    pairs = {pair: _PairState(list(true)) for pair, true in truth.items()}
    whole = [sum(covered(getattr(s, axis) for s in true) for true in truth.values()) for axis in AXES]
    if min(whole) <= 0:
        raise UsageError("the truth has no segment of any length")
    ranked = sorted(
        ((segment.score, pair, segment) for pair, some in predicted.items() for segment in some),
        key=lambda item: -item[0],
    )
    inside, total = [0.0, 0.0], [0.0, 0.0]
    recall = result = 0.0
    for _, group in groupby(ranked, key=lambda item: item[0]):
        for _, pair, segment in group:
            state = pairs.setdefault(pair, _PairState([]))
            for axis, (more_inside, more_total) in enumerate(state.add(segment)):
                inside[axis] += more_inside
                total[axis] += more_total
        precision = sqrt(inside[0] * inside[1] / (total[0] * total[1])) if min(total) > 0 else 0.0
        reached = sqrt(max(inside[0], 0.0) * max(inside[1], 0.0) / (whole[0] * whole[1]))
        result += precision * (reached - recall)
        recall = reached
    return result


class _PairState:
    """The predictions about one pair so far."""

    def __init__(self, truth: list[Segment]) -> None:
        self.missed = truth
        self.met: list[Segment] = []
        self.spans: dict[Axis, list[Span]] = {"query": [], "target": []}
        self.inside: dict[Axis, float] = {"query": 0.0, "target": 0.0}
        self.total: dict[Axis, float] = {"query": 0.0, "target": 0.0}

    def add(self, segment: Segment) -> list[tuple[float, float]]:
        """One prediction more: the seconds that it adds on each axis, shared and predicted."""
        self.met += [true for true in self.missed if overlap(true, segment)]
        self.missed = [true for true in self.missed if not overlap(true, segment)]
        added = []
        for axis in AXES:
            self.spans[axis] = merged([*self.spans[axis], getattr(segment, axis)])
            inside = shared(self.spans[axis], [getattr(true, axis) for true in self.met])
            total = covered(self.spans[axis])
            added.append((inside - self.inside[axis], total - self.total[axis]))
            self.inside[axis], self.total[axis] = inside, total
        return added
