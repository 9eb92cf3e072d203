"""``watch``: files that come are added when they are whole, and told with what they match."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import visil
from visil.collection.discover import discover_at
from visil.collection.selection import Selection
from visil.collection.watch import Arrival, Growing, Matching, watch

from .conftest import Command, Start

Step = Callable[[], list[Path]]


class Time:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_file_is_whole_when_it_has_stayed_as_it_is(tmp_path: Path) -> None:
    clock = Time()
    growing = Growing(5.0, clock)
    path = tmp_path / "a.mp4"
    growing.add(path)  # not there (any more)
    path.write_bytes(b"a")
    growing.add(path)
    clock.now = 4
    growing.add(path)  # a change that changed nothing
    assert growing.whole() == []
    path.write_bytes(b"ab")
    clock.now = 6
    assert growing.whole() == []  # it has grown, and five seconds begin anew
    clock.now = 10.9
    assert growing.whole() == []
    clock.now = 11
    assert growing.whole() == [path]
    assert growing.whole() == []
    growing.add(path)
    path.unlink()
    clock.now = 99
    assert growing.whole() == []


def test_one_place_in_a_folder_is_judged_as_the_whole_folder_is(tmp_path: Path) -> None:
    for name in ("a.mp4", "sub/b.mp4", "sub/.hidden/c.mp4", "skip/d.mp4", "sub/e.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    chosen = Selection(exclude=("skip/",))

    def at(name: str) -> list[str]:
        return [os.path.relpath(path, tmp_path) for path in discover_at(tmp_path, tmp_path / name, chosen)]

    assert at("a.mp4") == ["a.mp4"]
    assert at("sub") == ["sub/b.mp4"]
    assert at("sub/b.mp4") == ["sub/b.mp4"]
    for name in ("sub/.hidden/c.mp4", "skip/d.mp4", "skip", "sub/e.txt", "gone.mp4"):
        assert at(name) == []


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "inbox"
    folder.mkdir()
    return folder


def arrivals(
    index: visil.Index, inbox: Path, *steps: Step, selection: Selection | None = None
) -> list[Arrival]:
    """What is told while steps are made, ten seconds apart, with five for a file to settle."""
    clock = Time()

    def changes() -> Iterator[list[str]]:
        yield []
        for step in steps:
            yield [os.fspath(path) for path in step()]
            clock.now += 10
            yield []

    return list(
        watch(
            *(index, [inbox], changes()),
            selection=selection or Selection(),
            settle=5.0,
            matching=Matching(),
            clock=clock,
        )
    )


def test_what_comes_is_added_and_told_with_its_matches(index: visil.Index, videos: Path, inbox: Path) -> None:
    shutil.copy(videos / "alone" / "retina.mp4", inbox / "before.mp4")

    def clip() -> list[Path]:
        (inbox / "sub").mkdir()
        (inbox / "notes.txt").touch()
        shutil.copy(videos / "inside" / "coffee.mp4", inbox / "sub" / "clip.mp4")
        (inbox / "sub" / "clip.mp4").open("ab").write(b"\0" * 64)  # other bytes, the same video
        return [inbox / "sub", inbox / "notes.txt"]

    def nothing_new() -> list[Path]:
        return [inbox / "sub" / "clip.mp4"]

    first, second = arrivals(index, inbox, lambda: [], clip, nothing_new)
    assert (first.path, first.reason, first.hits) == (str(inbox / "before.mp4"), None, [])
    assert first.same_bytes == [str(videos / "alone" / "retina.mp4")]
    assert second.path == str(inbox / "sub" / "clip.mp4")
    assert {Path(hit.path).name for hit in second.hits} == {"coffee.mp4", "long.mp4"}
    assert second.same_bytes == []
    assert index.video(second.path).id == second.id


def test_what_cannot_be_read_is_told_once_and_tried_again_when_it_changes(
    index: visil.Index, videos: Path, inbox: Path
) -> None:
    path = inbox / "half.mp4"
    whole = (videos / "alone" / "astronaut.mp4").read_bytes() + b"\0" * 64

    def half() -> list[Path]:
        path.write_bytes(whole[: len(whole) // 3])
        return [path]

    def rest() -> list[Path]:
        path.write_bytes(whole)
        return [path]

    told = arrivals(index, inbox, half, lambda: [path], rest)
    assert [one.reason is None for one in told] == [False, True]
    assert told[1].id is not None
    path.write_bytes(b"no film")
    (failed,) = arrivals(index, inbox, lambda: [])
    assert failed.reason is not None
    assert arrivals(index, inbox, lambda: []) == []


def test_only_what_is_wanted_is_taken(index: visil.Index, videos: Path, inbox: Path) -> None:
    def come() -> list[Path]:
        for name in ("keep/a.mp4", "skip/b.mp4"):
            (inbox / name).parent.mkdir()
            shutil.copy(videos / "alone" / "retina.mp4", inbox / name)
        return [inbox / "keep" / "a.mp4", inbox / "skip" / "b.mp4"]

    chosen = Selection(include=("keep/",), min_duration=1)
    (told,) = arrivals(index, inbox, come, selection=chosen)
    assert told.path == str(inbox / "keep" / "a.mp4")
    short = Selection(min_duration=60)
    assert arrivals(index, inbox, lambda: [inbox / "skip" / "b.mp4"], selection=short) == []


def test_a_collection_inside_the_folder_is_not_looked_at(index: visil.Index, folder: Path) -> None:
    (folder / "serve").mkdir()
    (folder / "serve" / "upload.mp4").touch()
    told = arrivals(index, folder.parent, lambda: [folder / "serve" / "upload.mp4"])
    assert [one.path for one in told] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_watches_until_it_is_stopped(
    folder: Path, videos: Path, inbox: Path, process: Start, number: int
) -> None:
    pytest.importorskip("watchfiles")
    child = process("watch", folder, inbox, "--json", "--settle", "0.2s")
    time.sleep(1.0)
    shutil.copy(videos / "inside" / "coffee.mp4", inbox / ".part")
    (inbox / ".part").open("ab").write(b"\0" * 64)
    (inbox / ".part").rename(inbox / "clip.mp4")
    deadline = time.monotonic() + 60
    while "\n" not in child.said() and time.monotonic() < deadline:
        assert child.poll() is None, child.communicate()
        time.sleep(0.1)
    child.send_signal(number)
    out, err = child.communicate(60)
    assert (child.returncode, err) == (0, "")
    (line,) = out.splitlines()
    told = json.loads(line)
    assert told["path"] == str(inbox / "clip.mp4")
    assert {Path(hit["path"]).name for hit in told["hits"]} == {"coffee.mp4", "long.mp4"}


def test_people_are_told(
    folder: Path, videos: Path, inbox: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(videos / "inside" / "coffee.mp4", inbox / "same.mp4")
    shutil.copy(videos / "copies" / "cut.mp4", inbox / "cut.mp4")
    (inbox / "cut.mp4").open("ab").write(b"\0" * 64)
    (inbox / "bad.mp4").write_text("no film")
    monkeypatch.setattr("visil.cli.watch._changes", lambda *_: iter([[], []]))
    done = run("watch", folder, inbox, "--settle", "0", "--verdict", "copy")
    lines = done.out.splitlines()
    assert lines[0] == f"watching {inbox}; stop with Ctrl-C"
    assert lines[-1] == "stopped"
    assert f"{inbox / 'bad.mp4'}: not added: not a video file: it holds text" in lines
    assert f"{inbox / 'same.mp4'}: added, 2 matches" in lines
    assert f"  same bytes      {videos / 'inside' / 'coffee.mp4'}" in lines
    assert any(line.startswith(f"{inbox / 'cut.mp4'}: added, ") for line in lines)


def test_what_cannot_be_watched(
    folder: Path, tmp_path: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("watch", folder, tmp_path / "gone").line.endswith("gone: is no folder that can be watched")
    assert "--settle must be a time" in run("watch", folder, tmp_path, "--settle", "soon").line
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert "pip install 'visil[watch]'" in run("watch", folder, tmp_path).line
