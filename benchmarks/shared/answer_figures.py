"""What a set of answers is worth: ranking, verdicts, segments and false alarms, from judged pairs and the truth."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.reliability import EDGES, FEW, Bins, reliability
from visil.evaluation.metrics import harmonic_mean
from visil.evaluation.segment_metrics import PairCoverage, coverage_figures, overlap, pair_coverage
from visil.matching.localize import Segment

SURE = 0.5
"""The confidence from which a stranger counts as a false alarm."""
RATES = (1_000, 10_000)
ENDS_S = 0.5
SHOWN = "of a source that the query shows"


@dataclass(frozen=True)
class Judged:
    """What was said of one pair, and what is true of it."""

    query: str
    target: str
    evidence: float
    confidence: float
    verdict: str
    segments: tuple[Segment, ...]
    true: bool

    @property
    def alarm(self) -> bool:
        """Whether it is called a copy or related."""
        return self.verdict in ("copy", "related")


def figures(truth: Mapping[str, Any], judged: Sequence[Judged], half: str) -> dict[str, Any]:
    """All figures of one half of a set."""
    queries = {query["file"]: query for query in truth["queries"] if query["half"] == half}
    own = [pair for pair in judged if pair.query in queries]
    right = {pair.query: pair for pair in own if pair.true}
    strangers = [pair for pair in own if not pair.true]
    result: dict[str, Any] = {"queries": len(queries), "pairs": len(own)}
    if len(own) == len(queries) * len(truth["database"]):
        result |= ranking(queries, own)
        result["found at one false alarm in"] = {f"{n:,}": found_at(own, n) for n in RATES}
    coverage = {(q, p.target): _coverage(p, queries[q]) for q, p in right.items()}
    shares = [_share(pair) for pair in coverage.values()]
    result |= {
        "true pairs": dict(Counter(pair.verdict for pair in right.values())),
        "true pairs without a segment": sum(not pair.segments for pair in right.values()),
        "segment F1": _mean(shares),
        "segment F1 by edit": _by(queries, dict(zip(right, shares, strict=True))),
        "VCSL": {k: v for k, v in coverage_figures(coverage).items() if k in ("precision", "recall", "F1")},
        "ends within 0.5 s": _mean([_ends_right(p, queries[q]) for q, p in right.items()]),
        "strangers": alarms(strangers),
        "copy or related without a segment": sum(pair.alarm and not pair.segments for pair in own),
    }
    return result


def ranking(queries: Mapping[str, Mapping[str, Any]], pairs: Sequence[Judged]) -> dict[str, Any]:
    """mAP, with 1 / rank for each query since it has one original; a stranger of equal evidence stands before it."""
    by_query: dict[str, list[Judged]] = defaultdict(list)
    for pair in pairs:
        by_query[pair.query].append(pair)
    ranks = {}
    for query, own in by_query.items():
        evidence = next(pair.evidence for pair in own if pair.true)
        ranks[query] = 1 / sum(pair.evidence >= evidence for pair in own)
    by_edit = _by(queries, ranks)
    worst = min(by_edit, key=lambda name: by_edit[name])
    settings = {query: [str(told["setting"])] for query, told in queries.items()}
    return {
        "mAP": _mean(ranks.values()),
        "worst edit": {worst: by_edit[worst]},
        "mAP by setting": _grouped(settings, ranks),
        "mAP by edit": by_edit,
    }


def _by(queries: Mapping[str, Mapping[str, Any]], values: Mapping[str, float]) -> dict[str, float]:
    """By edit: a query counts for each edit of its chain."""
    names = {q: [e["name"] for e in told["edits"]] for q, told in queries.items()}
    for query, told in queries.items():
        names[query] += ["reversal"] if told.get("reversed") else []
    return _grouped(names, values)


def _grouped(groups: Mapping[str, Sequence[str]], values: Mapping[str, float]) -> dict[str, float]:
    gathered: dict[str, list[float]] = defaultdict(list)
    for query, value in values.items():
        for name in groups[query]:
            gathered[name].append(value)
    return {name: round(_mean(gathered[name]), 4) for name in sorted(gathered)}


def true_segment(query: Mapping[str, Any]) -> Segment:
    """Where the copy is."""
    (q0, q1), (t0, t1) = query["query_span"], query["original_span"]
    return Segment((q0, q1), (t0, t1), 1.0)


def _coverage(pair: Judged, query: Mapping[str, Any]) -> PairCoverage:
    return pair_coverage(pair.segments, [true_segment(query)])


def _share(pair: PairCoverage) -> float:
    """F1 of one true pair: precision and recall are means of both videos' (geometric); nothing found is 0."""
    return harmonic_mean(sqrt(pair.precision), sqrt(pair.recall)) if pair.predicted else 0.0


