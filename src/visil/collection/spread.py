"""The same question for many videos, on all cores: in this process at first, in worker processes once that pays.

A worker opens the collection for itself, and answers one question after another on one core: nothing is shared but the
answers, so that neither Python's lock nor torch's threads, which wait for each other in every operation, cost
anything. It takes seconds to start them, so small work is over before there are any.

With a GPU, this process has it find out which pairs may share footage at all, and workers read where: that is numpy's
work, a step at a time. Pairs of long videos, whose similarities alone would take a core seconds, are read here.
"""

from __future__ import annotations

import logging
import pickle
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import torch

from visil.collection.database import none_open
from visil.collection.remote.objects import is_url
from visil.compare.many_pairs import can_screen
from visil.errors import IndexFolderError, VisilError
from visil.machine.heap import keep_heap
from visil.machine.prefetch import in_order
from visil.machine.processes import Workers, WorkersError, available, quick

if TYPE_CHECKING:
    from visil.collection.background import Background
    from visil.collection.catalogue import Video
    from visil.collection.index import Index
    from visil.collection.store import Features
    from visil.compare.visil import ViSiL

logger = logging.getLogger("visil")

Item = TypeVar("Item")
Answer = TypeVar("Answer")

PATIENCE_S = 0.5
"""Seconds of work in this process before it is asked whether workers are worth it; where they are quick, none."""

WORTH_S, WORTH_QUICK_S = 3.0, 0.3
"""Seconds of work left from which they are: they take nearly two to start, or hardly any time."""

MOST_THREADS = 4
"""Threads of torch's own where there can be no workers: more only wait for each other."""

GPU_TOGETHER = 64
"""Videos whose candidates a GPU compares at once."""

CELLS_A_CORE = 1 << 12
"""Frame pairs of two videos, for each core there is, up to which workers read a pair that a GPU found."""

MOST_LOST = 16
"""Workers that end without an answer before no more are asked."""

AHEAD = 2
"""Questions that wait for each worker: it has the next one at hand when it has answered."""

Left = list[tuple["Video", IndexFolderError]]
"""Videos that are left out of answers, and why."""


