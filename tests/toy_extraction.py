"""An extraction of made-up videos. It is sent to worker processes, so it lies in a module of its own."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from visil.collection.extraction_work import ByKind, Settled
from visil.collection.feature_writer import FeatureWriter
from visil.collection.store import FeatureStore
from visil.errors import IndexFolderError, VideoError
from visil.model.features import VideoFeatures
from visil.video import Frames

SIDE = 4


@dataclass(frozen=True)
class Video:
    name: str
    writers: dict[str, FeatureWriter]


def frames_of(name: str) -> Iterator[Frames]:
    """``COUNT-WORD``: so many frames, and what the word says happens after the first batch."""
    count, _, word = name.partition("-")
    seed = sum(name.encode())
    images = np.random.default_rng(seed).integers(0, 255, (int(count), SIDE, SIDE, 3), dtype=np.uint8)
    for start in range(0, int(count), 5):
        yield Frames(
            images[start : start + 5], np.arange(start, min(start + 5, int(count)), dtype=np.float64)
        )
        match word:
            case "crash":
                os.kill(os.getpid(), signal.SIGKILL)
            case "bad":
                raise VideoError(name, "is bad")
            case "bug":
                raise ZeroDivisionError("a bug")
            case "full":
                raise IndexFolderError(name, "the disk is full")
            case "log":
                logging.getLogger("visil").warning("%s: a line", name)
            case "slow":
                time.sleep(0.05)


@dataclass(frozen=True)
class Means:
    """Features of a frame: the mean of each colour; of a video, beside them, how many frames it had."""

    device = torch.device("cpu")

    def prepare(self) -> None:
        """Nothing to make."""

    def begin(self) -> list[int]:
        return [0]

    def embed(self, pieces: Sequence[tuple[list[int], Frames]]) -> list[ByKind]:
        made: list[ByKind] = []
        for state, frames in pieces:
            state[0] += len(frames)
            vectors = torch.from_numpy(frames.images.astype(np.float32)).mean(dim=(1, 2))[:, None] / 255
            blank = torch.zeros(len(frames), dtype=torch.bool)
            times = torch.from_numpy(frames.timestamps.copy())
            made.append({"mean": VideoFeatures(vectors, times, blank=blank)})
        return made

    def end(self, state: list[int]) -> ByKind:
        zero = torch.zeros(1, dtype=torch.float64)
        count = VideoFeatures(torch.full((1, 1, 1), float(state[0])), zero, blank=torch.zeros(1).bool())
        return {"count": count}


@dataclass(frozen=True)
class Toys:
    embedder: Means | None
    side = SIDE

    def read(self, video: Video) -> AbstractContextManager[Iterator[Frames]]:
        return nullcontext(frames_of(video.name))

    def facts(self, _: object) -> int:
        return os.getpid()

    def duration(self, _: int) -> None:
        return None


@dataclass
class ToyWork:
    """:class:`visil.collection.extraction_work.Work` that keeps its features in a folder."""

    folder: Path
    method: Toys = field(default_factory=lambda: Toys(Means()))
    kept: dict[str, int] = field(default_factory=dict)
    """The process that read each video."""
    failed: dict[str, str] = field(default_factory=dict)
    settled: list[str] = field(default_factory=list)
    frames: int = 0

    def store(self) -> FeatureStore:
        return FeatureStore(self.folder)

    def claim(self, name: str) -> Video | Settled:
        if name.endswith("known"):
            return Settled(lambda: self.settled.append(name))
        kinds = {kind: self.store().writer(f"{kind} {name}") for kind in ("mean", "count")}
        return Video(name, kinds)

    def embedded(self, frames: int) -> None:
        self.frames += frames

    def keep(self, video: Video, facts: int) -> None:
        for writer in video.writers.values():
            writer.place()
        self.kept[video.name] = facts

    def fail(self, name: str, _: Video | None, error: VideoError) -> None:
        self.failed[name] = error.reason
