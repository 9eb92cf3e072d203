"""Jobs: queued in lanes, done one after another, followed, cancelled, and remembered over a restart.

Searches and comparisons have an engine of their own, so that they are answered while a folder is added; those of files
that must be embedded first have lanes beside those of videos whose features are known, which need not wait for them;
nor does a search wait for comparisons that decode frames of either.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

from visil.errors import os_reason
from visil.machine.processor import usable_cores
from visil.web.engine import EngineCancelled, EngineFailed, EngineLink
from visil.web.library import Library, iso
from visil.web.problems import Problem
from visil.web.settings import Settings
from visil.web.state import CLIPS, Job, JobStore, StateFolder

UNITS = {"search": "frames", "compare": "frames", "batch": "videos", "duplicates": "videos", "add": "files"}
HEARTBEAT_S = 15.0
SAVE_EVERY_S = 2.0

Lane = Literal["videos", "pairs", "files", "batches", "long"]
LANES: tuple[Lane, ...] = ("videos", "pairs", "files", "batches", "long")
OnEnd = Callable[[Job], None]


class Jobs:
    """All jobs of a server."""

    def __init__(self, settings: Settings, state: StateFolder, library: Library) -> None:
        self.settings = settings
        self.library = library
        limits = settings.limits
        self.store = JobStore(state.jobs, state.results, limits.kept_jobs, limits.kept_jobs_s)
        place, cores = (settings.index, state.folder, limits), usable_cores()
        self.quick = EngineLink(*place, nice=5, threads=cores)
        self.long = EngineLink(*place, nice=10, threads=max(1, cores - 1))
        self.reports = EngineLink(*place, nice=10, threads=1)
        self.on_end: list[OnEnd] = []
        self._queues: dict[Lane, asyncio.Queue[str]] = {lane: asyncio.Queue() for lane in LANES}
        self._live: dict[str, Job] = {}
        self.ended: Counter[tuple[str, str]] = Counter()
        """Jobs that are over since the server started, by kind and state."""
        self._running: dict[str, EngineLink] = {}
        self._changed = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []
        self._streams = 0
        self._began: dict[str, tuple[float, str]] = {}
        self._saved = 0.0

    def start(self) -> None:
        """Queue the jobs that a stopped server left, and start working."""
        for job in self.store.after_restart():
            if job.kind == "add":  # what may be read is for this server to say, not for the one that was
                roots = [*self.settings.roots, self.settings.index / CLIPS]
                job.request["roots"] = [os.fspath(root) for root in roots]
            self._live[job.id] = job
            self._queues[lane_of(job)].put_nowait(job.id)
        several = dict.fromkeys(("pairs", "files"), self.settings.limits.file_lanes)
        self._tasks = [
            asyncio.create_task(self._serve(lane)) for lane in LANES for _ in range(several.get(lane, 1))
        ]

    async def stop(self) -> None:
        """Stop working. The next server starts an addition that was running again; other jobs that ran have failed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for engine in (self.quick, self.long, self.reports):
            await engine.stop()
        self.store.close()

    # ------------------------------------------------------------------ from outside

    def submit(self, kind: str, title: str, request: dict[str, Any], caller: str = "") -> Job:
        """Take on a job; a problem 429 where too many wait."""
        waiting = [job for job in self._live.values() if job.state == "waiting"]
        own, limits = sum(job.caller == caller for job in waiting), self.settings.limits
        if len(waiting) >= limits.waiting_jobs or own >= limits.waiting_jobs_of_one:
            raise Problem(
                429, "Too many jobs are waiting already; try again when some are done.", retry_after=5
            )
        progress = {"done": 0, "total": None, "unit": UNITS[kind], "rate": None, "left": None}
        job = Job(
            secrets.token_hex(12), kind, "waiting", title, request, progress, time.time(), caller=caller
        )
        self.store.put(job)
        self._live[job.id] = job
        self._queues[lane_of(job)].put_nowait(job.id)
        return job

    def get(self, job: str) -> Job:
        """A job by its id; a problem 404 where there is none."""
        found = self._live.get(job) or self.store.get(job)
        if found is None:
            raise Problem(404, "There is no such job, or it was forgotten because it is old.")
        return found

    def latest(self, limit: int, offset: int = 0, **chosen: str) -> list[Job]:
        """The newest first; see :meth:`visil.web.state.JobStore.latest`."""
        return [self._live.get(job.id, job) for job in self.store.latest(limit, offset, **chosen)]

    def live(self) -> list[Job]:
        """Those that are not over."""
        return list(self._live.values())

    async def cancel(self, job: str) -> Job:
        """Stop a job; one that is over stays as it is."""
        found = self.get(job)
        if found.state == "waiting":
            await self._end(found, "cancelled")
        elif found.state == "running" and job in self._running:
            self._running[job].interrupt(job)
        return found

    async def over(self, job: str, seconds: float) -> Job:
        """A job once it is over, or as it is after so many seconds."""
        until = time.monotonic() + seconds
        while not (found := self.get(job)).over and (left := until - time.monotonic()) > 0:
            async with self._changed:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), left)
        return found

    def check_listeners(self) -> None:
        """A problem 429 where too many follow jobs already."""
        if self._streams >= self.settings.limits.event_streams:
            raise Problem(
                429, "Too many callers follow jobs already; ask for the job itself instead.", retry_after=5
            )

    async def events(self, job: str) -> AsyncIterator[Job | None]:
        """A job whenever it has changed, until it is over; None where nothing happened for a while."""
        self._streams += 1
        try:
            last = None
            while True:
                found = self.get(job)
                now = as_dict(found)
                if now != last:
                    last = now
                    yield replace(found)
                if found.over:
                    return
                async with self._changed:
                    try:
                        await asyncio.wait_for(self._changed.wait(), HEARTBEAT_S)
                    except TimeoutError:
                        yield None
        finally:
            self._streams -= 1

    # ------------------------------------------------------------------ the work

    async def _serve(self, lane: Lane) -> None:
        engine = self.long if lane == "long" else self.quick
        queue = self._queues[lane]
        while True:
            await queue.get()
            job = self._next(lane)
            if job is None:  # cancelled meanwhile
                continue
            await self._work(job, engine)
            if lane == "long" and queue.empty():
                await engine.stop()  # its memory is wanted elsewhere

    def _next(self, lane: Lane) -> Job | None:
        """Whose turn it is: the caller's with the fewest jobs under way, then the one that came first."""
        busy = Counter(job.caller for job in self._live.values() if job.state == "running")
        waiting = [job for job in self._live.values() if job.state == "waiting" and lane_of(job) == lane]
        return min(waiting, key=lambda job: busy[job.caller], default=None)

    async def _work(self, job: Job, engine: EngineLink) -> None:
        job.state = "running"
        self.store.put(job)
        self._running[job.id] = engine
        await self._tell()
        told: set[asyncio.Task[None]] = set()

        def heard(message: dict[str, Any]) -> None:
            self._note(job, message)
            task = asyncio.create_task(self._tell())
            told.add(task)
            task.add_done_callback(told.discard)

        try:
            result = await engine.ask(job.request, heard, job.id)
            await asyncio.to_thread(self.store.keep_result, job.id, result)
            await self._end(job, "done")
        except EngineCancelled:
            await self._end(job, "cancelled")
        except EngineFailed as error:
            await self._end(job, "failed", str(error))
        except OSError as error:
            await self._end(job, "failed", f"its result could not be written ({os_reason(error)})")
        finally:
            self._running.pop(job.id, None)

    def _note(self, job: Job, message: dict[str, Any]) -> None:
        if "pending" in message:
            self.library.working(begin=message["pending"])
            return
        now = time.monotonic()
        began, unit = self._began.get(job.id, (now, ""))
        if unit != message["unit"]:
            began = now
            self._began[job.id] = (now, message["unit"])
        done, total, seconds = message["done"], message["total"], now - began
        rate = done / seconds if seconds > 0.5 and done else None
        left = (total - done) / rate if rate and total is not None else None
        job.progress = {"done": done, "total": total, "unit": message["unit"], "rate": rate, "left": left}
        self.library.working(end=message["finished"])
        if now - self._saved > SAVE_EVERY_S:
            self._saved = now
            self.store.put(job)

    async def _end(self, job: Job, state: str, error: str | None = None) -> None:
        job.state, job.error, job.finished = state, error, time.time()
        job.progress = {**job.progress, "left": None}
        if job.kind == "add":
            self.library.working(clear=True)
            self.library.read_again()
        self._began.pop(job.id, None)
        self.store.put(job)
        self._live.pop(job.id, None)
        self.ended[job.kind, state] += 1
        self.store.prune()
        for call in self.on_end:
            call(job)
        await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def lane_of(job: Job) -> Lane:
    """Where a job waits for its turn."""
    if job.kind == "batch":
        return "batches"
    if job.kind not in ("search", "compare"):
        return "long"
    if job.request.get("filters", {}).get("refine"):
        return "files"  # those of likely hits
    refs = [job.request[name] for name in ("query", "target") if name in job.request]
    if any(ref["kind"] != "video" for ref in refs):
        return "files"
    return "pairs" if job.kind == "compare" and job.request.get("refine", True) else "videos"


def as_dict(job: Job) -> dict[str, Any]:
    """A job as the API gives it."""
    return {
        "id": job.id,
        "kind": job.kind,
        "state": job.state,
        "title": job.title,
        "progress": job.progress,
        "created": iso(job.created),
        "finished": iso(job.finished),
        "error": job.error,
        "caller": job.caller,
    }


async def ask(engine: EngineLink, request: dict[str, Any]) -> None:
    """Have an engine do short work that is no job: the caller waits for it; a problem where it cannot be done."""
    try:
        await engine.ask(request, lambda _: None)
    except EngineFailed as error:
        raise Problem(422, str(error)) from error
    except EngineCancelled as error:
        raise Problem(409, "This was stopped before it was done.") from error
