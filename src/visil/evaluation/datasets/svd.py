"""SVD, near-duplicate short videos: 206 queries, each with labelled candidates.

The mean over queries of AP in steps of the threshold (equal scores are taken at once), over a query's labelled videos
and, where their list is given, all unlabelled ones as not relevant. Annotation: ``test_groundtruth``, lines of query,
candidate and 1 or 0; the list is ``unlabeled-data-id``, one id a line. A query without an available relevant video is
left out of the mean and counted; a relevant video without a score is one not found.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property

from visil.errors import FileError
from visil.evaluation.annotations import AnyPath, read_ids, read_text
from visil.evaluation.benchmark import Figures, RankedTargets, taking_part
from visil.evaluation.metrics import mean, stepwise_average_precision
from visil.evaluation.predictions import AnyScores, Segments


@dataclass(frozen=True)
class Svd:
    """SVD with its annotation."""

    labels: Mapping[str, Mapping[str, bool]]
    """{query: {candidate: whether it is a near-duplicate}}"""
    unlabelled: frozenset[str]

    name = "svd"
    measures = frozenset({"scores"})

    @cached_property
    def queries(self) -> tuple[str, ...]:
        """Videos with labelled candidates."""
        return tuple(self.labels)

    @cached_property
    def database(self) -> frozenset[str]:
        """All candidates, and the unlabelled videos."""
        return self.unlabelled.union(*self.labels.values())

    def candidates(self, query: str) -> frozenset[str]:
        """The videos labelled for a query, and the unlabelled ones."""
        return self.unlabelled.union(self.labels[query])

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
            relevant = {video for video, same in self.labels[query].items() if same} & part.database
            if relevant:
                ranked = RankedTargets(part.scores[query], part.database & self.candidates(query))
                found.append(ranked.precision(relevant, stepwise_average_precision))
        return {"mAP": mean(found)} | part.counts | {"queries_without_truth": len(part.queries) - len(found)}


def read_svd(annotations: AnyPath, ids: AnyPath | None = None) -> Svd:
    """SVD from its ground truth, and the list of unlabelled videos where there is one."""
    labels: dict[str, dict[str, bool]] = {}
    for number, line in enumerate(read_text(annotations).splitlines(), 1):
        words = line.split()
        if not words:
            continue
        if len(words) != 3 or words[2] not in ("0", "1"):
            raise FileError(
                annotations, f"line {number}: must be query, candidate and 1 or 0, not {line[:60]!r}"
            )
        query, candidate, label = words
        own = labels.setdefault(query, {})
        if own.setdefault(candidate, label == "1") != (label == "1"):
            raise FileError(annotations, f"line {number}: {candidate} of {query} is labelled both 1 and 0")
    if not labels:
        raise FileError(annotations, "is no annotation of SVD: it is empty")
    return Svd(labels, frozenset(read_ids(ids)) if ids is not None else frozenset())
