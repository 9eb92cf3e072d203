"""The signs of a collection's vectors in one file, a record a video: a cache that can be made anew at any time.

The file is a header, which says whose vectors these are, and records in the order in which they were appended. Each has
a checksum of its own. A process that is killed leaves whole records, and perhaps a half one at the end; what is not
sound is never handed out, and goes when the file is next written anew. Nothing is ever changed in place or cut off, so
readers may keep the file mapped.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visil.files import replacing

Signs = NDArray[np.uint8]
"""[R, T, W]: of each region, of each frame, one bit a channel as :mod:`visil.model.codes` packs them."""

MARK = b"visil signs 1\n\0\0"
HEADER = struct.Struct("<16s32sII")
"""Mark, fingerprint of the model, channels, checksum of these."""
HEAD = struct.Struct("<q16sIIII")
"""Of a record: number and id of the video, regions, frames, checksum of the signs, checksum of all this."""


@dataclass(frozen=True, eq=False, slots=True)
class Record:
    """The signs of one video."""

    number: int
    id: str
    signs: Signs

    def to_bytes(self) -> bytes:
        """As it stands in the file."""
        signs = self.signs.tobytes()
        head = (self.number, bytes.fromhex(self.id), *self.signs.shape[:2], zlib.crc32(signs))
        return HEAD.pack(*head, _checksum(HEAD.pack(*head, 0))) + signs


class SignFile:
    """The file at ``path`` for vectors of so many ``channels`` by the model of a ``fingerprint``."""

    def __init__(self, path: Path, fingerprint: str, channels: int) -> None:
        self.path = path
        self.records: dict[int, Record] = {}
        """By number, as last read: all that is sound."""
        self.sound = False
        """Whether there is nothing else in the file, so that it may be appended to."""
        self._width = -(-channels // 8)
        start = (MARK, fingerprint.encode(), channels)
        self._header = HEADER.pack(*start, _checksum(HEADER.pack(*start, 0)))
        self._file: tuple[int, int] | None = None
        self._end = 0

    def load(self) -> None:
        """Read the file; where it has only grown, its new records."""
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                # Windows would not replace a file that is mapped.
                windows = sys.platform == "win32"
                mapped = (
                    file.read()
                    if windows
                    else mmap.mmap(file.fileno(), status.st_size, access=mmap.ACCESS_COPY)
                )
        except (OSError, ValueError):  # an empty file cannot be mapped
            self._forget()
            return
        data = np.frombuffer(mapped, np.uint8)
        if self._file != (status.st_dev, status.st_ino) or len(data) < self._end or not self.sound:
            self._forget()
            if mapped[: HEADER.size] != self._header:
                return
            self._file, self._end = (status.st_dev, status.st_ino), HEADER.size
        self.sound = True
        self._read(data)

    def _forget(self) -> None:
        self.records, self.sound, self._file, self._end = {}, False, None, 0

    def _read(self, data: Signs) -> None:
        while self._end < len(data):
            start = self._end + HEAD.size
            head = data[self._end : start].tobytes()
            if len(head) < HEAD.size or HEAD.unpack(head)[-1] != _checksum(head):
                self.sound = False
                return  # where the next one begins is not known
            number, name, regions, frames, checksum, _ = HEAD.unpack(head)
            stop = start + regions * frames * self._width
            if stop > len(data):
                self.sound = False
                return
            signs = data[start:stop]
            if zlib.crc32(signs.data) == checksum:
                shaped = signs.reshape(regions, frames, self._width)
                self.records[number] = Record(number, name.hex(), shaped)
            else:
                self.sound = False
            self._end = stop

    def write_anew(self, videos: Mapping[int, str]) -> None:
        """A fresh file in place of this one with the records of ``videos`` ({number: id}) that are sound."""
        clear_leftovers(self.path)
        with replacing(self.path) as fresh, fresh.open("wb") as file:
            file.write(self._header)
            for record in self.records.values():
                if videos.get(record.number) == record.id:
                    file.write(record.to_bytes())
        self.load()

    @contextmanager
    def appending(self) -> Iterator[Callable[[Record], object]]:
        """Gives what writes one record more; they are in ``records`` when the block has ended."""
        try:
            with self.path.open("ab") as file:
                yield lambda record: file.write(record.to_bytes())
        finally:
            self.load()


def clear_leftovers(path: Path) -> None:
    """Delete what killed processes left of writing ``path`` anew; only for who holds its lock."""
    for leftover in path.parent.glob(f".visil-*{path.suffix}"):
        with suppress(OSError):
            leftover.unlink()


def _checksum(packed: bytes) -> int:
    """Of all but the last four bytes, where it stands itself."""
    return zlib.crc32(packed[:-4])
