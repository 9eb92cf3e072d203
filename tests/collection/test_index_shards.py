"""The commands over a sharded collection of real files, and what they say of one that is not well."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import visil
from visil.collection.shards.create import create
from visil.compare.visil import ViSiL

from .conftest import Command
from .inside import shards

Damage = Callable[[Path, ViSiL], object]


@pytest.fixture(scope="module")
def cut(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The collection of all videos in three shards; never opened by a test."""
    folder = tmp_path_factory.mktemp("cut") / "many.visil"
    assert create(folder, 3, source=built) == 8
    return folder


@pytest.fixture
def many(cut: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(cut, tmp_path / "many.visil"))


def test_every_command_answers_as_over_one_index(
    folder: Path, many: Path, videos: Path, tmp_path: Path, run: Command
) -> None:
    assert sum(len(list((path / "features").glob("*/*"))) for path in many.glob("shard-*")) == 8
    clip = shutil.copy(videos / "inside" / "coffee.mp4", tmp_path / "clip.mp4")
    for query in (clip, videos / "copies" / "cat.mp4"):
        asked = [run("search", place, query, "--json", "-k", "5").json for place in (folder, many)]
        assert asked[0] == asked[1]
    judged = (os.fspath(videos / "copies" / "cat.mp4"), os.fspath(videos / "alone" / "retina.mp4"))
    for place in (folder, many):
        assert run("judge", place, *judged, "same").status == 0
    found = [run("duplicates", place, "--json", "--csv", f"{place}.csv").json for place in (folder, many)]
    assert found[0] == found[1]
    assert len(found[0]["groups"]) == 2
    assert Path(f"{folder}.csv").read_bytes() == Path(f"{many}.csv").read_bytes()
    assert run("verify", many).out == "sound\n"
    known = [run("info", place, "--json").json for place in (folder, many)]
    for facts in known:
        del facts["folder"], facts["bytes"]
    assert known[0] == known[1]
    for place in (folder, many):
        assert run("remove", place, videos / "copies" / "cat.mp4").out == "1 removed from the collection\n"
    after = [run("duplicates", place, "--json").json for place in (folder, many)]
    assert after[0] == after[1] != found[0]
    listed = run("shards", "list", many, "--json").json
    assert [shard["name"] for shard in listed["shards"]] == ["shard-000", "shard-001", "shard-002"]
    assert sum(shard["videos"] for shard in listed["shards"]) == 7


def test_a_report_over_shards(many: Path, tmp_path: Path, run: Command) -> None:
    assert run("duplicates", many, "--html", tmp_path / "report.html").status == 0
    assert (tmp_path / "report.html").read_text("utf-8").count("cat small.mkv") >= 1


def test_adding_to_shards(videos: Path, tmp_path: Path, built: Path, run: Command, model: ViSiL) -> None:
    """From nothing: the same features as in one index; then what is known, copied, changed, broken, and gone."""
    files = tmp_path / "files"
    shutil.copytree(videos / "alone", files)
    many = tmp_path / "many"
    assert run("shards", "create", many, "--shards", "3").out == f"{many}: 3 shards, 0 videos\n"
    assert run("add", many, files).out == "3 added, 0 unchanged, 0 failed\n"
    assert run("add", many, files).out == "0 added, 3 unchanged, 0 failed\n"
    with visil.Index(many, model=model) as index, visil.Index(built, model=model) as one:
        assert len(shards(index).connection.locations) == 3
        for video in index.catalogue.videos():
            assert index.store.path(video.id).read_bytes() == one.store.path(video.id).read_bytes()
    shutil.copy(files / "retina.mp4", files / "again.mp4")  # known content under another name
    shutil.copy(files / "retina.mp4", files / "astronaut.mp4")  # another content under a known name
    (files / "motorcycle_left.mp4").write_bytes(b"no video")
    assert run("add", many, files).out.startswith("0 added, 3 unchanged, 1 failed\n")
    with visil.Index(many, model=model) as index:
        (only,) = index.catalogue.videos()
        assert index.catalogue.paths(only.id) == [
            os.fspath(files / name) for name in ("again.mp4", "astronaut.mp4", "retina.mp4")
        ]
        assert [os.path.basename(failure.path) for failure in index.info().failed] == ["motorcycle_left.mp4"]
        assert list(index.store.ids()) == [only.id]
        (group,) = index.duplicates()
        assert group.identical
    shutil.copy(videos / "alone" / "motorcycle_left.mp4", files)
    assert run("add", many, files).out == "1 added, 3 unchanged, 0 failed\n"
    assert run("info", many, "--json").json["failed"] == []


def test_copies_are_in_one_shard_whoever_adds_them(videos: Path, many: Path, run: Command) -> None:
    assert run("add", many, videos).out == "0 added, 8 unchanged, 0 failed\n"


# ---------------------------------------------------------------------- what is not well


def _edit(many: Path, **changes: object) -> None:
    known = json.loads((many / "shards.json").read_text("utf-8"))
    (many / "shards.json").write_text(json.dumps({**known, **changes}), "utf-8")


def _double(many: Path, model: ViSiL) -> None:
    """A video of one shard in another as well: the one that is searched for, so that both are found."""
    with visil.Index(many, model=model) as index:
        video = next(video for video in index.catalogue.videos() if video.path.endswith("retina.mp4"))
        source = shards(index).members.where(video.id)
        assert source is not None
        target = (source + 1) % 3
        connection = shards(index).connection
        connection.call(target, "transfers.take", video.id, index.store.path(video.id))
        connection.call(target, "transfers.put", connection.call(source, "transfers.entry", video.id))


