"""Callers who are slow on purpose: half-open connections, headers and bodies that never end, files a byte at a time."""

from __future__ import annotations

import asyncio
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from visil.web.problems import Problem
from visil.web.settings import Limits
from visil.web.uploads import UploadLine

from .conftest import Running, in_a_thread, running

LIMITS = Limits(
    connections=20,
    header_s=1.0,
    body_s=1.0,
    uploads_under_way=2,
    uploads_of_one=2,
    upload_idle_s=1.0,
    upload_window_s=1.0,
    upload_seconds=3,
)
SLOW_FILE = b"POST /api/uploads HTTP/1.1\r\nHost: localhost\r\nX-Visil: 1\r\nContent-Length: 50000\r\n\r\n"


@pytest.fixture(scope="module")
def server(built: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = shutil.copytree(built, tmp_path_factory.mktemp("slow") / "all.visil")
    with running(Path(folder), root, limits=LIMITS) as server:
        yield server


def line(server: Running, data: bytes) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", server.server.port), timeout=20)
    made.sendall(data)
    return made


def answered(made: socket.socket) -> bytes:
    """One answer, which is JSON."""
    came = made.recv(65536)
    while not came.endswith(b"}"):
        came += made.recv(65536)
    return came


def ended(made: socket.socket) -> bytes:
    """What came before the server hung up."""
    came = b""
    try:
        while part := made.recv(65536):
            came += part
    except ConnectionResetError:
        pass
    return came


def test_half_open_connections_make_way(server: Running) -> None:
    before = server.server.connections.turned_away
    with ExitStack() as held:
        lines = [held.enter_context(line(server, b"GET /api/videos HT")) for _ in range(60)]
        assert server.http.get("/api/videos").status_code == 200
        assert server.server.connections.open <= LIMITS.connections
        assert server.server.connections.turned_away >= before + 40
        assert all(ended(one) == b"" for one in lines)  # the last of them for taking too long
    assert server.http.get("/api/videos").status_code == 200


def test_a_request_must_be_said_in_time_and_the_next_one_too(server: Running) -> None:
    whole = b"GET /api/session HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with line(server, whole) as made:
        assert answered(made).startswith(b"HTTP/1.1 200")
        time.sleep(1.5 * LIMITS.header_s)  # asks for nothing, which it may
        made.sendall(whole)
        assert answered(made).startswith(b"HTTP/1.1 200")
        made.sendall(whole[:20])
        assert ended(made) == b""
    slow = b"POST /api/search HTTP/1.1\r\nHost: localhost\r\nX-Visil: 1\r\nContent-Length: 90\r\n\r\n{"
    with line(server, slow) as made:
        assert answered(made).startswith(b"HTTP/1.1 408")


def test_slow_files_are_given_up_and_others_wait_for_their_turn(server: Running, root: Path) -> None:
    with line(server, SLOW_FILE) as one, line(server, SLOW_FILE) as two:
        while server.server.service.uploads.line.sending.total() < 2:
            time.sleep(0.01)
        ends = time.monotonic() + 20
        sent = threading.Thread(target=lambda: uploads.append(server.client.upload(root / "cut.mp4")))
        uploads: list[str] = []
        sent.start()
        while server.server.service.uploads.line.sending["127.0.0.1"] == 2 and time.monotonic() < ends:
            one.sendall(b"x")  # never without a byte for long
            time.sleep(0.3)
        sent.join(20)
        assert len(uploads) == 1
        assert answered(one).startswith(b"HTTP/1.1 408")
        assert answered(two).startswith(b"HTTP/1.1 408")


def test_a_file_that_says_it_is_too_long_is_refused_at_once(server: Running, root: Path) -> None:
    answer = server.http.post("/api/uploads?name=a.mp4", content=(root / "videos" / "cat.mp4").read_bytes())
    assert answer.status_code == 422
    assert answer.json()["detail"] == "a.mp4: is longer than 3 s; add it to the collection instead"
    path = {"path": str(root / "videos" / "broken.mp4")}
    assert server.http.post("/api/search", json=path).status_code == 202


def test_who_has_fewest_lanes_comes_next() -> None:
    async def scene() -> list[str]:
        lines = UploadLine(
            Limits(uploads_under_way=3, uploads_of_one=2, uploads_waiting=3, upload_wait_s=0.05)
        )
        order: list[str] = []

        async def send(caller: str, done: asyncio.Event) -> None:
            async with lines.lane(caller):
                order.append(caller)
                await done.wait()

        first, rest = asyncio.Event(), asyncio.Event()
        greedy = [asyncio.create_task(send("greedy", first)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Problem) as refused:
            await send("greedy", first)  # a lane is free, but not for this one
        assert refused.value.status == 429
        assert "you are not done" in refused.value.detail
        others = [asyncio.create_task(send("third", first))]
        await asyncio.sleep(0)
        others += [asyncio.create_task(send(name, rest)) for name in ("greedy", "new", "newer")]
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="Too many files are waiting"):
            await send("late", rest)
        first.set()
        await asyncio.gather(*greedy)
        rest.set()
        await asyncio.gather(*others)
        assert lines.sending.total() == len(lines.waiting) == 0
        return order

    assert in_a_thread(scene()) == ["greedy", "greedy", "third", "new", "greedy", "newer"]
