"""Files that callers send: streamed to disk, bounded in every way, deleted after use."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from visil.errors import VideoError, printable
from visil.video import VIDEO_SUFFIXES, VideoInfo
from visil.web.problems import Problem
from visil.web.sandbox import Decoder
from visil.web.settings import MIB, Limits

LOOK_EVERY_S = 20.0
TOO_SLOW = "The file came too slowly, and was given up."


@dataclass
class Uploaded:
    """One file that was sent."""

    id: str
    name: str
    path: Path
    size: int
    facts: VideoInfo
    used: float = field(default_factory=time.monotonic)
    pictures: dict[str, bytes] = field(default_factory=dict)
    """Thumbnails made so far: they go with the file."""
    jobs: set[str] = field(default_factory=set)
    """Jobs that are not over and need it."""


class Uploads:
    """A folder of them; none survives the server."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.folder = folder
        self.limits = limits
        self.line = UploadLine(limits)
        self._kept: dict[str, Uploaded] = {}
        self._under_way: dict[str, int] = {}
        """Bytes so far of those that are being sent."""

    async def receive(
        self, name: str, length: int | None, body: AsyncIterator[bytes], caller: str = ""
    ) -> Uploaded:
        """Take in a file once its caller's turn has come; whatever goes wrong, nothing of it stays."""
        if length is not None and length > self.limits.upload_bytes:
            raise self.too_large()
        async with self.line.lane(caller):
            return await self._take(name, length, body)

    async def _take(self, name: str, length: int | None, body: AsyncIterator[bytes]) -> Uploaded:
        self._check_room(length)
        key = secrets.token_hex(16)
        suffix = Path(name).suffix.lower()
        path = self.folder / f"{key}{suffix if suffix in VIDEO_SUFFIXES else '.video'}"
        self._under_way[key] = 0
        try:
            size = await self._write(key, path, body)
            if length is not None and size != length:
                raise Problem(400, "The file did not arrive whole.")
            if size == 0:
                raise Problem(422, "The file is empty.")
            facts = await self._look_at(path, name)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            del self._under_way[key]
        self._kept[key] = Uploaded(key, name, path, size, facts)
        return self._kept[key]

    def get(self, upload: str) -> Uploaded:
        """A file by its id, which counts as a use of it; a problem 404 where it is gone."""
        found = self._kept.get(upload)
        if found is None:
            raise Problem(
                404, "That upload is gone: uploaded files are deleted some time after use. Send it again."
            )
        found.used = time.monotonic()
        return found

    def delete(self, upload: str) -> None:
        """Delete a file now."""
        found = self._kept.pop(upload, None)
        if found is not None:
            found.path.unlink(missing_ok=True)

    def release(self, job: str) -> None:
        """A job is over: what only it needed may go when its time has come."""
        for one in self._kept.values():
            one.jobs.discard(job)

    def expires(self, one: Uploaded) -> float:
        """Seconds until a file is deleted, if nobody uses it."""
        return max(0.0, self.limits.upload_kept_s - (time.monotonic() - one.used))

    async def watch(self) -> None:
        """Delete files whose time has come, for as long as the server runs."""
        while True:
            await asyncio.sleep(min(LOOK_EVERY_S, self.limits.upload_kept_s))
            self.sweep()

    def sweep(self) -> None:
        """Delete files whose time has come."""
        for one in [one for one in self._kept.values() if not one.jobs and self.expires(one) == 0]:
            self.delete(one.id)

    def _check_room(self, length: int | None) -> None:
        limits = self.limits
        held = sum(one.size for one in self._kept.values()) + sum(self._under_way.values())
        room = limits.uploads_bytes - held - (length or 0)
        while room < 0 or len(self._kept) + len(self._under_way) >= limits.uploads:
            idle = [one for one in self._kept.values() if not one.jobs]
            if not idle:
                raise Problem(429, "Too many uploaded files are in use; try again later.", retry_after=60)
            oldest = min(idle, key=lambda one: one.used)
            room += oldest.size
            self.delete(oldest.id)
        if shutil.disk_usage(self.folder).free - (length or 0) < limits.disk_left:
            raise Problem(507, "The server's disk is too full for that file.")

    async def _write(self, key: str, path: Path, body: AsyncIterator[bytes]) -> int:
        limits, size = self.limits, 0
        until = time.monotonic() + limits.upload_transfer_s
        checked = 0
        waited, came = 0.0, 0  # in this window: seconds that the sender took, and bytes
        with path.open("wb") as file:
            os.chmod(path, 0o600)
            while True:
                began = time.monotonic()
                try:
                    wait = min(limits.upload_idle_s, until - began)
                    chunk = await asyncio.wait_for(anext(body), max(wait, 0.0))
                except StopAsyncIteration:
                    return size
                except TimeoutError:
                    raise Problem(408, TOO_SLOW) from None
                waited, came = waited + time.monotonic() - began, came + len(chunk)
                if waited >= limits.upload_window_s:
                    if came < waited * limits.upload_least_rate:
                        raise Problem(408, TOO_SLOW)
                    waited, came = 0.0, 0
                size += len(chunk)
                self._under_way[key] = size
                if size > limits.upload_bytes:
                    raise self.too_large()
                if size - checked > 16 * MIB:
                    checked = size
                    self._check_totals()
                try:
                    await asyncio.to_thread(file.write, chunk)
                except OSError as error:
                    raise Problem(507, "The server's disk is too full for that file.") from error

    def _check_totals(self) -> None:
        """For files of undeclared length, which count only as they come."""
        held = sum(one.size for one in self._kept.values()) + sum(self._under_way.values())
        with suppress(OSError):
            free = shutil.disk_usage(self.folder).free
            if held > self.limits.uploads_bytes or free < self.limits.disk_left:
                raise Problem(507, "The server has no more room for uploaded files.")

    async def _look_at(self, path: Path, name: str) -> VideoInfo:
        def probe() -> VideoInfo:
            with Decoder(self.limits) as decoder:  # a process of its own for a file from outside
                return decoder.probe(path)

        try:
            found = await asyncio.to_thread(probe)
            self.limits.check_length(name, found.duration)
        except VideoError as error:
            raise Problem(422, f"{name}: {error.reason}") from error
        return found

    def too_large(self) -> Problem:
        """The answer to a file that is too large."""
        most = self.limits.upload_bytes
        size = f"{most / 1e9:.1f} GB" if most >= 1e9 else f"{most / 1e6:.1f} MB"
        return Problem(
            413, f"A file sent here may have up to {size}; put it into a folder that this server may read."
        )


