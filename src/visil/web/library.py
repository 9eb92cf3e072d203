"""The videos of a collection as lists: sorted, filtered and paged from memory, so that a page costs next to nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from visil.collection import Index
from visil.collection.catalogue import Listed
from visil.collection.identity import Stamp, content_id
from visil.collection.listing import Listing
from visil.errors import VideoError
from visil.web.rows import Row, State

OFTEN_S = 0.5
"""Seconds between two looks at a catalogue that keeps changing, at the least,"""
SHARE = 5
"""and this many times as long as a look takes."""


MOST_READ = 100_000
"""Files whose content is remembered."""


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


class Library:
    """The videos of a collection to look at; it notices when others change it."""

    def __init__(self, index: Index) -> None:
        self.catalogue = index.catalogue
        """For what the collection as a whole says."""
        self._listing = Listing(index.folder)
        self._snapshot: Snapshot | None = None
        self._due = 0.0
        self._look_lock = threading.Lock()
        self._working: dict[str, None] = {}
        self._read: dict[tuple[str, Stamp], str] = {}

    def close(self) -> None:
        """Let go of the files."""
        self._listing.close()

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

    def entry(self, video: str) -> Row | None:
        """A video by its id."""
        return self.snapshot().by_id.get(video)

    def held_by(self, row: Row) -> tuple[str, Stamp] | None:
        """A file that still is what was added; None where there is none. One that was touched is read once to see."""
        for path, stamp, unchanged in row.there():
            if unchanged or self._holds(path, stamp, row.id):
                return path, stamp
        return None

    def _holds(self, path: str, stamp: Stamp, video: str | None) -> bool:
        if (path, stamp) not in self._read:
            try:
                found = content_id(Path(path))
            except VideoError:
                return False
            if len(self._read) >= MOST_READ:
                self._read.clear()
            self._read[path, stamp] = found
        return self._read[path, stamp] == video

    def snapshot(self) -> Snapshot:
        """The collection as it is, or was a moment ago while it keeps changing."""
        kept = self._snapshot
        if kept is not None and (time.monotonic() < self._due or kept.version == self._listing.version()):
            return kept
        with self._look_lock:
            if self._snapshot is not kept and self._snapshot is not None:
                return self._snapshot
            began = time.monotonic()
            self._snapshot = fresh = self._look_at_all()
            took = time.monotonic() - began
            self._due = time.monotonic() + max(OFTEN_S, SHARE * took)
            return fresh

    def look_again(self) -> None:
        """Look again next time: this server itself has changed something."""
        self._due = 0.0

    def _look_at_all(self) -> Snapshot:
        version = self._listing.version()
        rows = [_ready(video) for video in self._listing.videos()]
        rows += [
            Row(one.path, "failed", reason=one.reason, bytes=one.bytes, added=one.added)
            for one in self._listing.failures()
        ]
        by_id = {row.id: row for row in rows if row.id is not None}
        by_path = {path: row for row in rows for path, _ in row.files}
        by_path |= {row.path: row for row in rows if row.state == "failed"}
        return Snapshot(version, rows, by_id, by_path)


def _ready(video: Listed) -> Row:
    path = video.files[0][0] if video.files else ""
    facts = (video.duration, video.width, video.height, video.bytes, video.frames, video.added)
    return Row(path, "ready", video.id, None, *facts, video.files)
