"""The candidate cache of a collection on a store, shared: one machine makes it, the others fetch it.

``candidates/0000000042-ab12.faiss`` is one machine's cache after state 42, the ``.json`` beside it, written after it,
says which videos are in it. It may be older than the catalogue: what is missing is added from the features. Videos keep
their numbers for good, so an old one is never wrong.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from visil.collection.candidate_cache import LOCK
from visil.collection.lock import exclusive
from visil.collection.remote.features import PART
from visil.collection.remote.objects import Objects, StoreError
from visil.errors import IndexFolderError

logger = logging.getLogger("visil")

FOLDER = "candidates"

WORTH = 0.1
"""Part of the frames that must be new before a cache is sent, or fetched in place of the one that is here."""

KEPT = 2
"""Caches that stay on the store: a reader may be fetching the one before the last."""


@dataclass(frozen=True)
class Known:
    """The content of ``frames.json``."""

    file: str
    frames: int
    fields: dict[str, Any]


class SharedCandidates:
    """Sends and fetches ``frames*`` of ``folder``. It is a cache: what goes wrong here costs time and nothing else."""

    def __init__(self, objects: Objects, folder: Path) -> None:
        self.objects = objects
        self.folder = folder

    def fetch(self, frames: int) -> None:
        """Take the last one from the store, where the one here lacks much of so many ``frames``."""
        here = self._here()
        if frames == 0 or (here is not None and here.frames >= (1 - WORTH) * frames):
            return
        with suppress(
            StoreError, IndexFolderError, FileNotFoundError, ValueError, KeyError, TypeError, OSError
        ):
            for name in reversed(self._names()):
                said = json.loads(self.objects.read(f"{name}.json"))
                if here is not None and said["frames"] <= here.frames:
                    return
                with exclusive(self.folder / LOCK):
                    self._take(name, said)
                return

    def send(self, generation: int) -> None:
        """Put the one here on the store, where it has much that those on the store have not."""
        here = self._here()
        if here is None:
            return
        try:
            names = self._names()
            last = json.loads(self.objects.read(f"{names[-1]}.json"))["frames"] if names else 0
            if here.frames * (1 - WORTH) <= last <= here.frames * (1 + WORTH):
                return
            name = f"{FOLDER}/{generation:010d}-{secrets.token_hex(4)}"
            file = self.folder / here.file
            fields = here.fields | {"bytes": file.stat().st_size, "crc": _crc(file)}
            self.objects.upload(f"{name}.faiss", file)
            self.objects.create(f"{name}.json", json.dumps(fields).encode())
            for old in names[: 1 - KEPT]:
                self.objects.delete((f"{old}.json", f"{old}.faiss"))
        except (StoreError, ValueError, KeyError, TypeError, OSError) as error:
            logger.debug("the candidate cache was not sent: %s", error)

    def _names(self) -> list[str]:
        """Caches that are whole on the store, the oldest first."""
        found = self.objects.sizes(FOLDER)
        return sorted(name.removesuffix(".json") for name in found if name.endswith(".json"))

    def _here(self) -> Known | None:
        try:
            fields = json.loads((self.folder / "frames.json").read_text("utf-8"))
            return Known(str(fields["file"]), int(fields["frames"]), fields)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _take(self, name: str, said: dict[str, Any]) -> None:
        file = f"frames-{secrets.token_hex(6)}.faiss"
        fresh = self.folder / f".{file}"
        try:
            crc = 0
            with fresh.open("wb") as opened:
                for data in self._parts(f"{name}.faiss", int(said["bytes"])):
                    crc = zlib.crc32(data, crc)
                    opened.write(data)
            if crc != said["crc"]:
                raise ValueError("not what was sent")
            os.replace(fresh, self.folder / file)
            fresh.write_text(json.dumps(said | {"file": file}), "utf-8")
            os.replace(fresh, self.folder / "frames.json")
        finally:
            fresh.unlink(missing_ok=True)

    def _parts(self, name: str, size: int) -> Iterator[bytes]:
        for start in range(0, size, PART):
            yield self.objects.read(name, start, min(start + PART, size))


def _crc(file: Path) -> int:
    crc = 0
    with file.open("rb") as opened:
        while data := opened.read(PART):
            crc = zlib.crc32(data, crc)
    return crc
