"""One worker process of an extraction, from both ends: tasks go out, results come back.

A worker that embeds decodes a video, embeds it and writes its features, all on one core, and tells where they are. One
that only reads puts the frames into memory that it shares with who asked. When there are fewer videos left than
workers, those that still have one are given more cores.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from visil.collection.extraction_work import NOTHING, READ, Method, Task, discard, seal, write
from visil.collection.shared_frames import SharedFrames
from visil.errors import VideoError, VisilError
from visil.kernels.cores import using_cores
from visil.machine.heap import keep_heap
from visil.machine.prefetch import prefetched
from visil.machine.processes import Workers, listening, receive_handle, send_handle
from visil.video import Frames

GRACE_S = 10.0
"""Seconds that a worker has to put its things away when a run is stopped."""


class Unforeseen(VideoError):
    """A video whose extraction failed for what may not be its fault: it is tried again the next time."""

    @classmethod
    def of(cls, path: str, error: Exception) -> Unforeseen:
        """Of an error that no file should set off."""
        return cls(path, f"could not be read ({type(error).__name__}: {error})")


class Crashed(Unforeseen):
    """A video whose extraction ended the worker: the decoder crashed, or the system had no memory left."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "ended the process that read it: damaged, or too large for the memory")


# ---------------------------------------------------------------------- what the two ends say


@dataclass(frozen=True)
class Do:
    """Extract a video."""

    task: Task


@dataclass(frozen=True)
class Share:
    """Memory for frames, which a worker that only reads is given first; its handle follows."""

    shape: tuple[int, int, int, int, int]


@dataclass(frozen=True)
class Free:
    """A slot whose frames are embedded."""

    slot: int


@dataclass(frozen=True)
class Cores:
    """Use so many cores from now on."""

    count: int


class Stop:
    """Forget the work under way, and end."""


@dataclass(frozen=True)
class Embedded:
    """So many frames more are embedded."""

    frames: int


@dataclass(frozen=True)
class Filled:
    """A slot holds frames of these seconds."""

    slot: int
    timestamps: NDArray[np.float64]


@dataclass(frozen=True)
class AllLent:
    """All frames of the video were in slots."""

    facts: Any


@dataclass(frozen=True)
class Sealed:
    """All features are in files, {kind: (file, frames)}; the handles that hold their locks follow."""

    files: dict[str, tuple[Path, int]]
    facts: Any


@dataclass(frozen=True)
class FailedTask:
    """The video cannot be read or, where it is no :class:`VideoError`, the run is to end."""

    error: VisilError


@dataclass(frozen=True)
class Logged:
    """A line for the log."""

    record: logging.LogRecord


# ---------------------------------------------------------------------- the end that asks


@dataclass(frozen=True)
class Lent:
    """Frames in shared memory, to be given back by calling ``free``."""

    frames: Frames
    free: Callable[[], None]