def _ends_right(pair: Judged, query: Mapping[str, Any]) -> bool:
    """Whether what was found of the true stretch, as one, begins and ends where it does in the query."""
    true = true_segment(query)
    met = [segment.query for segment in pair.segments if overlap(segment, true)]
    if not met:
        return False
    start, end = min(span[0] for span in met), max(span[1] for span in met)
    return abs(start - true.query[0]) <= ENDS_S and abs(end - true.query[1]) <= ENDS_S


def found_at(pairs: Sequence[Judged], one_in: int) -> float:
    """Share of true pairs with more evidence than all strangers but one in so many; none, where there are fewer."""
    strange = sorted((pair.evidence for pair in pairs if not pair.true), reverse=True)
    allowed = len(strange) // one_in
    bar = strange[allowed] if allowed < len(strange) else -np.inf
    return _mean([pair.evidence > bar for pair in pairs if pair.true])


def alarms(strangers: Sequence[Judged]) -> dict[str, Any]:
    """How many pairs that share nothing are taken for more, and how many of 10,000 that is."""
    counts = {
        "sure": sum(pair.confidence >= SURE for pair in strangers),
        "copy": sum(pair.verdict == "copy" for pair in strangers),
        "related": sum(pair.verdict == "related" for pair in strangers),
        "with a segment": sum(bool(pair.segments) for pair in strangers),
    }
    each = 10_000 / max(1, len(strangers))
    return {
        "pairs": len(strangers),
        **counts,
        "copy per 10,000": round(counts["copy"] * each, 2),
        "sure per 10,000": round(counts["sure"] * each, 2),
    }


def by_kind(truth: Mapping[str, Any], judged: Sequence[Judged]) -> dict[str, dict[str, Any]]:
    """False alarms by kind of the stranger, by what is around it, and where it is of a source that the query shows."""
    notes = truth["notes"]
    shown = {query["file"]: _sources_shown(truth, query) for query in truth["queries"]}
    groups: dict[str, list[Judged]] = defaultdict(list)
    for pair in judged:
        if pair.true:
            continue
        note = notes[pair.target]
        groups[note["kind"]].append(pair)
        if note["dressing"] != "none":
            groups[f"dressed: {note['dressing']}"].append(pair)
        if note["source"] in shown[pair.query]:
            groups[SHOWN].append(pair)
    return {name: alarms(groups[name]) for name in sorted(groups, key=plain_first)}


def plain_first(group: str) -> tuple[bool, str]:
    """Sorts kinds before groups that lie across them."""
    return ":" in group or group == SHOWN, group


def _sources_shown(truth: Mapping[str, Any], query: Mapping[str, Any]) -> set[str]:
    foreign = truth.get("foreign_notes", {})
    pieces = {foreign[piece["file"]]["source"] for piece in query["foreign"] if piece["file"] in foreign}
    return pieces | {truth["notes"][query["original"]]["source"]}


def worst_kind(kinds: Mapping[str, Mapping[str, Any]], count: str = "copy per 10,000") -> dict[str, float]:
    """The kind with most false alarms."""
    plain = {name: row[count] for name, row in kinds.items() if not plain_first(name)[0]}
    name = max(plain, key=lambda kind: plain[kind])
    return {name: plain[name]}


def reliability_by_kind(truth: Mapping[str, Any], judged: Sequence[Judged]) -> dict[str, Bins]:
    """Confidence against truth, over all and by kind of the video that a query is compared with."""
    kinds = sorted({note["kind"] for note in truth["notes"].values()})
    found = {"all": _reliability(judged)}
    for kind in kinds:
        own = [pair for pair in judged if truth["notes"][pair.target]["kind"] == kind]
        if any(pair.true for pair in own):
            found[kind] = _reliability(own, FEW)
    return found


def _reliability(pairs: Sequence[Judged], edges: tuple[float, ...] = EDGES) -> Bins:
    values: NDArray[np.float64] = np.array([pair.confidence for pair in pairs])
    return reliability(values, np.array([pair.true for pair in pairs]), edges)


def _mean(values: Iterable[float]) -> float:
    held = list(values)
    return float(sum(held) / len(held)) if held else 0.0
