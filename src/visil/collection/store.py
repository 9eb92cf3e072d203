"""Features on disk: one safetensors file a video, written as they come and visible only when whole.

A file is readable by any safetensors reader: ``vectors`` float16 [T, R, C], ``timestamps`` float64 [T], ``blank``
bool [T], and in its metadata the duration and a checksum. Vectors in fewer bytes (:mod:`visil.model.codes`) are
``codes``
[T, R, ...] and ``scales`` float16 [T, R] instead; the metadata then name their kind and the number of channels.

A file is written front to back while the video is decoded, with room left for the header, so a ten-hour video needs no
more memory than a short one.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.collection.catalogue import Video
from visil.collection.identity import Stamp
from visil.errors import IndexFolderError, printable
from visil.model.codes import Coded, Codes, checked, decode, encode
from visil.model.features import VideoFeatures

logger = logging.getLogger("visil")

DTYPES: dict[Codes, str] = {"fp16": "F16", "int8": "I8", "binary": "U8"}
"""Of vectors or codes, as safetensors names them."""

CHUNK = 1024
"""Frames that are read, or decoded, at once."""

HEADER_BYTES = 1024
"""Room for the header: the format allows trailing blanks."""

WARNINGS = 5
"""Unreadable feature files that are named one by one; of more than so many, one line says that there are more."""


class FeatureStore:
    """A folder of feature files by content id. ``codes`` is what new ones are written as; all kinds are read."""

    def __init__(self, folder: Path, codes: Codes = "fp16") -> None:
        self.folder = folder
        self.codes = codes
        self._warned: set[str] = set()

    def path(self, video: str) -> Path:
        """Where a video's features are, or would be."""
        return self.folder / video[:2] / f"{video}.safetensors"

    def writer(self, video: str) -> FeatureWriter:
        """To write a video's features part by part."""
        return FeatureWriter(self.path(video), self.codes)

    def read(self, video: str, *, path: str | None = None) -> VideoFeatures:
        """A video's features. Those kept as fp16 are mapped into memory: only what is touched is read."""
        return features_in(self.path(video), path)

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

    def glimpses(self, videos: Iterable[Video]) -> Iterator[VideoFeatures]:
        """At least the middle frame that is not blank of each readable video: all of them, where that costs nothing."""
        for _, features in self.readable(videos):
            yield features

    def warn(self, video: Video, error: IndexFolderError) -> None:
        """Say that a video is left out of an answer, why, and what mends it."""
        if video.id in self._warned:
            return
        self._warned.add(video.id)
        if len(self._warned) <= WARNINGS:
            logger.warning("%s is left out: %s", printable(video.path), error)
        elif len(self._warned) == WARNINGS + 1:
            logger.warning("more videos are left out: `visil verify` names all whose features are unreadable")

    def stamp(self, video: str) -> Stamp | None:
        """What tells that a feature file has changed; None where there is none."""
        try:
            status = self.path(video).stat()
        except OSError:
            return None
        return Stamp(status.st_size, status.st_mtime_ns)

    def sound(self, video: str) -> str | None:
        """What is wrong with a feature file, None where nothing is: reads all of it."""
        from safetensors import SafetensorError, safe_open

        file = self.path(video)
        if not file.exists():
            return "missing"
        try:
            with safe_open(file, "pt") as opened:
                metadata = opened.metadata()
                expected = int(metadata["checksum"])
                crc = 0
                coded = "codes" in metadata
                vectors = opened.get_slice("codes" if coded else "vectors")
                for start in range(0, vectors.get_shape()[0], CHUNK):
                    crc = zlib.crc32(_bytes_of(vectors[start : start + CHUNK]), crc)
                for name in ("timestamps", "scales", "blank") if coded else ("timestamps", "blank"):
                    crc = zlib.crc32(_bytes_of(opened.get_tensor(name)), crc)
                if coded:
                    crc = zlib.crc32(_description(metadata), crc)
        except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
            return f"damaged ({str(error).splitlines()[0][:80]})"
        return None if crc == expected else "damaged (its checksum differs)"

    def remove(self, video: str) -> None:
        """Delete a video's features."""
        self.path(video).unlink(missing_ok=True)

    def ids(self) -> Iterator[str]:
        """The videos that have a file here."""
        for file in self.folder.glob("??/*.safetensors"):
            if not file.name.startswith("."):
                yield file.stem

    def clear_leftovers(self) -> None:
        """Delete what killed processes left half-written; files that a process is writing now are locked, and stay."""
        for part in self.folder.glob("??/.*.part"):
            with suppress(OSError), part.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink(missing_ok=True)