class Spread:
    """Asks about a collection in this process and, where it may use more than one core, in others."""

    def __init__(self, index: Index, workers: int) -> None:
        self.index = index
        self.cores = workers if _can_be_opened_again(index) else 1
        self.together = questions_at_once(index.model.device)
        """Questions that are worth asking as one."""
        self.screens = self.together > 1 and index.parts.connection.at_once == 1 and can_screen(index.model)
        """Whether a GPU finds pairs for workers to read."""
        self.leave = CELLS_A_CORE * self.cores if self.cores > 1 else 0
        """Frame pairs of two videos up to which it leaves reading them to workers."""
        self._threads = 1 if workers == self.cores else min(workers, MOST_THREADS)
        self._workers: Workers | None = None
        self._connections: list[Connection] = []
        self._idle: list[Connection] = []
        self._lost = 0
        self._here = threading.Lock()
        self._closed = False

    def __enter__(self) -> Self:
        _remember(self.index, True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers, whatever they are doing."""
        self._closed = True
        _remember(self.index, False)
        if self._workers is not None:
            self._workers.close()
        for connection in self._connections:
            connection.close()

    def map(
        self, job: Callable[[Index, Item], Answer], items: Iterable[Item], count: int
    ) -> Iterator[Answer]:
        """``job(index, item)`` for each of ``count`` items, answers in their order; ``job`` is a module's function."""
        source = iter(items)
        elsewhere = self.index.parts.connection.at_once
        if elsewhere > 1:  # the parts are in other processes already
            yield from in_order(lambda item: job(self.index, item), source, elsewhere)
            return
        with _threads(self._threads):
            yield from self._until_workers(job, source, count)
        if self._workers is not None:
            yield from in_order(lambda item: self._ask(job, item), source, self.cores, AHEAD)

    def _until_workers(
        self, job: Callable[[Index, Item], Answer], source: Iterator[Item], count: int
    ) -> Iterator[Answer]:
        """In this process, until all is done or workers can take over."""
        started = time.monotonic()
        for done, item in enumerate(source, 1):
            if self._closed:
                return
            yield job(self.index, item)
            if self.cores < 2:
                continue
            took = time.monotonic() - started
            patience, worth = (0.0, WORTH_QUICK_S) if quick() else (PATIENCE_S, WORTH_S)
            if self._workers is None and took > patience and (count - done) * took / done > worth:
                asking = Asking.of(self.index)
                with none_open():
                    self._workers = Workers(asking)
            if self._workers is not None and self._workers.ready.is_set():
                if not self._workers.failed:
                    return
                logger.warning("worker processes cannot be started here: this one goes on by itself")
                self._workers, self.cores = None, 1

    # ------------------------------------------------------------------ asking a worker

    def _ask(self, job: Callable[[Index, Item], Answer], item: Item) -> Answer:
        """The answer of a worker that has nothing to do; where that has ended, this process's own."""
        if self._lost >= MOST_LOST:
            return self._ask_here(job, item)
        try:
            connection = self._connection()
            connection.send_bytes(pickle.dumps((job, item)))
            answer, error, left_out = pickle.loads(connection.recv_bytes())
            self._idle.append(connection)
        except (EOFError, OSError, WorkersError):
            if self._closed:
                raise
            self._lost += 1
            return self._ask_here(job, item)
        for video, reason in left_out:
            self.index.store.warn(video, reason)
        if error is not None:
            raise error
        found: Answer = answer
        return found

    def _ask_here(self, job: Callable[[Index, Item], Answer], item: Item) -> Answer:
        with self._here, _threads(1):
            return job(self.index, item)

    def _connection(self) -> Connection:
        """To a worker that has nothing to do."""
        with suppress(IndexError):
            return self._idle.pop()
        assert self._workers is not None
        connection = self._workers.fork()
        self._connections.append(connection)
        return connection


def questions_at_once(device: torch.device) -> int:
    """How many a job is given: a GPU has all of them before it is waited for."""
    return GPU_TOGETHER if device.type == "cuda" else 1


def _can_be_opened_again(index: Index) -> bool:
    """Whether another process can open the collection and finds there what this one has."""
    parts = index.parts.connection.parts
    return (
        available()
        and parts is not None
        and (index.model.device.type == "cpu" or can_screen(index.model))
        and not any(is_url(part.location) for part in parts)
        and all(part.caches_on_disk() for part in parts)
    )


def _on_processor(model: ViSiL) -> ViSiL:
    """A model as workers need it: with all its parts, since by these it is told from others."""
    if model.device.type == "cpu":
        return model
    copy = type(model)(model.config, with_backbone=model.backbone is not None).eval()
    copy.load_state_dict({name: tensor.cpu() for name, tensor in model.state_dict().items()})
    return copy


def _remember(index: Index, wanted: bool) -> None:
    """In parts that are in this process: whether they keep features that they have read."""
    for part in index.parts.connection.parts or ():
        part.remember(wanted)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """With so many threads of torch's own, whatever OMP_NUM_THREADS says."""
    usual = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


# ---------------------------------------------------------------------- the worker


@dataclass(frozen=True)
class Asking:
    """:class:`visil.machine.processes.Service`: opens a collection, and answers questions about it."""

    location: str
    model: ViSiL
    background: Background

    @classmethod
    def of(cls, index: Index) -> Asking:
        """About the same collection."""
        return cls(index.location, _on_processor(index.model), index.common_here())

    def prepare(self) -> None:
        """See :meth:`visil.machine.processes.Service.prepare`."""
        import faiss

        import visil.collection.exact_neighbours
        import visil.collection.index  # noqa: F401

        keep_heap()
        torch.set_num_threads(1)
        faiss.omp_set_num_threads(1)

    def __call__(self, connection: Connection) -> None:
        """See :class:`visil.machine.processes.Service`."""
        from visil.collection.index import Index

        with Index(self.location, model=self.model, create=False) as index:
            index.use_common(self.background)
            _remember(index, True)
            left_out: Left = []
            for store in stores_of(index):
                store.tell = lambda video, error: left_out.append((video, error))
            while True:
                job, item = pickle.loads(connection.recv_bytes())
                answer, error = _answered(job, index, item)
                connection.send_bytes(pickle.dumps((answer, error, left_out)))
                left_out.clear()


def _answered(job: Callable[[Index, Any], Any], index: Index, item: Any) -> tuple[Any, BaseException | None]:
    try:
        return job(index, item), None
    except VisilError as error:
        return None, error


def stores_of(index: Index) -> list[Features]:
    """The features of a collection, and of each of its parts that are in this process."""
    parts = index.parts.connection.parts or ()
    return [index.store, *(part.store for part in parts)]
