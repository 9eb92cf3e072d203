"""MP4 files whose clock is missing: a time scale of 0 ticks a second, which FFmpeg takes for 1."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

INSIDE = (b"moov", b"trak", b"mdia")
"""Boxes that lead to the headers."""

DEEPEST = 4


def has_no_clock(container: InputContainer, stream: VideoStream, path: str | PathLike[str]) -> bool:
    """Whether the stamps of a file mean nothing: the header of some track counts no ticks a second."""
    if stream.time_base != 1 or "mp4" not in container.format.name:
        return False
    try:
        with Path(path).open("rb") as file:
            return _has_no_clock(file, 0, Path(path).stat().st_size, DEEPEST)
    except OSError:
        return False


def _has_no_clock(file: BinaryIO, at: int, end: int, depth: int) -> bool:
    while depth and at + 8 <= end:
        file.seek(at)
        header = file.read(32)
        size, head = int.from_bytes(header[:4], "big"), 8
        if size == 1:
            size, head = int.from_bytes(header[8:16], "big"), 16
        elif size == 0:
            size = end - at
        if size < head:
            return False  # damaged
        name, body = header[4:8], header[head:]
        if name == b"mdhd" and not any(body[20:24] if body[:1] == b"\1" else body[12:16]):
            return True
        if name in INSIDE and _has_no_clock(file, at + head, min(at + size, end), depth - 1):
            return True
        at += size
    return False