def features_in(file: Path, path: str | None = None) -> VideoFeatures:
    """The features in a file, of the video at ``path``."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, "pt") as opened:
            vectors, timestamps = _vectors(opened), opened.get_tensor("timestamps")
            blank = opened.get_tensor("blank")
            duration = float(opened.metadata()["duration"])
        return VideoFeatures(vectors, timestamps, duration, path, blank)
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        reason = "is missing" if isinstance(error, FileNotFoundError) else "is damaged"
        raise IndexFolderError(
            file, f"{reason}; `visil verify --repair` takes it out, adding mends it"
        ) from error


class FeatureWriter:
    """Appends features to a file that nobody sees until :meth:`finish`; :meth:`discard` leaves nothing behind.

    ``finish`` is two steps: :meth:`seal`, which may take a while, and :meth:`place`, which does not.
    """

    def __init__(self, target: Path, codes: Codes = "fp16") -> None:
        self.target = target
        self.codes = codes
        self._shape: tuple[int, int] | None = None
        self._channels = 0
        self._scales: list[Tensor] = []
        self._times: list[NDArray[np.float64]] = []
        self._blank: list[Tensor] = []
        self._frames = 0
        self._crc = 0
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, self._part = _locked_part(target)
        except OSError as error:
            raise IndexFolderError(target.parent, _plain(error)) from error
        self._file = os.fdopen(handle, "wb")
        self._write(b" " * (8 + HEADER_BYTES))

    def append(self, vectors: Tensor, timestamps: NDArray[np.float64], blank: Tensor) -> None:
        """Some frames more: [t, R, C], [t] and which are blank [t]."""
        coded = encode(vectors, self.codes)
        self._blank.append(blank)
        if coded.scales is not None:
            self._scales.append(coded.scales)
        data = _bytes_of(coded.values)
        self._shape = (int(coded.values.shape[1]), int(coded.values.shape[2]))
        self._channels = coded.channels
        self._crc = zlib.crc32(data, self._crc)
        self._write(data)
        self._frames += len(timestamps)
        self._times.append(timestamps)

    def finish(self, duration: float) -> int:
        """Write the header, and put the file in its place. Returns the number of frames."""
        frames = self.seal(duration)
        self.place()
        return frames

    def seal(self, duration: float) -> int:
        """Write the header and bring everything to the disk. Returns the number of frames."""
        assert self._shape is not None, "a video has at least one frame"
        coded = self.codes != "fp16"
        times = np.concatenate(self._times).astype("<f8").tobytes()
        tail = {"timestamps": ("F64", [self._frames], times)}
        if coded:
            scales = torch.cat(self._scales)
            tail["scales"] = ("F16", list(scales.shape), _bytes_of(scales))
        tail["blank"] = ("BOOL", [self._frames], _bytes_of(torch.cat(self._blank)))
        self._crc = zlib.crc32(b"".join(data for _, _, data in tail.values()), self._crc)

        metadata = {"format": "pt", "duration": repr(float(duration))}
        if coded:
            metadata |= {"codes": self.codes, "channels": str(self._channels)}
            self._crc = zlib.crc32(_description(metadata), self._crc)
        metadata["checksum"] = str(self._crc)
        end = self._file.tell() - (8 + HEADER_BYTES)
        gap = -end % 8  # float64 must lie on a multiple of eight to be mapped
        header: dict[str, object] = {
            "__metadata__": metadata,
            "codes" if coded else "vectors": {
                "dtype": DTYPES[self.codes],
                "shape": [self._frames, *self._shape],
                "data_offsets": [0, end],
            },
        }
        if gap:
            header["gap"] = {"dtype": "U8", "shape": [gap], "data_offsets": [end, end + gap]}
            self._write(bytes(gap))
        at = end + gap
        for name, (dtype, shape, data) in tail.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
            self._write(data)
            at += len(data)
        try:
            self._file.seek(0)
            self._file.write(
                HEADER_BYTES.to_bytes(8, "little") + json.dumps(header).encode().ljust(HEADER_BYTES)
            )
            self._file.flush()
            os.fsync(self._file.fileno())
            os.chmod(self._part, 0o644)
        except OSError as error:
            self.discard()
            raise IndexFolderError(self.target.parent, _plain(error)) from error
        return self._frames

    def place(self) -> None:
        """Put the sealed file in its place; until then its lock keeps it from being cleared as a leftover."""
        try:
            os.replace(self._part, self.target)
            self._file.close()
        except OSError as error:
            self.discard()
            raise IndexFolderError(self.target.parent, _plain(error)) from error

    def discard(self) -> None:
        """Forget what was written."""
        with suppress(OSError):  # a full disk refuses the last buffer; the file goes anyway
            self._file.close()
        self._part.unlink(missing_ok=True)

    def _write(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            self.discard()
            raise IndexFolderError(self.target.parent, _plain(error)) from error


def _locked_part(target: Path) -> tuple[int, Path]:
    """A fresh file beside ``target``, with a lock that says that someone is alive who writes it."""
    while True:
        handle, name = tempfile.mkstemp(prefix=f".{target.stem}.", suffix=".part", dir=target.parent)
        fcntl.flock(handle, fcntl.LOCK_SH)
        if os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)  # another process took it for a leftover before the lock was on it


def _vectors(opened: Any) -> Tensor:
    """Vectors of an open file: mapped where they are fp16, decoded some frames at a time where they are not."""
    metadata = opened.metadata()
    if "codes" not in metadata:
        vectors: Tensor = opened.get_tensor("vectors")
        return vectors
    kind, channels = checked(metadata["codes"]), int(metadata["channels"])
    codes, scales = opened.get_slice("codes"), opened.get_tensor("scales")
    frames, regions, _ = codes.get_shape()
    decoded = torch.empty(frames, regions, channels, dtype=torch.float16)
    for start in range(0, frames, CHUNK):
        part = slice(start, start + CHUNK)
        decoded[part] = decode(Coded(kind, codes[part], scales[part], channels))
    return decoded


def _description(metadata: Mapping[str, str]) -> bytes:
    """What the checksum covers of the metadata: without it, codes cannot be decoded."""
    return f"{metadata['codes']} {metadata['channels']}".encode()


def _bytes_of(tensor: Tensor) -> bytes:
    return tensor.contiguous().numpy().tobytes()


def _plain(error: OSError) -> str:
    if error.errno == 28:
        return "the disk is full; what was added before is safe"
    return f"cannot be written to ({(error.strerror or str(error)).lower()})"
