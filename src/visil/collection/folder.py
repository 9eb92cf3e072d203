"""The folder of a collection: made where there is none, and measured."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from visil.errors import IndexFolderError

# What a process killed while it made the folder may have left: no reason to refuse it.
OWN = {"features", *(f"catalogue.sqlite{end}" for end in ("", "-wal", "-shm", "-journal"))}


def make(folder: Path, create: bool) -> None:
    """Make the folder for a new collection; where that is not wanted, or something else is there, an error."""
    if folder.exists() and not folder.is_dir():
        raise IndexFolderError(folder, "is a file; a collection is a folder")
    if not create:
        raise IndexFolderError(folder, "no collection here; `visil add` makes one")
    if folder.is_dir() and {path.name for path in folder.iterdir()} - OWN:
        raise IndexFolderError(folder, "is a folder with other things in it; name a new one")
    try:
        (folder / "features").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise IndexFolderError(folder, f"cannot be made ({(error.strerror or '').lower()})") from error


def bytes_below(folder: Path) -> int:
    """Of all files in a folder."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # a writer may have renamed it since it was listed
            if path.is_file():
                total += path.stat().st_size
    return total
