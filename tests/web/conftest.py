"""Real servers over a small real collection, made once; tests that change things start their own on a copy."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

import visil
from synthetic import Image, write_video
from visil.client import Client
from visil.demo import photograph, render_scene
from visil.web.engine import EngineLink
from visil.web.server import Server
from visil.web.settings import Limits, settle

T = TypeVar("T")
FPS = 6
SIZE = (160, 120)


@dataclass(frozen=True)
class Running:
    """A server that answers."""

    url: str
    folder: Path
    server: Server
    http: httpx.Client
    """Sends what state-changing calls need."""
    client: Client

    def video(self, name: str) -> dict[str, Any]:
        """A video of the list by its file name."""
        (found,) = self.http.get("/api/videos", params={"q": name}).json()["videos"]
        return dict(found)

    def id(self, name: str) -> str:
        """Its id."""
        return str(self.video(name)["id"])


Serve = Callable[..., Running]
PATIENT = Limits(
    searches_per_minute=10**6,
    uploads_per_minute=10**6,
    pictures_per_minute=10**6,
    long_jobs_per_minute=10**6,
    waiting_jobs=500,
    waiting_jobs_of_one=500,
)
"""No rates that a test could come up against."""


NEAR = 0.15
"""Seconds that the end of a closer look may be off; one that is found by seconds alone is off by half of one."""


def footage(name: str, seconds: float) -> list[Image]:
    return list(render_scene(photograph(name), seconds, FPS, SIZE))


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``videos/``: a cat, five seconds of it from the second, and coffee; ``more/``: a rocket; ``cut.mp4`` beside."""
    folder = tmp_path_factory.mktemp("root")
    cat = footage("chelsea", 7)
    (folder / "videos").mkdir()
    (folder / "more").mkdir()
    write_video(folder / "videos" / "cat.mp4", cat, FPS)
    write_video(folder / "videos" / "part of it.mkv", cat[FPS : 6 * FPS], FPS, options={"crf": "32"})
    write_video(folder / "videos" / "coffee.mp4", footage("coffee", 4), FPS)
    (folder / "videos" / "broken.mp4").write_text("not a video at all")
    write_video(folder / "more" / "rocket.webm", footage("rocket", 3), FPS, codec="libvpx")
    write_video(folder / "cut.mp4", cat[2 * FPS : 5 * FPS], FPS, options={"crf": "26"})
    return folder


@pytest.fixture(scope="session")
def built(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The collection of ``videos/``; only ever copied."""
    folder = tmp_path_factory.mktemp("built") / "all.visil"
    with visil.Index(folder) as index:
        report = index.add(root / "videos", workers=1)
    assert (report.added, len(report.failed)) == (3, 1)
    return folder


@pytest.fixture(scope="session")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``in/``: a cat, the part of it from 1.5 to 6 s, and coffee; beside: that part as ``clip.mp4``, and the cat again.

    The part begins between two of the seconds that are looked at, and ends with one.
    """
    folder = tmp_path_factory.mktemp("films")
    (folder / "in").mkdir()
    cat = footage("chelsea", 7)
    part = cat[3 * FPS // 2 : 6 * FPS]
    write_video(folder / "in" / "cat.mp4", cat, FPS)
    write_video(folder / "in" / "part.mkv", part, FPS, options={"crf": "32"})
    write_video(folder / "in" / "coffee.mp4", footage("coffee", 4), FPS)
    write_video(folder / "clip.mp4", part, FPS, options={"crf": "26"})
    shutil.copy(folder / "in" / "cat.mp4", folder / "same.mp4")
    return folder


@pytest.fixture(scope="session")
def films_server(films: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One server for all tests of closer looks, which leave its collection as it is."""
    folder = tmp_path_factory.mktemp("films served") / "all.visil"
    with visil.Index(folder) as index:
        assert index.add(films / "in", workers=1).added == 3
    with running(folder, films) as server:
        yield server


async def _not_yet() -> None: ...


class _AsWell(EngineLink):
    """An engine that does other work as well, and is not stopped when this is over."""

    def __init__(self, engine: EngineLink) -> None:
        self.ask = engine.ask  # type: ignore[method-assign]
        self.interrupt = engine.interrupt  # type: ignore[method-assign]

    async def stop(self, *, only_idle: bool = False) -> None: ...


@contextmanager
def running(
    folder: Path,
    *roots: Path,
    token: str | None = None,
    limits: Limits | None = None,
    lean: bool = True,
    **settings: Any,
) -> Iterator[Running]:
    """A server in a thread, on a port that was free.

    ``lean``: one engine does all work, and is not started before there is some, since each loads torch. The session's
    ``shared`` server has them as they are.
    """
    settled = settle(folder, port=0, roots=roots, token=token, limits=limits, **settings)
    up = threading.Event()
    server = Server(settled, lambda _: up.set())
    if lean:
        jobs = server.service.jobs
        jobs.long = jobs.reports = server.service.copies._engine = _AsWell(jobs.quick)
        jobs.quick.threads = 1  # or work of a moment would start worker processes
        jobs.quick.warm = _not_yet  # type: ignore[method-assign]
    thread = threading.Thread(target=server.go, daemon=True)
    thread.start()
    assert up.wait(30)
    url = f"http://127.0.0.1:{server.port}"
    with httpx.Client(base_url=url, headers={"X-Visil": "1"}, timeout=60) as http:
        yield Running(url, folder, server, http, Client(url, token=token))
    server.should_exit = True
    thread.join(30)
    assert not thread.is_alive()


@pytest.fixture(scope="session")
def shared(built: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One server for all tests that leave the collection as it is; never slowed down by rate limits."""
    folder = Path(shutil.copytree(built, tmp_path_factory.mktemp("shared") / "all.visil"))
    with running(folder, root, limits=PATIENT, lean=False) as server:
        yield server


@pytest.fixture
def serve(built: Path, root: Path, tmp_path: Path) -> Iterator[Serve]:
    """Starts servers on a copy of the collection; they end with the test."""
    folder = Path(shutil.copytree(built, tmp_path / "all.visil"))
    opened = []

    def start(*roots: Path, token: str | None = None, **limits: Any) -> Running:
        context = running(folder, *(roots or (root,)), token=token, limits=replace(Limits(), **limits))
        opened.append(context)
        return context.__enter__()

    yield start
    for context in opened:
        context.__exit__(None, None, None)


def in_a_thread(scene: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives, in an event loop of its own: Playwright's may run in the thread of the tests."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, scene).result()


def is_problem(answer: httpx.Response, status: int, *words: str) -> None:
    """A refusal, as problem+json, in a sentence that has these words in it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    said = answer.json()
    assert said["status"] == status
    assert set(said) == {"type", "title", "status", "detail"}
    assert "Traceback" not in said["detail"]
    for word in words:
        assert word in said["detail"], said["detail"]
