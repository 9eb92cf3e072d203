"""One process at a time, across processes: a lock that a killed process cannot leave behind."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from visil.errors import IndexFolderError


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock at ``path``, waiting for whoever holds it; the system lets go of it when a process ends."""
    try:
        file = path.open("wb")
    except OSError as error:
        raise IndexFolderError(
            path.parent, f"cannot be written to ({(error.strerror or '').lower()})"
        ) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
