"""The copy benchmark, built from clips made here; its scores against ranks worked out by hand."""

from __future__ import annotations

import importlib
import json
import random
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import av
import numpy as np
import pytest

from visil.errors import FileError, UsageError

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SHORT_SIDE = 64
"""Of clips here; they are twice as wide: where 96 or 192 wide, x264 gives the same frames other bytes in some runs."""
pytestmark = pytest.mark.skipif(
    not BENCHMARKS.is_dir(), reason="benchmarks are not part of this distribution"
)


@pytest.fixture
def copyset(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, its pictures smaller than they come: those of a real set take long to encode."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    module = importlib.import_module("copyset")
    monkeypatch.setattr(module, "SHORT_SIDE", SHORT_SIDE)
    return module


@pytest.fixture
def edits(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("shared.copyset_edits")


@pytest.fixture
def score(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("score_copyset")


def colours(count: int) -> list[np.ndarray[Any, np.dtype[np.uint8]]]:
    """Frames told apart by the shade of one half."""
    frames = []
    for i in range(count):
        picture = np.full((64, 96, 3), 200, np.uint8)
        picture[:, :48] = 60 + 2 * i
        frames.append(picture)
    return frames


def write(edits: ModuleType, folder: Path, seeds: range) -> None:
    """Clips of 3 s: coloured squares that differ between clips and move from frame to frame."""
    folder.mkdir(parents=True)
    for seed in seeds:
        small = np.random.default_rng(seed).integers(0, 256, (4, 8, 3), dtype=np.uint8)
        whole = np.kron(small, np.ones((SHORT_SIDE // 4, SHORT_SIDE // 4, 1), np.uint8)).astype(np.uint8)
        edits.encode([np.roll(whole, 2 * i, axis=1) for i in range(45)], folder / f"{seed}.mp4", 20)


def read(path: Path) -> list[np.ndarray[Any, Any]]:
    with av.open(str(path), "r") as container:
        return [frame.to_ndarray(format="rgb24").astype(float) for frame in container.decode(video=0)]


def test_set(copyset: ModuleType, edits: ModuleType, tmp_path: Path) -> None:
    write(edits, tmp_path / "videos" / "a", range(3))
    write(edits, tmp_path / "videos" / "b", range(3, 6))
    out = tmp_path / "set"
    sources = copyset.divide(tmp_path / "videos", ["a", "b"], 3)
    copyset.build(sources, out, seed=3, easy=1, hard=3)
    truth = json.loads((out / "truth.json").read_text())
    foreign = {name.replace("/", "-") for name in truth["foreign"]}
    assert len(truth["database"]) == 4
    assert len(foreign) == 2
    assert not foreign & set(truth["database"])
    assert [q["setting"] for q in truth["queries"][1:]] == ["buried", "picture-in-picture", "split-screen"]
    for query in truth["queries"]:
        file = out / "queries" / query["file"]
        assert query["original"] in truth["database"]
        assert {piece["file"] for piece in query["foreign"]} <= set(truth["foreign"])
        start, end = query["query_span"]
        assert 0 <= start < end <= len(read(file)) / 15 + 1e-3
        assert 0 <= query["original_span"][0] < query["original_span"][1] <= 3.001
    again = tmp_path / "again"
    (again / "queries").mkdir(parents=True)
    query = copyset.build_query(copyset.plan(sources, 3, 1, 3)[2], sources, again, 3)
    assert json.loads(json.dumps(asdict(query))) == truth["queries"][2]
    assert (again / "queries" / query.file).read_bytes() == (out / "queries" / query.file).read_bytes()
    with pytest.raises(FileError, match="not empty"):
        copyset.build(sources, out, seed=3, easy=1, hard=0)


def test_the_copy_is_where_the_truth_says(copyset: ModuleType, edits: ModuleType, tmp_path: Path) -> None:
    """With an edit that a flip undoes, the query's span must equal the original's and its surroundings must not."""
    write(edits, tmp_path / "videos" / "a", range(4))
    sources = copyset.divide(tmp_path / "videos", ["a"], 0)
    (tmp_path / "queries").mkdir()
    query = copyset.Query("q.mp4", "easy", "inside", sources.originals[0], [{"name": "mirror"}])
    made = copyset.build_query(query, sources, tmp_path, seed=1)
    shown = read(tmp_path / "queries" / "q.mp4")
    original = read(tmp_path / "videos" / sources.originals[0])
    first, last = (round(t * 15) for t in made.query_span)
    assert last - first == len(original)
    off = [np.abs(a[:, ::-1] - b).mean() for a, b in zip(shown[first:last], original, strict=True)]
    assert max(off) < 12
    around = [np.abs(shown[i][:, ::-1] - original[j]).mean() for i, j in ((first - 1, 0), (last, -1))]
    assert min(around) > 30


def test_edits(edits: ModuleType) -> None:
    frames = colours(30)
    fast = edits.speed(frames, {"factor": 2.0})
    assert [int(f[0, 0, 0]) for f in fast] == [60 + 4 * i for i in range(15)]
    assert len(edits.speed(frames, {"factor": 0.5})) == 60
    cropped = edits.crop(frames, {"keep": [0.5, 0.25], "at": [0.0, 1.0]})
    assert cropped[0].shape == (16, 48, 3)
    assert (cropped[0] == 60).all()
    assert edits.rotation(frames, {"degrees": 90})[0].shape == (96, 64, 3)
    bordered = edits.border(frames, {"share": [0.5, 0.5], "colour": [1, 2, 3]})[0]
    assert bordered[0, 0].tolist() == [1, 2, 3]
    assert bordered[32, 30].tolist() == [60, 60, 60]
    still = edits.perspective(frames, {"corners": [0.0] * 8})[0]
    assert np.abs(still.astype(int) - frames[0]).mean() < 1


@pytest.mark.parametrize("heavy", [False, True])
def test_every_edit_draws_what_it_applies(edits: ModuleType, heavy: bool) -> None:
    frames = colours(6)
    wide = importlib.import_module("shared.wide_edits")
    kinds = [*edits.EDITS.items(), *wide.EDITS.items()]
    for name, kind in kinds:
        values = kind.draw(random.Random(name), heavy)
        assert json.loads(json.dumps(values)) == values
        changed = kind.apply(frames, values)
        assert changed[0].dtype == np.uint8
        assert name == "speed" or len(changed) == len(frames)


def test_flat_ends_go(copyset: ModuleType) -> None:
    flat, frames = np.zeros((64, 96, 3), np.uint8), colours(4)
    assert copyset.without_cards([flat, *frames, flat, flat]) == frames
    assert len(copyset.without_cards([flat, flat])) == 2


TRUTH: dict[str, Any] = {
    "database": ["x", "y", "z"],
    "queries": [
        {"file": "1", "half": "easy", "setting": "alone", "edits": [{"name": "crop"}], "original": "x"},
        {
            "file": "2",
            "half": "hard",
            "setting": "buried",
            "edits": [{"name": "crop"}, {"name": "blur"}],
            "original": "y",
        },
    ],
}


def test_mean_precision(score: ModuleType) -> None:
    scores = {"1": {"x": 0.9, "y": 0.1, "z": 0.2}, "2": {"x": 0.5, "y": 0.5, "z": 0.5}}
    found = score.mean_precision(scores, TRUTH)
    # All three are equal for the second query, so its original is third.
    assert found["mAP"] == round((1 + 1 / 3) / 2, 4)
    assert found["half"] == {"easy": 1.0, "hard": 0.3333}
    assert found["hard by edit"] == {"crop": 0.3333, "blur": 0.3333}
    assert "| x | 1.000 | 0.333 | 0.667 |" in score.table({"x": found}, "half")


@pytest.mark.parametrize("row", [{"x": 0.9, "y": 0.1}, {"x": 0.9, "y": float("nan"), "z": 0.1}])
def test_missing_scores_are_an_error(score: ModuleType, row: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="1 × "):
        score.mean_precision({"1": row, "2": row}, TRUTH)
    with pytest.raises(UsageError, match="no scores"):
        score.mean_precision({"1": {"x": 1.0, "y": 0.0, "z": 0.0}}, TRUTH)


def test_log_of_the_signature_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS / "peers")
    read_log = importlib.import_module("peer_mpeg7").read_log
    log = """[f @ 0x1] no matching of video 0 and 1
[f @ 0x1] matching of video 0 at 7.3 and 2 at 0.5, 154 frames matching
[f @ 0x1] whole video matching
[f @ 0x1] matching of video 1 at 0.0 and 2 at 0.0, 12 frames matching
"""
    assert read_log(log, ["q", "a", "b"], 1) == {"q": {"a": 0.0, "b": 1_000_154.0}}
    with pytest.raises(RuntimeError, match="left out 1 pairs"):
        read_log(log.replace("no matching of video 0 and 1", ""), ["q", "a", "b"], 1)
