"""Videos into a collection, by this machine: decode in parallel, embed in batches across videos, write each one once.

Threads decode (PyAV works outside Python's lock); this thread runs the network and writes. What is in memory is a few
batches, however many and however long the videos.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from visil.collection.identity import content_id, stamp_of
from visil.collection.intake import CHANGED, Failed, Intake, Job, Known
from visil.compare.visil import BATCH
from visil.errors import IndexFolderError, VideoError
from visil.video import Frames, Sampling, VideoInfo, stream_frames


class Decoding(Protocol):
    """A video while it is decoded: what :func:`visil.video.stream_frames` gives."""

    info: VideoInfo
    duration: float
    damaged: int

    def __iter__(self) -> Iterator[Frames]: ...


Decode = Callable[[Path, Sampling], AbstractContextManager[Decoding]]
"""Opens a video; another one than :func:`visil.video.stream_frames` may decode in a process of its own."""


def decode_here(path: Path, sampling: Sampling) -> AbstractContextManager[Decoding]:
    """The frames on display at the times of the grid."""
    return stream_frames(path, sampling, batch_size=BATCH)


def decode_fast(path: Path, sampling: Sampling) -> AbstractContextManager[Decoding]:
    """For ``Index.add(…, decode=decode_fast)``: about twice as fast, samples up to some tenths of a second early.

    It takes frames near the times of the grid, whichever are cheap (docs/performance-cpu.md).
    """
    return stream_frames(path, sampling, batch_size=BATCH, fast=True)


@dataclass(frozen=True)
class _Decoded:
    job: Job
    frames: Frames


@dataclass(frozen=True)
class _Ended:
    job: Job
    duration: float
    damaged: int


@dataclass(frozen=True)
class _Broken:
    """The collection itself cannot be read: no video is to blame, and the run ends."""

    error: IndexFolderError


class _Finished:
    """A thread has no more files."""


_Event = _Decoded | _Ended | Known | Failed | _Broken | _Finished


class LocalEngine:
    """:class:`visil.collection.intake.Engine` of this machine: ``workers`` threads decode."""

    def __init__(self, *, workers: int, decode: Decode | None = None) -> None:
        self.workers = workers
        self.decode = decode or decode_here

    def __call__(self, intake: Intake, files: list[Path]) -> None:
        """All files, once."""
        _Run(intake, self.workers, self.decode).run(files)


class _Run:
    """The threads of one run, and what they have under way."""

    def __init__(self, intake: Intake, workers: int, decode: Decode) -> None:
        self.intake = intake
        self.workers = workers
        self.decode = decode
        self._events: queue.Queue[_Event] = queue.Queue(2 * workers + 2)
        self._stop = threading.Event()
        self._open: dict[int, Job] = {}
        self._batch: list[_Decoded] = []

    def run(self, files: list[Path]) -> None:
        source = iter(files)
        lock = threading.Lock()
        threads = [
            threading.Thread(
                target=self._decode_all, args=(source, lock), name=f"visil-decode-{i}", daemon=True
            )
            for i in range(max(1, min(self.workers, len(files))))
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
                if job.writer is not None:
                    job.writer.discard()

    # ------------------------------------------------------------------ in the decoding threads

    def _decode_all(self, source: Iterator[Path], lock: threading.Lock) -> None:
        while not self._stop.is_set():
            with lock:
                path = next(source, None)
            if path is None:
                break
            self._decode(path)
        self._put(_Finished())

    def _decode(self, path: Path) -> None:
        job = None
        try:
            stamp = self.intake.look(path)
            if isinstance(stamp, (Known, Failed)):
                return self._put(stamp)
            claimed = self.intake.claim(path, stamp, content_id(path))
            if claimed is None:
                return None
            if isinstance(claimed, Known):
                return self._put(claimed)
            job = claimed
            with self.decode(path, self.intake.model.config.sampling) as stream:
                job.info = stream.info
                for frames in stream:
                    self._put(_Decoded(job, frames))
                    if self._stop.is_set():
                        return None
            if stamp_of(path) != stamp:
                raise VideoError(path, CHANGED)
            self._put(_Ended(job, stream.duration, stream.damaged))
        except VideoError as error:
            self._put(Failed.of(path, error.reason, job))
        except IndexFolderError as error:
            self._put(_Broken(error))
        except Exception as error:  # a thread that dies in silence would hang the run
            self._put(Failed.of(path, f"could not be read ({type(error).__name__}: {error})", job))

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
            case _Ended(job, duration, damaged):
                if any(decoded.job is job for decoded in self._batch):
                    self._embed()
                self.intake.finish(job, duration, damaged)
                self._open.pop(id(job), None)
            case Known():
                self.intake.settle(event)
            case Failed(job=job):
                if job is not None:
                    self._batch = [decoded for decoded in self._batch if decoded.job is not job]
                    self._open.pop(id(job), None)
                self.intake.settle(event)
            case _Broken(error):
                raise error

    def _embed(self) -> None:
        if not self._batch:
            return
        batch, self._batch = self._batch, []
        images = np.concatenate([decoded.frames.images for decoded in batch])
        features = self.intake.model.embed_frames(images)
        assert features.blank is not None
        start = 0
        for decoded in batch:
            job, frames = decoded.job, decoded.frames
            if job.writer is None:
                job.writer = self.intake.writer(job)
            part = slice(start, start + len(frames))
            job.writer.append(features.vectors[part], frames.timestamps, features.blank[part])
            start += len(frames)
        self.intake.embedded(start)
