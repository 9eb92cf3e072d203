"""Features on disk: one safetensors file a video, written as they come and visible only when whole.

A file is readable by any safetensors reader: ``vectors`` float16 [T, R, C], ``timestamps`` float64 [T], ``blank``
bool [T], and in its metadata the duration, a checksum and the video's id. Vectors in fewer bytes
(:mod:`visil.model.codes`) are ``codes`` [T, R, ...] and ``scales`` float16 [T, R] instead; the metadata then name their
kind and how many channels.

A file is written front to back while the video is decoded, with room left for the header, so a ten-hour video needs no
more memory than a short one (:mod:`visil.collection.feature_writer`).
"""

from __future__ import annotations

import logging
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visil.collection.feature_writer import FeatureCopy, FeatureWriter, clear_parts, description
from visil.collection.identity import Stamp
from visil.errors import IndexFolderError, printable
from visil.files import delete_unless_in_use
from visil.model.code_kinds import checked

if TYPE_CHECKING:
    from torch import Tensor

    from visil.collection.catalogue import Video
    from visil.model.code_kinds import Codes
    from visil.model.features import VideoFeatures

logger = logging.getLogger("visil")

CHUNK = 1024
"""Frames that are read, or decoded, at once."""

WARNINGS = 5
"""Unreadable feature files that are named one by one; of more than so many, one line says that there are more."""


class Features(ABC):
    """The features of a collection by content id, wherever they lie.

    ``codes`` is what new ones are written as; all kinds are read.
    """

    def __init__(self, codes: Codes = "fp16") -> None:
        self.codes = codes
        self.tell: Callable[[Video, IndexFolderError], None] | None = None
        """Who is told that a video is left out; None: the log."""
        self._warned: set[str] = set()

    @abstractmethod
    def path(self, video: str) -> Path:
        """Where a video's features are on this machine, or would be."""

    @abstractmethod
    def writer(self, video: str) -> FeatureWriter:
        """To write a video's features part by part."""

    @abstractmethod
    def read(self, video: str, *, path: str | None = None) -> VideoFeatures:
        """A video's features; an IndexFolderError where they cannot be read."""

    @abstractmethod
    def ids(self) -> Iterator[str]:
        """The videos that have features here."""

    def try_read(self, video: Video) -> VideoFeatures | None:
        """A video's features; where they cannot be read, None and one line of warning, once for each video."""
        try:
            return self.read(video.id, path=video.path)
        except IndexFolderError as error:
            self.warn(video, error)
            return None

    def readable(self, videos: Iterable[Video]) -> Iterator[tuple[Video, VideoFeatures]]:
        """Videos with their features, one at a time, those left out that cannot be read: see :meth:`try_read`."""
        for video in videos:
            features = self.try_read(video)
            if features is not None:
                yield video, features

    def warn(self, video: Video, error: IndexFolderError) -> None:
        """Say that a video is left out of an answer, why, and what mends it."""
        if video.id in self._warned:
            return
        self._warned.add(video.id)
        if self.tell is not None:
            self.tell(video, error)
            return
        if len(self._warned) <= WARNINGS:
            logger.warning("%s is left out: %s", printable(video.path), error)
        elif len(self._warned) == WARNINGS + 1:
            logger.warning("more videos are left out: `visil verify` names all whose features are unreadable")


class PartFeatures(Features):
    """The features of one part of a collection: also moved, checked and deleted here."""

    @abstractmethod
    def file(self, video: str) -> Path:
        """A video's features as a file on this machine, fetched where need be."""

    @abstractmethod
    def copy(self, video: str) -> FeatureCopy:
        """To put a video's features here that come from another part."""

    @abstractmethod
    def stamp(self, video: str) -> Stamp | None:
        """Tells that a video's features have changed; None where there are none."""

    @abstractmethod
    def sound(self, video: str) -> str | None:
        """The fault in a video's features; None where there is none. Reads all of them."""

    @abstractmethod
    def remove(self, video: str) -> None:
        """Delete a video's features."""

    @abstractmethod
    def clear_leftovers(self) -> None:
        """Delete what killed processes left half-written."""

    def glimpses(self, videos: Iterable[Video]) -> Iterator[tuple[Video, VideoFeatures]]:
        """At least the middle frame that is not blank of each readable video: all of them, where that costs nothing."""
        return self.readable(videos)


