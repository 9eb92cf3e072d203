"""VCSL: where two videos match, by the time covered; segment precision, recall and F1.

Over pairs ("precision", "recall", "F1") and over queries ("macro_…"): see :mod:`visil.evaluation.segment_metrics`. Two
simplifications: the authors' macro figures average over their query sets (``split_meta_pairs.json``), here a set is all
pairs with the same query; and their rates of false rejections and alarms take half of all pairs as positive, which is
so in their list, where here the positive pairs are counted.

Annotations: ``{"query-target": [[query start, target start, query end, target end], ...]}``, in seconds; the list is
``pair_file_test.csv`` with ``query_id, reference_id`` (gzipped or not): pairs on it without labels are negative, labels
of pairs not on it do not count. Without a list the labelled pairs are evaluated.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from functools import cached_property

from visil.errors import UsageError
from visil.evaluation.annotations import AnyPath, TrueSegments, read_csv, read_label_file
from visil.evaluation.benchmark import Figures, unique
from visil.evaluation.predictions import AnyScores, Pair, Segments
from visil.evaluation.segment_metrics import coverage_figures, pair_coverage


@dataclass(frozen=True)
class Vcsl:
    """VCSL with its annotation."""

    pairs: tuple[Pair, ...]
    labels: TrueSegments

    name = "vcsl"
    measures = frozenset({"segments"})

    @cached_property
    def queries(self) -> tuple[str, ...]:
        """First videos of pairs."""
        return unique([query for query, _ in self.pairs])

    @cached_property
    def database(self) -> frozenset[str]:
        """Second videos of pairs."""
        return frozenset(target for _, target in self.pairs)

    @cached_property
    def _targets(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for query, target in self.pairs:
            found.setdefault(query, []).append(target)
        return found

    def candidates(self, query: str) -> list[str]:
        """The videos that a query is paired with."""
        return self._targets[query]

    def evaluate(
        self,
        scores: AnyScores,  # noqa: ARG002
        available: Set[str] | None = None,
        *,
        segments: Segments | None = None,
    ) -> Figures:
        """Precision, recall and F1 over pairs and over queries, false rejections and alarms, and what took part."""
        if segments is None:
            raise UsageError("vcsl is evaluated by segments, and scores alone have none")
        known = self.database.union(self.queries)
        mentioned = {video for pair in segments for video in pair}
        if not mentioned & known and segments:
            raise UsageError(f"no segments of any video of vcsl: its ids are such as {self.queries[0]!r}")
        usable = known if available is None else known & available
        pairs = [pair for pair in self.pairs if usable.issuperset(pair)]
        coverage = {
            pair: pair_coverage(segments.get(pair, ()), self.labels.pairs.get(pair, ())) for pair in pairs
        }
        listed = frozenset(self.pairs)
        asked = {query for query, _ in pairs}
        return coverage_figures(coverage) | {
            "pairs": len(pairs),
            "positive_pairs": sum(pair.true for pair in coverage.values()),
            "queries": len(asked),
            "missing_queries": len(self.queries) - len(asked),
            "missing_videos": len(known - usable),
            "missing_pairs": sum(pair not in segments for pair in pairs),
            "unknown_ids": len(mentioned - known),
            "unlisted_labels": sum(pair not in listed for pair in self.labels.pairs),
            "unusable_labels": self.labels.unusable,
        }


def read_vcsl(annotations: AnyPath, ids: AnyPath | None = None) -> Vcsl:
    """VCSL from its labels, and the list of pairs where there is one."""
    labels = read_label_file(annotations, "VCSL")
    if ids is None:
        return Vcsl(tuple(labels.pairs), labels)
    rows = read_csv(ids, ("query_id", "reference_id"))
    return Vcsl(tuple(dict.fromkeys((row["query_id"], row["reference_id"]) for _, row in rows)), labels)
