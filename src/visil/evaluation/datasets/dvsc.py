"""DVSC-2023, the Video Similarity Challenge: queries with copied stretches against reference videos.

"descriptor_uAP": AP once over all pairs of a query and a reference together, of which only the 25 · (number of queries)
best are taken, divided by all true pairs. In the challenge a pair's score is the best inner product of two descriptors
(at most 512 channels, at most one a second, the 1200 · (number of queries) best of all); here it is whatever the scores
say, so these limits are not applied, and figures compare with the challenge's only where the method keeps to them.

"matching_uAP": the matching track, :func:`visil.evaluation.segment_metrics.matching_average_precision`. In the
challenge all references are searched; from videos, every query is compared with every reference.

Annotation: the ground truth CSV with ``query_id, ref_id, query_start, query_end, ref_start, ref_end``; the list names
all videos (``Q…`` and ``R…``, one a line or the first column of a CSV), those without any copy too. Without a list,
queries and references are those of the ground truth, and whatever else is scored counts as a distractor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from visil.errors import FileError, UsageError
from visil.evaluation.annotations import AnyPath, finite, read_csv, read_ids
from visil.evaluation.benchmark import Figures, unique
from visil.evaluation.metrics import average_precision
from visil.evaluation.predictions import AnyScores, Pair, Scores, Segments, as_scores
from visil.evaluation.segment_metrics import matching_average_precision
from visil.matching.localize import Segment

KEPT = 25
"""Pairs for each query, on average, that the descriptor track takes."""

COLUMNS = ("query_id", "ref_id", "query_start", "query_end", "ref_start", "ref_end")


@dataclass(frozen=True)
class Dvsc:
    """DVSC-2023 with its annotation."""

    queries: tuple[str, ...]
    database: frozenset[str]
    truth: Segments
    listed: bool
    """Whether all videos are known, so that other ids are wrong ones."""

    name = "dvsc-2023"
    measures = frozenset({"scores", "segments"})

    def candidates(self, query: str) -> frozenset[str]:  # noqa: ARG002
        """All references."""
        return self.database

    def evaluate(
        self,
        scores: AnyScores,
        available: Set[str] | None = None,
        *,
        segments: Segments | None = None,
    ) -> Figures:
        """{"descriptor_uAP": …} of scores, {"matching_uAP": …} of segments, and what took part."""
        rows = as_scores(scores)
        known = self.database.union(self.queries)
        mentioned = {video for pair in segments or () for video in pair}.union(
            rows, *(row.targets for row in rows.values())
        )
        if not mentioned & known:
            raise UsageError(f"no scores of any video of dvsc-2023: its ids are such as {self.queries[0]!r}")

        def counts(pair: Pair) -> bool:
            here = available is None or (pair[0] in available and pair[1] in available)
            return here and (not self.listed or (pair[0] in self._queries and pair[1] in self.database))

        truth = {pair: true for pair, true in self.truth.items() if counts(pair)}
        if not truth:
            raise UsageError("none of the true pairs of dvsc-2023 is available")
        taking_part = {query for query in self.queries if available is None or query in available}
        figures: Figures = {}
        if rows:
            figures["descriptor_uAP"] = self._descriptor(rows, truth, len(taking_part), counts)
        if segments is not None:
            counted = {pair: some for pair, some in segments.items() if some and counts(pair)}
            figures["matching_uAP"] = matching_average_precision(counted, truth)
        scored = {query for query in taking_part if query in mentioned}
        return figures | {
            "queries": len(scored),
            "true_pairs": len(truth),
            "missing_queries": len(self.queries) - len(scored),
            "missing_videos": len(known - (mentioned if available is None else available)),
            "unknown_ids": len(mentioned - known),
        }

    @cached_property
    def _queries(self) -> frozenset[str]:
        return frozenset(self.queries)

    @staticmethod
    def _descriptor(rows: Scores, truth: Segments, queries: int, counts: Callable[[Pair], bool]) -> float:
        values, right = [], []
        for query, row in rows.items():
            kept = np.fromiter((counts((query, target)) for target in row.targets), bool, len(row))
            values.append(row.values[kept])
            right.append(np.fromiter(((query, t) in truth for t in row.targets), bool, len(row))[kept])
        return average_precision(
            np.concatenate(values), np.concatenate(right), len(truth), first=KEPT * queries
        )


def read_dvsc(annotations: AnyPath, ids: AnyPath | None = None) -> Dvsc:
    """DVSC-2023 from its ground truth, and the list of all videos where there is one."""
    truth: dict[Pair, list[Segment]] = {}
    for line, row in read_csv(annotations, COLUMNS):
        times = []
        for column in COLUMNS[2:]:
            try:
                time = finite(float(row[column]))
            except ValueError:
                time = None
            if time is None:
                raise FileError(annotations, f"line {line}: {row[column][:40]!r} is no time in seconds")
            times.append(time)
        if times[0] > times[1] or times[2] > times[3]:
            raise FileError(annotations, f"line {line}: a segment ends before it begins")
        pair = (row["query_id"], row["ref_id"])
        truth.setdefault(pair, []).append(Segment((times[0], times[1]), (times[2], times[3]), 1.0))
    if not truth:
        raise FileError(annotations, "is no annotation of DVSC-2023: it names no pairs")
    queries, references = [query for query, _ in truth], [reference for _, reference in truth]
    if ids is not None:
        listed = [video for video in read_ids(ids) if re.fullmatch(r"[QR]\d+", video)]
        if not listed:
            raise FileError(ids, "is no list of DVSC-2023's videos: no id such as Q100001 or R200001 in it")
        queries += [video for video in listed if video[0] == "Q"]
        references += [video for video in listed if video[0] == "R"]
    return Dvsc(unique(queries), frozenset(references), truth, ids is not None)
