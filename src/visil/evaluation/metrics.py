"""Average precision as the benchmarks define it, with equal scores treated alike whatever their order.

Where items have equal scores, their order means nothing: the result is the mean over all orders they could stand
in. The authors' scripts keep the order of the score file there, which anyone can arrange in favour of the truth.
Without equal scores both agree to the last digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visil.errors import UsageError

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def average_precision(
    scores: ArrayLike, relevant: ArrayLike, total: int | None = None, *, first: int | None = None
) -> float:
    """AP = 1/``total`` · Σ over relevant items of (relevant ones down to it) / (its rank).

    ``total`` is how many relevant items there are in all, found or not: by default those among the scored.
    ``first`` leaves out everything ranked below that place.
    """
    ranking = _Ranking.of(scores, relevant)
    gained = ranking.chance * (ranking.before + 1) / (ranking.place + 1)
    return _share(gained[:first], _total(ranking, total))


def trapezoid_average_precision(scores: ArrayLike, relevant: ArrayLike, total: int | None = None) -> float:
    """AP as EVVE takes it: the area of trapezoids below the precision-recall line, which begins at precision 1."""
    ranking = _Ranking.of(scores, relevant)
    left = np.ones_like(ranking.place)
    np.divide(ranking.before, ranking.place, out=left, where=ranking.place > 0)
    right = (ranking.before + 1) / (ranking.place + 1)
    return _share(ranking.chance * (left + right) / 2, _total(ranking, total))


def stepwise_average_precision(scores: ArrayLike, relevant: ArrayLike, total: int | None = None) -> float:
    """AP as SVD takes it, and scikit-learn: Σ precision · growth of recall, where equal scores come all at once."""
    values, flags = _checked(scores, relevant)
    _, counts, hits = _groups(values, flags)
    found = np.cumsum(hits)
    precision = found / np.cumsum(counts)
    return _share(precision * hits, int(flags.sum()) if total is None else total)


def interpolated_precision(
    scores: ArrayLike, relevant: ArrayLike, total: int | None = None, *, points: int = 21
) -> Floats:
    """Precision at evenly spaced recalls from 0 to 1: the best at that recall or beyond, 0 where none reaches it."""
    values, flags = _checked(scores, relevant)
    _, counts, hits = _groups(values, flags)
    found = np.cumsum(hits)
    recall = found / max(int(flags.sum()) if total is None else total, 1)
    best = np.maximum.accumulate((found / np.cumsum(counts))[::-1])[::-1]
    wanted = np.linspace(0, 1, points)
    at = np.searchsorted(recall, wanted - 1e-12)
    return np.where(at < len(best), np.append(best, 0.0)[np.minimum(at, len(best))], 0.0)


def mean(values: Sequence[float]) -> float:
    """The plain mean; there must be something to average."""
    if not values:
        raise UsageError("nothing to average: no query has a relevant video here")
    return float(np.mean(np.asarray(values, np.float64)))


def harmonic_mean(precision: float, recall: float) -> float:
    """F1; 0 where both are."""
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


@dataclass(frozen=True)
class _Ranking:
    """The expectation for every place of a ranking, best first, equal scores in random order."""

    chance: Floats
    """Probability that a relevant item stands there."""
    before: Floats
    """Relevant items above, if one stands there."""
    place: Floats
    """Items above."""

    @staticmethod
    def of(scores: ArrayLike, relevant: ArrayLike) -> _Ranking:
        values, flags = _checked(scores, relevant)
        group, counts, hits = _groups(values, flags)
        place = np.arange(len(values), dtype=np.float64)
        size, inside = counts[group], hits[group]
        above = (np.cumsum(hits) - hits)[group]
        depth = place - (np.cumsum(counts) - counts)[group]
        others = (inside - 1) / np.maximum(size - 1, 1)
        return _Ranking(inside / size, above + depth * np.maximum(others, 0.0), place)


def _checked(scores: ArrayLike, relevant: ArrayLike) -> tuple[Floats, Flags]:
    values = np.asarray(scores, np.float64)
    flags = np.asarray(relevant, np.bool_)
    if values.ndim != 1 or values.shape != flags.shape:
        raise UsageError(f"scores and relevance differ in shape: {values.shape} and {flags.shape}")
    if not np.isfinite(values).all():
        raise UsageError("scores contain NaN or infinity: there is no ranking by them")
    return values, flags


def _groups(values: Floats, flags: Flags) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Of items by falling score: which group of equal scores each is in; of groups: their items, and relevant ones."""
    order = np.argsort(-values, kind="stable")
    ranked = values[order]
    group = np.zeros(len(ranked), np.int64)
    group[1:] = np.cumsum(ranked[1:] != ranked[:-1])
    counts = np.bincount(group).astype(np.float64)
    hits = np.bincount(group, weights=flags[order].astype(np.float64)).astype(np.float64)
    return group, counts, hits


def _total(ranking: _Ranking, total: int | None) -> int:
    return round(float(ranking.chance.sum())) if total is None else total


def _share(gained: Floats, total: int) -> float:
    return float(gained.sum()) / total if total > 0 else 0.0
