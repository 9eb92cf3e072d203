"""A feature file while it is written or copied: seen by nobody until it is whole.

Both kinds write a file of another name, with a lock on it that says that someone is alive who writes it, and rename it.
Where the file is on its way to a store, ``placed`` sends it on.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from visil.collection.lock import lock_open_file
from visil.errors import IndexFolderError, os_reason
from visil.files import place_open_file

if TYPE_CHECKING:
    from torch import Tensor

    from visil.model.code_kinds import Codes

DTYPES: dict[Codes, str] = {"fp16": "F16", "int8": "I8", "binary": "U8"}
"""Of vectors or codes, as safetensors names them."""

HEADER_BYTES = 1024
"""Room for the header: the format allows trailing blanks."""

CLOSED_S = 60.0
"""On Windows a file is closed for a moment before it gets its name: one as fresh as that may be no leftover."""

Placed = Callable[[], object]
"""Called when a file is in its place."""


class FeatureWriter:
    """Appends features to a file that nobody sees until :meth:`finish`; :meth:`discard` leaves nothing behind.

    ``finish`` is two steps: :meth:`seal`, which may take a while, and :meth:`place`, which does not. A writer that has
    not begun may be sent to another process. What that has sealed is placed here, once it is taken over.
    """

    def __init__(self, target: Path, video: str, codes: Codes = "fp16", placed: Placed | None = None) -> None:
        self.target = target
        self.video = video
        """Id, which the file names: put in another's place, it is found out."""
        self.codes = codes
        self._placed = placed
        self._forget()

    def _forget(self) -> None:
        self.frames = 0
        """Frames written so far."""
        self._part: Path | None = None
        self._file: BinaryIO | None = None
        self._shape: tuple[int, int] | None = None
        self._channels = 0
        self._scales: list[Tensor] = []
        self._times: list[NDArray[np.float64]] = []
        self._blank: list[Tensor] = []
        self._crc = 0

    def __getstate__(self) -> dict[str, object]:
        assert self._file is None, "a file that is being written stays with its process"
        return {**self.__dict__, "_placed": None}

    def append(self, vectors: Tensor, timestamps: NDArray[np.float64], blank: Tensor) -> None:
        """Some frames more: [t, R, C], [t] and which are blank [t]."""
        from visil.model.codes import encode

        coded = encode(vectors, self.codes)
        if self._file is None:
            self._open()
        self._blank.append(blank)
        if coded.scales is not None:
            self._scales.append(coded.scales)
        data = bytes_of(coded.values)
        self._shape = (int(coded.values.shape[1]), int(coded.values.shape[2]))
        self._channels = coded.channels
        self._crc = zlib.crc32(data, self._crc)
        self._write(data)
        self.frames += len(timestamps)
        self._times.append(timestamps)

    def finish(self, duration: float) -> int:
        """Write the header, and put the file in its place. Returns the number of frames."""
        frames = self.seal(duration)
        self.place()
        return frames

    def seal(self, duration: float) -> int:
        """Write the header and bring everything to the disk. Returns the number of frames."""
        import torch

        assert self._shape is not None, "a video has at least one frame"
        assert self._file is not None
        assert self._part is not None
        coded = self.codes != "fp16"
        times = np.concatenate(self._times).astype("<f8").tobytes()
        tail = {"timestamps": ("F64", [self.frames], times)}
        if coded:
            scales = torch.cat(self._scales)
            tail["scales"] = ("F16", list(scales.shape), bytes_of(scales))
        tail["blank"] = ("BOOL", [self.frames], bytes_of(torch.cat(self._blank)))
        self._crc = zlib.crc32(b"".join(data for _, _, data in tail.values()), self._crc)

        metadata = {"format": "pt", "duration": repr(float(duration)), "video": self.video}
        if coded:
            metadata |= {"codes": self.codes, "channels": str(self._channels)}
            self._crc = zlib.crc32(description(metadata), self._crc)
        metadata["checksum"] = str(self._crc)
        end = self._file.tell() - (8 + HEADER_BYTES)
        gap = -end % 8  # float64 must lie on a multiple of eight to be mapped
        header: dict[str, object] = {
            "__metadata__": metadata,
            "codes" if coded else "vectors": {
                "dtype": DTYPES[self.codes],
                "shape": [self.frames, *self._shape],
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
        return self.frames

    @property
    def sealed(self) -> tuple[Path, int]:
        """The sealed file for another process to take over, and the handle that holds its lock."""
        assert self._file is not None
        assert self._part is not None
        return self._part, self._file.fileno()

    @property
    def last(self) -> float:
        """Seconds of the last frame."""
        return float(self._times[-1][-1])

    def take_over(self, sealed: Path, handle: int, frames: int) -> None:
        """A file of so many frames that another process has sealed, with the lock that ``handle`` holds."""
        self._part, self._file, self.frames = sealed, os.fdopen(handle, "rb"), frames

    def let_go(self) -> None:
        """Another process has the sealed file, and its lock."""
        assert self._file is not None
        self._file.close()
        self._forget()

    def place(self) -> None:
        """Put the sealed file in its place; until then its lock keeps it from being cleared as a leftover."""
        assert self._file is not None
        assert self._part is not None
        try:
            place_open_file(self._file, self._part, self.target)
        except OSError as error:
            self.discard()
            raise IndexFolderError(self.target.parent, _plain(error)) from error
        if self._placed is not None:
            self._placed()

    def discard(self) -> None:
        """Forget what was written; it may be written anew."""
        if self._file is not None:
            with suppress(OSError):  # a full disk refuses the last buffer; the file goes anyway
                self._file.close()
        if self._part is not None:
            self._part.unlink(missing_ok=True)
        self._forget()

    def clear_leftovers(self) -> None:
        """Delete what a process that has died left of this file."""
        clear_parts(self.target.parent.glob(f".{self.target.stem}.*.part"))

    def _open(self) -> None:
        try:
            handle, self._part = _locked_part(self.target)
        except OSError as error:
            raise IndexFolderError(self.target.parent, _plain(error)) from error
        self._file = os.fdopen(handle, "wb")
        self._write(b" " * (8 + HEADER_BYTES))

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        try:
            self._file.write(data)
        except OSError as error:
            self.discard()
            raise IndexFolderError(self.target.parent, _plain(error)) from error


class FeatureCopy:
    """A feature file that comes from another collection, byte by byte; :meth:`discard` leaves nothing behind."""

    def __init__(self, target: Path, placed: Placed | None = None) -> None:
        self.target = target
        self._placed = placed
        try:
            handle, self._part = _locked_part(target)
        except OSError as error:
            raise IndexFolderError(target.parent, _plain(error)) from error
        self._file = os.fdopen(handle, "wb")
        self._link = self._part.with_name(f"{self._part.stem}.link.part")
        self._source: Path | None = None

    def append(self, data: bytes) -> None:
        """Some bytes more."""
        try:
            self._file.write(data)
        except OSError as error:
            self._fail(error)

    def take(self, file: str | os.PathLike[str]) -> None:
        """All of another file: the same blocks of the disk where it can be (feature files are never changed)."""
        try:
            os.link(file, self._link)
            self._link.unlink()
            self._source = Path(file)
        except OSError:
            try:
                with open(file, "rb") as source:
                    shutil.copyfileobj(source, self._file, 1 << 20)
            except OSError as error:
                self.discard()
                raise IndexFolderError(file, _plain(error)) from error

    def seal(self) -> None:
        """Bring everything to the disk."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            os.chmod(self._part, 0o644)
        except OSError as error:
            self._fail(error)

    def place(self) -> None:
        """Put the sealed file in its place; until then its lock keeps it from being cleared as a leftover."""
        try:
            if self._source is not None:
                os.link(self._source, self._link)
                os.replace(self._link, self.target)
                self._link.unlink(missing_ok=True)  # two names of one file: replacing does nothing
                self.discard()
            else:
                place_open_file(self._file, self._part, self.target)
        except OSError as error:
            self._fail(error)
        if self._placed is not None:
            self._placed()

    def discard(self) -> None:
        """Forget what was written."""
        with suppress(OSError):  # a full disk refuses the last buffer; the file goes anyway
            self._file.close()
        self._part.unlink(missing_ok=True)

    def _fail(self, error: OSError) -> None:
        self.discard()
        raise IndexFolderError(self.target.parent, _plain(error)) from error


def clear_parts(parts: Iterable[Path]) -> None:
    """Delete half-written files; those that a process is writing now are locked, and stay."""
    for part in parts:
        with suppress(OSError):
            if sys.platform == "win32":
                if time.time() - part.stat().st_mtime > CLOSED_S:
                    part.unlink()  # refused while anybody has it open
                continue
            with part.open("rb") as file:
                if lock_open_file(file.fileno(), wait=False):
                    part.unlink(missing_ok=True)


def _locked_part(target: Path) -> tuple[int, Path]:
    """A fresh file beside ``target``, with a lock that says that someone is alive who writes it."""
    while True:
        try:
            handle, name = tempfile.mkstemp(prefix=f".{target.stem}.", suffix=".part", dir=target.parent)
        except FileNotFoundError:  # the first of its folder
            target.parent.mkdir(parents=True, exist_ok=True)
            continue
        lock_open_file(handle, wait=True)
        if os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)  # another process took it for a leftover before the lock was on it


def description(metadata: Mapping[str, str]) -> bytes:
    """The metadata that the checksum covers: without it, codes cannot be decoded."""
    return f"{metadata['codes']} {metadata['channels']}".encode()


def bytes_of(tensor: Tensor) -> bytes:
    """As they lie in a file."""
    return tensor.contiguous().numpy().tobytes()


def _plain(error: OSError) -> str:
    if error.errno == 28:
        return "the disk is full; what was added before is safe"
    return f"cannot be written to ({os_reason(error)})"
