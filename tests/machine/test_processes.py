"""No process of ours takes code from the folder that a command runs in."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from planted import plant, ran
from synthetic import stamped_frames, write_video
from visil.machine import processes
from visil.machine.processes import Workers, available, environment, python_path

SOURCE = Path(processes.__file__).parents[1]


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = plant(tmp_path / "downloads")
    monkeypatch.chdir(folder)
    # An empty name is the working folder.
    here = Path(__file__).parent
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", str(here), str(here.parent)]))
    return folder


def visil(*arguments: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-m", "visil", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_commands(planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])  # who says otherwise means it
    for name in ("a.mp4", "b.mp4"):
        write_video(planted / name, stamped_frames(8, first=ord(name[0])), 4)
    assert visil("add", "all.visil", ".", "--workers", "2", "--json")["added"] == 2
    assert visil("search", "all.visil", "a.mp4", "--json")["hits"]
    assert ran(planted) == []


class Looking:
    """Tells where a module comes from, and which folder paths are relative to."""

    def prepare(self) -> None:
        self.before = os.getcwd()

    def __call__(self, connection: Connection) -> None:
        import html
        import queue

        connection.send((html.__file__, queue.__file__, self.before, os.getcwd()))


@pytest.mark.skipif(not available(), reason="worker processes are for Linux")
@pytest.mark.usefixtures("fresh_processes")
def test_workers(planted: Path) -> None:
    workers = Workers(Looking())
    try:
        *modules, before, after = workers.fork().recv()
    finally:
        workers.close()
    assert ran(planted) == []
    assert not any(str(module).startswith(str(planted)) for module in modules)
    assert (before, after) == (os.sep, str(planted))


@pytest.mark.skipif(not available(), reason="worker processes are for Linux")
def test_a_process_that_was_started_ahead_forks_the_next_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LOADED_AHEAD", ("html",))
    monkeypatch.setattr("atexit.register", lambda _: None)
    processes.start_ahead()
    processes.start_ahead()
    ((_, ahead),) = processes._ahead
    workers = Workers(Looking())
    try:
        with workers.fork():
            assert workers.pid == ahead.pid
            assert not processes._ahead
    finally:
        workers.close()
    processes.start_ahead()
    ((_, unused),) = processes._ahead
    processes._end_unused()
    assert unused.poll() is not None


def test_where_a_process_runs_changes_nothing_of_what_it_was_told(
    planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "mine", "/theirs", ""]))
    monkeypatch.setenv("VISIL_CACHE", "cache")
    monkeypatch.setenv("VISIL_CONFIG", "")
    assert python_path().split(os.pathsep) == [str(SOURCE.parent), str(planted / "mine"), "/theirs"]
    told = environment({"OMP_NUM_THREADS": "1"})
    assert told["VISIL_CACHE"] == str(planted / "cache")
    assert (told["VISIL_CONFIG"], told["PYTHONSAFEPATH"], told["OMP_NUM_THREADS"]) == ("", "1", "1")


def test_there_is_no_other_way_to_start_python() -> None:
    ways = re.compile(
        r"sys\.executable|multiprocessing\.(get_context|Process|Pool)|ProcessPoolExecutor|forkserver"
    )
    found = {
        file.relative_to(SOURCE).as_posix()
        for file in SOURCE.rglob("*.py")
        if ways.search(file.read_text("utf-8"))
    }
    assert found == {"machine/processes.py"}
