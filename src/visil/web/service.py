"""Everything behind the calls of a server: the collection, jobs, uploads, thumbnails, and their rates."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
from fastapi import Request
from prometheus_client import CollectorRegistry

from visil.collection.index import Index
from visil.errors import VisilError, printable
from visil.web.access import AccessStore
from visil.web.banks import Banks
from visil.web.callers import Caller, Rate, Tokens
from visil.web.connections import Connections
from visil.web.decisions import DecisionStore
from visil.web.jobs import Jobs
from visil.web.library import Library
from visil.web.pictures import Pictures, SmallCopies
from visil.web.problems import Problem
from visil.web.review import Review
from visil.web.roots import Roots
from visil.web.settings import Settings
from visil.web.shapes import Ref
from visil.web.state import Job, StateFolder
from visil.web.uploads import Uploads
from visil.web.webhooks import Webhooks

T = TypeVar("T")


class Service:
    """The parts of a server, made before it runs; :meth:`start` and :meth:`stop` are called in its event loop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        limits = settings.limits
        self.index = Index(settings.index)
        """For changes by people: verdicts and removals. It never loads the model."""
        self.state = StateFolder(settings.index)
        self.access = AccessStore(self.state.access, limits.audit_s)
        self.banks = Banks(self.state.banks)
        self.library = Library(self.index)
        self.roots = Roots(settings.roots)
        self.jobs = Jobs(settings, self.state, self.library)
        self.decisions = DecisionStore(self.state.decisions)
        self.review = Review(self.library, self.jobs.store, self.decisions)
        self.webhooks = Webhooks(settings.webhook_hosts, self.jobs.store)
        self.uploads = Uploads(self.state.uploads, limits)
        self.pictures = Pictures(self.state.pictures, limits)
        self.copies = SmallCopies(self.state.copies, self.jobs.reports)
        self.connections = Connections(limits)
        self.registry = CollectorRegistry()
        """Of this server: there may be several in a process."""
        self.searches = Rate(limits.searches_per_minute)
        self.sends = Rate(limits.uploads_per_minute)
        self.thumbnails = Rate(limits.pictures_per_minute)
        self.long_jobs = Rate(limits.long_jobs_per_minute)
        self.tokens = Tokens(settings.tokens, limits.wrong_tokens_per_minute)
        # Threads of their own for each kind of call, so that slow pictures never keep a list waiting.
        self._look_up_threads = anyio.CapacityLimiter(8)
        self._decode_threads = anyio.CapacityLimiter(6)
        self.read_threads = anyio.CapacityLimiter(16)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to work."""
        self.jobs.on_end += [lambda job: self.uploads.release(job.id), self.webhooks.over]
        self.jobs.start()
        self.webhooks.start()
        self.library.read_behind()
        self._tasks = [asyncio.create_task(self.uploads.watch())]

    async def stop(self) -> None:
        """End every process and let go of every file."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.webhooks.stop()
        await self.jobs.stop()
        self.pictures.close()
        self.library.close()
        self.decisions.close()
        self.access.close()
        self.banks.close()
        self.index.close()
        self.state.close()

    async def look_up(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run something short that reads the catalogue or a folder."""
        return await anyio.to_thread.run_sync(partial(call, *arguments), limiter=self._look_up_threads)

    async def decode(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run something that waits for a decoder."""
        return await anyio.to_thread.run_sync(partial(call, *arguments), limiter=self._decode_threads)

    async def change(self, change: Callable[[], T]) -> T:
        """Change the collection; a problem 403 where it cannot be written to."""

        def both() -> T:
            try:
                return change()
            finally:
                self.library.read_again()

        if not self.index.writable:
            raise Problem(403, "This collection is read-only.")
        return await self.look_up(both)

    # ------------------------------------------------------------------ videos by reference

    async def resolve(self, ref: Ref) -> dict[str, Any]:
        """The facts that an engine needs about a video that a caller names."""
        if ref.upload is not None:
            upload = self.uploads.get(ref.upload)
            return {"kind": "upload", "id": upload.id, "name": upload.name, "path": os.fspath(upload.path)}
        if ref.video is not None:
            entry = await self.look_up(self.library.entry, ref.video)
            return {"kind": "video", "id": ref.video, "name": entry.name}
        assert ref.path is not None
        return await self.look_up(self._file, ref.path)

    async def resolve_or_say(self, ref: Ref) -> dict[str, Any]:
        """As :meth:`resolve`; where that fails, the name as it was given and ``error``, which says why."""
        try:
            return await self.resolve(ref)
        except (Problem, VisilError) as error:
            ((kind, name),) = ref.model_dump(exclude_none=True).items()
            said = error.detail if isinstance(error, Problem) else str(error)
            return {"kind": kind, "id": printable(name), "name": printable(name), "error": said}

    def _file(self, path: str) -> dict[str, Any]:
        real = self.roots.resolve(path)
        entry = self.library.snapshot().by_path.get(os.fspath(real))
        held = None if entry is None else self.library.held_by(entry)
        if entry is not None and entry.id is not None and held is not None and held[0] == os.fspath(real):
            return {"kind": "video", "id": entry.id, "name": entry.name}
        name = printable(real.name)
        return {"kind": "path", "id": printable(path), "name": name, "path": os.fspath(real)}

    def submit(
        self, asked: Request, kind: str, title: str, request: dict[str, Any], *refs: dict[str, Any]
    ) -> Job:
        """Take on a job for who asked; uploads that it needs are kept until it is over."""
        job = self.jobs.submit(kind, title, {"do": kind, **request}, who(asked).name)
        for ref in refs:
            if ref["kind"] == "upload":
                self.uploads.get(ref["id"]).jobs.add(job.id)
        return job

    async def file_of(self, video: str) -> tuple[Path, str, tuple[int, int]]:
        """A file whose content still is that of a video: path, name, stamp."""

        def find() -> tuple[Path, str, tuple[int, int]]:
            entry = self.library.entry(video)
            held = self.library.held_by(entry)
            if held is None:
                raise Problem(
                    404,
                    f"{entry.name}: the file has moved or changed since it was added.",
                )
            path, stamp = held
            return Path(path), entry.name, (stamp.size, stamp.modified_ns)

        return await self.decode(find)


def who(request: Request) -> Caller:
    """Who asks, for a call that not everybody may make."""
    caller: Caller = request.state.caller
    return caller


def caller(request: Request) -> str:
    """Who asks, for counting."""
    return who(request).key
