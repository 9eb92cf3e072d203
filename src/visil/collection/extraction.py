"""Many videos to features, on all cores of this machine: the one loop of ``add``, ``evaluate`` and the paper's tables.

Worker processes do it. Where they take seconds to start (:func:`~visil.machine.processes.quick`), this one begins:
threads read, and one thread embeds the frames. Most runs are over before anything better were ready. While a
longer one goes on, workers are started, and take over when they can:

- on a processor each of them reads, embeds and writes whole videos, on one core, and only tells where the features are.
  Neither Python's lock nor threads that wait for each other cost anything then;
- with a GPU they read into shared memory, and this process embeds.

Either way, this thread alone keeps finished videos, and a run can be stopped or killed at any moment. What is in
memory is a few batches for each worker, however many and however long the videos.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

from visil.collection.extraction_work import READ, Settled, Work, discard, seal, write
from visil.collection.readers import (
    Broken,
    Claim,
    Complete,
    Event,
    FailedItem,
    Here,
    Items,
    Made,
    Read,
    Reader,
    ReaderThreads,
    Team,
)
from visil.collection.shared_frames import SLOTS, SharedFrames
from visil.collection.worker import Embedded, Extracting, Worker
from visil.kernels.cores import using_cores
from visil.machine.heap import give_back
from visil.machine.processes import Workers, available, quick

logger = logging.getLogger("visil")

HERE_FRAMES = 128
"""Frames that are embedded in this process before workers are started, unless more are sure to come; 0: they are
waited for."""

HERE_THREADS = 4
"""Threads that read in this process, at most: more would wait for each other."""

CPU_BATCH, GPU_BATCH = 32, 256
"""Frames, of several videos, that this process embeds together."""

GPU_WAIT_S = 0.02
"""Seconds that a GPU waits for more frames: a batch of a few takes it as long as one of many."""

SEALERS = 4
"""Files that this process brings to the disk at the same time."""


def extract(
    work: Work, items: Sequence[Any], *, workers: int, alone: bool = False, share: bool | None = None
) -> None:
    """All items, once, on ``workers`` cores. If interrupted, finished ones are kept.

    ``alone``: in this process only. ``share``: workers read and this process embeds; None: where it has a GPU.
    """
    _Run(work, items, workers, alone=alone or not available(), share=share).run()


class _Run:
    """The work that one run has under way, in the thread that called it."""

    def __init__(
        self, work: Work, items: Sequence[Any], workers: int, *, alone: bool, share: bool | None
    ) -> None:
        assert work.method.embedder is not None
        self.work = work
        self.embedder = work.method.embedder
        self.items = Items(items)
        self.cores = workers
        self.alone = alone
        self.on_gpu = self.embedder.device.type == "cuda"
        self.share = self.on_gpu if share is None else share
        self._most = GPU_BATCH if self.share else CPU_BATCH
        self._slots = 0
        self._workers: Workers | None = None
        self._batch: list[Read] = []
        self._last: dict[Claim, Complete] = {}
        """Of videos whose last frames are in the batch."""
        self._sealing: dict[Claim, Future[None]] = {}
        self._sealers = ThreadPoolExecutor(SEALERS, "visil-seal")
        self._embedded = 0

    def run(self) -> None:
        try:
            with using_cores(self.cores):
                if not self.alone and len(self.items) > 1 and quick():
                    self._workers = self._start_workers()
                elif self.alone or HERE_FRAMES:
                    self._here()
                if len(self.items):
                    self._elsewhere()
        finally:
            self._sealers.shutdown()
            if self._workers is not None:
                self._workers.close()

    def _here(self) -> None:
        """Until all is done, or workers can take over: unfinished items are then begun anew."""
        readers = [Here(self.work.method) for _ in range(min(self.cores, HERE_THREADS))]
        for claim in self._read(readers, until=self._workers_ready):
            claim.state = None
            self.items.give_back(claim)
        give_back()  # what embedding took; from now on this process has little to do

    def _elsewhere(self) -> None:
        """Every thread has a worker process, which is forked when there is something to do for it."""
        self._workers = self._workers or self._start_workers()
        team, memories = Team(self.cores), []
        count = min(self.cores, len(self.items))
        self._slots = count * SLOTS // 2  # the others are being filled meanwhile
        for _ in range(count):
            memory = SharedFrames.make(READ, self.work.method.side, pin=self.on_gpu) if self.share else None
            memories.append(memory)
            team.add(Worker(self._workers, memory, self.cores // count))
        try:
            self._read(list(team.busy))
        finally:
            for memory in filter(None, memories):
                memory.close()

    def _workers_ready(self) -> bool:
        """Whether workers can take over; they are started when it has shown that they are worth it."""
        if self.alone or not len(self.items):
            return False
        if (
            self._workers is None and self._embedded + len(self.items) >= HERE_FRAMES
        ):  # a video has a frame at least
            self._workers = self._start_workers()
        if self._workers is None or not self._workers.ready.is_set():
            return False
        if self._workers.failed:
            logger.warning("this process goes on alone: workers cannot be started (%s)", self._workers.failed)
            self.alone = True
        return not self.alone

    def _start_workers(self) -> Workers:
        method: Any = self.work.method
        return Workers(Extracting(replace(method, embedder=None) if self.share else method))

    def _read(self, readers: Sequence[Reader], until: Callable[[], bool] | None = None) -> set[Claim]:
        """All items by some readers, or ``until`` others take over; returns those that were begun and not finished."""
        reading = ReaderThreads(self.items, self.work.claim, readers)
        try:
            while reading.running or self._batch or self._sealing:
                event = reading.next(GPU_WAIT_S if self.share and self._batch else 0)
                if event is None:
                    self._embed(reading)  # nothing waits, so there is time
                    event = reading.next(0.5)
                if event is not None:
                    self._take(event, reading)
                if until is not None and until():
                    reading.pause()
                    until = None
            return reading.under_way
        finally:
            reading.stop()
            wait(self._sealing.values())
            self._batch, self._last = [], {}
            for claim in reading.under_way:
                discard(claim.task)

    def _take(self, event: Event, reading: ReaderThreads) -> None:
        match event:
            case Read():
                self._batch.append(event)
                full = sum(len(read.frames) for read in self._batch) >= self._most
                if full or (event.free is not None and len(self._batch) >= self._slots):
                    self._embed(reading)
            case Complete(claim):
                if any(read.claim is claim for read in self._batch):
                    self._last[claim] = event
                else:
                    self._complete(event, reading)
            case Made(claim, facts):
                self.work.keep(claim.task, facts)
                self._sealing.pop(claim, None)
                reading.under_way.discard(claim)
            case Embedded(frames):
                self.work.embedded(frames)
            case Settled(record):
                record()
            case FailedItem(item, claim, error):
                if claim is not None:
                    self._forget(claim)
                    reading.under_way.discard(claim)
                self.work.fail(item, claim.task if claim else None, error)
            case Broken(error):
                raise error

    def _complete(self, event: Complete, reading: ReaderThreads) -> None:
        write(event.claim.task, self.embedder.end(event.claim.state))
        self._sealing[event.claim] = self._sealers.submit(self._seal, event.claim, event.facts, reading.tell)

    def _embed(self, reading: ReaderThreads) -> None:
        batch, self._batch = self._batch, []
        if not batch:
            return
        for read in batch:
            if read.claim.state is None:
                read.claim.state = self.embedder.begin()
        made = self.embedder.embed([(read.claim.state, read.frames) for read in batch])
        for read, features in zip(batch, made, strict=True):
            if read.free is not None:
                read.free()
            write(read.claim.task, features)
        frames = sum(len(read.frames) for read in batch)
        self._embedded += frames
        self.work.embedded(frames)
        last, self._last = self._last, {}
        for event in last.values():
            self._complete(event, reading)

    def _seal(self, claim: Claim, facts: Any, tell: Callable[[Event], None]) -> None:
        try:
            seal(claim.task, self.work.method.duration(facts))
        except BaseException as error:
            return tell(Broken(error))
        return tell(Made(claim, facts))

    def _forget(self, claim: Claim) -> None:
        for read in self._batch:
            if read.claim is claim and read.free is not None:
                read.free()
        self._batch = [read for read in self._batch if read.claim is not claim]
        self._last.pop(claim, None)
        discard(claim.task)