def _another_model(many: Path, _: ViSiL) -> None:
    with visil.Index(many / "shard-001.visil") as shard:
        shard.catalogue.set_fact("fingerprint", "0" * 32)
        shard.catalogue.set_fact("model", "other")


def _other_codes(many: Path, _: ViSiL) -> None:
    with visil.Index(many / "shard-001.visil") as shard:
        shard.catalogue.set_fact("codes", "int8")


def _twice(many: Path, _: ViSiL) -> None:
    shards = [{"name": f"s{i}", "location": "shard-000.visil"} for i in range(2)]
    _edit(many, shards=shards)


DAMAGES: dict[str, tuple[Damage, str]] = {
    "missing": (lambda many, _: shutil.rmtree(many / "shard-001.visil"), "this shard is missing"),
    "unreadable": (
        lambda many, _: (many / "shard-001.visil" / "catalogue.sqlite").write_bytes(b"x" * 9000),
        "catalogue is damaged",
    ),
    "another model": (_another_model, "was made with the model other"),
    "other codes": (_other_codes, "keeps its features as int8"),
    "doubled": (_double, "both hold video"),
    "no json": (lambda many, _: (many / "shards.json").write_text("{"), "shards.json: is damaged"),
    "no shards": (lambda many, _: _edit(many, shards=[]), "names 0 shards"),
    "wrong types": (lambda many, _: _edit(many, shards=[{"name": 5}]), "shards.json: is damaged"),
    "newer": (lambda many, _: _edit(many, format=9), "newer visil"),
    "one location twice": (_twice, "names one location twice"),
}


def _files(folder: Path) -> dict[str, bytes]:
    return {
        os.fspath(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith((".lock", "-shm", "-wal", ".faiss", "frames.json"))
    }


@pytest.mark.parametrize("what", DAMAGES)
def test_one_clear_line_and_nothing_changed(
    many: Path, videos: Path, model: ViSiL, run: Command, what: str
) -> None:
    damage, said = DAMAGES[what]
    damage(many, model)
    before = _files(many)
    commands: list[tuple[str | Path, ...]] = [
        ("search", many, videos / "alone" / "retina.mp4"),
        ("duplicates", many),
    ]
    if what != "doubled":
        commands += [("add", many, videos), ("shards", "rebalance", many), ("info", many)]
    for command in commands:
        assert said in run(*command).line
    after = _files(many)
    if what == "doubled":  # opened whole, so SQLite may have moved its journal into the file
        before, after = (
            {k: v for k, v in files.items() if not k.endswith(".sqlite")} for files in (before, after)
        )
    assert after == before


def test_rebalancing_mends_a_doubled_video(many: Path, model: ViSiL, run: Command) -> None:
    _double(many, model)
    assert run("verify", many).status == 1
    assert run("shards", "rebalance", many).out in ("1 videos moved\n", "0 videos moved\n")
    assert run("verify", many).out == "sound\n"
    assert run("info", many, "--json").json["videos"] == 8


@pytest.mark.parametrize(
    "what", ["there already", "other things", "not one way", "ordinary", "of another model"]
)
def test_what_cannot_be_made(many: Path, folder: Path, tmp_path: Path, run: Command, what: str) -> None:
    new = tmp_path / "new"
    match what:
        case "there already":
            done = run("shards", "create", many, "--shards", "2")
            said = "is a sharded collection already"
        case "other things":
            new.mkdir()
            (new / "letter.txt").touch()
            done, said = run("shards", "create", new, "--shards", "2"), "other things in it"
        case "not one way":
            done, said = run("shards", "create", new), "say how many shards"
        case "ordinary":
            done = run("shards", "create", folder, "--shards", "2")
            said = "is an ordinary collection"
        case _:
            with visil.Index(folder) as other:
                other.catalogue.set_fact("fingerprint", "0" * 32)
            before = (many / "shards.json").read_bytes()
            done, said = run("shards", "add", many, folder), "was made with the model"
            assert (many / "shards.json").read_bytes() == before
    assert said in done.line


def test_a_collection_becomes_a_shard(many: Path, folder: Path, videos: Path, run: Command) -> None:
    """One with other videos is taken as it is; one with a video that is here already is refused."""
    assert "and so does" in run("shards", "add", many, folder).line
    some = [os.fspath(path) for path in sorted((videos / "alone").iterdir())]
    run("remove", many, *some)
    with visil.Index(folder) as index:
        others = [video.path for video in index.catalogue.videos() if video.path not in some]
    run("remove", folder, *others)
    before = run("search", many, videos / "alone" / "retina.mp4", "--json", "--exhaustive").json
    assert run("shards", "add", many, folder).status == 0
    after = run("search", many, videos / "alone" / "retina.mp4", "--json", "--exhaustive").json
    assert run("info", many, "--json").json["videos"] == 8
    assert len(after["hits"]) == len(before["hits"]) + 3
    assert run("shards", "rebalance", many).status == 0
    assert run("search", many, videos / "alone" / "retina.mp4", "--json", "--exhaustive").json == after
    assert run("verify", many).out == "sound\n"


def test_features_of_shards_can_be_read_as_one_store(many: Path, folder: Path, model: ViSiL) -> None:
    with visil.Index(many, model=model) as index, visil.Index(folder, model=model) as one:
        for video in one.catalogue.videos():
            mine, theirs = index.store.read(video.id), one.store.read(video.id)
            np.testing.assert_array_equal(mine.vectors.numpy(), theirs.vectors.numpy())
        assert sorted(index.store.ids()) == sorted(one.store.ids())
