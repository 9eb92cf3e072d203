"""ActivityNet, reorganised for action video retrieval (AVR): every video is a query against all others.

The mean over videos of AP; related are videos with at least one action in common. A video has no rank in its own list.
Annotation: the authors' ``activity_net.pickle``, {video: related videos}.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property

from visil.evaluation.annotations import AnyPath, Layout
from visil.evaluation.benchmark import Figures, RankedTargets, taking_part
from visil.evaluation.metrics import mean
from visil.evaluation.predictions import AnyScores, Segments
from visil.evaluation.unpickle import read_pickle


@dataclass(frozen=True)
class ActivityNet:
    """ActivityNet with its annotation."""

    related: Mapping[str, frozenset[str]]

    name = "activitynet"
    measures = frozenset({"scores"})

    @cached_property
    def queries(self) -> tuple[str, ...]:
        """Every video."""
        return tuple(self.related)

    @cached_property
    def database(self) -> frozenset[str]:
        """Every video."""
        return frozenset(self.related)

    def candidates(self, query: str) -> frozenset[str]:
        """All videos but the query."""
        return self.database - {query}

    def evaluate(
        self,
        scores: AnyScores,
        available: Set[str] | None = None,
        *,
        segments: Segments | None = None,  # noqa: ARG002
    ) -> Figures:
        """{"mAP": …} and what took part."""
        part = taking_part(self, scores, available)
        found = []
        for query in part.queries:
            relevant = (self.related[query] & part.database) - {query}
            if relevant:
                ranked = RankedTargets(part.scores[query], part.database, but=query)
                found.append(ranked.precision(relevant))
        return {"mAP": mean(found)} | part.counts | {"queries_without_truth": len(part.queries) - len(found)}


def read_activitynet(annotations: AnyPath, ids: AnyPath | None = None) -> ActivityNet:  # noqa: ARG001
    """ActivityNet from the authors' pickle; there is no list of ids beside it."""
    layout = Layout(annotations, "ActivityNet")
    related = {}
    for video, others in layout.mapping(read_pickle(annotations), "its content").items():
        if not isinstance(video, str) or not isinstance(others, set | frozenset | list | tuple):
            layout.wrong("it must give each video the ids of related ones")
        related[video] = frozenset(layout.ids(others, f"those related to {video!r}"))
    if not related:
        layout.wrong("it names no videos")
    return ActivityNet(related)