class Worker:
    """A worker process for one thread: started when first needed, and again after a crash."""

    def __init__(self, workers: Workers, shared: SharedFrames | None, cores: int = 1) -> None:
        """``shared``: the memory of a worker that only reads."""
        self._workers = workers
        self._shared = shared
        self._connection: Connection | None = None
        self._cores = cores
        self._sending = threading.Lock()

    def use(self, cores: int) -> None:
        """Let it use so many cores; from any thread."""
        self._cores = cores
        self._send(self._connection, Cores(cores))

    def do(self, task: Task, stopped: Callable[[], bool]) -> Iterator[Embedded | Lent | AllLent | Sealed]:
        """Extract a video; ends early once ``stopped``.

        Raises what is wrong with it, a :class:`VideoError`, or what ends the run.
        """
        connection = self._started()
        heard = listening(connection)
        self._send(connection, Do(task))
        try:
            while True:
                while not heard(0.2):
                    if stopped():
                        return
                match connection.recv():
                    case Logged(record):
                        logging.getLogger(record.name).handle(record)
                    case FailedTask(error):
                        raise error
                    case Filled(slot, timestamps):
                        assert self._shared is not None
                        frames = Frames(self._shared.slots[slot, : len(timestamps)], timestamps)
                        yield Lent(frames, partial(self._send, connection, Free(slot)))
                    case Sealed(files) as last:
                        for kind, (file, count) in files.items():
                            task.writers[kind].take_over(file, receive_handle(connection), count)
                        yield last
                        return
                    case AllLent() as last:
                        yield last
                        return
                    case Embedded() as more:
                        yield more
        except (EOFError, OSError) as error:
            self._connection = None
            connection.close()
            time.sleep(0.1)  # its files are closed just after its connection
            for writer in task.writers.values():
                writer.clear_leftovers()
            raise Crashed(task.name) from error

    def close(self) -> None:
        """End the worker: its work is taken back, and anything that it hands over meanwhile is deleted."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._send(connection, Stop())
            with suppress(EOFError, OSError):
                while connection.poll(GRACE_S):
                    match connection.recv():
                        case Sealed(files):
                            for file, _ in files.values():
                                os.close(receive_handle(connection))
                                file.unlink(missing_ok=True)
            connection.close()

    def _started(self) -> Connection:
        if self._connection is None:
            connection = self._workers.fork()
            if self._shared is not None:
                connection.send(Share(self._shared.shape))
                send_handle(connection, self._shared.handle)
            self._connection = connection
            self.use(self._cores)
        return self._connection

    def _send(self, connection: Connection | None, message: object) -> None:
        """Say something to a worker, if it is still there: whether it is, reading from it tells."""
        with self._sending, suppress(OSError):
            if connection is not None:
                connection.send(message)


# ---------------------------------------------------------------------- the process


@dataclass(frozen=True)
class Extracting:
    """:class:`visil.machine.processes.Service` by a method: embeds where that has an embedder, else only reads."""

    method: Method

    def prepare(self) -> None:
        """See :meth:`visil.machine.processes.Service.prepare`."""
        import av  # noqa: F401  or each of them would load it

        keep_heap()
        torch.set_num_threads(1)
        if self.method.embedder is not None:
            self.method.embedder.prepare()

    def __call__(self, connection: Connection) -> None:
        """See :class:`visil.machine.processes.Service`."""
        logger = logging.getLogger("visil")
        logger.addHandler(_Telling(connection))
        logger.propagate = False
        _Process(self.method, connection).run()


class _Stopped(Exception):
    """Nobody wants the rest."""


class _Process:
    """A worker's answers to its messages."""

    def __init__(self, method: Method, connection: Connection) -> None:
        self.method = method
        self.connection = connection
        self._cores = 1
        self._shared: SharedFrames | None = None
        self._free: list[int] = []

    def run(self) -> None:
        """Until the other end is gone, or says so."""
        with suppress(_Stopped):
            while True:
                message = self.connection.recv()
                if isinstance(message, Do):
                    self._do(message.task)
                else:
                    self._take(message)

    def _take(self, message: object) -> None:
        match message:
            case Stop():
                raise _Stopped
            case Cores(count):
                self._cores = count
            case Free(slot):
                self._free.append(slot)
            case Share(shape):
                self._shared = SharedFrames(receive_handle(self.connection), shape)
                self._free = list(range(shape[0]))

    def _do(self, task: Task) -> None:
        try:
            with self.method.read(task) as stream, closing(self._batches(stream)) as batches:
                taken = self._share(batches) if self.method.embedder is None else self._embed(task, batches)
            if not taken:
                raise VideoError(task.name, NOTHING)
            facts = self.method.facts(stream)
            if self.method.embedder is not None:
                seal(task, self.method.duration(facts))
                return self._hand_over(task, facts)
            answer: object = AllLent(facts)
        except VisilError as error:
            answer = FailedTask(error)
        except (EOFError, BrokenPipeError, ConnectionError, _Stopped):
            discard(task)
            raise
        except Exception as error:
            answer = FailedTask(Unforeseen.of(task.name, error))
        discard(task)
        return self.connection.send(answer)

    def _hand_over(self, task: Task, facts: Any) -> None:
        self.connection.send(Sealed({k: (w.sealed[0], w.frames) for k, w in task.writers.items()}, facts))
        for writer in task.writers.values():
            send_handle(self.connection, writer.sealed[1])
            writer.let_go()

    def _batches(self, stream: Iterable[Frames]) -> Generator[Frames, None, None]:
        """Frames one batch after another; the next ones meanwhile, where there is more than one core."""
        frames = iter(stream)
        while self._cores == 1:
            batch = next(frames, None)
            if batch is None:
                return
            yield batch
            self._hear()
        with prefetched(frames) as ahead:
            for batch in ahead:
                yield batch
                self._hear()

    def _hear(self) -> None:
        while self.connection.poll():
            self._take(self.connection.recv())

    def _embed(self, task: Task, batches: Iterable[Frames]) -> int:
        embedder = self.method.embedder
        assert embedder is not None
        state, taken = embedder.begin(), 0
        for frames in batches:
            taken += len(frames)
            with using_cores(self._cores):
                (made,) = embedder.embed([(state, frames)])
            write(task, made)
            self.connection.send(Embedded(len(frames)))
        write(task, embedder.end(state))
        return taken

    def _share(self, batches: Iterable[Frames]) -> int:
        assert self._shared is not None
        taken = 0
        for frames in batches:
            taken += len(frames)
            for start in range(0, len(frames), READ):
                part = slice(start, start + READ)
                while not self._free:
                    self._take(self.connection.recv())
                slot = self._free.pop()
                images, times = frames.images[part], frames.timestamps[part]
                self._shared.slots[slot, : len(images)] = images
                self.connection.send(Filled(slot, times))
        return taken


class _Telling(logging.Handler):
    """Sends log records to the process that asked."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection

    def emit(self, record: logging.LogRecord) -> None:
        record.msg, record.args, record.exc_info = record.getMessage(), None, None
        with suppress(OSError):
            self.connection.send(Logged(record))
