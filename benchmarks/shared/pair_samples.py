"""What a calibration is fitted on: for every pair, what its stretches show, whether it shares footage, and its kind."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import visil
from shared.copy_sets import embedded
from shared.pair_truth import TrueStretch, lies_on, true_stretches
from visil.compare import matches
from visil.compare.judge import Judged, Pair
from visil.compare.refinement import refined
from visil.matching.calibration import Calibration

OPEN = Calibration(bias=0.0, score=0.0, stretch=1.0, stretch_cap=10.0, related=0.5)
"""A curve under which nothing is too weak to be looked at."""


@dataclass(frozen=True)
class Shown:
    """One stretch as the curve sees it."""

    strength: float
    agreement: float
    in_step: float
    weight: float
    likeness: float = 0.0
    proven: float = 1.0
    true: bool = False
    """Whether it is of footage that both share."""

    @classmethod
    def of(cls, judged: Judged, truth: Sequence[TrueStretch]) -> Shown:
        """From what was judged."""
        moved = judged.moves
        true = any(lies_on(judged.segment, stretch) for stretch in truth)
        told = (moved.agreement, moved.in_step, moved.weight, judged.segment.score, moved.proven)
        return cls(judged.strength, *told, true)


@dataclass(frozen=True)
class Sample:
    """A pair: its stretches, its size, whether it is related, what kind it is, and of which sources it is made."""

    stretches: tuple[Shown, ...]
    frame_pairs: int
    related: bool
    kind: str
    sources: frozenset[str]
    group: str
    """"set" or "case": these weigh the same."""
    score: float = 0.0
    """CS_v."""


def from_set(model: visil.ViSiL, copyset: Path, features: Path) -> Iterator[Sample]:
    """Every query of a copy set with every video of its database, as a collection compares them, alone."""
    told = json.loads((copyset / "truth.json").read_text())
    names = told["database"]
    notes = told.get("notes", {})
    database = embedded(model, [copyset / "database" / name for name in names], features)
    queries = embedded(model, [copyset / "queries" / query["file"] for query in told["queries"]], features)
    scorer = model.scorer()
    for query, video in zip(told["queries"], queries, strict=True):
        found = matches.measured_many(model, scorer, video, database)
        for name, (pair, judged) in zip(names, found, strict=True):
            related = name == query["original"]
            target = _note(notes, name)
            kind = query["half"] if related else str(target.get("kind", "strangers"))
            sources = frozenset(
                str(_note(notes, one).get("source", one.split("-")[0])) for one in (name, query["original"])
            )
            truth = [_truth(query)] if related else []
            yield _sample(pair, judged, truth, kind, sources, "set")


def _truth(query: Mapping[str, Any]) -> TrueStretch:
    here, there = ((float(low), float(high)) for low, high in (query["query_span"], query["original_span"]))
    return TrueStretch(here, there, bool(query.get("reversed", False)))


def _note(notes: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = notes.get(name, {})
    return found


def from_cases(model: visil.ViSiL, cases: Path, split: str) -> Iterator[Sample]:
    """Every pair case of a split, by a frame a second and by a closer look."""
    scorer = model.scorer()
    for case in json.loads((cases / "truth.json").read_text())["cases"]:
        if case["split"] != split:
            continue
        query, target = (model.embed(cases / case[side]) for side in ("query", "target"))
        pair, judged = matches.measured(model, scorer, query, target)
        truth, source = true_stretches(case), frozenset({case["name"]})
        yield _sample(pair, judged, truth, case["family"], source, "case")
        looks = model.look(query), model.look(target)
        if judged and looks[0] is not None and looks[1] is not None:
            closely = refined(pair, judged, (looks[0], looks[1]))
            yield _sample(pair, closely, truth, case["family"], source, "case")


def _sample(
    pair: Pair,
    judged: Sequence[Judged],
    truth: Sequence[TrueStretch],
    kind: str,
    sources: frozenset[str],
    group: str,
) -> Sample:
    shown = tuple(Shown.of(one, truth) for one in judged)
    return Sample(shown, len(pair.query) * len(pair.target), bool(truth), kind, sources, group, pair.shown)


def opened(model: visil.ViSiL) -> visil.ViSiL:
    """The model with a curve under which everything is looked at."""
    model.config = replace(model.config, calibration=OPEN)
    return model
