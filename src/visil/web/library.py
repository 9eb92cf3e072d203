"""The videos of a collection as lists: sorted, filtered and paged from memory, so that a page costs next to nothing."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from visil.errors import printable
from visil.index.catalogue import Catalogue
from visil.index.identity import Stamp

State = Literal["ready", "working", "failed"]

OFTEN_S = 0.5
"""Seconds between two looks at a catalogue that keeps changing, at the least,"""
SHARE = 5
"""and this many times as long as a look takes."""


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

    def file(self) -> str | None:
        """A file that is still the one that was added; None where there is none."""
        for path, stamp in self.files:
            try:
                status = os.stat(path)
            except (OSError, ValueError):
                continue
            if os.path.isfile(path) and Stamp(status.st_size, status.st_mtime_ns) == stamp:
                return path
        return None

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
            "playable": self.file() is not None,
        }


SORTS = {
    "name": lambda row: (row.name.casefold(), row.path),
    "added": lambda row: (row.added or 0.0, row.path),
    "duration": lambda row: (row.duration or 0.0, row.path),
    "size": lambda row: (row.bytes or 0, row.path),
}


@dataclass
class Snapshot:
    """Everything at one moment; orders are made when first asked for."""

    version: tuple[object, ...]
    rows: list[Row]
    by_id: dict[str, Row]
    by_path: dict[str, Row]
    orders: dict[str, list[Row]] = field(default_factory=dict)

    def order(self, sort: str) -> list[Row]:
        """All rows in one order."""
        if sort not in self.orders:
            rows = sorted(self.rows, key=SORTS[sort.removeprefix("-")], reverse=sort.startswith("-"))
            self.orders[sort] = rows
        return self.orders[sort]


class Library(Catalogue):
    """A catalogue to look at; it notices when others change it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._snapshot: Snapshot | None = None
        self._due = 0.0
        self._look_lock = threading.Lock()
        self._working: dict[str, None] = {}

    def working(self, *, begin: Iterable[str] = (), end: Iterable[str] = (), clear: bool = False) -> None:
        """Files that are about to be added, and those that are done with."""
        working = {} if clear else dict(self._working)
        working |= dict.fromkeys(begin)
        for path in end:
            working.pop(path, None)
        self._working = working

    def page(
        self, offset: int, limit: int, sort: str = "name", text: str = "", state: State | None = None
    ) -> tuple[int, list[Row]]:
        """How many there are in all, and some of them."""
        snapshot = self.snapshot()
        rows = snapshot.order(sort)
        if self._working and state in (None, "working"):
            more = [Row(path, "working") for path in self._working if path not in snapshot.by_path]
            key = SORTS[sort.removeprefix("-")]
            rows = sorted([*more, *rows], key=key, reverse=sort.startswith("-"))
        if state is not None:
            rows = [row for row in rows if row.state == state]
        if text:
            wanted = text.casefold()
            rows = [row for row in rows if wanted in row.found_by]
        return len(rows), rows[offset : offset + limit]

    def row(self, video: str) -> Row | None:
        """A video by its id."""
        return self.snapshot().by_id.get(video)

    def snapshot(self) -> Snapshot:
        """The collection as it is, or was a moment ago while it keeps changing."""
        kept = self._snapshot
        if kept is not None and (time.monotonic() < self._due or kept.version == self._version()):
            return kept
        with self._look_lock:
            if self._snapshot is not kept and self._snapshot is not None:
                return self._snapshot
            began = time.monotonic()
            self._snapshot = fresh = self._look_at_all()
            took = time.monotonic() - began
            self._due = time.monotonic() + max(OFTEN_S, SHARE * took)
            return fresh

    def forget(self) -> None:
        """Look again next time: this server itself has changed something."""
        self._due = 0.0

    def _version(self) -> tuple[object, ...]:
        (version,) = self._all("PRAGMA data_version")[0]
        return id(self._db), version

    def _look_at_all(self) -> Snapshot:
        version = self._version()
        files: dict[int, list[tuple[str, Stamp]]] = defaultdict(list)
        for path, video, size, modified in self._all(
            "SELECT path, video, bytes, modified_ns FROM files ORDER BY path"
        ):
            files[video].append((os.fsdecode(path), Stamp(size, modified)))
        rows = []
        for number, video, duration, width, height, size, frames, added in self._all(
            "SELECT number, id, duration, width, height, bytes, frames, added FROM videos"
        ):
            own = tuple(files.get(number, ()))
            path = own[0][0] if own else ""
            facts = (duration, width, height, size, frames, added)
            rows.append(Row(path, "ready", video, None, *facts, own))
        by_id = {row.id: row for row in rows if row.id is not None}
        for path, reason, size, at in self._all("SELECT path, reason, bytes, at FROM failures"):
            known = None if size < 0 else size
            rows.append(Row(os.fsdecode(path), "failed", reason=reason, bytes=known, added=at))
        by_path = {path: row for row in rows for path, _ in row.files}
        by_path |= {row.path: row for row in rows if row.state == "failed"}
        return Snapshot(version, rows, by_id, by_path)


def iso(seconds: float | None) -> str | None:
    """A moment as ISO 8601, in UTC."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
