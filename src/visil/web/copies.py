"""Small copies of videos whose codec a browser cannot play, made when first asked for, in a bounded folder."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from visil.files import keep_within
from visil.web.engine import EngineLink
from visil.web.jobs import ask
from visil.web.settings import GIB

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
