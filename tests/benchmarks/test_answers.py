"""The wide copy benchmark: what its truth says of copies, and the figures of answers, worked out by hand."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from visil.matching.localize import Segment

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(
    not BENCHMARKS.is_dir(), reason="benchmarks are not part of this distribution"
)


@pytest.fixture
def copyset(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    module = importlib.import_module("copyset")
    monkeypatch.setattr(module, "SHORT_SIDE", 64)
    return module


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("answers")


def footage(copyset: ModuleType, root: Path) -> Path:
    """Four clips of two kinds, a second of black before and after 4 s whose brightness tells the frame."""
    notes = []
    for i, name in enumerate(("slide/a.mp4", "slide/b.mp4", "map/a.mp4", "map/b.mp4")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        black = [np.zeros((64, 128, 3), np.uint8)] * 15
        shades = [np.full((64, 128, 3), 70 + 3 * frame, np.uint8) for frame in range(60)]
        for shade in shades:
            shade[:, : 16 * (i + 1)] = 30
        copyset.encode([*black, *shades, *black], root / name, 12)
        kind = name.split("/")[0]
        note = {"file": name, "kind": kind, "source": f"{kind} source", "dressing": "black"}
        notes.append(note | {"content": [1.0, 5.0], "plain": float(name == "map/b.mp4"), "made_of": []})
    (root / "footage.json").write_text(json.dumps({"files": notes}))
    return root


def shade(frame: np.ndarray[Any, Any]) -> int:
    """Which frame of the original it was, from its brightness at the right."""
    return round((float(frame[:, -16:].mean()) - 70) / 3) + 15


@pytest.mark.parametrize(("factor", "backwards"), [(2.0, False), (0.5, False), (1.0, True)])
def test_each_second_of_a_copy_is_where_the_truth_says(
    copyset: ModuleType, tmp_path: Path, factor: float, backwards: bool
) -> None:
    sources = copyset.divide_wide(footage(copyset, tmp_path / "footage"), 0)
    original = next(name for name in sources.originals if name.startswith("slide"))
    (tmp_path / "queries").mkdir()
    edits = [{"name": "speed", "factor": factor}]
    query = copyset.Query("q.mp4", "hard", "buried", original, edits, reversed=backwards)
    made = copyset.build_query(query, sources, tmp_path, seed=1)
    frames = copyset.read_clip(tmp_path / "queries" / "q.mp4").frames
    start, end = made.original_span
    assert 1.0 <= start < end <= 5.0
    assert made.rate == pytest.approx(factor, rel=0.02)
    first, last = (round(t * 15) for t in made.query_span)
    for i in range(first, last, 5):
        passed = (i - first) / 15 * made.rate
        second = end - 1 / 15 - passed if backwards else start + passed
        assert abs(shade(frames[i]) - second * 15) <= 2


def test_a_wide_set_names_kinds_and_copies_only_what_shows_something(
    copyset: ModuleType, tmp_path: Path
) -> None:
    sources = copyset.divide_wide(footage(copyset, tmp_path / "footage"), 0)
    assert {name.split("/")[0] for name in sources.foreign} == {"slide", "map"}
    assert "map/b.mp4" not in sources.queried
    planned = copyset.plan(sources, 0, 38, 40)
    assert {query.edits[0]["name"] for query in planned[:38]} == set(sources.edits)
    assert sum(query.reversed for query in planned) == 2
    for query in planned[38:]:
        families = [sources.edits[str(edit["name"])].family for edit in query.edits]
        assert len(families) == len(set(families)), families


NOTES = {
    "x": {"kind": "slide", "source": "deck", "dressing": "none"},
    "y": {"kind": "slide", "source": "deck", "dressing": "title"},
    "z": {"kind": "map", "source": "atlas", "dressing": "none"},
}


HARD = (("x", -1.0), ("y", -1.0), ("z", -1.0))
"""Of equal evidence, the original comes last."""


def query(name: str, half: str, original: str, edits: list[str]) -> dict[str, Any]:
    return {
        "file": name,
        "half": half,
        "setting": "alone",
        "original": original,
        "edits": [{"name": edit} for edit in edits],
        "original_span": [10.0, 14.0],
        "query_span": [0.0, 4.0],
        "reversed": False,
        "foreign": [{"file": "f", "span": [0, 1]}],
    }


TRUTH: dict[str, Any] = {
    "sources": ["slide", "map"],
    "seed": 0,
    "database": ["x", "y", "z"],
    "notes": NOTES,
    "foreign_notes": {"f": {"kind": "map", "source": "atlas", "dressing": "none"}},
    "queries": [query("1", "easy", "x", ["crop"]), query("2", "easy", "z", ["dark"])],
}


def judged(answers: ModuleType) -> list[Any]:
    """Query 1 finds x, half of it; query 2 has its original z second, without a segment; y is a false alarm twice."""
    half = Segment((0.0, 2.0), (10.0, 12.0), 0.9)
    wrong = Segment((0.0, 4.0), (0.0, 4.0), 0.6)
    rows = [
        ("1", "x", 3.0, 0.95, "copy", (half,)),
        ("1", "y", 1.0, 0.7, "related", (wrong,)),
        ("1", "z", -2.0, 0.1, "unrelated", ()),
        ("2", "x", -3.0, 0.05, "unrelated", ()),
        ("2", "y", 4.0, 0.99, "copy", ()),
        ("2", "z", 2.0, 0.9, "related", ()),
    ]
    right = {"1": "x", "2": "z"}
    return [answers.Judged(*row, true=right[row[0]] == row[1]) for row in rows]


def test_figures_of_answers(answers: ModuleType) -> None:
    found = answers.figures(TRUTH, judged(answers), "easy")
    assert found["mAP"] == (1 + 1 / 2) / 2
    assert found["worst edit"] == {"dark": 0.5}
    assert found["true pairs"] == {"copy": 1, "related": 1}
    assert found["true pairs without a segment"] == 1
    # Query 1: all that was found is true, half of what is true was found on either side; query 2: nothing.
    assert found["segment F1"] == pytest.approx((2 * 1 * 0.5 / 1.5 + 0) / 2, abs=1e-5)
    assert found["VCSL"]["recall"] == pytest.approx(0.5 * 0.5 / 2, abs=1e-5)
    assert found["ends within 0.5 s"] == 0
    # The stranger of evidence 4 is above both true pairs, and with 4 strangers none may be let through.
    assert found["found at one false alarm in"] == {"1,000": 0.0, "10,000": 0.0}
    assert found["copy or related without a segment"] == 2
    strangers = found["strangers"]
    assert (strangers["pairs"], strangers["sure"], strangers["copy"], strangers["related"]) == (4, 2, 1, 1)
    assert strangers["copy per 10,000"] == 2500


def test_one_false_alarm_in_so_many(answers: ModuleType) -> None:
    pairs = judged(answers)
    # One in four strangers lets the one of evidence 4 through; the next is 1.0, below both true pairs.
    found_at = importlib.import_module("shared.answer_figures").found_at
    assert found_at(pairs, 4) == 1.0
    assert found_at(pairs, 5) == 0.0


def test_how_many_verdicts_are_the_same(answers: ModuleType) -> None:
    other = [
        {"query": pair.query, "target": pair.target, "verdict": pair.verdict} for pair in judged(answers)
    ]
    other[1]["verdict"], other[5]["verdict"] = "copy", "copy"  # a stranger's and an original's
    assert answers.same_verdicts(judged(answers), other) == {
        "pairs": 6,
        "the same": round(4 / 6, 5),
        "true pairs called otherwise": 1,
        "strangers called otherwise": 1,
    }


def test_false_alarms_by_kind(answers: ModuleType) -> None:
    kinds = answers.by_kind(TRUTH, judged(answers))
    assert (kinds["slide"]["pairs"], kinds["slide"]["copy"], kinds["map"]["pairs"]) == (3, 1, 1)
    assert kinds["dressed: title"]["copy"] == 1
    # Query 1 shows the deck and, as foreign footage, the atlas; query 2 shows the atlas alone.
    assert kinds["of a source that the query shows"]["pairs"] == 2
    assert answers.worst_kind(kinds) == {"slide": pytest.approx(3333.33)}


def test_confidence_against_truth(answers: ModuleType) -> None:
    bins = answers.reliability_by_kind(TRUTH, judged(answers))
    assert set(bins) == {"all", "slide", "map"}
    # From 0.9 to 0.98 there are both true pairs and no stranger.
    (sure,) = [b for b in bins["all"] if b["confidence"] == pytest.approx(0.925)]
    assert (sure["pairs"], sure["related"]) == (2, 1.0)


def test_runs_are_kept_beside_each_other(answers: ModuleType, tmp_path: Path) -> None:
    truth = TRUTH | {"queries": [*TRUTH["queries"], query("3", "hard", "y", ["crop", "blur"])]}
    hard = [answers.Judged("3", name, evidence, 0.1, "unrelated", (), name == "y") for name, evidence in HARD]
    summary = answers.summary(truth, judged(answers) + hard)
    out = tmp_path / "answers.json"
    answers.keep(out, "before", summary)
    runs = answers.keep(out, "after", summary)
    assert list(json.loads(out.read_text())["runs"]) == list(runs) == ["before", "after"]
    text = answers.table(runs)
    assert "| mAP | 0.750 | 0.333 | 0.750 | 0.333 |" in text
    assert "| dressed: title | 2 / 1 / 1 of 2 | 2 / 1 / 1 of 2 |" in text


def test_strangers_of_the_same_source_come_first(answers: ModuleType) -> None:
    assert answers.some_strangers(TRUTH, TRUTH["queries"][0], 2) == ["y", "z"]
