"""Many videos through one network: threads read their frames, one thread embeds them in batches across videos.

What is read, what embeds it and what becomes of the result is a :class:`Work`: that of ``visil add`` and ``visil
evaluate`` is in :mod:`visil.collection.adding`, that of the paper's tables in ``visil.paper.feature_bank``. What is in
memory is a few batches, however many and however long the videos.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from visil.compare.visil import BATCH
from visil.errors import VideoError, VisilError
from visil.video import Frames

Item = TypeVar("Item", contravariant=True)
Job = TypeVar("Job")


@dataclass(frozen=True)
class Settled:
    """An item that needs no embedding."""

    record: Callable[[], None]
    """Called in the thread that writes."""


class Work(Protocol[Item, Job]):
    """What is done with each item of a run.

    :meth:`claim` and :meth:`read` are called from any thread, all else from one. A :class:`VideoError` that they raise
    is the item's failure; any other :class:`VisilError` ends the run.
    """

    def claim(self, item: Item) -> Job | Settled | None:
        """A job for an item that is to be embedded. None: another item's job settles it."""

    def read(self, job: Job) -> AbstractContextManager[Iterable[Frames]]:
        """The frames of a job as they come, in batches of at most ``BATCH``."""

    def embed(self, pieces: Sequence[tuple[Job, Frames]]) -> None:
        """Embed some frames of one or several jobs, those of each in order, and write the result."""

    def end(self, job: Job, stream: Any) -> None:
        """A job whose frames are all embedded; ``stream`` is what they were read from, at its end."""

    def fail(self, item: Item, job: Job | None, error: VideoError) -> None:
        """An item that could not be read; ``job`` where there was one already."""

    def drop(self, job: Job) -> None:
        """The run ends before this job has."""


def extract(work: Work[Any, Any], items: Sequence[Any], *, workers: int) -> None:
    """All items, once; ``workers`` threads read. Where it is interrupted, what is finished is kept."""
    _Run(work, workers).run(items)


@dataclass(frozen=True)
class _Decoded(Generic[Job]):
    job: Job
    frames: Frames


@dataclass(frozen=True)
class _Ended(Generic[Job]):
    job: Job
    stream: object


@dataclass(frozen=True)
class _Failed:
    item: object
    job: object | None
    error: VideoError


@dataclass(frozen=True)
class _Broken:
    """No item is to blame, and the run ends."""

    error: BaseException


class _Finished:
    """A thread has no more items."""


_Event = _Decoded[Any] | _Ended[Any] | Settled | _Failed | _Broken | _Finished


class _Run:
    """The threads of one run, and what they have under way."""

    def __init__(self, work: Work[Any, Any], workers: int) -> None:
        self.work = work
        self.workers = workers
        self._events: queue.Queue[_Event] = queue.Queue(2 * workers + 2)
        self._stop = threading.Event()
        self._open: dict[int, Any] = {}
        self._batch: list[_Decoded[Any]] = []

    def run(self, items: Sequence[Any]) -> None:
        source = iter(items)
        lock = threading.Lock()
        threads = [
            threading.Thread(
                target=self._read_all, args=(source, lock), name=f"visil-decode-{i}", daemon=True
            )
            for i in range(max(1, min(self.workers, len(items))))
        ]
        for thread in threads:
            thread.start()
        running = len(threads)
        try:
            while running:
                event = self._next_event()
                if isinstance(event, _Finished):
                    running -= 1
                else:
                    self._take(event)
            self._embed()
        finally:
            self._stop.set()
            while any(thread.is_alive() for thread in threads):
                try:
                    self._events.get(timeout=0.05)
                except queue.Empty:
                    continue
            for job in self._open.values():
                self.work.drop(job)

    # ------------------------------------------------------------------ in the threads that read

    def _read_all(self, source: Iterator[Any], lock: threading.Lock) -> None:
        while not self._stop.is_set():
            with lock:
                item = next(source, None)
            if item is None:
                break
            self._read(item)
        self._put(_Finished())

    def _read(self, item: Any) -> None:
        job = None
        try:
            claimed = self.work.claim(item)
            if claimed is None:
                return None
            if isinstance(claimed, Settled):
                return self._put(claimed)
            job = claimed
            with self.work.read(job) as stream:
                for frames in stream:
                    self._put(_Decoded(job, frames))
                    if self._stop.is_set():
                        return None
            self._put(_Ended(job, stream))
        except VideoError as error:
            self._put(_Failed(item, job, error))
        except VisilError as error:
            self._put(_Broken(error))
        except Exception as error:
            reason = f"could not be read ({type(error).__name__}: {error})"
            self._put(_Failed(item, job, VideoError(str(item), reason)))
        except BaseException as error:  # a thread that dies in silence would hang the run
            self._put(_Broken(error))

    def _put(self, event: _Event) -> None:
        while not self._stop.is_set():
            try:
                self._events.put(event, timeout=0.1)
            except queue.Full:
                continue
            return

    # ------------------------------------------------------------------ in the thread that embeds and writes

    def _next_event(self) -> _Event:
        try:
            return self._events.get_nowait()
        except queue.Empty:
            self._embed()  # nothing waits, so there is time
            return self._events.get()

    def _take(self, event: _Event) -> None:
        match event:
            case _Decoded(job):
                self._open[id(job)] = job
                self._batch.append(event)
                if sum(len(decoded.frames) for decoded in self._batch) >= BATCH:
                    self._embed()
            case _Ended(job, stream):
                if any(decoded.job is job for decoded in self._batch):
                    self._embed()
                self.work.end(job, stream)
                self._open.pop(id(job), None)
            case Settled(record):
                record()
            case _Failed(item, job, error):
                self._batch = [decoded for decoded in self._batch if decoded.job is not job]
                self._open.pop(id(job), None)
                self.work.fail(item, job, error)
            case _Broken(error):
                raise error

    def _embed(self) -> None:
        batch, self._batch = self._batch, []
        if batch:
            self.work.embed([(decoded.job, decoded.frames) for decoded in batch])
