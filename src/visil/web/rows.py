"""One line of the library: a video, or a file that is being added or could not be."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal

from visil.collection.identity import Stamp
from visil.errors import printable

State = Literal["ready", "working", "failed"]


@dataclass(frozen=True)
class Row:
    """A video, or a file that is being added or could not be."""

    path: str
    state: State
    id: str | None = None
    reason: str | None = None
    duration: float | None = None
    width: int | None = None
    height: int | None = None
    bytes: int | None = None
    frames: int | None = None
    added: float | None = None
    files: tuple[tuple[str, Stamp], ...] = ()
    """Every file that holds it, as it was when added."""

    @cached_property
    def name(self) -> str:
        """The file's name, fit to print."""
        return printable(os.path.basename(self.path) or self.path)

    @cached_property
    def found_by(self) -> str:
        """What a filter looks through."""
        return self.path.casefold()

    def there(self) -> Iterator[tuple[str, Stamp, bool]]:
        """Files that may still be what was added: path, stamp as it is now, whether that has not changed."""
        for path, stamp in self.files:
            try:
                status = os.stat(path)
            except (OSError, ValueError):
                continue
            if stat.S_ISREG(status.st_mode) and status.st_size == stamp.size:
                now = Stamp(status.st_size, status.st_mtime_ns)
                yield path, now, now == stamp

    def to_dict(self) -> dict[str, Any]:
        """As the API gives it."""
        return {
            "id": self.id,
            "name": self.name,
            "path": printable(self.path),
            "state": self.state,
            "reason": self.reason,
            "duration": self.duration,
            "width": self.width,
            "height": self.height,
            "bytes": self.bytes,
            "frames": self.frames,
            "added": iso(self.added),
            "copies": [printable(path) for path, _ in self.files if path != self.path],
            "playable": any(True for _ in self.there()),
        }


def iso(seconds: float | None) -> str | None:
    """A moment as ISO 8601, in UTC."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