def clean_name(name: str) -> str:
    """A file name to show and to take a suffix from; it never becomes a path."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    return printable(last)[:200].strip() or "video"


class UploadLine:
    """Who sends, and who waits to."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.sending: Counter[str] = Counter()
        """Files that each caller is sending."""
        self.waiting: list[tuple[str, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def lane(self, caller: str) -> AsyncIterator[None]:
        """A lane of one's own, once one is free; a problem 429 where that takes too long."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((caller, turn))
        self._next()
        try:
            if not turn.done():
                await self._wait(caller, turn)
            yield
        finally:
            if (caller, turn) in self.waiting:
                self.waiting.remove((caller, turn))
            else:
                self.sending -= Counter([caller])
            self._next()

    async def _wait(self, caller: str, turn: asyncio.Future[None]) -> None:
        if len(self.waiting) > self.limits.uploads_waiting:
            raise Problem(429, "Too many files are waiting to be sent; try again later.", retry_after=30)
        try:
            await asyncio.wait_for(asyncio.shield(turn), self.limits.upload_wait_s)
        except TimeoutError:
            if not turn.done():
                why = "you are" if self.sending[caller] >= self.limits.uploads_of_one else "others are"
                detail = (
                    f"As many files are being sent as may be, and {why} not done yet; try again in a moment."
                )
                raise Problem(429, detail, retry_after=5) from None

    def _next(self) -> None:
        """Give free lanes to those who wait, first to whom has fewest, then to whom came first."""
        while self.sending.total() < self.limits.uploads_under_way:
            can = [one for one in self.waiting if self.sending[one[0]] < self.limits.uploads_of_one]
            if not can:
                return
            chosen = min(can, key=lambda one: self.sending[one[0]])
            self.waiting.remove(chosen)
            self.sending[chosen[0]] += 1
            chosen[1].set_result(None)
