"""Where a server keeps what is its own: jobs, results, pictures, uploads."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from pathlib import Path

from visil.collection.lock import can_write
from visil.errors import IndexFolderError, UsageError, printable


class StateFolder:
    """``serve/`` in the collection's folder, or in the user's cache where that cannot be written to.

    One server at a time holds it; the system lets go of the lock when the server ends, however it ends.
    """

    def __init__(self, index: Path) -> None:
        self.folder = index / "serve" if can_write(index) else _in_cache(index)
        self.jobs = self.folder / "jobs.sqlite"
        self.results = self.folder / "results"
        self.comparisons = self.folder / "comparisons"
        self.pictures = self.folder / "pictures"
        self.uploads = self.folder / "uploads"
        try:
            for folder in (self.results, self.comparisons, self.pictures):
                folder.mkdir(parents=True, exist_ok=True)
            os.chmod(self.folder, 0o700)
            self._lock = (self.folder / "lock").open("wb")
        except OSError as error:
            raise IndexFolderError(
                self.folder, f"cannot be made ({(error.strerror or '').lower()})"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._lock.close()
            raise UsageError(
                f"{printable(os.fspath(index))}: another `visil serve` has this collection open"
            ) from error
        shutil.rmtree(self.uploads, ignore_errors=True)  # what a killed server left
        self.uploads.mkdir(exist_ok=True)

    def close(self) -> None:
        """Delete what was uploaded, and let another server have it."""
        shutil.rmtree(self.uploads, ignore_errors=True)
        self._lock.close()


def _in_cache(index: Path) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = hashlib.blake2b(os.fsencode(index), digest_size=8).hexdigest()
    return cache / "visil" / f"serve-{name}"
