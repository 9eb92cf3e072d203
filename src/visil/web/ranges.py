"""Files over HTTP, whole or in parts, read from the very file that was checked."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import AsyncIterator
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote

import anyio
from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from visil.web.problems import Problem

CHUNK = 1 << 18
TYPES = {
    ".mp4": "video/mp4",
    ".m4v": "video/mp4",
    ".mov": "video/quicktime",
    ".webm": "video/webm",
    ".mkv": "video/x-matroska",
    ".ogv": "video/ogg",
    ".ogm": "video/ogg",
    ".avi": "video/x-msvideo",
    ".wmv": "video/x-ms-wmv",
    ".flv": "video/x-flv",
    ".mpg": "video/mpeg",
    ".mpeg": "video/mpeg",
    ".ts": "video/mp2t",
    ".m2ts": "video/mp2t",
    ".mts": "video/mp2t",
    ".3gp": "video/3gpp",
    ".gif": "image/gif",
}
READING = os.O_RDONLY
if sys.platform == "win32":
    READING |= os.O_BINARY
else:
    READING |= os.O_NONBLOCK | os.O_CLOEXEC  # a pipe that takes a file's place holds nobody up
RANGE = re.compile(r"bytes=(\d*)-(\d*)$")


def wanted(header: str | None, size: int) -> tuple[int, int] | None:
    """First and last byte that a Range header asks for; None: all. A ValueError where there are no such bytes.

    Several ranges in one header, and other headers, are answered with everything, as the standard allows.
    """
    found = RANGE.match(header.strip()) if header else None
    if found is None or not any(found.groups()):
        return None
    first, last = found.groups()
    if len(first) > 18 or len(last) > 18:
        raise ValueError(header)
    if not first:
        if int(last) == 0 or size == 0:
            raise ValueError(header)
        return max(0, size - int(last)), size - 1
    start, end = int(first), int(last) if last else size - 1
    if last and end < start:
        return None
    if start >= size:
        raise ValueError(header)
    return start, min(end, size - 1)


def send_file(
    request: Request,
    path: Path,
    name: str,
    readers: anyio.CapacityLimiter,
    stamp: tuple[int, int] | None = None,
) -> Response:
    """A regular file with Range support, read in threads of ``readers``.

    ``stamp``, size and time of change in ns, says which file is meant.
    """
    try:
        file = os.open(path, READING)
    except OSError:
        raise Problem(404, "The file is not there any more, or cannot be read.") from None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or (stamp and stamp != (status.st_size, status.st_mtime_ns)):
            raise Problem(404, "The file has changed since it was added; add it again.")
        return _response(request, file, status, path, name, readers)
    except BaseException:
        os.close(file)
        raise


def _response(
    request: Request,
    file: int,
    status: os.stat_result,
    path: Path,
    name: str,
    readers: anyio.CapacityLimiter,
) -> Response:
    size = status.st_size
    tag = f'"{size:x}-{status.st_mtime_ns:x}"'
    changed = formatdate(status.st_mtime, usegmt=True)
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": tag,
        "Last-Modified": changed,
        "Cache-Control": "private, no-cache",
        "Content-Disposition": f"inline; filename*=utf-8''{quote(name, safe='')}",
    }
    kind = TYPES.get(path.suffix.lower(), "application/octet-stream")
    if request.headers.get("if-none-match") == tag:
        os.close(file)
        return Response(status_code=304, headers=headers)
    condition = request.headers.get("if-range")
    asked = request.headers.get("range") if condition in (None, tag, changed) else None
    try:
        part = wanted(asked, size)
    except ValueError:
        problem = Problem(416, "The file is not that long.").response()
        problem.headers["Content-Range"] = f"bytes */{size}"
        os.close(file)
        return problem
    first, last = part or (0, size - 1)
    headers["Content-Length"] = str(last - first + 1)
    if part is not None:
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    code = 200 if part is None else 206
    if request.method == "HEAD":
        os.close(file)
        return Response(status_code=code, headers=headers, media_type=kind)
    return StreamingResponse(_Chunks(file, first, last, readers), code, headers, kind)


class _Chunks:
    """Some bytes of an open file, which is closed when they were sent or nobody wants them any more."""

    def __init__(self, file: int, first: int, last: int, readers: anyio.CapacityLimiter) -> None:
        self._file = file
        self._readers = readers
        self._at = first
        self._last = last
        self._open = True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        count = min(CHUNK, self._last + 1 - self._at)
        data = b""
        if count > 0:
            data = await anyio.to_thread.run_sync(self._read, count, limiter=self._readers)
        if not data:
            self._close()
            raise StopAsyncIteration
        self._at += len(data)
        return data

    def _read(self, count: int) -> bytes:
        os.lseek(self._file, self._at, os.SEEK_SET)
        return os.read(self._file, count)

    def _close(self) -> None:
        if self._open:
            self._open = False
            os.close(self._file)

    def __del__(self) -> None:
        self._close()
