"""Who may write, and one process at a time: a lock that a killed process cannot leave behind."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from visil.errors import IndexFolderError, os_reason


def can_write(path: Path) -> bool:
    """Whether this process may write to a file or folder: rights, owner, and a file system that is not read-only."""
    effective = os.access in os.supports_effective_ids
    return os.access(path, os.W_OK, effective_ids=effective)


@contextmanager
def exclusive(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock at ``path``; the system lets go of it when a process ends.

    Waits for whoever holds it, or raises BlockingIOError where it is not to ``wait``.
    """
    try:
        file = path.open("wb")
    except OSError as error:
        raise IndexFolderError(path.parent, f"cannot be written to ({os_reason(error)})") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
