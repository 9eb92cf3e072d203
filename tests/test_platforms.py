"""Windows and macOS, as far as a Linux machine can tell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

import visil
from posix_names import MODULES, NAMES, unguarded
from synthetic import moving_scene, write_video
from visil.collection.feature_writer import CLOSED_S, clear_parts
from visil.collection.lock import exclusive, shared_or_alone
from visil.collection.remote.objects import is_url
from visil.errors import UsageError
from visil.files import delete_unless_in_use

PACKAGE = Path(visil.__file__).parent


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import fcntl", ["1: fcntl"]),
        ("import os\ndef f():\n    with x:\n        os.nice(3)", ["4: os.nice"]),
        ("from signal import SIGALRM", ["1: signal.SIGALRM"]),
        ("x = open('/proc/self/status')", ["1: /proc/self/status"]),
        ("if sys.platform != 'win32':\n    os.nice(3)", []),
        ("def f():\n    if sys.platform == 'win32':\n        return\n    import resource", []),
        ("if hasattr(os, 'sched_getaffinity'):\n    os.sched_getaffinity(0)", []),
        ("try:\n    import resource\nexcept ImportError:\n    resource = None", []),
    ],
)
def test_the_search_finds_what_is_used_without_asking(tmp_path: Path, code: str, found: list[str]) -> None:
    (tmp_path / "some.py").write_text(code)
    assert unguarded(tmp_path / "some.py") == found


def test_nothing_is_used_that_windows_does_not_have() -> None:
    everywhere = {str(path.relative_to(PACKAGE)): unguarded(path) for path in PACKAGE.rglob("*.py")}
    assert {path: found for path, found in everywhere.items() if found} == {}


def test_a_collection_works_without_what_windows_does_not_have(tmp_path: Path) -> None:
    """In a process where those names are gone and ``sys.platform`` says win32, once other packages are loaded."""
    (tmp_path / "in").mkdir()
    scene = list(moving_scene(1, 6, 4, (96, 128)))
    write_video(tmp_path / "in" / "a.mp4", scene, 4)
    write_video(tmp_path / "in" / "b.mp4", scene[4:], 4, options={"crf": "28"})
    code = f"""
        import importlib, json, os, pkgutil, select, signal, socket, sys, time
        import av, faiss, filelock, numpy, PIL.Image, rich.console, safetensors, sqlite3, torch, typer
        import fastapi, matplotlib.pyplot, uvicorn
        import torch._dynamo, torch.fx, torch.utils.data  # what others load when first used
        from filelock import ReadWriteLock
        subprocess = importlib.import_module("subprocess")
        subprocess.CREATE_NEW_PROCESS_GROUP, os.O_BINARY = 512, 0

        for name in {sorted(MODULES)!r}:
            sys.modules[name] = None
        for module, names in { ({key: sorted(value) for key, value in NAMES.items()})!r}.items():
            for name in names:
                vars(sys.modules[module]).pop(name, None)
        sys.platform = "win32"

        import visil
        OURS = ("visil.cluster", "visil.kernels.triton", "visil.__main__", "visil.demo", "visil.onnx")
        for module in pkgutil.walk_packages(visil.__path__, "visil."):
            if not module.name.startswith(OURS):
                importlib.import_module(module.name)
        index = visil.Index("all.visil")
        report = index.add("in")
        hits = index.search("in/b.mp4", first_look=1)
        groups = index.duplicates()
        index.remove(["in/b.mp4"])
        print(json.dumps([report.added, report.failed, hits[0].path, len(groups), index.verify() == []]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [2, [], str(tmp_path / "in" / "b.mp4"), 1, True]


@pytest.mark.parametrize(
    ("location", "url"),
    [
        *(("s3://bucket/a.visil", True), ("memory://x", True), ("gs+x.y-1://b", True)),
        *((r"C:\videos", False), ("C:/videos", False), ("C://videos", False), ("videos.visil", False)),
        *((r"\\server\share", False), ("//server/share", False), ("://", False), ("s3:bucket", False)),
    ],
)
def test_a_drive_letter_is_no_scheme(location: str, url: bool) -> None:
    assert is_url(location) == url


def test_locks_hold_between_handles_and_let_go(tmp_path: Path) -> None:
    with exclusive(tmp_path / "lock"):
        with pytest.raises(BlockingIOError), exclusive(tmp_path / "lock", wait=False):
            pass
        waited = threading.Event()
        waiter = threading.Thread(target=lambda: _hold(tmp_path / "lock", waited))
        waiter.start()
        assert not waited.wait(0.2)
    assert waited.wait(10)
    waiter.join()


def _hold(path: Path, held: threading.Event) -> None:
    with exclusive(path):
        held.set()


def test_many_may_share_a_lock_that_one_wants_alone(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with ExitStack() as held:
        held.enter_context(shared_or_alone(lock, alone=False))
        held.enter_context(shared_or_alone(lock, alone=False))
        with pytest.raises(BlockingIOError):
            held.enter_context(shared_or_alone(lock, alone=True))
    with ExitStack() as held:
        held.enter_context(shared_or_alone(lock, alone=True))
        with pytest.raises(BlockingIOError):
            held.enter_context(shared_or_alone(lock, alone=False))
    with shared_or_alone(lock, alone=False):
        pass


def test_windows_leaves_a_file_that_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "used by another process", os.fspath(path))

    monkeypatch.setattr(Path, "unlink", refused)
    with pytest.raises(PermissionError):
        delete_unless_in_use(tmp_path / "mapped")
    monkeypatch.setattr(sys, "platform", "win32")
    delete_unless_in_use(tmp_path / "mapped")


def test_windows_clears_no_part_that_may_be_on_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ab").mkdir()
    fresh, old = tmp_path / "ab" / ".fresh.part", tmp_path / "ab" / ".old.part"
    for part in (fresh, old):
        part.write_bytes(b"half")
    before = time.time() - 2 * CLOSED_S
    os.utime(old, (before, before))
    monkeypatch.setattr(sys, "platform", "win32")
    clear_parts(tmp_path.glob("??/.*.part"))
    assert (fresh.exists(), old.exists()) == (True, False)


def test_windows_serves_only_its_own_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from visil.web.settings import settle

    monkeypatch.setattr(sys, "platform", "win32")
    assert settle(tmp_path / "all.visil").host == "127.0.0.1"
    with pytest.raises(UsageError, match=r"--host 0\.0\.0\.0: on Windows only this machine"):
        settle(tmp_path / "all.visil", host="0.0.0.0")


def test_pipes_are_read_in_a_thread_where_they_cannot_be_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    from visil.web.sandbox import exactly

    monkeypatch.setattr(sys, "platform", "win32")
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", 0) as pipe:
        os.write(writing, b"ab")
        threading.Timer(0.1, os.write, (writing, b"cd")).start()
        assert exactly(pipe, 4, time.monotonic() + 30) == b"abcd"
        with pytest.raises(TimeoutError):
            exactly(pipe, 1, time.monotonic() + 0.05)
        os.close(writing)
        with pytest.raises(EOFError):
            exactly(pipe, 1, time.monotonic() + 30)
