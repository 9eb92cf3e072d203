"""The steps of an extraction for each video, on any engine: the parts that :mod:`visil.collection.extraction` is given.

A :class:`Method` reads and embeds, in this process or in others, to which it is sent. A :class:`Work` stays here: it
says what there is to do, and what becomes of what was done. ``visil add`` and ``visil evaluate`` have theirs in
:mod:`visil.collection.local_engine`, the paper's tables in ``visil.paper.feature_bank``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from visil.collection.feature_writer import FeatureWriter
from visil.errors import VideoError
from visil.model.features import VideoFeatures
from visil.video import Frames

ByKind = Mapping[str, VideoFeatures]
"""Features of some frames, by the kinds that are asked for."""

READ = 16
"""Frames that are read, and go through a network, together."""


NOTHING = "no frame could be decoded"
"""Why a video that can be read gives nothing."""


class Task(Protocol):
    """One video to extract; it can be sent to another process."""

    @property
    def name(self) -> str:
        """The file, or what the video is called."""

    @property
    def writers(self) -> Mapping[str, FeatureWriter]:
        """Where its features go, by kind; nothing is written before there are any."""


class Embedder(Protocol):
    """Networks that make features of frames."""

    @property
    def device(self) -> torch.device:
        """Where they are."""

    def prepare(self) -> None:
        """Make what is otherwise made when it is first needed."""

    def begin(self) -> Any:
        """Notes about a video while its frames come."""

    def embed(self, pieces: Sequence[tuple[Any, Frames]]) -> Sequence[ByKind]:
        """Features of some frames of one or several videos, each with what :meth:`begin` gave for it."""

    def end(self, state: Any) -> ByKind:
        """Features that are left when all frames of a video have come."""


class Method(Protocol):
    """How videos are read and embedded. A dataclass that can be sent to other processes."""

    @property
    def embedder(self) -> Embedder | None:
        """None in a process that only reads."""

    @property
    def side(self) -> int:
        """Height and width of a frame."""

    def read(self, task: Any) -> AbstractContextManager[Iterable[Frames]]:
        """The frames of a video as they come; a :class:`VideoError` where it cannot be read."""

    def facts(self, stream: Any) -> Any:
        """Facts about a video besides its features, once ``stream`` is read to its end."""

    def duration(self, facts: Any) -> float | None:
        """Seconds that the video lasts; None: up to its last features."""


@dataclass(frozen=True)
class Settled:
    """An item that needs no extraction."""

    record: Callable[[], None]
    """Called in the thread that called :func:`visil.collection.extraction.extract`."""


class Work(Protocol):
    """The work of one run: which files are extracted, and where the results go.

    :meth:`claim` is called from any thread, all else from the one that runs it. A :class:`VideoError` is an item's
    failure, any other :class:`VisilError` ends the run.
    """

    @property
    def method(self) -> Method:
        """How it is done."""

    def claim(self, item: Any) -> Task | Settled | None:
        """A task for an item that is to be extracted. None: another item's task settles it."""

    def embedded(self, frames: int) -> None:
        """So many frames more were embedded."""

    def keep(self, task: Any, facts: Any) -> None:
        """All features of a video are sealed: put them in their place."""

    def fail(self, item: Any, task: Any | None, error: VideoError) -> None:
        """An item that could not be extracted; what was written of it is gone."""


def write(task: Task, made: ByKind) -> None:
    """Append features to the files of their kinds."""
    for kind, features in made.items():
        if kind in task.writers:
            assert features.blank is not None
            task.writers[kind].append(features.vectors, features.timestamps.numpy(), features.blank)


def seal(task: Task, duration: float | None) -> None:
    """Complete the files of a task whose features are all written."""
    for writer in task.writers.values():
        writer.seal(writer.last if duration is None else duration)


def discard(task: Task) -> None:
    """Forget what was written; the task may be done anew."""
    for writer in task.writers.values():
        writer.discard()
