"""FIVR-200K and its part FIVR-5K: duplicate (DSVR), complementary (CSVR) and incident (ISVR) scene retrieval.

The mean over queries of AP; the query itself has no rank. Relevant are the ids labelled near-duplicate (ND) or
duplicate scene (DS); for CSVR also complementary scene (CS); for ISVR also incident scene (IS); as far as they are in
the database and available. As in the authors' code, a query that its own labels name stays one of those to find
although it has no rank: one query of FIVR-200K, whose ISVR so stays below 1. A query without any relevant video
available is left out of that mean and counted.

Annotations: the authors' ``fivr.pickle``, labels and ids in one; or FIVR-200K's ``annotation.json``, and then a list of
ids: ``fivr.pickle`` again, ``{"query": [...], "database": [...]}`` in JSON, or a text file of the database's ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from visil.errors import FileError, UsageError
from visil.evaluation.annotations import AnyPath, Layout, read_ids, read_json
from visil.evaluation.benchmark import Figures, RankedTargets, taking_part, unique
from visil.evaluation.metrics import mean
from visil.evaluation.predictions import AnyScores, Segments, as_scores
from visil.evaluation.unpickle import read_pickle
from visil.video.container import VIDEO_SUFFIXES

Size = Literal["5k", "200k"]

TASKS = {
    "DSVR": ("ND", "DS"),
    "CSVR": ("ND", "DS", "CS"),
    "ISVR": ("ND", "DS", "CS", "IS"),
}
"""Labels that make a video relevant."""

Labels = Mapping[str, Mapping[str, frozenset[str]]]
"""{query: {label: ids}}"""


@dataclass(frozen=True)
class Fivr:
    """FIVR with its annotation."""

    name: str
    labels: Labels
    queries: tuple[str, ...]
    database: frozenset[str]

    measures = frozenset({"scores"})

    def candidates(self, query: str) -> frozenset[str]:
        """All of the database but the query."""
        return self.database - {query}

    def relevant(self, query: str, task: str) -> frozenset[str]:
        """The videos to be found for a query, the query itself among it where its labels say so."""
        own = self.labels.get(query, {})
        labelled = frozenset().union(*(own.get(label, frozenset()) for label in TASKS[task]))
        return labelled & self.database

    def evaluate(
        self,
        scores: AnyScores,
        available: Set[str] | None = None,
        *,
        segments: Segments | None = None,  # noqa: ARG002
    ) -> Figures:
        """{"DSVR": mAP, "CSVR": mAP, "ISVR": mAP} and what took part."""
        part = taking_part(self, scores, available)
        found: dict[str, list[float]] = {task: [] for task in TASKS}
        empty: set[str] = set()
        for query in part.queries:
            ranked = RankedTargets(part.scores[query], part.database, but=query)
            for task in TASKS:
                relevant = self.relevant(query, task) & part.database
                if relevant:
                    found[task].append(ranked.precision(relevant))
                else:
                    empty.add(query)
        figures: Figures = {task: mean(values) for task, values in found.items()}
        return figures | part.counts | {"queries_without_truth": len(empty)}


def read_fivr(size: Size, annotations: AnyPath, ids: AnyPath | None = None) -> Fivr:
    """FIVR from the authors' pickle, or from ``annotation.json`` and a list of ids."""
    layout = Layout(annotations, "FIVR")
    if Path(annotations).suffix.lower() == ".json":
        labels = _labels(layout, read_json(annotations))
        if ids is None:
            raise UsageError(
                "FIVR's annotation.json does not say which videos are in the database: give their --ids, "
                "or the authors' fivr.pickle as --annotations"
            )
        queries, database = _ids(size, ids, tuple(labels))
    else:
        content = read_pickle(annotations)
        labels = _labels(layout, layout.entry(content, "annotation"))
        queries, database = _part(layout, content, size) if ids is None else _ids(size, ids, tuple(labels))
    unlabelled = next((query for query in queries if query not in labels), None)
    if unlabelled is not None:
        layout.wrong(f"the query {unlabelled!r} has no labels")
    if not queries or not database:
        layout.wrong("it names no queries or no database")
    return Fivr(f"fivr-{size}", labels, queries, database)


def hardest_part(
    fivr: Fivr,
    scores: AnyScores,
    *,
    queries: int = 50,
    share: float = 0.3,
    videos: int = 5000,
    seed: int = 0,
) -> dict[str, list[str]]:
    """FIVR-5K out of FIVR-200K as the paper describes it (Sec. 5.1), as a list that :func:`read_fivr` takes.

    The queries whose DSVR is lowest by ``scores``, the paper's by LBoW; of each of their labels a random ``share`` of
    its videos. The paper does not say how that becomes 5,000: others, which none of these queries has a label for,
    fill it up, as in the published list.
    """
    rng = np.random.default_rng(seed)
    rows = as_scores(scores)
    precision = {}
    for query in fivr.queries:
        relevant = fivr.relevant(query, "DSVR")
        if relevant and query in rows:
            ranked = RankedTargets(rows[query], fivr.database, but=query)
            precision[query] = ranked.precision(relevant)
    hardest = sorted(precision, key=lambda query: (precision[query], query))[:queries]
    picked: set[str] = set()
    labelled: set[str] = set()
    for query in sorted(hardest):
        for _, ids in sorted(fivr.labels[query].items()):
            own = sorted((ids & fivr.database) - {query})
            labelled.update(own)
            few = max(1, round(share * len(own)))
            picked.update(own[place] for place in rng.permutation(len(own))[:few])
    others = sorted(fivr.database - labelled - set(hardest))
    fill = rng.permutation(len(others))[: max(0, videos - len(picked))]
    return {"query": sorted(hardest), "database": sorted(picked | {others[place] for place in fill})}


def _labels(layout: Layout, content: object) -> dict[str, dict[str, frozenset[str]]]:
    labels: dict[str, dict[str, frozenset[str]]] = {}
    for query, own in layout.mapping(content, "the annotation").items():
        if not isinstance(query, str):
            layout.wrong(f"{query!r} is no id of a query")
        lists = layout.mapping(own, f"the labels of {query!r}")
        labels[query] = {
            str(label): frozenset(layout.ids(some, f"{label!r} of {query!r}"))
            for label, some in lists.items()
        }
    return labels


def _part(layout: Layout, content: object, size: Size) -> tuple[tuple[str, ...], frozenset[str]]:
    part = layout.entry(content, size)
    queries = unique(layout.ids(layout.entry(part, "queries"), f"the queries of {size!r}"))
    return queries, frozenset(layout.ids(layout.entry(part, "database"), f"the database of {size!r}"))


def _ids(size: Size, path: AnyPath, labelled: tuple[str, ...]) -> tuple[tuple[str, ...], frozenset[str]]:
    layout = Layout(path, "FIVR's ids")
    match Path(path).suffix.lower():
        case ".json":
            content = read_json(path)
            queries, database = (
                [_bare(name) for name in layout.ids(layout.entry(content, key), key)]
                for key in ("query", "database")
            )
            return unique(queries), frozenset(database)
        case ".pickle" | ".pkl" | ".pk":
            return _part(layout, read_pickle(path), size)
    if size == "5k":
        raise FileError(
            path, "FIVR-5K's list must name queries too: fivr.pickle, or JSON with query and database"
        )
    return labelled, frozenset(read_ids(path))


def _bare(name: str) -> str:
    """An id without the ending of a file."""
    return name[: -len(Path(name).suffix)] if Path(name).suffix.lower() in VIDEO_SUFFIXES else name
