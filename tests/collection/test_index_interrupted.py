"""Killed, stopped and shared: nothing is lost, nothing is there twice, and nobody waits in vain."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

import visil
from forked import Child
from visil.collection.feature_writer import FeatureWriter
from visil.collection.intake import Intake
from visil.collection.lock import exclusive, lock_open_file
from visil.collection.store import FeatureStore
from visil.compare.visil import ViSiL

from .conftest import Command, Start
from .inside import candidates, part

THROTTLE = """
import os, time
from visil.collection import local_engine
real, opened = local_engine.stream_frames, []
def throttled(path, *rest, **options):
    opened.append(path)
    while len(opened) > {after} and not os.path.exists({gate!r}):
        time.sleep(0.02)
    return real(path, *rest, **options)
local_engine.stream_frames = throttled
"""
"""Lets some videos through, and the others once a file exists."""

KILL = """
import os, signal
from {module} import {owner}
real, calls, command = {owner}.{method}, [], os.getpid()
def killed(*arguments, **options):
    calls.append(1)
    if len(calls) == {nth}:
        for process in (command, os.getpid()):
            os.kill(process, signal.SIGKILL)
    return real(*arguments, **options)
{owner}.{method} = killed
"""
"""Kills the command at the n-th call of a method, in a worker with that."""

MOMENTS = {
    "half a feature file is written": ("visil.collection.feature_writer", "FeatureWriter", "seal", 2),
    "a feature file is in place, its entry is not": ("visil.collection", "catalogue", "_put_file", 2),
    "the candidates are to be written": ("visil.collection.candidates", "CandidateIndex", "save", 1),
}


def wait_for_videos(folder: Path, count: int, child: Child) -> None:
    """Until the catalogue holds ``count`` videos; looked at as any reader would."""
    deadline = time.monotonic() + 60
    while True:
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        if (folder / "catalogue.sqlite").is_file():
            with visil.Index(folder, create=False) as index:
                if len(index) >= count:
                    return
        time.sleep(0.05)


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "features").rglob(".*"))


def wait_for_workers(folder: Path) -> None:
    """Until no worker of a command that was killed is left to write: each has a lock on its file."""
    for left in (folder / "features").rglob(".*"):
        with suppress(FileNotFoundError), left.open("rb") as file:
            lock_open_file(file.fileno(), wait=True)


def is_whole(folder: Path, videos: Path, model: ViSiL) -> None:
    """All eight videos, once each, all sound, and nothing else in the folder."""
    with visil.Index(folder, model=model) as index:
        found = [Path(video.path) for video in index.catalogue.videos()]
        assert sorted(found) == sorted(path for path in videos.rglob("*.m*") if path.is_file())
        assert sorted(index.store.ids()) == sorted(video.id for video in index.catalogue.videos())
        assert index.verify() == []
        assert leftovers(folder) == []
        assert candidates(index).numbers == set(index.catalogue.numbers())
        assert candidates(index).frames == index.info().frames
        assert len(list(folder.glob("frames-*.faiss"))) == 1


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_the_worst_moments_then_added_again(
    videos: Path, tmp_path: Path, model: ViSiL, process: Start, moment: str
) -> None:
    module, owner, method, nth = MOMENTS[moment]
    script = KILL.format(module=module, owner=owner, method=method, nth=nth)
    folder = tmp_path / "i"
    child = process("add", folder, videos, "--workers", "2", before=script)
    assert child.wait(60) == -signal.SIGKILL
    wait_for_workers(folder)
    with visil.Index(folder, model=model) as index:
        kept = len(index)
        most = 8 if method == "save" else nth - 1
        assert kept in (
            range(nth + 1) if method == "seal" else (most,)
        )  # each worker may have sealed another
        assert [problem for problem in index.verify() if "features" in problem.reason] == []
        if 0 < kept < 8:
            assert index.search(videos / "alone" / "retina.mp4", k=1, exhaustive=True)
        report = index.add(videos)
    assert (report.added, report.unchanged, report.failed) == (8 - kept, kept, [])
    is_whole(folder, videos, model)


@pytest.mark.parametrize("after", [2])
def test_killed_from_outside_then_added_again(
    videos: Path, tmp_path: Path, model: ViSiL, process: Start, after: int
) -> None:
    folder = tmp_path / "i"
    throttle = THROTTLE.format(after=after, gate=str(tmp_path / "gate"))
    child = process("add", folder, videos, "--workers", "1", before=throttle)
    wait_for_videos(folder, after, child)
    child.kill()
    assert child.wait(10) == -signal.SIGKILL
    with visil.Index(folder, model=model) as index:
        assert len(index) == after
        report = index.add(videos)
    assert (report.added, report.unchanged, report.failed) == (8 - after, after, [])
    is_whole(folder, videos, model)


def test_control_c_stops_cleanly(videos: Path, tmp_path: Path, model: ViSiL, process: Start) -> None:
    folder, gate = tmp_path / "i", tmp_path / "gate"
    throttle = THROTTLE.format(after=2, gate=str(gate))
    child = process("add", folder, videos, "--workers", "2", before=throttle)
    wait_for_videos(folder, 2, child)
    child.send_signal(signal.SIGINT)
    gate.touch()
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (130, "", "visil: stopped\n")
    with visil.Index(folder, model=model) as index:
        kept = len(index)
        assert kept in range(2, 8)  # what was whole when the signal came is kept
        assert index.verify() == []
        assert leftovers(folder) == []
        assert index.add(videos).added == 8 - kept
    is_whole(folder, videos, model)


IN_WORKERS = """
import visil.collection.model as at_hand
from visil.collection import extraction
extraction.HERE_FRAMES = 0
del at_hand.load(None).features
"""
"""Worker processes do it all, by the model as it is: what it remembers of frames stays here."""


def processes_of(session: int) -> list[int]:
    """Of the session that a process is the leader of, or of those that its children lead."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            _, parent, _, leader = stat.read_text().rpartition(")")[2].split()[:4]
            if session in (int(parent), int(leader)):
                found.append(int(stat.parent.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="worker processes are forked")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_ended_while_worker_processes_are_at_it(
    videos: Path, tmp_path: Path, model: ViSiL, process: Start, number: int
) -> None:
    folder = tmp_path / "i"
    child = process("add", folder, videos, "--workers", "2", before=IN_WORKERS)
    wait_for_videos(folder, 1, child)
    (leader,) = [pid for pid in processes_of(child.pid) if pid != child.pid]
    child.send_signal(number)
    assert child.wait(30) in ((-signal.SIGKILL,) if number == signal.SIGKILL else (130, 0))
    deadline = time.monotonic() + 30
    while processes_of(leader) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_of(leader) == []
    with visil.Index(folder, model=model) as index:
        kept = len(index)
        assert kept >= 1
        assert [problem for problem in index.verify() if "features" in problem.reason] == []
        assert number == signal.SIGKILL or leftovers(folder) == []
        assert index.add(videos).added == 8 - kept
    is_whole(folder, videos, model)


def test_two_processes_at_once_while_others_read(
    videos: Path, tmp_path: Path, model: ViSiL, process: Start, run: Command
) -> None:
    """This process and another add everything; the other waits, and goes on when this one is in the middle."""
    folder, gate = tmp_path / "i", tmp_path / "gate"
    slow = process(
        *("add", folder, videos, "--workers", "1", "--json"),
        before=THROTTLE.format(after=2, gate=str(gate)),
    )
    wait_for_videos(folder, 2, slow)
    assert run("info", folder, "--json").json["videos"] == 2
    hits = run("search", folder, videos / "copies" / "cat small.mkv", "--json", "--exhaustive").json["hits"]
    assert len(hits) == 2
    assert run("duplicates", folder, "--json").status == 0
    with visil.Index(folder, model=model) as index:
        ours = index.add(videos, progress=lambda state: gate.touch() if state.files == 4 else None)
    out, err = slow.communicate(timeout=60)
    assert (slow.returncode, err) == (0, "")
    theirs = json.loads(out)
    assert (ours.failed, theirs["failed"]) == ([], [])
    assert ours.added + ours.unchanged == theirs["added"] + theirs["unchanged"] == 8
    is_whole(folder, videos, model)


def test_two_processes_make_one_collection(
    videos: Path, tmp_path: Path, model: ViSiL, process: Start
) -> None:
    """Started at once, with different files and some in common."""
    folder = tmp_path / "i"
    children = [
        process("add", folder, videos / "copies", videos / "inside"),
        process("add", folder, videos / "alone", videos / "inside"),
    ]
    said = [child.communicate(timeout=60) for child in children]
    assert [child.returncode for child in children] == [0, 0], said
    is_whole(folder, videos, model)


def test_a_process_killed_while_it_made_the_folder(videos: Path, tmp_path: Path, model: ViSiL) -> None:
    folder = tmp_path / "i"
    (folder / "features").mkdir(parents=True)
    with visil.Index(folder, model=model) as index:
        assert index.add(videos / "alone" / "retina.mp4").added == 1


def test_a_process_killed_while_it_recorded_the_model(
    videos: Path, tmp_path: Path, model: ViSiL, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    with visil.Index(tmp_path / "i", model=model) as index:
        real = index.catalogue.set_fact

        def once(key: str, value: str) -> None:
            real(key, value)
            raise Killed

        monkeypatch.setattr(index.catalogue, "set_fact", once)
        with suppress(Killed):
            index.add(videos / "alone" / "retina.mp4")
    with visil.Index(tmp_path / "i", model=model) as index:
        index.add(videos / "alone" / "retina.mp4")
        assert len(index) == 1


def test_a_new_file_is_no_leftover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that clears up takes nothing from one that has made a file and not yet locked it."""
    store = FeatureStore(tmp_path)
    cleared: list[int] = []

    def lock(file: int, *, wait: bool) -> bool:
        if not cleared:
            cleared.append(file)
            store.clear_leftovers()
        return lock_open_file(file, wait=wait)

    monkeypatch.setattr("visil.collection.feature_writer.lock_open_file", lock)
    writer = store.writer("ab" * 16)
    writer.append(torch.zeros(1, 1, 4), np.array([0.0]), torch.tensor([False]))
    assert len(cleared) == 1
    store.clear_leftovers()
    writer.append(torch.zeros(1, 1, 4), np.array([1.0]), torch.tensor([True]))
    assert writer.finish(2.0) == 2
    assert store.sound("ab" * 16) is None
    assert list(store.ids()) == ["ab" * 16]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_whatever_ends_a_run_leaves_no_half_written_files(
    empty: visil.Index, videos: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    real = Intake.finish
    calls: list[int] = []

    def finish(self: Intake, *rest: object) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise error
        real(self, *rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Intake, "finish", finish)
        with pytest.raises(error):
            empty.add(videos / "copies", workers=2)
    assert len(empty) == 1
    assert leftovers(empty.folder) == []
    assert empty.verify() == []


def test_info_while_files_come_and_go(index: visil.Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer renames a file between a reader's listing and its look at the size."""
    vanishing = index.folder / "features" / ".part"
    vanishing.touch()
    real = Path.is_file

    def is_file(self: Path) -> bool:
        found = real(self)
        if self == vanishing:
            vanishing.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(Path, "is_file", is_file)
    assert index.info().videos == 8
    assert not os.path.exists(vanishing)


# ---------------------------------------------------------------------- leftovers of the candidate cache


def test_leftovers_of_the_candidate_cache_are_cleared(folder: Path, videos: Path, model: ViSiL) -> None:
    left = [folder / "frames-0123456789ab.faiss", folder / ".frames-0123456789ab.faiss.json"]
    other = folder / "frames of mine.txt"
    for path in (*left, other):
        path.touch()
    with visil.Index(folder, model=model) as index:
        before = sorted(path.name for path in folder.glob("frames-*.faiss") if path not in left)
        index.add(videos / "alone")  # nothing new: the cache is not written
        assert not any(path.exists() for path in left)
        assert sorted(path.name for path in folder.glob("frames-*.faiss")) == before
        assert other.exists()
        assert index.verify() == []


def test_what_another_process_is_writing_is_no_leftover(folder: Path, videos: Path, model: ViSiL) -> None:
    fresh = folder / "frames-0123456789ab.faiss"
    fresh.touch()
    with visil.Index(folder, model=model) as index:
        with exclusive(folder / "frames.lock"):
            index.add(videos / "alone")
            assert fresh.exists()
        index.add(videos / "alone")
        assert not fresh.exists()


# ---------------------------------------------------------------------- removing against adding


def test_removing_leaves_what_was_added_again_meanwhile(
    folder: Path, videos: Path, model: ViSiL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is added again after its entry is gone and before its features are."""
    film = videos / "alone" / "retina.mp4"
    with visil.Index(folder, model=model) as index, visil.Index(folder, model=model) as other:
        real = part(index).catalogue.remove

        def remove(video: str) -> None:
            real(video)
            assert other.add(film).added == 1

        monkeypatch.setattr(index.catalogue, "remove", remove)
        assert index.remove([str(film)]) == 1
        assert len(index) == 8
        assert index.verify() == []


def test_removing_waits_for_what_is_being_put_in_place(
    folder: Path, videos: Path, model: ViSiL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A removal that comes between the features and the entry of a video has to wait for both."""
    film = videos / "alone" / "retina.mp4"
    with visil.Index(folder, model=model) as index, visil.Index(folder, model=model) as other:
        video = index.video(str(film))
        part(index).catalogue.remove(video.id)
        remover = threading.Thread(target=part(other).drop, args=(video.id,))
        real = FeatureWriter.place

        def place(self: FeatureWriter) -> None:
            real(self)
            remover.start()
            remover.join(0.3)
            assert remover.is_alive()

        monkeypatch.setattr(FeatureWriter, "place", place)
        assert index.add(film).added == 1
        remover.join()
        assert index.verify() == []


def test_repair_takes_no_features_that_are_being_added(
    folder: Path, videos: Path, model: ViSiL, monkeypatch: pytest.MonkeyPatch
) -> None:
    film = videos / "alone" / "retina.mp4"
    with visil.Index(folder, model=model) as index, visil.Index(folder, model=model) as other:
        video = index.video(str(film))
        part(index).catalogue.remove(video.id)  # its features belong to nothing now
        real = index.catalogue.has

        def has(asked: str) -> bool:
            found = real(asked)
            if asked == video.id:
                other.add(film)
            return found

        monkeypatch.setattr(index.catalogue, "has", has)
        index.verify(repair=True)
        monkeypatch.undo()
        assert index.verify() == []
        assert len(index) == 8
