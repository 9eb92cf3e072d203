"""The commands of a collection: shapes, exit status, one line where something is wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import visil

from .conftest import Command


def test_add_tells_people(videos: Path, tmp_path: Path, run: Command) -> None:
    bad = tmp_path / "bad\n.mp4"
    bad.write_text("no")
    done = run("add", tmp_path / "i", videos / "alone", bad)
    assert done.status == 3, "some could not be taken"
    first, second = done.out.splitlines()
    assert first == "3 added, 0 unchanged, 1 failed"
    assert "bad\\n.mp4: " in second
    assert done.err == ""


def test_fast_decoding_finds_the_same_copies(videos: Path, tmp_path: Path, run: Command) -> None:
    folder = tmp_path / "i"
    assert run("add", folder, videos / "copies", "--fast-decode").out.startswith("3 added")
    hits = run("search", folder, videos / "copies" / "cut.mp4", "--json").json["hits"]
    assert {hit["verdict"] for hit in hits} <= {"copy", "related"}
    refused = run("add", folder, videos / "alone", "--fast-decode", "--ray", "local")
    assert refused.status == 1
    assert refused.line == "visil: --fast-decode and --ray do not go together: leave one out"


def test_either_arithmetic_finds_the_other(videos: Path, tmp_path: Path, run: Command) -> None:
    folder, inside = tmp_path / "i", videos / "inside"
    with visil.Index(folder, model=visil.load()) as fresh:
        fresh.model.embedding = "bf16"
        fresh.add(inside / "long.mp4")
    assert run("info", folder, "--json").json["embedding"] == "bf16"
    assert [
        hit["verdict"] for hit in run("search", folder, inside / "coffee.mp4", "--json").json["hits"]
    ] == ["copy"]
    assert run("add", folder, inside / "long.mp4", "--embedding", "fp32").out.startswith(
        "0 added, 1 unchanged"
    )
    assert ", embedded in bf16, features as" in run("info", folder).out
    assert run("add", folder, inside, "--embedding", "fp32").out.startswith("1 added, 1 unchanged")
    assert ", embedded in bf16, fp32, features as" in run("info", folder).out
    assert run("add", folder, inside, "--embedding", "int4").status == 2


def test_add_names_no_more_than_ten_failures(tmp_path: Path, run: Command) -> None:
    films = tmp_path / "films"
    films.mkdir()
    for number in range(12):
        (films / f"{number}.mp4").touch()
    lines = run("add", tmp_path / "i", films).out.splitlines()
    assert lines[0] == "0 added, 0 unchanged, 12 failed"
    assert len(lines) == 12
    assert lines[-1].startswith("  and 2 more: visil info ")


def test_search_json(index: visil.Index, videos: Path, run: Command) -> None:
    cut, retina = videos / "copies" / "cut.mp4", videos / "alone" / "retina.mp4"
    done = run("search", index.folder, cut, "-k", "3", "--json")
    assert (done.status, done.err) == (0, "")
    assert list(done.json) == ["query", "hits"]
    assert done.json["query"] == str(cut)
    assert len(done.json["hits"]) == 3
    for hit in done.json["hits"]:
        assert {"id", "path", "score", "confidence", "verdict", "segments"} <= set(hit)
        assert hit["verdict"] in ("copy", "related")
        assert os.path.isfile(hit["path"])
        assert set(hit["segments"][0]) >= {"query", "target", "score"}
    several = run("search", index.folder, cut, retina, "--json").json
    assert [answer["query"] for answer in several] == [str(cut), str(retina)]
    assert several[0]["hits"][:3] == done.json["hits"]


def test_search_tells_people(index: visil.Index, videos: Path, run: Command) -> None:
    done = run("search", index.folder, videos / "inside" / "coffee.mp4")
    assert done.out.startswith(f"{videos / 'inside' / 'coffee.mp4'}: ")
    assert len([line for line in done.out.splitlines() if " copy " in line]) == 2
    assert "is 0:03 – 0:08 there" in done.out


def test_info_json(index: visil.Index, run: Command) -> None:
    state = run("info", index.folder, "--json").json
    assert (state["videos"], state["failed"]) == (8, [])
    assert state["frames"] == sum(video.frames for video in index.catalogue.videos())
    assert state["hours"] * 3600 == pytest.approx(8 + 8 + 5 + 8 + 5 + 15, abs=1)
    assert state["bytes"] > 100_000
    assert state["model"] == index.model.config.name
    assert run("info", index.folder).out.startswith("8 videos, ")
    assert run("info", index.folder, "--failed").out == ""


def test_verify_and_remove(index: visil.Index, videos: Path, run: Command) -> None:
    assert run("verify", index.folder, "--json").json == {"problems": []}
    done = run("remove", index.folder, videos / "alone" / "retina.mp4")
    assert (done.status, done.out) == (0, "1 removed from the collection\n")
    assert "holds no video" in run("remove", index.folder, videos / "alone" / "retina.mp4").line
    assert run("verify", index.folder).out == "sound\n"
    assert (videos / "alone" / "retina.mp4").is_file()


@pytest.mark.parametrize(
    "arguments",
    [
        ["add"],
        ["add", "i", "x.mp4", "--workers", "0"],
        ["add", "i", "x.mp4", "--nope"],
        ["search", "i"],
        ["search", "i", "x.mp4", "-k", "0"],
        ["search", "i", "x.mp4", "-k", "many"],
        ["duplicates"],
        ["duplicates", "i", "--min-confidence", "1.5"],
        ["info"],
        ["verify"],
        ["remove", "i"],
        ["judge", "i", "a", "b"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_2(
    arguments: list[str], run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert (done.status, done.out) == (2, "")
    assert done.err
    assert list(tmp_path.iterdir()) == [], "nothing was made"


COMMANDS = {
    "search": ["x.mp4"],
    "duplicates": [],
    "info": [],
    "verify": [],
    "remove": ["x"],
    "judge": ["a", "b", "same"],
    "prune": [],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", ["missing", "empty", "other", "file"])
def test_what_is_no_collection(command: str, kind: str, run: Command, tmp_path: Path) -> None:
    place = tmp_path / "i"
    if kind == "file":
        place.touch()
    elif kind != "missing":
        place.mkdir()
    if kind == "other":
        (place / "letter.txt").touch()
    before = sorted(tmp_path.rglob("*"))
    line = run(command, place, *COMMANDS[command]).line
    assert line.startswith(f"visil: {place}: ")
    assert "is a file" in line if kind == "file" else "no collection here" in line
    assert sorted(tmp_path.rglob("*")) == before, "nothing was made"


def test_add_makes_no_collection_among_other_things(videos: Path, run: Command, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").touch()
    assert "other things in it" in run("add", tmp_path, videos / "alone").line
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
    assert "is a file" in run("add", tmp_path / "letter.txt", videos / "alone").line


def test_a_collection_inside_the_folder_that_is_added(videos: Path, run: Command, tmp_path: Path) -> None:
    (tmp_path / "film.mp4").write_bytes((videos / "alone" / "retina.mp4").read_bytes())
    for expected in ({"added": 1, "unchanged": 0}, {"added": 0, "unchanged": 1}):
        assert run("add", tmp_path / "i", tmp_path, "--json").json == expected | {"failed": []}


def test_exit_status_of_add(videos: Path, tmp_path: Path, run: Command) -> None:
    """0 all taken, 1 nothing could be taken, 3 some could not; the same the second time."""
    bad, good = tmp_path / "bad.mp4", videos / "alone" / "retina.mp4"
    bad.write_text("no")
    for _ in range(2):
        assert run("add", tmp_path / "bad", bad).status == 1
        assert run("add", tmp_path / "bad", bad, "--json").status == 1
        assert run("add", tmp_path / "both", bad, good, "--json").status == 3
        assert run("add", tmp_path / "good", good).status == 0
    (tmp_path / "nothing").mkdir()
    assert run("add", tmp_path / "good", tmp_path / "nothing").status == 0


def test_search_goes_on_after_a_bad_query(
    index: visil.Index, videos: Path, tmp_path: Path, run: Command
) -> None:
    good, bad, gone = videos / "alone" / "retina.mp4", tmp_path / "bad.mp4", tmp_path / "gone.mp4"
    bad.write_text("no")
    done = run("search", index.folder, bad, good, gone, "--json")
    assert done.status == 3
    assert [
        (Path(answer["query"]).name, bool(answer["hits"]), "error" in answer) for answer in done.json
    ] == [
        ("bad.mp4", False, True),
        ("retina.mp4", True, False),
        ("gone.mp4", False, True),
    ]
    assert done.err == f"visil: {bad}: not a video file: it holds text\nvisil: {gone}: no such file\n"
    told = run("search", index.folder, bad, good)
    assert told.status == 3
    assert f"{good}: " in told.out
    assert run("search", index.folder, bad, gone, "--json").status == 1
    assert "it holds text" in run("search", index.folder, bad).line
