"""The interface of a benchmark: queries, a database, its own measure; and counts of what took part in an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from visil.errors import UsageError
from visil.evaluation.metrics import average_precision
from visil.evaluation.predictions import AnyScores, QueryScores, Scores, Segments, as_scores

Figures = dict[str, Any]
"""Figures by name, fit for JSON."""


class Benchmark(Protocol):
    """A dataset with its annotation read, and the protocol it is evaluated by."""

    @property
    def name(self) -> str:
        """As the command calls it, such as "fivr-5k"."""

    @property
    def queries(self) -> Sequence[str]:
        """Ids of the queries, each once."""

    @property
    def database(self) -> Collection[str]:
        """Ids that queries are compared with."""

    @property
    def measures(self) -> Set[str]:
        """Whether "scores" of videos, "segments", or both are evaluated."""

    def candidates(self, query: str) -> Collection[str]:
        """The part of the database that counts for a query."""

    def evaluate(
        self,
        scores: AnyScores,
        available: Set[str] | None = None,
        *,
        segments: Segments | None = None,
    ) -> Figures:
        """The benchmark's figures, and counts of what took part.

        ``available`` are the ids that could be had at all, where not all could: the others are left out of the
        truth. Without it the whole database counts, and a video without a score is not found.
        """


@dataclass(frozen=True)
class TakingPart:
    """The queries and the database that are evaluated, and counts of the missing."""

    scores: Scores
    queries: list[str]
    database: frozenset[str]
    counts: dict[str, int]


def taking_part(benchmark: Benchmark, scores: AnyScores, available: Set[str] | None) -> TakingPart:
    """Sort out ids: queries without scores, videos nobody scored, ids that the benchmark does not know.

    "missing_videos" are ids of the database that are not ``available``; without that, ids that no query has a score
    for. "missing_scores" are pairs without a score of a query that is evaluated and a video that counts for it.
    """
    rows = as_scores(scores)
    present = [query for query in benchmark.queries if query in rows]
    database = frozenset(benchmark.database)
    known = database.union(benchmark.queries)
    if not present:
        theirs = next(iter(rows), None)
        raise UsageError(
            f"no scores of any query of {benchmark.name}"
            + (f": its queries are ids such as {benchmark.queries[0]!r}, not {theirs!r}" if theirs else "")
        )
    seen: set[str] = set()
    for row in rows.values():
        seen.update(row.targets)
    counting = database if available is None else database & available
    missing_scores = 0
    for query in present:
        pool = counting.intersection(benchmark.candidates(query))
        missing_scores += len(pool.difference(rows[query].targets))
    counts = {
        "queries": len(present),
        "videos": len(counting),
        "missing_queries": len(benchmark.queries) - len(present),
        "missing_videos": len(database - (seen if available is None else available)),
        "missing_scores": missing_scores,
        "unknown_ids": len(seen.union(rows) - known),
    }
    return TakingPart(rows, present, counting, counts)


class RankedTargets:
    """The targets of one query that have a rank: those ``counting``, and not the query itself where it is ``but``."""

    def __init__(self, row: QueryScores, counting: Set[str], but: str | None = None) -> None:
        kept = [place for place, name in enumerate(row.targets) if name in counting and name != but]
        self.values = row.values[kept]
        self.targets = [row.targets[place] for place in kept]
        self._places = {row.targets[place]: number for number, place in enumerate(kept)}

    def flags(self, relevant: Iterable[str]) -> NDArray[np.bool_]:
        """Which of them are among ``relevant``."""
        found = np.zeros(len(self.values), np.bool_)
        found[[self._places[name] for name in relevant if name in self._places]] = True
        return found

    def precision(
        self, relevant: Collection[str], measure: Callable[..., float] = average_precision
    ) -> float:
        """AP, where all of ``relevant`` are to be found, whether they have a rank or not."""
        return measure(self.values, self.flags(relevant), len(relevant))


def unique(ids: Collection[str]) -> tuple[str, ...]:
    """Ids in their order, each once."""
    return tuple(dict.fromkeys(ids))
