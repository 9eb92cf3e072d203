"""``visil evaluate`` from score files, from videos, and from a collection: what it prints and how it fails."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import visil
from synthetic import write_video
from visil.cli import main
from visil.collection.local_engine import decode_here
from visil.collection.shards.create import create
from visil.compare.visil import ViSiL
from visil.demo import photograph, render_scene
from visil.evaluation import DATASETS
from visil.video import Image

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def model() -> ViSiL:
    return visil.load()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], model: ViSiL) -> Command:
    """The command in this process: exit status, standard output, standard error."""
    monkeypatch.setattr("visil.collection.model.load", lambda _=None: model)

    def command(*arguments: str | os.PathLike[str]) -> tuple[int, str, str]:
        monkeypatch.setattr(
            sys, "argv", ["visil", "evaluate", *(os.fspath(argument) for argument in arguments)]
        )
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        return ended.value.code, *capsys.readouterr()

    return command


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the toy FIVR-5K: q1, its copies a and b, d, which shares nothing, and c, which is no video. q2 is missing."""
    folder = tmp_path_factory.mktemp("videos")

    def scene(name: str) -> list[Image]:
        return list(render_scene(photograph(name), 4, 6, (160, 120)))

    cat = scene("chelsea")
    write_video(folder / "q1.mp4", cat, 6)
    write_video(folder / "b.mkv", [np.ascontiguousarray(image[::2, ::2]) for image in cat], 6)
    write_video(folder / "d.mp4", scene("coffee"), 6)
    shutil.copy(folder / "q1.mp4", folder / "a.mp4")  # the same bytes under two ids
    (folder / "c.mp4").write_text("no video")
    return folder


def read(out: str) -> Any:
    return json.loads(out)


def failed(result: tuple[int, str, str]) -> str:
    status, out, err = result
    assert (status, out) == (1, ""), err
    (line,) = err.splitlines()
    assert line.startswith("visil: ")
    return line


def test_from_scores(run: Command, annotations: Path, tmp_path: Path) -> None:
    scores = tmp_path / "scores.json"
    scores.write_text(json.dumps({"q1": {"b": 0.9, "d": 0.8, "a": 0.7, "stranger": 1.0}}))
    source = annotations / "fivr.pickle"
    status, out, err = run("fivr-5k", "--annotations", source, "--scores", scores, "--json")
    assert (status, err) == (0, "")
    answer = read(out)
    assert list(answer)[:4] == ["dataset", "DSVR", "CSVR", "ISVR"]
    assert answer["dataset"] == "fivr-5k"
    assert answer["DSVR"] == pytest.approx((1 + 2 / 3) / 2)
    assert answer["CSVR"] == pytest.approx((1 + 2 / 3) / 3)
    counts = {name: answer[name] for name in ("queries", "missing_queries", "missing_videos", "unknown_ids")}
    assert counts == {"queries": 1, "missing_queries": 1, "missing_videos": 3, "unknown_ids": 1}
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    assert answer["annotations"] == {"file": "fivr.pickle", "sha256": digest}
    lenient = read(run("fivr-5k", "--annotations", source, "--scores", scores, "--json", "--scored-only")[1])
    assert lenient["CSVR"] == pytest.approx((1 + 2 / 3) / 2)


def test_it_tells_people(run: Command, annotations: Path, tmp_path: Path) -> None:
    scores = tmp_path / "scores.json"
    scores.write_text(json.dumps({"q1": {"a": 0.9, "b": 0.5}}))
    status, out, _ = run("evve", "--annotations", annotations / "evve.pickle", "--scores", scores)
    assert status == 0
    lines = [line.strip() for line in out.splitlines()]
    assert lines[:4] == ["evve", "mAP: 1.0000", "events: geyser: –", "events: riots: 1.0000"]
    assert "missing queries: 2" in lines


def test_a_list_beside_the_annotation(run: Command, annotations: Path, tmp_path: Path) -> None:
    scores = tmp_path / "scores.json"
    scores.write_text(json.dumps({"a-b": [[0, 0, 10, 10]], "a-c": [], "d-b": [], "d-c": []}))
    files = ("--annotations", annotations / "vcsl.json", "--list", annotations / "vcsl_pairs.csv")
    answer = read(run("vcsl", *files, "--scores", scores, "--json")[1])
    assert answer["precision"] == pytest.approx(1, rel=1e-5)
    assert answer["recall"] == pytest.approx(0.5, rel=1e-5)
    assert answer["list"]["file"] == "vcsl_pairs.csv"


