"""Each file's way through a run of ``add``: this decides and writes, whatever engine decodes and embeds.

A video is in the collection when its feature file is in place and its catalogue entry is committed, in that order;
killed in between, the next run finds the file and embeds it again. Both happen in one transaction, and so does every
deletion of a feature file: none is deleted that was just written.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from visil.collection.catalogue import NewVideo
from visil.collection.feature_writer import FeatureWriter
from visil.collection.identity import Stamp, stamp_of
from visil.collection.parts import Parts
from visil.collection.selection import EVERYTHING, Selection
from visil.collection.state import EMBEDDED_IN
from visil.errors import IndexFolderError, VideoError, printable
from visil.video import VideoInfo, declared_seconds

logger = logging.getLogger("visil")

NO_STAMP = Stamp(-1, -1)
"""Equals no real one: of a failure that may pass, so that the file is tried again each time."""

CHANGED = "changed while it was read; add it again when it is whole"


@dataclass
class AddReport:
    """The outcome for the files."""

    added: int = 0
    """Videos that are new."""
    unchanged: int = 0
    """Files that were known, or have the same content as another file."""
    failed: list[tuple[str, str]] = field(default_factory=list)
    """(path, reason)"""
    passed_over: list[tuple[str, str]] = field(default_factory=list)
    """(path, reason): videos and folders that were seen and not wanted."""


@dataclass(frozen=True)
class AddProgress:
    """Where a run of ``add`` stands."""

    files: int
    total: int
    frames: int
    path: str | None
    """The file that was finished last."""


OnProgress = Callable[[AddProgress], None]


@dataclass(frozen=True)
class Job:
    """One video to embed: its file as it was found, and where its features go."""

    path: Path
    stamp: Stamp
    id: str
    writer: FeatureWriter

    @property
    def name(self) -> str:
        """The file."""
        return os.fspath(self.path)

    @property
    def writers(self) -> dict[str, FeatureWriter]:
        """See :attr:`visil.collection.extraction_work.Task.writers`: the model's features alone."""
        return {"model": self.writer}


@dataclass(frozen=True)
class Facts:
    """Facts about a video that was read to its end."""

    info: VideoInfo
    duration: float
    damaged: int
    """Packets that could not be decoded."""


@dataclass(frozen=True)
class Known:
    """A file that needs no embedding: known, or a copy of one that is known or under way."""

    path: Path
    stamp: Stamp
    id: str
    same_file: bool


@dataclass(frozen=True)
class FailedFile:
    """A file that could not be read."""

    path: Path
    stamp: Stamp | None
    """None where there is no file."""
    reason: str
    job: Job | None

    @classmethod
    def of(cls, path: Path, reason: str, job: Job | None) -> FailedFile:
        """As it is now. It lasts until the file changes only where its content is to blame."""
        try:
            stamp = stamp_of(path)
        except VideoError:
            return cls(path, None, reason, job)
        lasting = job is not None and stamp == job.stamp
        return cls(path, stamp if lasting else NO_STAMP, reason, job)


@dataclass(frozen=True)
class PassedOver:
    """A file that is not wanted."""

    path: Path
    reason: str


class Engine(Protocol):
    """Who decodes and embeds: this machine (:mod:`visil.collection.local_engine`), or a cluster."""

    def __call__(self, intake: Intake, files: list[Path]) -> None:
        """Look at every file, embed those that are new, and tell the intake; may be called again with others."""


