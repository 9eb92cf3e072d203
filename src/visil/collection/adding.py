"""Videos into a collection, by this machine: what ``add`` does with each file (:mod:`visil.collection.extraction`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

from visil.collection.extraction import Settled, extract
from visil.collection.identity import Stamp, content_id
from visil.collection.intake import Failed, Intake, Job, Known
from visil.compare.visil import BATCH
from visil.errors import VideoError
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


class LocalEngine:
    """:class:`visil.collection.intake.Engine` of this machine: ``workers`` threads decode."""

    def __init__(self, *, workers: int, decode: Decode | None = None) -> None:
        self.workers = workers
        self.decode = decode or decode_here

    def __call__(self, intake: Intake, files: list[Path]) -> None:
        """All files, once."""
        extract(_Adding(intake, self.decode), files, workers=self.workers)


class _Adding:
    """:class:`visil.collection.extraction.Work` on the files of one run of ``add``."""

    def __init__(self, intake: Intake, decode: Decode) -> None:
        self.intake = intake
        self.decode = decode

    def claim(self, path: Path) -> Job | Settled | None:
        stamp = self.intake.look(path)
        if not isinstance(stamp, Stamp):
            return Settled(partial(self.intake.settle, stamp))
        claimed = self.intake.claim(path, stamp, content_id(path))
        return Settled(partial(self.intake.settle, claimed)) if isinstance(claimed, Known) else claimed

    def read(self, job: Job) -> AbstractContextManager[Decoding]:
        return self.decode(job.path, self.intake.model.config.sampling)

    def embed(self, pieces: Sequence[tuple[Job, Frames]]) -> None:
        features = self.intake.model.embed_frames(np.concatenate([frames.images for _, frames in pieces]))
        assert features.blank is not None
        start = 0
        for job, frames in pieces:
            if job.writer is None:
                job.writer = self.intake.writer(job)
            part = slice(start, start + len(frames))
            job.writer.append(features.vectors[part], frames.timestamps, features.blank[part])
            start += len(frames)
        self.intake.embedded(start)

    def end(self, job: Job, stream: Decoding) -> None:
        job.info = stream.info
        self.intake.finish(job, stream.duration, stream.damaged)

    def fail(self, path: Path, job: Job | None, error: VideoError) -> None:
        self.intake.settle(Failed.of(path, error.reason, job))

    def drop(self, job: Job) -> None:
        if job.writer is not None:
            job.writer.discard()
