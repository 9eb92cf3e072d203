"""No process of ours takes code from the folder that a command runs in; how many cores one may use."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from planted import plant, ran
from synthetic import stamped_frames, write_video
from visil import processes
from visil.processes import Workers, available, environment, python_path, time_quota, usable_cores

SOURCE = Path(processes.__file__).parent


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = plant(tmp_path / "downloads")
    monkeypatch.chdir(folder)
    # An empty name is the working folder.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", os.fspath(Path(__file__).parent)]))
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
    assert found == {"processes.py"}


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/a/b\n", {"a/b/cpu.max": "250000 100000\n", "a/cpu.max": "max 100000\n"}, 2.5),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n"}, 3.0),
        ("0::/\n", {}, math.inf),
        (
            "4:cpu,cpuacct:/box\n3:memory:/box\n",
            {"cpu/box/cpu.cfs_quota_us": "150000\n", "cpu/box/cpu.cfs_period_us": "100000\n"},
            1.5,
        ),
        (
            "4:cpu,cpuacct:/box\n",
            {"cpu/box/cpu.cfs_quota_us": "-1\n", "cpu/box/cpu.cfs_period_us": "100000\n"},
            math.inf,
        ),
        ("nonsense\n", {}, math.inf),
    ],
)
def test_what_control_groups_leave(
    tmp_path: Path, groups: str, files: dict[str, str], expected: float
) -> None:
    write(tmp_path / "cgroup", groups)
    for name, text in files.items():
        write(tmp_path / "sys" / name, text)
    assert time_quota(tmp_path / "cgroup", tmp_path / "sys") == expected
    assert time_quota(tmp_path / "none", tmp_path / "sys") == math.inf


def test_part_of_a_core_is_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    for quota, expected in ((math.inf, 8), (2.5, 3), (0.2, 1)):
        monkeypatch.setattr(processes, "time_quota", lambda *_, quota=quota: quota)
        assert usable_cores() == expected
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cores() == (os.cpu_count() or 1)
