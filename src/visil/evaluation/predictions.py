"""What a method says of a benchmark: how alike videos are, and where they match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from visil.errors import UsageError
from visil.matching.localize import Segment

Pair = tuple[str, str]
"""Query and target."""

Segments = Mapping[Pair, Sequence[Segment]]
"""Where pairs match, in seconds; a pair that is not there matches nowhere."""


@dataclass(frozen=True, eq=False)
class QueryScores:
    """One query against many targets: their ids, each once, and as many finite scores."""

    targets: Sequence[str]
    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.targets)


Scores = Mapping[str, QueryScores]
AnyScores = Mapping[str, QueryScores | Mapping[str, float]]
"""{query: {target: score}}, the authors' format, or the same with arrays."""


@dataclass(frozen=True)
class Predictions:
    """Scores of videos, and where they match, as far as given."""

    scores: Scores = field(default_factory=dict)
    segments: Segments | None = None


def as_scores(scores: AnyScores) -> Scores:
    """Checked: every score is a finite number, or the first that is not is named."""
    return {query: row if isinstance(row, QueryScores) else _row(query, row) for query, row in scores.items()}


def finite(value: object) -> float | None:
    """A finite number as a float; None for anything else, truth values included."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if np.isfinite(number) else None


def _row(query: str, row: Mapping[str, float]) -> QueryScores:
    if not isinstance(row, Mapping):
        raise UsageError(f"query {query!r}: its scores must be {{target: score}}, not {type(row).__name__}")
    values = []
    for target, value in row.items():
        number = finite(value)
        if number is None:
            raise UsageError(f"query {query!r}, target {target!r}: {value!r} is no finite number")
        values.append(number)
    return QueryScores(list(row), np.array(values, np.float64))