class FeatureStore(PartFeatures):
    """A folder of feature files."""

    def __init__(self, folder: Path, codes: Codes = "fp16") -> None:
        super().__init__(codes)
        self.folder = folder

    def path(self, video: str) -> Path:
        """Where a video's features are, or would be."""
        return self.folder / video[:2] / f"{video}.safetensors"

    def writer(self, video: str) -> FeatureWriter:
        """To write a video's features part by part."""
        return FeatureWriter(self.path(video), video, self.codes)

    def read(self, video: str, *, path: str | None = None) -> VideoFeatures:
        """A video's features. Those kept as fp16 are mapped into memory, and read where touched."""
        return features_in(self.path(video), path, video)

    def file(self, video: str) -> Path:
        """See :meth:`PartFeatures.file`."""
        return self.path(video)

    def copy(self, video: str) -> FeatureCopy:
        """See :meth:`PartFeatures.copy`."""
        return FeatureCopy(self.path(video))

    def stamp(self, video: str) -> Stamp | None:
        """Tells that a feature file has changed; None where there is none."""
        try:
            status = self.path(video).stat()
        except OSError:
            return None
        return Stamp(status.st_size, status.st_mtime_ns)

    def sound(self, video: str) -> str | None:
        """The fault in a feature file; None where there is none. Reads all of it."""
        from safetensors import SafetensorError, safe_open

        file = self.path(video)
        if not file.exists():
            return "missing"
        try:
            with safe_open(file, "np") as opened:
                metadata = opened.metadata()
                expected = int(metadata["checksum"])
                if metadata.get("video", video) != video:
                    return "another video's"
                crc = 0
                coded = "codes" in metadata
                vectors = opened.get_slice("codes" if coded else "vectors")
                frames = vectors.get_shape()[0]
                for start in range(0, frames, CHUNK):
                    crc = zlib.crc32(vectors[start : min(start + CHUNK, frames)].tobytes(), crc)
                for name in ("timestamps", "scales", "blank") if coded else ("timestamps", "blank"):
                    crc = zlib.crc32(opened.get_tensor(name).tobytes(), crc)
                if coded:
                    crc = zlib.crc32(description(metadata), crc)
        except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
            return f"damaged ({str(error).splitlines()[0][:80]})"
        return None if crc == expected else "damaged (its checksum differs)"

    def channels(self, video: str) -> int | None:
        """How wide a video's vectors are, by its file's header alone; None where that cannot be read."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.path(video), "np") as opened:
                metadata = opened.metadata()
                coded = "codes" in metadata
                return int(metadata["channels"] if coded else opened.get_slice("vectors").get_shape()[-1])
        except (OSError, SafetensorError, KeyError, ValueError, TypeError):
            return None

    def remove(self, video: str) -> None:
        """Delete a video's features."""
        delete_unless_in_use(self.path(video))

    def ids(self) -> Iterator[str]:
        """The videos that have a file here."""
        for file in self.folder.glob("??/*.safetensors"):
            if not file.name.startswith("."):
                yield file.stem

    def clear_leftovers(self) -> None:
        """See :meth:`PartFeatures.clear_leftovers`."""
        clear_parts(self.folder.glob("??/.*.part"))


def features_in(file: Path, path: str | None = None, video: str | None = None) -> VideoFeatures:
    """The features in a file, of the video at ``path``; those of another ``video`` are refused, where the file says."""
    from safetensors import SafetensorError, safe_open

    from visil.model.features import VideoFeatures

    try:
        with safe_open(file, "pt") as opened:
            vectors, timestamps = _vectors(opened), opened.get_tensor("timestamps")
            blank = opened.get_tensor("blank")
            metadata = opened.metadata()
            duration = float(metadata["duration"])
            if video is not None and metadata.get("video", video) != video:
                raise ValueError(metadata["video"])
        return VideoFeatures(vectors, timestamps, duration, path, blank)
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        reason = "is missing" if isinstance(error, FileNotFoundError) else "is damaged"
        raise IndexFolderError(
            file, f"{reason}; `visil verify --repair` takes it out, adding mends it"
        ) from error


def _vectors(opened: Any) -> Tensor:
    """Vectors of an open file: mapped where they are fp16, decoded some frames at a time where they are not."""
    metadata = opened.metadata()
    if "codes" not in metadata:
        vectors: Tensor = opened.get_tensor("vectors")
        return vectors
    import torch

    from visil.model.codes import Coded, decode

    kind, channels = checked(metadata["codes"]), int(metadata["channels"])
    codes, scales = opened.get_slice("codes"), opened.get_tensor("scales")
    frames, regions, _ = codes.get_shape()
    decoded = torch.empty(frames, regions, channels, dtype=torch.float16)
    for start in range(0, frames, CHUNK):
        part = slice(start, start + CHUNK)
        decoded[part] = decode(Coded(kind, codes[part], scales[part], channels))
    return decoded
