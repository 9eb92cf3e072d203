"""``visil tables`` as a user runs it: a folder, a dataset, mistakes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from synthetic import moving_scene, write_video
from toy_bench import small_model, write_clips
from visil.cli.app import app
from visil.errors import VisilError


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["tables", *map(str, arguments)])
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done.stdout


def failure(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["tables", *map(str, arguments)])
    assert isinstance(done.exception, VisilError), done.output
    assert "\n" not in str(done.exception)
    return str(done.exception)


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_clips(tmp_path_factory.mktemp("clips"), 8)
    (root / "a" / "broken.mp4").write_bytes(b"no video")
    return root


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    small_model().save_pretrained(folder)
    return folder


def test_a_folder_is_enough(clips: Path, model: Path, tmp_path: Path) -> None:
    common = ("--videos", clips, "--out", tmp_path, "--model", model, "--device", "cpu", "--quick")
    rows = ("--systems", "MAC", "--systems", "L2-iMAC +PCA", "--systems", "TN", "--systems", "model")
    text = run("systems", "pr-curves", *common, *rows)
    assert "### Every compared system (quick: a toy)\n" in text
    assert "| MAC | " in text
    for name in ("systems", "pr-curves"):
        assert {file.suffix for file in tmp_path.glob(f"{name}.*")} == {".md", ".csv", ".png"}
    with (tmp_path / "systems.csv").open() as file:
        found = {row["row"]: row for row in csv.DictReader(file)}
    assert list(found) == ["MAC", "L2-iMAC +PCA", "TN", "model"]
    assert all(0 <= float(row["DSVR"]) <= 1 for row in found.values())
    assert float(found["MAC"]["mild"]) == 1.0  # whole clips, hardly changed: nobody misses them
    assert found["MAC"]["paper DSVR"] == "0.747"
    document = json.loads(run("systems", *common, *rows, "--json"))
    (table,) = document["tables"]
    assert [row["label"] for row in table["rows"]] == list(found)
    assert table["rows"][0]["ours"]["DSVR"] == float(found["MAC"]["DSVR"])
    ((path, reason),) = [(one["path"], one["reason"]) for one in document["failed"]]
    assert path.endswith("broken.mp4")
    assert reason


def test_a_dataset(tmp_path: Path, model: Path, clips: Path) -> None:
    """Two queries of FIVR whose copies are the same scenes encoded again; one video of the list is missing."""
    folder = tmp_path / "videos"
    folder.mkdir()
    for name, seed in {"q1": 50, "q2": 51, "copy1": 50, "copy2": 51, "other": 52}.items():
        scene = moving_scene(seed, 4, fps=4, size=(64, 64), shot=4)
        write_video(folder / f"{name}.mp4", scene, fps=4, options={"crf": "18" if "q" in name else "30"})
    labels = {"q1": {"ND": ["copy1", "gone"]}, "q2": {"ND": ["copy2"]}}
    (tmp_path / "annotation.json").write_text(json.dumps(labels))
    ids = {"query": ["q1", "q2"], "database": ["copy1", "copy2", "other", "gone"]}
    (tmp_path / "ids.json").write_text(json.dumps(ids))
    dataset = ("--dataset", "fivr-5k", "--annotations", tmp_path / "annotation.json")
    common = (*dataset, "--ids", tmp_path / "ids.json", "--videos", folder, "--model", model)
    out = ("--out", tmp_path / "out", "--device", "cpu", "--quick")
    document = json.loads(run("table-2", *common, *out, "--systems", "MAC", "--json"))
    (table,) = document["tables"]
    assert table["rows"][0]["ours"] == {"DSVR": 1.0, "CSVR": 1.0, "ISVR": 1.0}
    assert table["on"].startswith("fivr-5k: 2 of 2 queries and 3 of 4 videos are here, annotation ")
    assert failure("systems", *common, *out, "--systems", "MAC +PCA") == "systems: missing --training DIR"
    rows = ("--systems", "L3-iMAC +PCA", "--training", clips, "--json")
    learned = json.loads(run("systems", *common, *out, *rows))["tables"][0]["rows"][0]
    assert learned["ours"] == {"DSVR": 1.0, "CSVR": 1.0, "ISVR": 1.0}


def test_the_list() -> None:
    lines = run("--list").splitlines()
    names = [line.split()[0] for line in lines]
    assert {"table-2", "table-10", "systems", "gamma", "matrices", "time-per-stage"} < set(names)
    assert set(json.loads(run("--list", "--json"))["tables"]) == set(names)


def test_mistakes_are_one_line(clips: Path, model: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    usual = ("--model", model, "--out", tmp_path / "out", "--device", "cpu", "--quick")
    assert failure().startswith("which tables?")
    assert failure("table-1").startswith("unknown table 'table-1': choose from table-2,")
    assert failure("table-2") == "no videos: give --videos DIR"
    assert failure("table-2", "--videos", empty, *usual) == f"{empty}: holds no videos"
    assert (
        failure("table-2", "--videos", tmp_path / "no", *usual)
        == f"{tmp_path / 'no'}: is no folder of videos"
    )
    assert "at least 6 readable videos, found 4" in failure("table-2", "--videos", clips / "b", *usual)
    assert "unknown system 'X'" in failure("table-2", "--videos", clips, *usual, "--systems", "X")
    assert "go together" in failure("table-2", "--videos", clips, "--dataset", "evve")
    assert "--values must be numbers" in failure("gamma", "--videos", clips, *usual, "--values", "a,b")
    assert "--pictures is" in failure("table-2", "--videos", clips, *usual, "--pictures", "large")
    assert failure("table-2", "--videos", clips, "--training", clips).startswith(
        "--training and --ids go with"
    )
    missing = failure(
        "table-2", "--videos", clips, "--model", tmp_path / "nothing", "--out", tmp_path / "out"
    )
    assert "nothing" in missing
    assert "variants of the recipe paper" in failure("table-2", "--videos", clips, "--recipe", "default")
    lonely = ("--videos", clips, "--training-annotations", clips)
    assert failure("table-3", *lonely) == "--training-annotations are those of --training: give both"


def test_what_is_missing_is_said_before_any_work(
    tmp_path: Path, clips: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    common = ("--videos", clips, "--out", tmp_path / "out", "--device", "cpu")
    assert failure("table-3", "figure-5", *common) == (
        "table-3, gamma, r, w: missing --backbone-weights FILE (resnet50); or --quick for a toy"
    )
    dataset = ("--dataset", "activitynet", "--annotations", tmp_path / "no.pickle")
    assert failure("table-8", "table-3", *common, *dataset) == (
        "table-8, table-3: missing --i3d-weights FILE, --training DIR, --backbone-weights FILE (resnet50), "
        "--training-annotations FILE"
    )
    assert not (tmp_path / "out").exists()
