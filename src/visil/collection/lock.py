"""Who may write, and one process at a time: a lock that a killed process cannot leave behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
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
        if not lock_open_file(file.fileno(), wait=wait):
            raise BlockingIOError
        yield


def lock_open_file(handle: int, *, wait: bool) -> bool:
    """Lock a file that is open, until it is closed; False where it is not to ``wait`` and another handle has it."""
    from filelock import lock_descriptor

    return lock_descriptor(handle, blocking=wait)


@contextmanager
def shared_or_alone(path: Path, *, alone: bool) -> Iterator[None]:
    """Hold the lock at ``path``, many at a time or one ``alone``; BlockingIOError where others stand in the way."""
    from filelock import ReadWriteLock, Timeout

    with closing(ReadWriteLock(path, is_singleton=False)) as lock:
        try:
            held = lock.acquire_write(timeout=0) if alone else lock.acquire_read(timeout=0)
        except Timeout as error:
            raise BlockingIOError from error
        with held:
            yield
