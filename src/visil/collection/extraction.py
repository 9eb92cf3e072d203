"""Videos into a collection: decode in parallel, embed in batches across videos, write each one once.

Threads decode (PyAV works outside Python's lock); this thread runs the network and writes. What is in memory is a few
batches, however many and however long the videos. A video is in the collection when its feature file is in place and
its catalogue entry is committed, in that order; killed in between, the next run finds the file and embeds it again.
Both happen in one transaction, and so does every deletion of a feature file: none is deleted that was just written.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from visil.collection.catalogue import Catalogue, NewVideo
from visil.collection.identity import Stamp, content_id, stamp_of
from visil.collection.store import FeatureStore, FeatureWriter
from visil.compare.visil import BATCH, ViSiL
from visil.errors import IndexFolderError, VideoError
from visil.video import Frames, Sampling, VideoInfo, stream_frames

NO_STAMP = Stamp(-1, -1)
"""Equals no real one: of a failure that may pass, so that the file is tried again each time."""


@dataclass
class AddReport:
    """What became of the files."""

    added: int = 0
    """Videos that are new."""
    unchanged: int = 0
    """Files that were known, or hold what another file does."""
    failed: list[tuple[str, str]] = field(default_factory=list)
    """(path, reason)"""


@dataclass(frozen=True)
class AddProgress:
    """Where a run of ``add`` stands."""

    files: int
    total: int
    frames: int
    path: str | None
    """The file that was finished last."""


OnProgress = Callable[[AddProgress], None]


class Decoding(Protocol):
    """A video while it is decoded: what :func:`visil.video.stream_frames` gives."""

    info: VideoInfo
    duration: float
    damaged: int

    def __iter__(self) -> Iterator[Frames]: ...


Decode = Callable[[Path, Sampling], AbstractContextManager[Decoding]]
"""Opens a video; another one than :func:`visil.video.stream_frames` may decode in a process of its own."""


@dataclass
class _Job:
    """One video under way."""

    path: Path
    stamp: Stamp
    id: str
    info: VideoInfo | None = None
    writer: FeatureWriter | None = None
    pending: int = 0
    """Batches that wait to be embedded."""


@dataclass(frozen=True)
class _Decoded:
    job: _Job
    frames: Frames


@dataclass(frozen=True)
class _Ended:
    job: _Job
    duration: float
    damaged: int


@dataclass(frozen=True)
class _Skipped:
    """A file that needs no embedding: known, or a copy of one that is known or under way."""

    path: Path
    stamp: Stamp
    id: str
    same_file: bool


@dataclass(frozen=True)
class _Failed:
    path: Path
    stamp: Stamp | None
    """None where there is no file."""
    reason: str
    job: _Job | None


@dataclass(frozen=True)
class _Broken:
    """The collection itself cannot be read: no video is to blame, and the run ends."""

    error: IndexFolderError


class _Finished:
    """A thread has no more files."""


_Event = _Decoded | _Ended | _Skipped | _Failed | _Broken | _Finished


class Extraction:
    """One run of ``add``."""

    def __init__(
        self,
        model: ViSiL,
        catalogue: Catalogue,
        store: FeatureStore,
        *,
        workers: int,
        reference: bool = False,
        progress: OnProgress | None = None,
        decode: Decode | None = None,
    ) -> None:
        self.model = model
        self.catalogue = catalogue
        self.store = store
        self.workers = workers
        self.reference = reference
        self.progress = progress
        self.decode = decode or _decode_here
        self.report = AddReport()
        self._events: queue.Queue[_Event] = queue.Queue(2 * workers + 2)
        self._stop = threading.Event()
        self._claims: dict[str, list[_Skipped]] = {}
        self._claims_lock = threading.Lock()
        self._open: dict[int, _Job] = {}
        self._batch: list[_Decoded] = []
        self._again: list[Path] = []
        self._tried_again: set[Path] = set()
        self._files = self._frames = self._total = 0

    def run(self, files: Iterable[Path]) -> AddReport:
        """All files; stops cleanly where it is interrupted, with everything finished so far kept."""
        todo = list(files)
        self._total = len(todo)
        while todo:
            self._run(todo)
            todo, self._again = self._again, []
        return self.report

    def _run(self, todo: list[Path]) -> None:
        self._stop.clear()
        source = iter(todo)
        lock = threading.Lock()
        threads = [
            threading.Thread(
                target=self._decode_all, args=(source, lock), name=f"visil-decode-{i}", daemon=True
            )
            for i in range(max(1, min(self.workers, len(todo))))
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
            stamp = stamp_of(path)
            known = self.catalogue.file(os.fspath(path))
            if known is not None and known[1] == stamp:
                return self._put(_Skipped(path, stamp, known[0], same_file=True))
            reason = self.catalogue.failed_before(os.fspath(path), stamp)
            if reason is not None:
                return self._put(_Failed(path, stamp, reason, None))
            job = _Job(path, stamp, content_id(path))
            copy = _Skipped(path, stamp, job.id, same_file=False)
            if self.catalogue.has(job.id):
                return self._put(copy)
            with self._claims_lock:
                if job.id in self._claims:
                    self._claims[job.id].append(copy)
                    return None
                if self.catalogue.has(job.id):  # finished since the look before
                    return self._put(copy)
                self._claims[job.id] = []
            with self.decode(path, self.model.config.sampling) as stream:
                job.info = stream.info
                for frames in stream:
                    self._put(_Decoded(job, frames))
                    if self._stop.is_set():
                        return None
            if stamp_of(path) != stamp:
                raise VideoError(path, "changed while it was read; add it again when it is whole")
            self._put(_Ended(job, stream.duration, stream.damaged))
        except VideoError as error:
            self._put(_failure(path, error.reason, job))
        except IndexFolderError as error:
            self._put(_Broken(error))
        except Exception as error:  # a thread that dies in silence would hang the run
            self._put(_failure(path, f"could not be read ({type(error).__name__}: {error})", job))

    def _put(self, event: _Event) -> None:
        while not self._stop.is_set():
            try:
                self._events.put(event, timeout=0.1)
            except queue.Full:
                continue
            return

    # ------------------------------------------------------------------ in this thread

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
                job.pending += 1
                self._batch.append(event)
                if sum(len(decoded.frames) for decoded in self._batch) >= BATCH:
                    self._embed()
            case _Ended(job, duration, damaged):
                self._finish(job, duration, damaged)
            case _Skipped():
                self._skip(event)
            case _Failed(path, stamp, reason, job):
                self._fail(path, stamp, reason, job)
            case _Broken(error):
                raise error

    def _skip(self, known: _Skipped) -> None:
        path = os.fspath(known.path)
        if not known.same_file:
            try:
                gone = self.catalogue.add_file(known.id, path, known.stamp, reference=self.reference)
            except LookupError:
                return self._try_again(known.path, "was removed from the collection meanwhile; add it again")
            self._drop(gone)
        elif self.reference:
            self.catalogue.mark_reference(path)
        self.report.unchanged += 1
        return self._tell(known.path)

    def _embed(self) -> None:
        if not self._batch:
            return
        batch, self._batch = self._batch, []
        images = np.concatenate([decoded.frames.images for decoded in batch])
        features = self.model.embed_frames(images)
        assert features.blank is not None
        start = 0
        for decoded in batch:
            job, frames = decoded.job, decoded.frames
            if job.writer is None:
                job.writer = self.store.writer(job.id)
            part = slice(start, start + len(frames))
            job.writer.append(features.vectors[part], frames.timestamps, features.blank[part])
            job.pending -= 1
            start += len(frames)
        self._frames += start
        self._tell(None)

    def _finish(self, job: _Job, duration: float, damaged: int) -> None:
        if job.pending:
            self._embed()
        assert job.writer is not None
        assert job.info is not None
        frames = job.writer.seal(duration)
        info = job.info
        video = NewVideo(
            *(job.id, frames, duration, info.width, info.height, info.codec, info.bit_rate),
            *(job.stamp.size, damaged),
        )
        name = os.fspath(job.path)
        try:
            gone = self.catalogue.add(
                video, name, job.stamp, reference=self.reference, place=job.writer.place
            )
        except IndexFolderError:  # the disk had room for the features, but not for their entry
            with suppress(IndexFolderError):
                self.catalogue.clear(job.id, self.store.remove)
            raise
        self._drop(gone)
        self._open.pop(id(job), None)
        self.report.added += 1
        self._tell(job.path)
        for copy in self._release(job.id):
            self._take(copy)

    def _drop(self, gone: list[str]) -> None:
        for video in gone:
            self.catalogue.clear(video, self.store.remove)

    def _fail(self, path: Path, stamp: Stamp | None, reason: str, job: _Job | None) -> None:
        if job is not None:
            self._batch = [decoded for decoded in self._batch if decoded.job is not job]
            self._open.pop(id(job), None)
            if job.writer is not None:
                job.writer.discard()
        if stamp is not None:
            self._drop(self.catalogue.fail(os.fspath(path), reason, stamp))
        self.report.failed.append((os.fspath(path), reason))
        self._tell(path)
        if job is not None:
            for copy in self._release(job.id):
                if stamp == job.stamp:
                    self._fail(copy.path, copy.stamp, reason, None)
                else:  # it was the file that went or changed; what it held may be well
                    self._try_again(copy.path, reason)

    def _try_again(self, path: Path, reason: str) -> None:
        if path in self._tried_again:
            return self._fail(path, None, reason, None)
        self._tried_again.add(path)
        self._again.append(path)
        return None

    def _release(self, video: str) -> list[_Skipped]:
        with self._claims_lock:
            return self._claims.pop(video, [])

    def _tell(self, path: Path | None) -> None:
        if path is not None:
            self._files += 1
        if self.progress is not None:
            self.progress(
                AddProgress(self._files, self._total, self._frames, os.fspath(path) if path else None)
            )


def _decode_here(path: Path, sampling: Sampling) -> AbstractContextManager[Decoding]:
    return stream_frames(path, sampling, batch_size=BATCH)


def _failure(path: Path, reason: str, job: _Job | None) -> _Failed:
    """What is wrong with a file, and whether it stays so until the file changes: only where its content is to blame."""
    try:
        stamp = stamp_of(path)
    except VideoError:
        return _Failed(path, None, reason, job)
    lasting = job is not None and stamp == job.stamp
    return _Failed(path, stamp if lasting else NO_STAMP, reason, job)
