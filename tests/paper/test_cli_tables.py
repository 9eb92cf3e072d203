"""``visil tables`` as a user runs it: a folder, a dataset, mistakes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

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
    root = write_clips(tmp_path_factory.mktemp("clips"), 6)
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


def test_the_list() -> None:
    lines = run("--list").splitlines()
    names = [line.split()[0] for line in lines]
    assert {"table-2", "table-10", "systems", "gamma", "matrices", "time-per-stage"} < set(names)
    assert "figure-5        the same as gamma, r, w" in lines
    listed = json.loads(run("--list", "--json"))
    assert {**listed["tables"], **listed["figures"]}.keys() == set(names)


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
    assert "at least 6 readable videos, found 3" in failure("table-2", "--videos", clips / "b", *usual)
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
    misspelt = failure("table-3", "--videos", clips, *usual, "--model", f"VISIL_v={model}")
    assert misspelt.startswith("--model: unknown row 'VISIL_v': choose one of ViSiL_f, ViSiL_f+W,")
    assert "with L_reg, ViSiL_f MP-AP/MP-AP" in misspelt
    lonely = ("--videos", clips, "--training-annotations", clips)
    assert failure("table-3", *lonely) == "--training-annotations are those of --training: give both"


def test_what_is_missing_is_said_before_any_work(
    tmp_path: Path, clips: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    common = ("--videos", clips, "--out", tmp_path / "out", "--device", "cpu")
    assert failure("table-3", "figure-5", *common) == (
        "table-3, gamma, r, w: missing --backbone-weights FILE (resnet50); or --quick for a toy"
    )
    dataset = ("--dataset", "activitynet", "--annotations", tmp_path / "no.pickle")
    assert failure("table-8", "table-3", *common, *dataset) == (
        "table-8, table-3: missing --i3d-weights FILE, --training DIR, --training-annotations FILE, "
        "--backbone-weights FILE (resnet50)"
    )
    taught = (
        "table-5",
        "--systems",
        "LAMV+QE",
        *common,
        *dataset,
        "--backbone-weights",
        model,
        "--training",
        clips,
    )
    assert failure(*taught) == "table-5: missing --training-annotations FILE; or --quick for a toy"
    quick = ("table-2", *common, *dataset, "--quick", "--training")
    (tmp_path / "empty").mkdir()
    assert failure(*quick, tmp_path / "empty") == f"{tmp_path / 'empty'}: holds no videos"
    assert failure(*quick, tmp_path / "no") == f"{tmp_path / 'no'}: is no folder of videos"
    other = failure("table-3", *common, "--quick", "--model", f"ViSiL_v={model}")
    assert other.startswith("ViSiL_v is a model with whitening, which small is not: leave the model out")
    assert not (tmp_path / "out").exists()
