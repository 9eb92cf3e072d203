"""Videos into a collection, by this machine: what ``add`` does with each file (:mod:`visil.collection.extraction`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from visil.collection.extraction import extract
from visil.collection.extraction_work import READ, ByKind, Embedder, Settled
from visil.collection.identity import Stamp, content_id
from visil.collection.intake import NO_STAMP, Facts, FailedFile, Intake, Job, Known
from visil.collection.worker import Unforeseen
from visil.compare.repeats import Repeats
from visil.compare.visil import ViSiL
from visil.errors import VideoError
from visil.model.features import VideoFeatures
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
    return stream_frames(path, sampling, batch_size=READ)


def decode_fast(path: Path, sampling: Sampling) -> AbstractContextManager[Decoding]:
    """For ``Index.add(…, decode=decode_fast)``: about twice as fast, samples up to some tenths of a second early.

    It takes frames near the times of the grid, whichever are cheap (docs/performance-cpu.md).
    """
    return stream_frames(path, sampling, batch_size=READ, fast=True)


def decode_keyframes(path: Path, sampling: Sampling) -> AbstractContextManager[Decoding]:
    """For ``Index.add(…, decode=decode_keyframes)``: the key frame nearest to each time of the grid."""
    return stream_frames(path, sampling, batch_size=READ, keyframes=True)


class LocalEngine:
    """:class:`visil.collection.intake.Engine` of this machine, on ``workers`` cores.

    Whoever hands in a ``decode`` of their own has it called in this process.
    """

    def __init__(self, *, workers: int, decode: Decode | None = None) -> None:
        self.workers = workers
        self.decode = decode or decode_here

    def __call__(self, intake: Intake, files: list[Path]) -> None:
        """All files, once: large ones first, so that no core is left with one at the end."""
        alone = self.decode not in (decode_here, decode_fast, decode_keyframes)
        method = AddMethod(ModelEmbedder(intake.model), intake.model.config.sampling, self.decode)
        extract(_Adding(intake, method), largest_first(files), workers=self.workers, alone=alone)


def largest_first(files: Sequence[Path]) -> list[Path]:
    """Files by their size; those that are none come last."""

    def size(path: Path) -> int:
        try:
            return path.stat().st_size
        except (OSError, ValueError):
            return -1

    return sorted(files, key=size, reverse=True)


@dataclass(frozen=True)
class ModelEmbedder:
    """:class:`visil.collection.extraction_work.Embedder` of one model."""

    model: ViSiL

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.device

    def prepare(self) -> None:
        """See :meth:`visil.collection.extraction_work.Embedder.prepare`."""
        self.model.prepare()

    def begin(self) -> Repeats:
        """See :meth:`visil.collection.extraction_work.Embedder.begin`."""
        return Repeats()

    def embed(self, pieces: Sequence[tuple[Repeats, Frames]]) -> list[ByKind]:
        """Features of all pieces, from one pass through the network."""
        made = self.model.embed_pieces([(seen, torch.from_numpy(frames.images)) for seen, frames in pieces])
        times = (torch.from_numpy(np.asarray(frames.timestamps, np.float64)) for _, frames in pieces)
        return [
            {"model": VideoFeatures(vectors, seconds, blank=blank)}
            for (vectors, blank), seconds in zip(made, times, strict=True)
        ]

    def end(self, _: object) -> ByKind:
        """Nothing is left to say."""
        return {}


@dataclass(frozen=True)
class AddMethod:
    """:class:`visil.collection.extraction_work.Method` of ``add``."""

    embedder: Embedder | None
    sampling: Sampling
    decode: Decode

    @property
    def side(self) -> int:
        """See :attr:`visil.collection.extraction_work.Method.side`."""
        return self.sampling.crop

    def read(self, job: Job) -> AbstractContextManager[Decoding]:
        """See :meth:`visil.collection.extraction_work.Method.read`."""
        return self.decode(job.path, self.sampling)

    def facts(self, stream: Decoding) -> Facts:
        """See :meth:`visil.collection.extraction_work.Method.facts`."""
        return Facts(stream.info, stream.duration, stream.damaged)

    def duration(self, facts: Facts) -> float:
        """See :meth:`visil.collection.extraction_work.Method.duration`."""
        return facts.duration


@dataclass(frozen=True)
class _Adding:
    """:class:`visil.collection.extraction_work.Work` on the files of one run of ``add``."""

    intake: Intake
    method: AddMethod

    def claim(self, path: Path) -> Job | Settled | None:
        stamp = self.intake.look(path)
        if not isinstance(stamp, Stamp):
            return Settled(partial(self.intake.settle, stamp))
        claimed = self.intake.claim(path, stamp, content_id(path))
        return Settled(partial(self.intake.settle, claimed)) if isinstance(claimed, Known) else claimed

    def embedded(self, frames: int) -> None:
        self.intake.embedded(frames)

    def keep(self, job: Job, facts: Facts) -> None:
        self.intake.finish(job, facts)
        self.intake.was_embedded_in(self.intake.model.embeds_in)

    def fail(self, path: Path, job: Job | None, error: VideoError) -> None:
        if isinstance(error, Unforeseen):
            self.intake.settle(FailedFile(path, NO_STAMP, error.reason, job))
        else:
            self.intake.settle(FailedFile.of(path, error.reason, job))
