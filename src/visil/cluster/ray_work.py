"""The work of a cluster's processes when videos are added: look at files, decode them, embed frames.

Functions and one class that Ray Data calls with rows of plain data. What happens to a video is told to the driver as
notes, in order; the driver alone writes. Only those that embed load torch: there is one that decodes for each core.
"""

from __future__ import annotations

import os
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visil.collection.identity import content_id
from visil.errors import VideoError
from visil.video import Frames, Sampling, VideoInfo, declared_seconds, stream_frames

if TYPE_CHECKING:
    from visil.compare.visil import ViSiL

LEAST_BATCH = 16
"""Smaller batches are filled up to so many frames: of fewer, a CPU's library may round otherwise, and then a frame's
features would depend on which others it came with."""

MOST_ATTEMPTS = 3
"""Times that a task may be begun in one stream: its process, or its node, may die without its fault."""

RayRow = dict[str, Any]


@dataclass(frozen=True)
class FoundFile:
    """A node's finding at a path."""

    number: int
    id: str | None
    """None where the file could not be read."""
    reason: str | None
    seconds: float | None
    """As declared."""
    there: bool
    """Whether the node sees anything at that path."""
    node: str


@dataclass(frozen=True)
class Errand:
    """A video to decode."""

    number: int
    path: Path


@dataclass(frozen=True)
class Sampled:
    """Frames from sample ``start`` on; their images are the next ones in the row."""

    number: int
    start: int
    timestamps: NDArray[np.float64]


@dataclass(frozen=True)
class WholeVideo:
    """A video is decoded to its end."""

    number: int
    samples: int
    info: VideoInfo
    duration: float
    damaged: int


@dataclass(frozen=True)
class Unreadable:
    """A video that cannot be read."""

    number: int
    reason: str


@dataclass(frozen=True)
class Lost:
    """A video whose task ended its process again and again; it, or another of that task, may be to blame."""

    number: int


Note = Sampled | WholeVideo | Unreadable | Lost