class Intake:
    """One run of ``add`` into some parts.

    :meth:`look` and :meth:`claim` may be called from any thread, all else from one.
    """

    def __init__(
        self,
        parts: Parts,
        *,
        selection: Selection = EVERYTHING,
        reference: bool = False,
        progress: OnProgress | None = None,
    ) -> None:
        self.model = parts.model
        self.selection = selection
        self.report = AddReport()
        self._catalogue = parts.catalogue
        self._store = parts.store
        self._drop = parts.drop
        self._reference = reference
        self._progress = progress
        self._claims: dict[str, list[Known]] = {}
        self._lock = threading.Lock()
        self._again: list[Path] = []
        self._tried_again: set[Path] = set()
        self._files = self._frames = self._total = 0
        self._embedded_in: str | None = None

    def run(self, engine: Engine, files: list[Path]) -> AddReport:
        """All files; stops cleanly where it is interrupted, with everything finished so far kept."""
        self._total = len(files)
        while files:
            engine(self, files)
            files, self._again = self._again, []
        return self.report

    # ------------------------------------------------------------------ from any thread

    def look(self, path: Path) -> Stamp | Known | FailedFile | PassedOver:
        """Whether a file is known, by its stamp alone; the stamp of one that is to be read. VideoError: not there.

        Of one that is new, also whether it is as long as it should be, if it says how long it is.
        """
        stamp = stamp_of(path)
        known = self._catalogue.file(os.fspath(path))
        if known is not None and known[1] == stamp:
            return Known(path, stamp, known[0], same_file=True)
        reason = self._catalogue.failed_before(os.fspath(path), stamp)
        if reason is not None:
            return FailedFile(path, stamp, reason, None)
        if self.selection.asks_for_duration:
            with suppress(VideoError):  # whatever is wrong with the file, decoding it says it better
                seconds = declared_seconds(path)
                refused = None if seconds is None else self.selection.refuses_duration(seconds)
                if refused is not None:
                    return PassedOver(path, refused)
        return stamp

    def claim(self, path: Path, stamp: Stamp, video: str) -> Job | Known | None:
        """A job to embed a file of this content, or the news that it is known.

        None: it is under way, and the file is recorded when that ends.
        """
        copy = Known(path, stamp, video, same_file=False)
        if self._catalogue.has(video):
            return copy
        with self._lock:
            if video in self._claims:
                self._claims[video].append(copy)
                return None
            if self._catalogue.has(video):  # finished since the look before
                return copy
            self._claims[video] = []
        return Job(path, stamp, video, self._store.writer(video))

    # ------------------------------------------------------------------ from one thread

    def settle(self, outcome: Known | FailedFile | PassedOver) -> None:
        """Record what became of a file that was not embedded."""
        match outcome:
            case FailedFile():
                self._fail(outcome)
            case Known():
                self._know(outcome)
            case PassedOver(path, reason):
                self.pass_over(path, reason)
                self._tell(path)

    def pass_over(self, path: Path, reason: str) -> None:
        """Record a file or folder that is not taken."""
        logger.info("passed over: %s: %s", printable(os.fspath(path)), reason)
        self.report.passed_over.append((os.fspath(path), reason))

    def embedded(self, frames: int) -> None:
        """So many frames more were embedded."""
        self._frames += frames
        self._tell(None)

    def was_embedded_in(self, arithmetic: str) -> None:
        """Record what a video of this run went through the backbone in."""
        if self._embedded_in != arithmetic:
            self._embedded_in = arithmetic
            if self._catalogue.fact(EMBEDDED_IN[arithmetic]) is None:
                self._catalogue.set_fact(EMBEDDED_IN[arithmetic], "yes")

    def finish(self, job: Job, facts: Facts) -> None:
        """A video whose features are sealed: put it into the collection, unless its file has changed."""
        try:
            unchanged = stamp_of(job.path) == job.stamp
        except VideoError as error:
            return self._fail(FailedFile.of(job.path, error.reason, job))
        if not unchanged:
            return self._fail(FailedFile.of(job.path, CHANGED, job))
        info = facts.info
        refused = self.selection.refuses_duration(facts.duration) if info.duration is None else None
        if refused is not None:  # its length is only known now
            job.writer.discard()
            for path in (job.path, *(copy.path for copy in self._release(job.id))):
                self.settle(PassedOver(path, refused))
            return None
        video = NewVideo(
            *(job.id, job.writer.frames, facts.duration, info.width, info.height, info.codec, info.bit_rate),
            *(job.stamp.size, facts.damaged),
        )
        try:
            gone = self._catalogue.add(
                video, os.fspath(job.path), job.stamp, reference=self._reference, place=job.writer.place
            )
        except IndexFolderError:  # the disk had room for the features, but not for their entry
            with suppress(IndexFolderError):
                self._drop(job.id)
            raise
        self._drop_all(gone)
        logger.info(
            "added: %s: %d frames of %.1f s",
            printable(os.fspath(job.path)),
            job.writer.frames,
            facts.duration,
        )
        self.report.added += 1
        self._tell(job.path)
        for copy in self._release(job.id):
            self._know(copy)
        return None

    def _know(self, known: Known) -> None:
        path = os.fspath(known.path)
        if not known.same_file:
            try:
                gone = self._catalogue.add_file(known.id, path, known.stamp, reference=self._reference)
            except LookupError:
                return self._try_again(known.path, "was removed from the collection meanwhile; add it again")
            self._drop_all(gone)
        elif self._reference:
            self._catalogue.mark_reference(path)
        logger.info("known: %s", printable(path))
        self.report.unchanged += 1
        return self._tell(known.path)

    def _fail(self, failed: FailedFile) -> None:
        path, stamp, reason, job = failed.path, failed.stamp, failed.reason, failed.job
        if job is not None:
            job.writer.discard()
        if stamp is not None:
            self._drop_all(self._catalogue.fail(os.fspath(path), reason, stamp))
        logger.info("failed: %s: %s", printable(os.fspath(path)), reason)
        self.report.failed.append((os.fspath(path), reason))
        self._tell(path)
        if job is not None:
            for copy in self._release(job.id):
                if stamp == job.stamp:
                    self._fail(FailedFile(copy.path, copy.stamp, reason, None))
                else:  # the file went or changed; its content may be sound
                    self._try_again(copy.path, reason)

    def _try_again(self, path: Path, reason: str) -> None:
        if path in self._tried_again:
            return self._fail(FailedFile(path, None, reason, None))
        self._tried_again.add(path)
        self._again.append(path)
        return None

    def _release(self, video: str) -> list[Known]:
        with self._lock:
            return self._claims.pop(video, [])

    def _drop_all(self, videos: list[str]) -> None:
        for video in videos:
            self._drop(video)

    def _tell(self, path: Path | None) -> None:
        if path is not None:
            self._files += 1
        if self._progress is not None:
            self._progress(
                AddProgress(self._files, self._total, self._frames, os.fspath(path) if path else None)
            )
