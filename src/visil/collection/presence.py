"""Whether the files that a collection knows are there, and still hold what they held when they were added."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from visil.collection.identity import Stamp, content_id, stamp_of
from visil.errors import VideoError
from visil.files import natural_order

if TYPE_CHECKING:
    from visil.collection.parts import AnyCatalogue

State = Literal["there", "missing", "changed"]


@dataclass(frozen=True)
class HeldFile:
    """A file of a video, as it is now."""

    path: str
    reference: bool
    """Whether it was added as one that others are compared against."""
    state: State = "there"
    bytes: int = 0
    modified_ns: int = 0
    inode: tuple[int, int] | None = None
    """The same for two names of one file."""
    link: bool = False
    """Whether the name is a symbolic link."""
    folder: bool = False
    """Whether it is a folder of images."""


@dataclass(frozen=True)
class Gone:
    """Files that a collection knows and that are not there."""

    files: list[str]
    """Whose folder is there: they were deleted or moved."""
    folders: list[str]
    """Whose folder is gone as well: deleted, or on a disk that is not mounted."""


def gone_files(paths: Iterable[str]) -> Gone:
    """Those of some files that are not there; each folder is looked at once."""
    gone = Gone([], [])
    known: dict[str, bool] = {}
    for path in paths:
        if os.path.exists(path):
            continue
        folder = os.path.dirname(path)
        if folder not in known:
            known[folder] = os.path.isdir(folder)
        (gone.files if known[folder] else gone.folders).append(path)
    return gone


def held_files(catalogue: AnyCatalogue, video: str) -> list[HeldFile]:
    """Every file that held a video when it was last added, in natural order of their paths."""
    files = sorted(catalogue.files(video), key=lambda file: natural_order(file[0]))
    return [look(path, stamp, video, reference) for path, stamp, reference in files]


def look(path: str, stamp: Stamp, video: str, reference: bool = False) -> HeldFile:
    """A file as it is; one with other times but as many bytes is read, since it may only have been touched."""
    try:
        status, link = os.stat(path), os.path.islink(path)
        now = stamp_of(Path(path))
        held = now == stamp or (now.size == stamp.size and content_id(Path(path)) == video)
    except (OSError, ValueError, VideoError):
        return HeldFile(path, reference, "missing", stamp.size, stamp.modified_ns)
    return HeldFile(
        *(path, reference, "there" if held else "changed", now.size, now.modified_ns),
        *((status.st_dev, status.st_ino), link, stat.S_ISDIR(status.st_mode)),
    )
