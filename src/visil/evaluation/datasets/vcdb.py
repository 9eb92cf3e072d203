"""VCDB: partial copies among 528 core videos, as retrieval and segment by segment.

Retrieval: every core video is a query against all others (and the background videos, where their list is given); AP is
averaged over queries ("mAP"), and taken once over all pairs of all queries together ("uAP"). A video has no rank in its
own list; queries without an available copy are left out of the mean and counted.

Segments ("segments"): VCDB's own measure, where any overlap on both sides makes a segment right; and ("coverage")
VCSL's, by the time covered, over pairs that are true or predicted. A pair counts once whichever of the two is the
query: predictions of (b, a) are turned round where none of (a, b) are given. Videos with themselves are left out.

Annotations: TransVCL's ``label_file.json`` has segments; ndvr-dml's ``vcdb.pickle`` (``index``, ``video_pairs``) and
S2VS's (``queries``, ``positives``, ``dataset``) know pairs only, and the background videos. Further background videos:
a list of ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from visil.evaluation.annotations import AnyPath, Layout, read_ids, read_label_file
from visil.evaluation.benchmark import Figures, RankedTargets, TakingPart, taking_part, unique
from visil.evaluation.metrics import average_precision, mean
from visil.evaluation.predictions import AnyScores, Pair, Segments
from visil.evaluation.segment_metrics import coverage_figures, hit_figures, pair_coverage
from visil.evaluation.unpickle import read_pickle
from visil.matching.localize import Segment


@dataclass(frozen=True)
class Vcdb:
    """VCDB with its annotation."""

    queries: tuple[str, ...]
    related: Mapping[str, frozenset[str]]
    """Copies of each query, both ways."""
    background: frozenset[str]
    truth: Segments | None = None
    """Where pairs of two different videos match, each pair once; None where the annotation does not say."""

    name = "vcdb"

    @cached_property
    def measures(self) -> frozenset[str]:
        """Segments only where the annotation has them."""
        return frozenset({"scores"} if self.truth is None else {"scores", "segments"})

    @cached_property
    def database(self) -> frozenset[str]:
        """Core and background videos."""
        return self.background.union(self.queries)

    def candidates(self, query: str) -> frozenset[str]:
        """All videos but the query."""
        return self.database - {query}

    def evaluate(
        self,
        scores: AnyScores,
        available: Set[str] | None = None,
        *,
        segments: Segments | None = None,
    ) -> Figures:
        """{"mAP": …, "uAP": …} of the scores, {"segments": {…}, "coverage": {…}} of segments, and what took part."""
        figures: Figures = {}
        if scores or segments is None:
            part = taking_part(self, scores, available)
            figures = self._retrieval(part) | part.counts
        if segments is not None and self.truth is not None:
            figures |= self._segments(segments, available)
        return figures

    def _retrieval(self, part: TakingPart) -> Figures:
        found, values, right, total = [], [], [], 0
        for query in part.queries:
            relevant = self.related.get(query, frozenset()) & part.database
            ranked = RankedTargets(part.scores[query], part.database, but=query)
            if relevant:
                found.append(ranked.precision(relevant))
            values.append(ranked.values)
            right.append(ranked.flags(relevant))
            total += len(relevant)
        return {
            "mAP": mean(found),
            "uAP": average_precision(np.concatenate(values), np.concatenate(right), total),
            "queries_without_truth": len(part.queries) - len(found),
        }

    def _segments(self, segments: Segments, available: Set[str] | None) -> Figures:
        assert self.truth is not None
        core = frozenset(self.queries)
        usable = core if available is None else core & available
        truth = {pair: true for pair, true in self.truth.items() if usable.issuperset(pair)}
        predicted: dict[Pair, list[Segment]] = {}
        for pair, some in segments.items():
            way = pair if pair in truth or (pair[0] < pair[1] and pair[::-1] not in truth) else pair[::-1]
            if pair[0] == pair[1] or not usable.issuperset(pair) or not some:
                continue
            if way == pair:
                predicted[way] = list(some)
            elif not segments.get(way):
                predicted[way] = [Segment(s.target, s.query, s.score) for s in some]
        pairs = {
            pair: pair_coverage(predicted.get(pair, ()), truth.get(pair, ())) for pair in {*truth, *predicted}
        }
        return {
            "segments": hit_figures(predicted, truth),
            "coverage": coverage_figures(pairs),
            "true_pairs": len(truth),
            "true_segments": sum(map(len, truth.values())),
        }


def read_vcdb(annotations: AnyPath, ids: AnyPath | None = None) -> Vcdb:
    """VCDB from any of its annotations, and a list of background videos where there is one."""
    background = frozenset(read_ids(ids)) if ids is not None else frozenset()
    if Path(annotations).suffix.lower() == ".json":
        labels = read_label_file(annotations, "VCDB").pairs
        queries = unique([video for pair in labels for video in pair])
        truth = {pair: segments for pair, segments in labels.items() if pair[0] != pair[1]}
        return Vcdb(queries, _related(truth), background - frozenset(queries), truth)
    layout = Layout(annotations, "VCDB")
    content = layout.mapping(read_pickle(annotations), "its content")
    if "positives" in content:
        return _of_s2vs(layout, content, background)
    names = layout.ids(layout.entry(content, "index"), "'index'")
    pairs: list[Pair] = []
    for item in layout.list_of(layout.entry(content, "video_pairs"), "'video_pairs'"):
        numbers = layout.list_of(layout.entry(item, "videos"), "'videos'")
        if len(numbers) != 2 or not all(isinstance(n, int) and 0 <= n < len(names) for n in numbers):
            layout.wrong(f"{str(numbers)[:60]} is no pair of places in 'index'")
        pairs.append((names[int(str(numbers[0]))], names[int(str(numbers[1]))]))
    related = _related(pairs)
    if not related:
        layout.wrong("it names no pairs")
    queries = tuple(name for name in unique(names) if name in related)
    return Vcdb(queries, related, background.union(names) - frozenset(queries))


def _of_s2vs(layout: Layout, content: Mapping[object, object], background: frozenset[str]) -> Vcdb:
    queries = unique(layout.ids(content.get("queries"), "'queries'"))
    positives = layout.mapping(content.get("positives"), "'positives'")
    related = {query: frozenset(layout.ids(positives.get(query, ()), f"{query!r}")) for query in queries}
    if not queries:
        layout.wrong("it names no queries")
    rest = background.union(layout.ids(content.get("dataset", ()), "'dataset'"))
    return Vcdb(queries, {q: some - {q} for q, some in related.items()}, rest - frozenset(queries))


def _related(pairs: Mapping[Pair, object] | list[Pair]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for a, b in pairs:
        if a != b:
            found.setdefault(a, set()).add(b)
            found.setdefault(b, set()).add(a)
    return {video: frozenset(others) for video, others in found.items()}