class Attempts:
    """An actor that counts how often a task was begun: Ray Data itself begins one anew without end."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def begin(self, key: str) -> int:
        """How often that one was begun, this time included."""
        self._counts[key] += 1
        return self._counts[key]


def _too_often(attempts: Any, key: object) -> bool:
    import ray

    return int(ray.get(attempts.begin.remote(str(key)))) > MOST_ATTEMPTS


def look(row: RayRow, attempts: Any = None) -> RayRow:
    """Hash a file, and ask it how long it is."""
    number, path = int(row["number"]), Path(os.fsdecode(row["path"]))
    node = _node()
    try:
        video = content_id(path)
    except VideoError as error:
        return _as_row(FoundFile(number, None, error.reason, None, os.path.lexists(path), node))
    seconds: float | None = None
    # Whatever is wrong with the file, decoding it says it better.
    with suppress(Exception):
        if not (attempts and _too_often(attempts, row["key"])):
            seconds = declared_seconds(path)
    return _as_row(FoundFile(number, video, None, seconds, True, node))


def looked(row: RayRow) -> FoundFile:
    """The finding of :func:`look`."""
    found: FoundFile = pickle.loads(row["look"])
    return found


def decode(row: RayRow, sampling: Sampling, batch: int, attempts: Any) -> Iterator[RayRow]:
    """The frames of some videos, one after another, in rows of ``batch`` that end where the last video does."""
    filling = _Filling(sampling.crop, batch)
    errands: list[Errand] = pickle.loads(row["errands"])
    if _too_often(attempts, row["key"]):
        filling.notes += [Lost(errand.number) for errand in errands]
        errands = []
    for errand in errands:
        yield from _decode(errand, sampling, filling)
    yield from filling.flush()


def _decode(errand: Errand, sampling: Sampling, filling: _Filling) -> Iterator[RayRow]:
    number, start = errand.number, 0
    try:
        with stream_frames(errand.path, sampling, batch_size=filling.batch) as stream:
            for frames in stream:
                yield from filling.add(number, start, frames)
                start += len(frames)
    except VideoError as error:
        filling.notes.append(Unreadable(number, error.reason))
    except Exception as error:
        filling.notes.append(Unreadable(number, f"could not be read ({type(error).__name__}: {error})"))
    else:
        filling.notes.append(WholeVideo(number, start, stream.info, stream.duration, stream.damaged))


class _Filling:
    """Frames of several videos put together into batches, and the facts about them."""

    def __init__(self, side: int, batch: int) -> None:
        self.side = side
        self.batch = batch
        self.notes: list[Note] = []
        self._images: list[NDArray[np.uint8]] = []
        self._count = 0

    def add(self, number: int, start: int, frames: Frames) -> Iterator[RayRow]:
        taken = 0
        while taken < len(frames):
            some = slice(taken, taken + self.batch - self._count)
            images, times = frames.images[some], frames.timestamps[some]
            self._images.append(images)
            self.notes.append(Sampled(number, start + taken, times))
            self._count += len(images)
            taken += len(images)
            if self._count == self.batch:
                yield from self.flush()

    def flush(self) -> Iterator[RayRow]:
        if self.notes:
            empty = np.empty((0, self.side, self.side, 3), np.uint8)
            images = np.concatenate(self._images) if self._images else empty
            yield {"images": images.tobytes(), "side": self.side, "notes": pickle.dumps(self.notes)}
        self.notes, self._images, self._count = [], [], 0


class Embedder:
    """An actor with the network in it: rows of images to rows of features, as they are stored."""

    def __init__(self, model: Any, gpus: float) -> None:
        """``model`` is a reference to one in the cluster's memory."""
        import ray
        import torch

        if gpus == 0:
            torch.set_num_threads(1)  # an actor for each CPU: more threads would wait for each other
        self.model: ViSiL = ray.get(model).to("cuda" if gpus else "cpu").eval()

    def __call__(self, batch: dict[str, NDArray[Any]]) -> dict[str, list[Any]]:
        """Rows of :func:`decode`, column by column."""
        rows = [
            self._embed(images, int(side))
            for images, side in zip(batch["images"], batch["side"], strict=True)
        ]
        return {
            "notes": list(batch["notes"]),
            "vectors": [row["vectors"] for row in rows],
            "shape": [row["shape"] for row in rows],
            "blank": [row["blank"] for row in rows],
            "error": [row["error"] for row in rows],
        }

    def _embed(self, data: bytes, side: int) -> RayRow:
        images = np.frombuffer(data, np.uint8).reshape(-1, side, side, 3)
        if not len(images):
            return {"vectors": b"", "shape": pickle.dumps((0, 0, 0)), "blank": b"", "error": ""}
        count = len(images)
        if count < LEAST_BATCH:
            images = np.concatenate([images, np.zeros((LEAST_BATCH - count, side, side, 3), np.uint8)])
        try:
            features = self.model.embed_frames(images)
            assert features.blank is not None
            vectors = features.vectors[:count].half().numpy()  # any kind of code is made from halves
            blank = features.blank[:count].numpy()
        except Exception as error:
            said = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            return {"vectors": b"", "shape": pickle.dumps((0, 0, 0)), "blank": b"", "error": said}
        return {
            "vectors": vectors.tobytes(),
            "shape": pickle.dumps(vectors.shape),
            "blank": blank.tobytes(),
            "error": "",
        }


def notes_of(row: RayRow) -> Iterable[tuple[Note, NDArray[np.float16] | None, NDArray[np.bool_] | None]]:
    """Each note of a row that :class:`Embedder` gave, with the features and blanks of its frames."""
    shape = pickle.loads(row["shape"])
    vectors = np.frombuffer(row["vectors"], np.float16).reshape(shape)
    blank = np.frombuffer(row["blank"], np.bool_)
    start = 0
    for note in pickle.loads(row["notes"]):
        if isinstance(note, Sampled):
            stop = start + len(note.timestamps)
            yield note, vectors[start:stop], blank[start:stop]
            start = stop
        else:
            yield note, None, None


def _as_row(found: FoundFile) -> RayRow:
    return {"look": pickle.dumps(found)}


def _node() -> str:
    import ray

    return str(ray.util.get_node_ip_address())
