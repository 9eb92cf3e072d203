"""``visil serve`` as a process: started, killed in the middle, started again; and what it refuses to start with."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import visil
from planted import plant, ran
from synthetic import write_video
from visil.cli import main
from visil.client import Client
from visil.errors import UsageError
from visil.machine.processes import environment
from visil.web.server import Server
from visil.web.settings import settle
from visil.web.state import Job, JobStore

from .conftest import FPS, footage

Start = Callable[..., tuple[subprocess.Popen[str], list[str]]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """``visil serve`` with arguments; gives the process and the first lines it says. Ended with the test.

    It runs in a folder with files that are named like modules, of which none may be run.
    """
    folder = plant(tmp_path / "downloads")
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str | Path, lines: int = 2) -> tuple[subprocess.Popen[str], list[str]]:
        child = subprocess.Popen(
            [sys.executable, "-m", "visil", "serve", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environment({"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": ""}),
        )
        started.append(child)
        assert child.stdout is not None
        return child, [child.stdout.readline().strip() for _ in range(lines)]

    yield run
    for child in started:
        child.kill()
        child.communicate()
    assert ran(folder) == []


def address(said: list[str]) -> str:
    return said[0].rsplit(" at ", 1)[1].rstrip("/")


def until(check: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_killed_while_it_adds_then_started_again_for_other_hosts(
    root: Path, tmp_path: Path, start: Start
) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    for name in ("a.mp4", "b.webm"):
        shutil.copy(root / ("cut.mp4" if name == "a.mp4" else "more/rocket.webm"), folder / name)
    write_video(folder / "c.mp4", footage("coffee", 100), FPS)
    child, said = start(tmp_path / "new.visil", "--port", "0")
    assert f"files may be added from {tmp_path.resolve()}" in said[1]
    client = Client(address(said))
    job = client.start("add", {"path": str(folder)})["id"]
    second = client.start("duplicates", {"min_confidence": 0.5})["id"]
    until(lambda: client.videos(state="ready")["total"] >= 1)  # the long one takes a while yet
    child.send_signal(signal.SIGKILL)
    child.wait(10)

    child, said = start(tmp_path / "new.visil", "--port", "0", "--host", "0.0.0.0", lines=3)
    token = said[2].removeprefix("token: ")
    assert len(token) >= 24
    assert Client(address(said)).session()["authenticated"] is False
    with pytest.raises(UsageError, match="another `visil serve`"):
        Server(settle(tmp_path / "new.visil", port=0))
    client = Client(address(said), token=token)
    result = client.wait(job)
    assert result["added"] + result["unchanged"] == 3
    assert result["unchanged"] >= 1
    assert result["failed"] == []
    assert client.job(second)["state"] == "failed"
    assert client.job(second)["error"] == "the server was restarted"
    assert client.videos(state="ready")["total"] == 3
    assert client.videos(state="working")["total"] == 0
    child.send_signal(signal.SIGINT)
    assert child.wait(20) in (0, 130)
    assert child.stderr is not None
    assert "Traceback" not in child.stderr.read()
    with visil.Index(tmp_path / "new.visil") as index:
        assert index.verify() == []
        assert len(index) == 3
        assert not list(tmp_path.glob("new.visil/features/*/.*"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--root", "/nowhere/at/all"], "--root must be a folder"),
        (["--token", "short"], "8 characters"),
        (["--token-file", "/nowhere/at/all"], "token cannot be read"),
        (["--port", "{taken}"], "choose another --port"),
    ],
)
def test_what_it_refuses_to_start_with(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = [one.format(taken=taken.getsockname()[1]) for one in arguments]
        monkeypatch.setattr(sys, "argv", ["visil", "serve", str(tmp_path / "i.visil"), *given])
        with pytest.raises(SystemExit) as ended:
            main()
    assert ended.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("visil: ")
    assert words in line
    assert not (tmp_path / "i.visil").exists()


def test_without_the_extra_one_line_names_the_fix(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['fastapi'] = None\n"
        "import importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name in ('fastapi', 'uvicorn') else real(name, *a)\n"
        "from visil.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "serve", str(tmp_path / "i")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "pip install 'visil[serve]'" in line
    assert not (tmp_path / "i").exists()


def record(number: int, state: str, kind: str = "search") -> Job:
    return Job(f"{number:024x}", kind, state, "t", {"do": kind}, {"done": 0}, float(number), float(number))


def test_old_jobs_are_forgotten_but_for_the_last_duplicates(tmp_path: Path) -> None:
    store = JobStore(tmp_path / "jobs.sqlite", tmp_path, kept=3)
    store.put(record(1, "done", "duplicates"))
    store.keep_result(record(1, "done").id, {"groups": []})
    for number in range(2, 8):
        store.put(record(number, "done"))
        store.keep_result(record(number, "done").id, {})
    store.put(record(8, "waiting"))
    store.prune()
    assert [int(job.id, 16) for job in store.latest(100)] == [8, 7, 6, 5, 1]
    assert len(list(tmp_path.glob("*.json"))) == 4
    assert store.latest_done("duplicates") == record(1, "done", "duplicates")
    store.close()
    (tmp_path / "bad.sqlite").write_text("nothing of the kind, and long enough to be looked at" * 50)
    with pytest.raises(visil.VisilError, match="list of jobs"):
        JobStore(tmp_path / "bad.sqlite", tmp_path, kept=3)
