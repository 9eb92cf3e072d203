"""``add``: what is found, what is read, what is recognised, what fails and is listed."""

from __future__ import annotations

import io
import os
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

import visil
from visil.collection import local_engine
from visil.collection.discover import discover, read_list
from visil.collection.identity import content_id
from visil.collection.intake import AddProgress, Intake
from visil.errors import IndexFolderError, UsageError
from visil.video import stream_frames

from .conftest import Command

Films = Callable[..., list[Path]]


@pytest.fixture
def films(videos: Path, tmp_path: Path) -> Films:
    """Copies of short videos under names of one's own, in a folder of the test's own."""
    sources = sorted((videos / "alone").iterdir())

    def make(*names: str | bytes, source: int | None = None) -> list[Path]:
        made = []
        for number, name in enumerate(names):
            path = tmp_path / "films" / os.fsdecode(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            made.append(Path(shutil.copy(sources[number if source is None else source], path)))
        return made

    return make


def forbidden(*_: object, **__: object) -> NoReturn:
    raise AssertionError("nothing was to be decoded")


def counts(report: visil.AddReport) -> tuple[int, int, int]:
    return report.added, report.unchanged, len(report.failed)


# ---------------------------------------------------------------------- what is found


def test_folders_are_searched_and_hidden_and_other_files_passed_over(tmp_path: Path) -> None:
    for name in ("b.mp4", "a.MKV", "sub/deep/c.webm", "notes.txt", ".hidden.mp4", ".git/d.mp4", "noext"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = [os.fspath(path.relative_to(tmp_path)) for path in discover([tmp_path])]
    assert found == ["a.MKV", "b.mp4", "sub/deep/c.webm"]


def test_files_named_outright_are_taken_once_whatever_they_are_called(tmp_path: Path) -> None:
    for name in ("noext", ".hidden.mp4", "a.mp4"):
        (tmp_path / name).touch()
    named = [tmp_path / "noext", tmp_path / ".hidden.mp4", tmp_path, tmp_path / "." / "a.mp4"]
    assert [path.name for path in discover(named)] == ["noext", ".hidden.mp4", "a.mp4"]


def test_loops_of_links_end(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "x.mp4").touch()
    (tmp_path / "a" / "b" / "up").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "self.mp4").symlink_to("self.mp4")
    (tmp_path / "a" / "nowhere.mp4").symlink_to("nothing")
    (tmp_path / "also").symlink_to("a")
    assert [path.name for path in discover([tmp_path])] == ["x.mp4"]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        (b"a.mp4\nb c.mp4\n", ["a.mp4", "b c.mp4"]),
        (b"\xef\xbb\xbfa.mp4\r\n\r\n# remark\r\n  \r\nb.mp4", ["a.mp4", "b.mp4"]),
        (b"two\nlines.mp4\0#1.mp4\0cr\r\0 \0", ["two\nlines.mp4", "#1.mp4", "cr\r", " "]),
        (b"\xff\xfe.mp4\n", [os.fsdecode(b"\xff\xfe.mp4")]),
        (b"", []),
    ],
)
def test_lists_of_paths(text: bytes, paths: list[str]) -> None:
    assert read_list(text) == paths


