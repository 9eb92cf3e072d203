"""One loop for every extraction: in this process, in worker processes, and from the one to the other."""

from __future__ import annotations

import logging
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from toy_extraction import Toys, ToyWork, frames_of
from visil.collection import extraction
from visil.collection.extraction import extract
from visil.collection.worker import Sealed, Worker
from visil.errors import IndexFolderError
from visil.machine.processes import Workers, available, send_handle

pytestmark = pytest.mark.skipif(not available(), reason="worker processes are forked")

NAMES = ["40", "3", "17-known", "21", "12-slow", "5", "9"]
TRULY = [name for name in NAMES if "known" not in name]


@pytest.fixture(autouse=True)
def tests_are_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.fspath(Path(__file__).parents[1]))


@pytest.fixture(params=["here", "workers embed", "workers read"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """The ways in which an extraction may go."""
    monkeypatch.setattr(extraction, "HERE_FRAMES", 1 << 30 if request.param == "here" else 0)
    return {"share": request.param == "workers read"}


@pytest.fixture
def in_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "HERE_FRAMES", 0)


def check_features(work: ToyWork, name: str) -> None:
    images = np.concatenate([frames.images for frames in frames_of(name)])
    found = work.store().read(f"mean {name}")
    assert found.vectors.shape == (len(images), 1, 3)
    np.testing.assert_allclose(found.vectors[:, 0].float(), images.mean(axis=(1, 2)) / 255, atol=1e-3)
    assert found.timestamps.tolist() == list(range(len(images)))
    assert found.duration == len(images) - 1
    assert work.store().read(f"count {name}").vectors.item() == len(images)


def leftovers(folder: Path) -> list[Path]:
    return list(folder.rglob(".*.part"))


def test_every_way_gives_the_same(tmp_path: Path, how: dict[str, bool]) -> None:
    work = ToyWork(tmp_path)
    extract(work, [*NAMES, "8-bad", "6-bug", "0"], workers=2, **how)
    assert sorted(work.kept) == sorted(TRULY)
    assert work.settled == ["17-known"]
    assert work.failed == {
        "8-bad": "is bad",
        "6-bug": "could not be read (ZeroDivisionError: a bug)",
        "0": "no frame could be decoded",
    }
    for name in TRULY:
        check_features(work, name)
    assert len(list(work.store().ids())) == 2 * len(TRULY)
    assert leftovers(tmp_path) == []


def test_workers_take_over_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is done once, some of it here, some of it there, and lines of the log come back."""
    monkeypatch.setattr(extraction, "HERE_FRAMES", 1)
    gate = threading.Event()
    seen = []
    real = Toys.read

    def waiting(self: Toys, video: object) -> object:
        seen.append(video)
        if len(seen) > 3:  # until this process is told to leave the rest
            gate.wait(60)
        return real(self, video)  # type: ignore[arg-type]

    ready = extraction._Run._workers_ready

    def opening(self: extraction._Run) -> bool:
        found = ready(self)
        if found:
            gate.set()
        return found

    monkeypatch.setattr(Toys, "read", waiting)
    monkeypatch.setattr(extraction._Run, "_workers_ready", opening)
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("visil").addHandler(handler)
    names = [f"{count}-log" for count in range(5, 25)]
    work = ToyWork(tmp_path)
    try:
        extract(work, names, workers=2)
    finally:
        logging.getLogger("visil").removeHandler(handler)
    assert sorted(work.kept) == sorted(names)
    assert len(set(work.kept.values())) > 1
    assert os.getpid() in work.kept.values()
    assert {f"{name}: a line" for name in names} == set(lines)
    for name in names:
        check_features(work, name)


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize("share", [False, True])
def test_a_worker_that_dies_costs_its_video_alone(tmp_path: Path, share: bool) -> None:
    work = ToyWork(tmp_path)
    extract(work, ["30", "20-crash", "31", "22-crash", "12"], workers=1, share=share)
    assert sorted(work.kept) == ["12", "30", "31"]
    assert set(work.failed) == {"20-crash", "22-crash"}
    assert set(work.failed.values()) == {
        "ended the process that read it: damaged, or too large for the memory"
    }
    assert len(set(work.kept.values())) == 3, "each crash brings a new worker"
    assert leftovers(tmp_path) == []


@pytest.mark.usefixtures("in_workers")
def test_what_no_video_is_to_blame_for_ends_the_run(tmp_path: Path) -> None:
    work = ToyWork(tmp_path)
    with pytest.raises(IndexFolderError, match="the disk is full"):
        extract(work, ["10-full", *(f"{n}-slow" for n in range(50, 60))], workers=2)
    assert len(work.kept) < 10
    assert leftovers(tmp_path) == []


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize("share", [False, True])
def test_an_interrupted_run_keeps_what_is_finished(tmp_path: Path, share: bool) -> None:
    class Interrupted(ToyWork):
        def embedded(self, frames: int) -> None:
            super().embedded(frames)
            if self.kept:
                raise KeyboardInterrupt

    work = Interrupted(tmp_path)
    names = [f"{n}-slow" for n in range(20, 60)]
    with pytest.raises(KeyboardInterrupt):
        extract(work, names, workers=2, share=share)
    assert 0 < len(work.kept) < len(names)
    assert len(list(work.store().ids())) == 2 * len(work.kept)
    assert leftovers(tmp_path) == []
    deadline = time.monotonic() + 10
    while (left := [pid for pid in set(work.kept.values()) if runs(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []


def runs(pid: int) -> bool:
    return pid != os.getpid() and Path(f"/proc/{pid}").exists()


@pytest.mark.usefixtures("in_workers")
def test_the_last_videos_get_the_cores_of_idle_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from visil.collection.worker import Worker

    given: list[int] = []
    real = Worker.use

    def use(self: Worker, cores: int) -> None:
        given.append(cores)
        real(self, cores)

    monkeypatch.setattr(Worker, "use", use)
    work = ToyWork(tmp_path)
    extract(work, ["200-slow", "3", "4"], workers=3)
    assert given[-1] == 3
    check_features(work, "200-slow")


def test_without_worker_processes_this_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(extraction, "HERE_FRAMES", 1)
    monkeypatch.setattr("visil.machine.processes.sys.executable", "/bin/false")
    work = ToyWork(tmp_path)
    with caplog.at_level(logging.WARNING, "visil"):
        extract(work, [f"{n}-slow" for n in range(10, 30)], workers=2)
    assert len(work.kept) == 20
    assert set(work.kept.values()) == {os.getpid()}
    (line,) = caplog.messages
    assert line.startswith("this process goes on alone: workers cannot be started (")


@pytest.fixture
def folder_of_traps(tmp_path: Path) -> Iterator[Path]:
    """A working directory whose modules must not be imported."""
    before = Path.cwd()
    for name in ("torch", "visil", "pickle"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(f'imported {__file__}')")
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


@pytest.mark.usefixtures("in_workers", "fresh_processes")
def test_nothing_is_imported_from_the_working_directory(folder_of_traps: Path) -> None:
    work = ToyWork(folder_of_traps / "features")
    extract(work, ["5", "6"], workers=2)
    assert sorted(work.kept) == ["5", "6"]


def test_what_a_worker_hands_over_while_it_is_ended_goes(tmp_path: Path) -> None:
    ours, theirs = multiprocessing.Pipe()
    worker = Worker(cast(Workers, None), None)
    worker._connection = ours
    files = {kind: (tmp_path / f".{kind}.part", 3) for kind in ("me", "mean")}
    theirs.send(Sealed(files, None))
    for file, _ in files.values():
        with file.open("wb") as opened:
            send_handle(theirs, opened.fileno())
    theirs.close()
    worker.close()
    assert leftovers(tmp_path) == []
