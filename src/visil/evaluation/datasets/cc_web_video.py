"""CC_WEB_VIDEO: near-duplicates of 24 queries, by the original labels and by the cleaned ones.

The mean over queries of AP. Relevant are the labels E, S, L, M and V of a query's own set; **the query itself is in
its set and counts**: compared with itself it is the first hit. "cc_web" ranks only the videos of the query's set,
"cc_web*" all videos; "cc_web_c" and "cc_web_c*" do so without the videos that the authors excluded as wrongly labelled.
AP is divided by all relevant videos, available or not: a missing video is one not found, as in the authors' code.

Annotation: the authors' ``cc_web_video.pickle``. Ids are ``set/name``, such as ``1/1_1_Y``.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property

from visil.evaluation.annotations import AnyPath, Layout
from visil.evaluation.benchmark import Figures, RankedTargets, taking_part, unique
from visil.evaluation.metrics import mean
from visil.evaluation.predictions import AnyScores, Segments
from visil.evaluation.unpickle import read_pickle

POSITIVE = frozenset("ESLMV")
"""Exactly duplicate, similar, different length, major change, different version."""

VARIANTS = {
    "cc_web": (False, False),
    "cc_web*": (True, False),
    "cc_web_c": (False, True),
    "cc_web_c*": (True, True),
}
"""Whether all videos have a rank, and whether the excluded ones are left out."""


@dataclass(frozen=True)
class QuerySet:
    """One query with the labels of its set; ids that no video here has are kept as ``#number``."""

    query: str
    labels: Mapping[str, str]
    excluded: frozenset[str]

    def relevant(self, clean: bool) -> frozenset[str]:
        """The videos to be found."""
        found = frozenset(video for video, label in self.labels.items() if label in POSITIVE)
        return found - self.excluded if clean else found


@dataclass(frozen=True)
class CcWebVideo:
    """CC_WEB_VIDEO with its annotation."""

    sets: tuple[QuerySet, ...]
    database: frozenset[str]

    name = "cc-web-video"
    measures = frozenset({"scores"})

    @cached_property
    def queries(self) -> tuple[str, ...]:
        """The query of each set."""
        return unique([one.query for one in self.sets])

    def candidates(self, query: str) -> frozenset[str]:  # noqa: ARG002
        """All of the database, the query included."""
        return self.database

    def evaluate(
        self,
        scores: AnyScores,
        available: Set[str] | None = None,
        *,
        segments: Segments | None = None,  # noqa: ARG002
    ) -> Figures:
        """{"cc_web": mAP, "cc_web*": …, "cc_web_c": …, "cc_web_c*": …} and what took part."""
        part = taking_part(self, scores, available)
        figures: Figures = {}
        for name, (everything, clean) in VARIANTS.items():
            found = []
            for one in self.sets:
                relevant = one.relevant(clean)
                if one.query not in part.scores or not relevant:
                    continue
                counting = part.database if everything else part.database.intersection(one.labels)
                counting = counting - one.excluded if clean else counting
                found.append(RankedTargets(part.scores[one.query], counting).precision(relevant))
            figures[name] = mean(found)
        return figures | part.counts


def read_cc_web_video(annotations: AnyPath, ids: AnyPath | None = None) -> CcWebVideo:  # noqa: ARG001
    """CC_WEB_VIDEO from the authors' pickle; there is no list of ids beside it."""
    layout = Layout(annotations, "CC_WEB_VIDEO")
    content = read_pickle(annotations)
    names: dict[object, str] = {}
    for name, number in layout.mapping(layout.entry(content, "index"), "'index'").items():
        if not isinstance(name, str) or not isinstance(number, int):
            layout.wrong("'index' must give each id a number")
        names[number] = name
    queries = layout.ids(layout.entry(content, "queries"), "'queries'")
    truth = layout.list_of(layout.entry(content, "ground_truth"), "'ground_truth'")
    excluded = layout.list_of(layout.entry(content, "excluded"), "'excluded'")
    if not queries or not len(queries) == len(truth) == len(excluded):
        layout.wrong(
            f"{len(queries)} queries, {len(truth)} sets of labels and {len(excluded)} of excluded videos do not fit"
        )
    sets = []
    for query, labels, left_out in zip(queries, truth, excluded, strict=True):
        own = layout.mapping(labels, f"the labels of {query!r}")
        sets.append(
            QuerySet(
                query,
                {names.get(video, f"#{video}"): str(label) for video, label in own.items()},
                frozenset(names.get(v, f"#{v}") for v in layout.list_of(left_out, f"excluded of {query!r}")),
            )
        )
    return CcWebVideo(tuple(sets), frozenset(names.values()))
