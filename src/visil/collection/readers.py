"""Threads that have videos read, in this process or by worker processes, and their messages to the one that asked."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from visil.collection.extraction_work import NOTHING, Method, Settled, Task
from visil.collection.worker import AllLent, Embedded, Lent, Sealed, Unforeseen, Worker
from visil.errors import VideoError, VisilError
from visil.video import Frames


@dataclass(eq=False)
class Claim:
    """An item under way."""

    item: Any
    task: Task
    state: Any = None
    """The embedder's notes about it, once frames of it have come here."""


# ---------------------------------------------------------------------- messages


@dataclass(frozen=True)
class Read:
    """Some frames of a video."""

    claim: Claim
    frames: Frames
    free: Callable[[], None] | None = None
    """To be called when they are embedded."""


@dataclass(frozen=True)
class Complete:
    """All frames of a video have come."""

    claim: Claim
    facts: Any


@dataclass(frozen=True)
class Made:
    """All features of a video are in sealed files."""

    claim: Claim
    facts: Any


@dataclass(frozen=True)
class FailedItem:
    """An item that could not be read."""

    item: Any
    claim: Claim | None
    error: VideoError


@dataclass(frozen=True)
class Broken:
    """No item is to blame, and the run ends."""

    error: BaseException


class Finished:
    """A thread has no more items."""


Event = Read | Complete | Made | Embedded | Settled | FailedItem | Broken | Finished


# ---------------------------------------------------------------------- the threads


class Items:
    """Jobs to do, shared out to threads; those that were begun and given back come first."""

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = iter(items)
        self._left = len(items)
        self._back: list[Claim] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._left + len(self._back)

    def next(self) -> Any | None:
        """The next one; None where there is none."""
        with self._lock:
            if self._back:
                return self._back.pop()
            self._left = max(0, self._left - 1)
            return next(self._items, None)

    def give_back(self, claim: Claim) -> None:
        """To be begun anew."""
        with self._lock:
            self._back.append(claim)


class Reader(Protocol):
    """How one thread has its videos read."""

    def read(self, claim: Claim, tell: Callable[[Event], None], halted: Callable[[], bool]) -> None:
        """Read a video, and tell how that goes; leave it at that once ``halted``."""

    def end(self) -> None:
        """There is nothing more to read."""


class ReaderThreads:
    """Threads with a reader each, which share out ``items``; ``claim`` is a work's
    :meth:`visil.collection.extraction_work.Work.claim`.
    """

    def __init__(
        self, items: Items, claim: Callable[[Any], Task | Settled | None], readers: Sequence[Reader]
    ) -> None:
        self.under_way: set[Claim] = set()
        """Jobs that were claimed, and not taken out of here since."""
        self._items = items
        self._claim = claim
        self._events: queue.Queue[Event] = queue.Queue(2 * len(readers) + 2)
        self._pause, self._stop = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._read_all, args=(reader,), name=f"visil-read-{i}", daemon=True)
            for i, reader in enumerate(readers)
        ]
        self.running = len(self._threads)
        """Threads that have not finished."""
        for thread in self._threads:
            thread.start()

    def next(self, seconds: float) -> Event | None:
        """The next message; None where there is none within so many seconds."""
        try:
            event = self._events.get(timeout=seconds) if seconds else self._events.get_nowait()
        except queue.Empty:
            return None
        self.running -= isinstance(event, Finished)
        return event

    def tell(self, event: Event) -> None:
        """Let whoever calls :meth:`next` know; from any thread."""
        while not self._stop.is_set():
            with suppress(queue.Full):
                self._events.put(event, timeout=0.1)
                return

    def pause(self) -> None:
        """Threads finish soon, and leave videos that they are at."""
        self._pause.set()

    def stop(self) -> None:
        """Wait for all threads to end; whatever they tell is of no use any more."""
        self._stop.set()
        while any(thread.is_alive() for thread in self._threads):
            with suppress(queue.Empty):
                self._events.get(timeout=0.05)

    def _halted(self) -> bool:
        return self._stop.is_set() or self._pause.is_set()

    def _read_all(self, reader: Reader) -> None:
        try:
            while not self._halted():
                item = self._items.next()
                if item is None:
                    break
                self._read(reader, item)
            reader.end()
        except BaseException as error:  # a thread that dies in silence would hang the run
            self.tell(Broken(error))
        self.tell(Finished())

    def _read(self, reader: Reader, item: Any) -> None:
        claim: Claim | None = None
        try:
            if isinstance(item, Claim):
                claim, item = item, item.item
            else:
                claimed = self._claim(item)
                if isinstance(claimed, Settled):
                    return self.tell(claimed)
                if claimed is None:
                    return None
                claim = Claim(item, claimed)
            self.under_way.add(claim)
            reader.read(claim, self.tell, self._halted)
        except VideoError as error:
            self.tell(FailedItem(item, claim, error))
        except VisilError as error:
            self.tell(Broken(error))
        except Exception as error:
            self.tell(FailedItem(item, claim, Unforeseen.of(str(item), error)))


# ---------------------------------------------------------------------- readers


class Here:
    """Reads in this process."""

    def __init__(self, method: Method) -> None:
        self.method = method

    def read(self, claim: Claim, tell: Callable[[Event], None], halted: Callable[[], bool]) -> None:
        """See :meth:`Reader.read`."""
        some = False
        with self.method.read(claim.task) as stream:
            for frames in stream:
                some = True
                tell(Read(claim, frames))
                if halted():
                    return
        if not some:
            raise VideoError(claim.task.name, NOTHING)
        tell(Complete(claim, self.method.facts(stream)))

    def end(self) -> None:
        """See :meth:`Reader.end`."""


class Team:
    """Worker processes on so many ``cores``; those that still have a video use the cores of the others."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.busy: list[Elsewhere] = []
        self._lock = threading.Lock()

    def add(self, worker: Worker) -> None:
        """One more."""
        self.busy.append(Elsewhere(self, worker))

    def without(self, idle: Elsewhere) -> None:
        """One of them has nothing more to do."""
        with self._lock:
            self.busy.remove(idle)
            share = self.cores // max(1, len(self.busy))
            for other in self.busy if share > 1 else ():
                other.worker.use(share)


class Elsewhere:
    """Has a worker process read."""

    def __init__(self, team: Team, worker: Worker) -> None:
        self.team, self.worker = team, worker

    def read(self, claim: Claim, tell: Callable[[Event], None], halted: Callable[[], bool]) -> None:
        """See :meth:`Reader.read`."""
        for told in self.worker.do(claim.task, halted):
            match told:
                case Lent(frames, free):
                    tell(Read(claim, frames, free))
                case AllLent(facts):
                    tell(Complete(claim, facts))
                case Sealed(facts=facts):
                    tell(Made(claim, facts))
                case Embedded():
                    tell(told)

    def end(self) -> None:
        """See :meth:`Reader.end`."""
        self.team.without(self)
        self.worker.close()
