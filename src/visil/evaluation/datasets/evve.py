"""EVVE: videos of the same event. AP is the area of trapezoids below the precision-recall line.

"mAP" is the mean over all queries (not over events, so that events with many queries weigh more); "events" has the mean
over the queries of each of the 13. Relevant are the event's positives as far as they are available; a query without any
has AP 0, as in the authors' code. Queries are not in the database. Annotation: the authors' ``evve.pickle``.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property

from visil.evaluation.annotations import AnyPath, Layout
from visil.evaluation.benchmark import Figures, RankedTargets, taking_part, unique
from visil.evaluation.metrics import mean, trapezoid_average_precision
from visil.evaluation.predictions import AnyScores, Segments
from visil.evaluation.unpickle import read_pickle


@dataclass(frozen=True)
class Event:
    """One event: its queries, and the videos of the database that show it."""

    queries: frozenset[str]
    positives: frozenset[str]


@dataclass(frozen=True)
class Evve:
    """EVVE with its annotation."""

    events: Mapping[str, Event]
    queries: tuple[str, ...]
    database: frozenset[str]

    name = "evve"
    measures = frozenset({"scores"})

    @cached_property
    def _event_of(self) -> dict[str, str]:
        return {query: name for name, event in self.events.items() for query in event.queries}

    def candidates(self, query: str) -> frozenset[str]:  # noqa: ARG002
        """All of the database."""
        return self.database

    def evaluate(
        self,
        scores: AnyScores,
        available: Set[str] | None = None,
        *,
        segments: Segments | None = None,  # noqa: ARG002
    ) -> Figures:
        """{"mAP": …, "events": {event: mAP}} and what took part; events none of whose queries has scores are null."""
        part = taking_part(self, scores, available)
        found: dict[str, list[float]] = {name: [] for name in sorted(self.events)}
        empty = 0
        for query in part.queries:
            event = self._event_of[query]
            relevant = self.events[event].positives & part.database
            empty += not relevant
            ranked = RankedTargets(part.scores[query], part.database)
            found[event].append(ranked.precision(relevant, trapezoid_average_precision))
        figures: Figures = {
            "mAP": mean([value for values in found.values() for value in values]),
            "events": {event: mean(values) if values else None for event, values in found.items()},
        }
        return figures | part.counts | {"queries_without_truth": empty}


def read_evve(annotations: AnyPath, ids: AnyPath | None = None) -> Evve:  # noqa: ARG001
    """EVVE from the authors' pickle; there is no list of ids beside it."""
    layout = Layout(annotations, "EVVE")
    content = read_pickle(annotations)
    events: dict[str, Event] = {}
    for name, three in layout.mapping(layout.entry(content, "annotation"), "'annotation'").items():
        parts = layout.list_of(three, f"the event {name!r}")
        if len(parts) != 3:
            layout.wrong(f"the event {name!r} must be queries, positives and null videos")
        queries, positives = (
            frozenset(layout.ids(some, f"{what} of {name!r}"))
            for what, some in zip(("the queries", "the positives"), parts, strict=False)
        )
        events[str(name)] = Event(queries, positives)
    queries_all = unique(layout.ids(layout.entry(content, "queries"), "'queries'"))
    database = frozenset(layout.ids(layout.entry(content, "database"), "'database'"))
    if not queries_all or not database:
        layout.wrong("it names no queries or no database")
    known = frozenset().union(*(event.queries for event in events.values()))
    homeless = next((query for query in queries_all if query not in known), None)
    if homeless is not None:
        layout.wrong(f"the query {homeless!r} is of no event")
    return Evve(events, queries_all, database)
