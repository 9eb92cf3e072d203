"""A bounded folder of objects fetched from a store: whole files and ranges, the longest unused going first.

Any number of processes share it. A file is there whole or not at all, and whoever has it open or mapped keeps it when
it is cleared away.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from visil.collection.lock import exclusive
from visil.errors import IndexFolderError, UsageError, os_reason

LIMIT_GB = 10.0
"""Size of the cache of one collection, where ``VISIL_CACHE_GB`` says nothing else."""

SLACK = 0.05
"""Part of the limit that may be written before the folder is looked through again."""

LEFTOVER_S = 86400.0
"""Age at which a half-written file belongs to a process that was killed."""


def cache_limit() -> int:
    """Bytes that a cache may hold."""
    said = os.environ.get("VISIL_CACHE_GB")
    try:
        limit = LIMIT_GB if said is None else float(said)
    except ValueError:
        limit = -1.0
    if not 0 <= limit < 1e9:
        raise UsageError(f"VISIL_CACHE_GB must be a number of gigabytes, not {said!r}")
    return int(limit * 1e9)


class LocalCache:
    """Files by name below ``folder``."""

    def __init__(self, folder: Path, limit: int | None = None) -> None:
        self.folder = folder
        self.limit = cache_limit() if limit is None else limit
        self._lock = threading.Lock()
        self._since = 0
        """Bytes written since the folder was last looked through."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = os_reason(error)
            raise IndexFolderError(folder, f"the cache cannot be made ({reason}); set VISIL_CACHE") from error

    def path(self, name: str) -> Path:
        """Where a file is, or would be."""
        return self.folder / name

    def has(self, name: str) -> bool:
        """Whether a file is here; it counts as used now."""
        try:
            os.utime(self.path(name))
        except OSError:
            return False
        return True

    @contextmanager
    def filling(self, name: str) -> Iterator[Path]:
        """A fresh file to write, in its place when the block ends well."""
        final = self.path(name)
        part = final.with_name(f".{final.name}.{secrets.token_hex(6)}.fetching")
        try:
            final.parent.mkdir(parents=True, exist_ok=True)
            yield part
            size = part.stat().st_size
            os.replace(part, final)
        except OSError as error:
            full = "the disk is full" if error.errno == 28 else "cannot be written to"
            raise IndexFolderError(
                self.folder, f"the cache: {full}; VISIL_CACHE names another folder"
            ) from error
        finally:
            with suppress(OSError):
                part.unlink()
        self.make_room(size)

    def drop(self, name: str) -> None:
        """Forget a file."""
        with suppress(OSError):
            self.path(name).unlink()

    def make_room(self, size: int) -> None:
        """So many bytes were written: now and then, see whether it is too much."""
        with self._lock:
            self._since += size
            if self._since <= SLACK * self.limit:
                return
            self._since = 0
        with suppress(BlockingIOError), exclusive(self.folder / ".lock", wait=False):
            self.evict()

    def evict(self) -> None:
        """Delete the longest unused until the rest fits; the newest stays whatever its size, someone waits for it."""
        found: list[tuple[float, int, Path]] = []
        now = time.time()
        for parent, _, names in os.walk(self.folder):
            for name in names:
                path = Path(parent, name)
                with suppress(OSError):
                    status = path.stat()
                    if not name.startswith("."):
                        found.append((status.st_mtime, status.st_size, path))
                    elif name.endswith((".fetching", ".sending")) and now - status.st_mtime > LEFTOVER_S:
                        path.unlink()
        found.sort(key=lambda one: one[0])
        held = sum(size for _, size, _ in found)
        for _, size, path in found[:-1]:
            if held <= self.limit:
                return
            with suppress(OSError):
                path.unlink()
            held -= size
