"""Thumbnails, and small copies of videos whose codec a browser cannot play: made when first asked for, kept in bounded
folders.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import queue
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from visil.files import fresh_beside, keep_within
from visil.web.engine import EngineLink
from visil.web.jobs import ask
from visil.web.sandbox import Decoder
from visil.web.settings import GIB, Limits

DECODERS = 2
KEPT_SHARE = 0.8
"""Share of the bound that is left when the oldest pictures were deleted."""


class Pictures:
    """JPEGs by what they show; the ones unused for longest make way."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.folder = folder
        self.limits = limits
        self._lock = threading.Lock()
        self._bytes = sum(file.stat().st_size for file in folder.glob("??/*.jpg"))
        self._idle: queue.LifoQueue[Decoder] = queue.LifoQueue()
        self._all = [Decoder(limits) for _ in range(DECODERS)]
        for decoder in self._all:
            self._idle.put(decoder)
        self._alone = threading.Lock()
        self._owner = ""
        self._guest = Decoder(limits)

    def close(self) -> None:
        """End the processes."""
        for decoder in (*self._all, self._guest):
            decoder.close()

    def key(self, video: str, times: Sequence[float], width: int) -> str:
        """Names a picture; the same for the same content."""
        said = f"{video} {width} {' '.join(f'{time:.2f}' for time in times)}"
        return hashlib.blake2b(said.encode(), digest_size=16).hexdigest()

    def kept(self, key: str) -> bytes | None:
        """A picture made before."""
        path = self._path(key)
        try:
            data = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        return data

    def make_once(self, owner: str, path: Path, times: Sequence[float], size: tuple[int, int]) -> bytes:
        """A picture of a file that nobody vouches for: it is not kept, and its decoder sees no other file."""
        with self._alone:
            if self._owner != owner:
                self._guest.close()
                self._owner = owner
            return self._guest.picture(path, times, *size)

    def make(self, key: str, path: Path, times: Sequence[float], size: tuple[int, int]) -> bytes:
        """A new picture of a video of the collection, kept for the next who asks."""
        decoder = self._idle.get()
        try:
            data = decoder.picture(path, times, *size)
        finally:
            self._idle.put(decoder)
        self._keep(key, data)
        return data

    def _keep(self, key: str, data: bytes) -> None:
        path = self._path(key)
        with suppress(OSError):  # a full disk: the picture is shown all the same
            path.parent.mkdir(exist_ok=True)
            with fresh_beside(path) as fresh:
                fresh.write_bytes(data)
            with self._lock:
                self._bytes += len(data)
                if self._bytes > self.limits.pictures_bytes:
                    most = KEPT_SHARE * self.limits.pictures_bytes
                    self._bytes = keep_within(self.folder.glob("??/*.jpg"), most)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.jpg"


def picture_size(width: int, video_width: int, video_height: int) -> tuple[int, int]:
    """Width and height of a picture of a video of that size; none is higher than twice its width."""
    height = round(width * max(1, video_height) / max(1, video_width))
    return width, min(max(height, 8), 2 * width)


MOST_BYTES = GIB
"""Of all copies; the ones unused for longest make way."""


class SmallCopies:
    """MP4 files by what they show."""

    def __init__(self, folder: Path, engine: EngineLink) -> None:
        self.folder = folder
        self._engine = engine
        self._making: dict[str, asyncio.Lock] = {}

    async def get(self, key: str, path: Path) -> Path:
        """The copy of a file; ``key`` names its content, in letters and digits."""
        file = self.folder / f"{key}.mp4"
        async with self._making.setdefault(key, asyncio.Lock()):
            if file.is_file():
                os.utime(file)
            else:
                await self.make(path, file)
                await asyncio.to_thread(keep_within, self.folder.glob("*.mp4"), MOST_BYTES, file)
        self._making.pop(key, None)
        return file

    async def make(self, path: Path, file: Path) -> None:
        """Make a copy that someone else keeps."""
        try:
            await ask(self._engine, {"do": "small_copy", "path": os.fspath(path), "file": os.fspath(file)})
        finally:
            await self._engine.stop(only_idle=True)