def test_a_list_file_and_standard_input(
    films: Films, tmp_path: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, three = films("one.mp4", "two\nlines.mp4", "three.mp4")
    listed = tmp_path / "list.txt"
    listed.write_bytes(b"# mine\n" + os.fsencode(one) + b"\n")
    stdin = SimpleNamespace(buffer=io.BytesIO(os.fsencode(two) + b"\0" + os.fsencode(three)))
    monkeypatch.setattr(sys, "stdin", stdin)
    done = run("add", tmp_path / "i", "-", "--list", listed, "--json")
    assert done.json == {"added": 3, "unchanged": 0, "failed": []}
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    assert "nothing to add" in run("add", tmp_path / "i", "-").line
    assert "no-list" in run("add", tmp_path / "i", "--list", tmp_path / "no-list").line


# ---------------------------------------------------------------------- what is read, and what recognised


def test_the_second_run_decodes_nothing(
    index: visil.Index, videos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_engine, "stream_frames", forbidden)
    monkeypatch.setattr(local_engine, "content_id", forbidden)
    assert counts(index.add([videos, videos / "alone" / "retina.mp4"])) == (0, 8, 0)
    assert len(index) == 8


def test_a_moved_file_is_recognised_and_found_where_it_is_now(
    empty: visil.Index, films: Films, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = films("a.mp4")
    empty.add(path)
    before = empty.video(str(path))
    moved = path.rename(path.parent / "z.mp4")
    monkeypatch.setattr(local_engine, "stream_frames", forbidden)
    assert counts(empty.add(path.parent)) == (0, 1, 0)
    now = empty.video(str(moved))
    assert (now.id, now.path) == (before.id, str(moved))
    assert empty.catalogue.paths(now.id) == [str(moved)]


def test_copies_cost_one_extraction(
    empty: visil.Index, films: Films, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    real = stream_frames

    def counted(path: Path, *rest: Any, **options: Any) -> Any:
        opened.append(path)
        return real(path, *rest, **options)

    monkeypatch.setattr(local_engine, "stream_frames", counted)
    copies = films("a.mp4", "b.mp4", "c.mp4", source=0)
    assert counts(empty.add(copies[:2], workers=2)) == (1, 1, 0)
    assert counts(empty.add(copies, workers=2)) == (0, 3, 0)
    assert len(opened) == 1
    assert empty.catalogue.paths(empty.video(str(copies[2])).id) == [str(path) for path in copies]
    copies[0].unlink()
    assert empty.search(str(copies[1]))[0].id == empty.video(str(copies[2])).id


def test_a_changed_file_is_read_again_and_what_it_held_is_gone(
    empty: visil.Index, films: Films, videos: Path
) -> None:
    path, kept = films("a.mp4", "b.mp4")
    empty.add([path, kept])
    old = empty.video(str(path)).id
    shutil.copy(videos / "alone" / "retina.mp4", path)
    assert counts(empty.add(path)) == (1, 0, 0)
    assert empty.video(str(path)).id != old
    assert {video.path for video in empty.catalogue.videos()} == {str(path), str(kept)}
    assert empty.catalogue.video(old) is None
    assert empty.verify() == []
    # Back to a content that another file holds.
    shutil.copy(kept, path)
    assert counts(empty.add(path)) == (0, 1, 0)
    assert len(empty) == 1
    assert empty.verify() == []


def test_a_reference_stays_one_and_can_be_marked_later(empty: visil.Index, films: Films) -> None:
    path, other = films("a.mp4", "b.mp4")
    empty.add([path, other])
    empty.add(path, reference=True)
    assert empty.video(str(path)).reference
    assert not empty.video(str(other)).reference
    moved = path.rename(path.parent / "moved.mp4")
    empty.add(path.parent)
    assert empty.video(str(moved)).reference
    shutil.copy(other, moved)
    empty.add(path.parent)
    assert empty.video(str(other)).reference, "the file under this path is a reference"


def test_a_folder_of_images_is_a_video(empty: visil.Index, videos: Path, tmp_path: Path) -> None:
    from PIL.Image import fromarray

    from visil.video import read_frames

    frames = tmp_path / "frames"
    frames.mkdir()
    for number, image in enumerate(read_frames(videos / "alone" / "retina.mp4").images):
        fromarray(image).save(frames / f"{number}.png")
    assert counts(empty.add([frames, videos / "alone" / "retina.mp4"])) == (2, 0, 0)
    assert counts(empty.add(frames)) == (0, 1, 0)
    assert {hit.verdict for hit in empty.search(frames)} <= {"copy", "related"}
    (frames / "0.png").unlink()
    assert counts(empty.add(frames)) == (1, 0, 0)
    assert len(empty) == 2


def test_progress_counts_every_file_once(empty: visil.Index, films: Films, tmp_path: Path) -> None:
    films("a.mp4", "b.mp4", "c.mp4", source=0)
    (tmp_path / "films" / "bad.mp4").write_text("no")
    told: list[AddProgress] = []
    empty.add(tmp_path / "films", progress=told.append)
    finished = [state for state in told if state.path is not None]
    assert [state.files for state in finished] == [1, 2, 3, 4]
    assert {state.total for state in told} == {4}
    assert told[-1].frames == empty.info().frames
    with pytest.raises(UsageError, match="workers"):
        empty.add(tmp_path, workers=0)


# ---------------------------------------------------------------------- what cannot be read


def test_unreadable_files_are_listed_and_tried_again_when_they_change(
    films: Films, tmp_path: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    (good,) = films("good.mp4")
    broken, void, pipe = (good.parent / name for name in ("broken.mp4", "void.mp4", "pipe.mp4"))
    broken.write_text("not a film\n" * 50)
    void.touch()
    os.mkfifo(pipe)
    folder = tmp_path / "i"
    done = run("add", folder, good.parent, pipe, good.parent / "missing.mp4", "--json")
    assert done.status == 3
    assert done.json["added"] == 1
    reasons = {Path(failure["path"]).name: failure["reason"] for failure in done.json["failed"]}
    assert set(reasons) == {"broken.mp4", "void.mp4", "pipe.mp4", "missing.mp4"}
    assert reasons["void.mp4"] == "the file is empty"
    assert "not a regular file" in reasons["pipe.mp4"]
    assert reasons["missing.mp4"] == "no such file"

    listed = run("info", folder, "--failed").out.splitlines()
    assert listed == [f"{path}: {reasons[path.name]}" for path in (broken, pipe, void)]
    assert [failure["path"] for failure in run("info", folder, "--json").json["failed"]] == [
        str(path) for path in (broken, pipe, void)
    ]
    assert "3 files could not be read" in run("info", folder).out

    with monkeypatch.context() as patch:
        patch.setattr(local_engine, "stream_frames", forbidden)
        again = run("add", folder, good.parent, "--json").json
        assert (again["added"], again["unchanged"]) == (0, 1)
        assert {failure["reason"] for failure in again["failed"]} == {
            reasons["broken.mp4"],
            reasons["void.mp4"],
        }

    films("broken.mp4", source=1)
    films("void.mp4", source=2)
    assert run("add", folder, good.parent, "--json").json == {"added": 2, "unchanged": 1, "failed": []}
    assert [failure["path"] for failure in run("info", folder, "--json").json["failed"]] == [str(pipe)]


def test_a_file_that_one_may_not_read_is_tried_again_though_its_time_stamp_is_the_same(
    empty: visil.Index, films: Films, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = films("a.mp4")
    with monkeypatch.context() as patch:
        patch.setattr("visil.video.container.os.access", lambda _, how, **__: how != os.R_OK)
        assert empty.add(path).failed == [(str(path), "permission denied")]
    assert [failure.reason for failure in empty.info().failed] == ["permission denied"]
    assert counts(empty.add(path)) == (1, 0, 0)
    assert empty.info().failed == []


def test_a_file_that_becomes_unreadable_takes_its_video_along(empty: visil.Index, films: Films) -> None:
    path, other = films("a.mp4", "b.mp4")
    empty.add([path, other])
    path.write_text("overwritten")
    assert counts(empty.add(path.parent)) == (0, 1, 1)
    assert [video.path for video in empty.catalogue.videos()] == [str(other)]
    assert empty.verify() == []


@pytest.mark.parametrize("what", ["vanishes", "changes"])
def test_a_file_that_goes_or_changes_while_it_is_read(
    empty: visil.Index, films: Films, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    path, other = films("a.mp4", "b.mp4")
    content, times = path.read_bytes(), (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    real = stream_frames

    def disturbed(video: Path, *rest: Any, **options: Any) -> Any:
        stream = real(video, *rest, **options)
        if video == path:
            path.unlink() if what == "vanishes" else path.write_bytes(content + b"more")
        return stream

    with monkeypatch.context() as patch:
        patch.setattr(local_engine, "stream_frames", disturbed)
        report = empty.add([path, other], workers=1)
    assert counts(report) == (1, 0, 1)
    assert report.failed[0][0] == str(path)
    assert ("no such file" if what == "vanishes" else "changed while it was read") in report.failed[0][1]
    assert [failure.path for failure in empty.info().failed] == ([] if what == "vanishes" else [str(path)])
    assert empty.verify() == []
    # Back as it was, to the time stamp: nothing held against it.
    path.write_bytes(content)
    os.utime(path, ns=times)
    assert counts(empty.add(path)) == (1, 0, 0)
    assert empty.info().failed == []


def test_a_copy_does_not_suffer_from_what_befell_the_first(
    empty: visil.Index, films: Films, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, copy = films("a.mp4", "b.mp4", source=0)
    opened, waiting = threading.Event(), threading.Event()
    claim, read, hashed = Intake.claim, stream_frames, content_id

    def hashing(path: Path) -> str:
        assert path == first or opened.wait(10)
        return hashed(path)

    def claiming(self: Intake, path: Path, *rest: Any) -> Any:
        claimed = claim(self, path, *rest)
        if path == copy:
            waiting.set()
        return claimed

    def disturbed(path: Path, *rest: Any, **options: Any) -> Any:
        stream = read(path, *rest, **options)
        if path == first:
            opened.set()
            assert waiting.wait(10)
            first.unlink()
        return stream

    monkeypatch.setattr(local_engine, "content_id", hashing)
    monkeypatch.setattr(local_engine, "stream_frames", disturbed)
    monkeypatch.setattr(Intake, "claim", claiming)
    report = empty.add([first, copy], workers=2)
    assert counts(report) == (1, 0, 1)
    assert empty.video(str(copy)).path == str(copy)


def test_broken_copies_all_fail_after_one_attempt(
    empty: visil.Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / f"{name}.mp4" for name in "abc"]
    for path in paths:
        path.write_text("not a film")
    assert counts(empty.add(paths, workers=2)) == (0, 0, 3)
    assert [failure.path for failure in empty.info().failed] == [str(path) for path in paths]
    monkeypatch.setattr(local_engine, "stream_frames", forbidden)
    assert counts(empty.add(paths)) == (0, 0, 3)


def test_a_bug_in_the_decoder_is_a_failed_file_and_no_hang(
    empty: visil.Index, films: Films, monkeypatch: pytest.MonkeyPatch
) -> None:
    films("a.mp4", "b.mp4")
    monkeypatch.setattr(local_engine, "stream_frames", lambda *_, **__: 1 / 0)
    report = empty.add(films("a.mp4", "b.mp4"))
    assert counts(report) == (0, 0, 2)
    assert "ZeroDivisionError" in report.failed[0][1]


def test_trouble_with_the_catalogue_is_not_held_against_the_videos(
    empty: visil.Index, films: Films, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = films("a.mp4", "b.mp4")

    def busy(_: str) -> NoReturn:
        raise IndexFolderError("catalogue.sqlite", "another process has been writing")

    with monkeypatch.context() as patch:
        patch.setattr(empty.catalogue, "has", busy)
        with pytest.raises(IndexFolderError, match="another process"):
            empty.add(paths)
    assert empty.info().failed == []
    assert counts(empty.add(paths)) == (2, 0, 0)


def test_a_video_removed_by_another_process_while_its_copy_is_added(
    empty: visil.Index, films: Films, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, copy = films("a.mp4", "b.mp4", source=0)
    empty.add(first)
    video = empty.video(str(first)).id
    real = empty.catalogue.has

    def has(wanted: str) -> bool:
        found = real(wanted)
        if found:
            empty.remove([video])
        return found

    monkeypatch.setattr(empty.catalogue, "has", has)
    assert counts(empty.add(copy, workers=1)) == (1, 0, 0)
    assert [v.path for v in empty.catalogue.videos()] == [str(copy)]


def test_what_was_not_the_files_fault_is_tried_again(
    empty: visil.Index, videos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def surprised(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    film = videos / "copies" / "cat.mp4"
    with monkeypatch.context() as patch:
        patch.setattr(local_engine.AddMethod, "read", surprised)
        ((_, reason),) = empty.add(film).failed
    assert reason == "could not be read (ZeroDivisionError: a bug)"
    assert empty.add(film).added == 1