def test_from_videos_then_from_scores_and_index(
    run: Command, annotations: Path, videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, kept = tmp_path / "features.visil", tmp_path / "scores.json"
    common = ("fivr-5k", "--annotations", annotations / "fivr.pickle", "--json")
    status, out, err = run(*common, "--videos", videos, "--index", index, "--out-scores", kept)
    assert (status, err) == (0, "")
    answer = read(out)
    assert answer["DSVR"] == answer["CSVR"] == 1  # c could not be had, so nobody has to find it
    assert (answer["queries"], answer["missing_queries"]) == (1, 1)
    assert (answer["videos"], answer["missing_videos"]) == (3, 3)  # a, b, d; not c, e, q2
    assert [Path(failure["path"]).name for failure in answer["failed"]] == ["c.mp4"]
    assert answer["model"] == visil.load().config.name
    scores = read(kept.read_text())
    assert set(scores) == {"q1"}
    assert scores["q1"]["a"] == pytest.approx(scores["q1"]["b"], abs=0.3)
    assert scores["q1"]["a"] > scores["q1"]["b"] > scores["q1"]["d"]

    def embed_again(*_: object) -> None:
        raise AssertionError("it was embedded before")

    monkeypatch.setattr(ViSiL, "embed_frames", embed_again)
    assert read(run(*common, "--videos", videos, "--index", index)[1]) == answer
    again = read(run(*common, "--scores", kept, "--scored-only")[1])
    from_index = read(run(*common, "--index", index)[1])
    for name in ("DSVR", "CSVR", "ISVR", "queries", "videos"):
        assert answer[name] == again[name] == from_index[name]


def figures(run: Command, annotations: Path, *options: str | os.PathLike[str]) -> dict[str, Any]:
    """What is evaluated, without what is said about the files."""
    status, out, err = run("fivr-5k", "--annotations", annotations / "fivr.pickle", "--json", *options)
    assert (status, err) == (0, "")
    return {key: value for key, value in read(out).items() if key not in ("failed", "annotations")}


@pytest.fixture(scope="module")
def collection(videos: Path, model: ViSiL, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of the videos, in one folder."""
    folder = tmp_path_factory.mktemp("collection") / "one.visil"
    with visil.Index(folder, model=model) as index:
        assert index.add(videos).added == 3
    return folder


def test_in_one_pass_that_keeps_no_features(
    run: Command,
    annotations: Path,
    videos: Path,
    collection: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same figures as from stored features; every video is read once; a run that was killed goes on."""
    read_files: list[str] = []

    def counted(path: Path, sampling: object) -> object:
        read_files.append(path.name)
        return decode_here(path, sampling)  # type: ignore[arg-type]

    monkeypatch.setattr("visil.evaluation.evaluate.decode_here", counted)
    monkeypatch.setattr("visil.evaluation.streaming.PASSING_BYTES", 1)  # a line a video
    folder = tmp_path / "stream"
    source = ("fivr-5k", "--annotations", annotations / "fivr.pickle", "--videos", videos, "--json")
    status, out, err = run(*source, "--stream", folder)
    assert (status, err) == (0, "")
    answer = read(out)
    stored = figures(run, annotations, "--index", collection)
    assert {name: answer[name] for name in stored} == stored
    assert [Path(one["path"]).name for one in answer["failed"]] == ["c.mp4"]
    assert sorted(read_files) == ["a.mp4", "b.mkv", "c.mp4", "d.mp4", "q1.mp4"]
    assert sorted(path.name for path in folder.iterdir()) == ["lock", "run.json", "scores.jsonl"]

    log = folder / "scores.jsonl"
    lines = sorted(log.read_text().splitlines(keepends=True), key=lambda line: '"target": "a"' in line)
    log.write_text("".join(lines[:-1]) + lines[-1][:9])
    read_files.clear()
    assert read(run(*source, "--stream", folder)[1]) == answer
    assert sorted(read_files) == ["a.mp4", "c.mp4", "q1.mp4"], "its line was cut off; no video; the query"
    assert log.read_text() == "".join(lines)
    mended = shutil.copytree(videos, tmp_path / "mended")
    shutil.copy(videos / "d.mp4", mended / "c.mp4")
    anew = ("fivr-5k", "--annotations", annotations / "fivr.pickle", "--videos", mended, "--json", "--stream")
    read_files.clear()
    assert read(run(*anew, folder)[1]) == read(run(*anew, tmp_path / "anew")[1])
    assert sorted(read_files[:2]) == ["c.mp4", "q1.mp4"], "what could not be read is tried again"
    (mended / "q1.mp4").write_text("no video any more")
    shutil.copy(videos / "d.mp4", mended / "f.mp4")
    log.write_text(lines[-1])
    said = failed(run(*anew, folder))
    assert "the query q1 could be read when" in said
    assert log.read_text() == lines[-1]
    other = ("cc-web-video", "--annotations", annotations / "cc_web_video.pickle", "--videos", videos)
    assert "holds none of the" in failed(run(*other, "--stream", folder))
    assert "another evaluation" in failed(
        run(*source, "--stream", folder, "--list", annotations / "fivr.pickle")
    )
    assert "--stream goes with --videos" in failed(run(*source, "--stream", folder, "--index", folder))


def test_a_recipe_is_told_and_held_to(run: Command, annotations: Path, videos: Path, tmp_path: Path) -> None:
    common = ("fivr-5k", "--annotations", annotations / "fivr.pickle")
    lite = ("--videos", videos, "--index", tmp_path / "f.visil", "--backbone", "efficientnet-lite0")
    status, out, err = run(*common, *lite, "--recipe", "paper-f", "--json")
    assert (status, err) == (0, "recipe paper-f: efficientnet-lite0, L3-iMAC\n")
    assert read(out)["model"] == "paper-f"
    assert read(out)["DSVR"] == 1
    told = run(*common, *lite, "--recipe", "paper")[2].splitlines()
    assert told[0].startswith(
        "recipe paper: efficientnet-lite0, L3-iMAC, whitened to 496 dimensions, attention,"
    )
    assert told[1] == (
        "visil: paper has to be learned first: give the --model that visil train --recipe paper writes"
    )
    for wrong, said in (
        (("--index", tmp_path, "--recipe", "paper"), "go with --videos: a collection has its model"),
        (("--videos", videos, "--backbone", "resnet50"), "--backbone goes with --recipe"),
        (("--videos", videos, "--backbone-weights", tmp_path / "no.pth"), "no.pth"),
    ):
        assert said in failed(run(*common, *wrong))


def test_from_shards(run: Command, annotations: Path, collection: Path, tmp_path: Path) -> None:
    create(tmp_path / "many.visil", 2, source=collection)
    expected = figures(run, annotations, "--index", collection)
    assert (expected["DSVR"], expected["videos"]) == (1, 3)
    assert figures(run, annotations, "--index", tmp_path / "many.visil") == expected


def test_from_a_url(
    run: Command,
    annotations: Path,
    videos: Path,
    collection: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Features kept on a store while videos are evaluated, and then evaluated from there; no folder appears here."""
    pytest.importorskip("fsspec", reason="needs the extra visil[store]")
    monkeypatch.setenv("VISIL_CACHE", str(tmp_path / "cache"))
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    url = f"memory://{tmp_path.name}/features.visil"
    expected = figures(run, annotations, "--index", collection)
    assert figures(run, annotations, "--videos", videos, "--index", url) == expected
    assert figures(run, annotations, "--index", url) == expected
    assert list(here.iterdir()) == []


def test_segments_from_videos(run: Command, annotations: Path, videos: Path, tmp_path: Path) -> None:
    labels = {"q1-q1": [[0, 0, 4, 4]], "a-a": [[0, 0, 4, 4]], "d-d": [[0, 0, 4, 4]], "a-q1": [[0, 0, 4, 4]]}
    (tmp_path / "labels.json").write_text(json.dumps(labels))
    kept = tmp_path / "kept.json"
    common = ("vcdb", "--annotations", tmp_path / "labels.json", "--json")
    answer = read(run(*common, "--videos", videos, "--index", tmp_path / "i.visil", "--out-scores", kept)[1])
    assert (answer["mAP"], answer["segments"]["F1"]) == (1, 1)
    assert answer["coverage"]["F1"] > 0.8
    again = read(run(*common, "--scores", kept)[1])
    assert again["segments"] == answer["segments"]


def test_what_cannot_be_done(run: Command, annotations: Path, videos: Path, tmp_path: Path) -> None:
    source = annotations / "fivr.pickle"
    common = ("fivr-5k", "--annotations", source)
    scores = tmp_path / "scores.json"
    scores.write_text('{"q1": {"a": NaN}}')
    assert f"{scores}: query 'q1', target 'a'" in failed(run(*common, "--scores", scores))
    scores.write_text('{"who": {"a": 1}}')
    assert f"{scores}: no scores of any query of fivr-5k" in failed(run(*common, "--scores", scores))
    scores.write_text('{"q1": {"a": 1}}')
    assert "nothing to evaluate" in failed(run(*common))
    assert "leave either out" in failed(run(*common, "--scores", scores, "--videos", videos))
    assert "--scored-only" in failed(run(*common, "--videos", videos, "--scored-only"))
    assert str(scores) in failed(run("fivr-5k", "--annotations", scores, "--scores", scores))
    empty = tmp_path / "empty"
    empty.mkdir()
    assert f"{empty}: holds none of the 7 videos" in failed(run(*common, "--videos", empty))
    assert list(empty.iterdir()) == []
    nowhere = tmp_path / "nowhere" / "scores.json"
    assert "folder does not exist" in failed(run(*common, "--scores", scores, "--out-scores", nowhere))
    assert "no collection here" in failed(run(*common, "--index", empty))
    assert "no such file" in failed(
        run("evve", "--annotations", tmp_path / "none.pickle", "--scores", scores)
    )
    assert run("trecvid", "--annotations", source, "--scores", scores)[0] == 2
    assert run("evve", "--scores", scores)[0] == 2


def test_the_command_knows_every_benchmark(run: Command) -> None:
    from visil.cli.evaluate import Dataset

    assert [name.value for name in Dataset] == list(DATASETS)
