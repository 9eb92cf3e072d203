"""The videos of a collection as lists: sorted, filtered and paged from memory, so that a page costs next to nothing."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from visil.collection import Index
from visil.collection.catalogue import Listed
from visil.collection.identity import Stamp, content_id
from visil.collection.listing import Listing
from visil.errors import VideoError, printable
from visil.web.problems import Problem

State = Literal["ready", "working", "failed"]

OFTEN_S = 0.5
"""Seconds for which a list is answered from memory without asking the catalogue, at the least."""
SHARE = 5
"""Times as long as the last reading took that it is answered from memory, if that is longer."""
LARGE = 5000
"""Videos from which a list does not wait for the catalogue to be read again: the one before is shown meanwhile."""
MOST_READ = 100_000
"""Files whose content is remembered."""
NO_VIDEO = "There is no such video in this collection."

_DIGITS = re.compile(r"\d+")


def natural(text: str) -> str:
    """What names are sorted by, as people count: 1, 2, 10."""
    return _DIGITS.sub(_counted, text.casefold())


def _counted(found: re.Match[str]) -> str:
    number = found[0].lstrip("0")
    return f"{len(number):03}{number}"


def file_key(path: str) -> str:
    """Names a file in an address, whatever bytes its path has."""
    return hashlib.blake2b(os.fsencode(path), digest_size=8).hexdigest()


SORTS = {
    "name": lambda entry: (natural(entry.name), entry.path),
    "added": lambda entry: (entry.added or 0.0, entry.path),
    "duration": lambda entry: (entry.duration or 0.0, entry.path),
    "size": lambda entry: (entry.bytes or 0, entry.path),
}


@dataclass(frozen=True, slots=True)
class LibraryEntry:
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

    @property
    def name(self) -> str:
        """The file's name, fit to print."""
        return printable(os.path.basename(self.path) or self.path)

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
            "file": file_key(self.path),
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


@dataclass
class Snapshot:
    """All entries at one moment; orders are made when first asked for."""

    version: tuple[object, ...]
    entries: list[LibraryEntry]
    by_id: dict[str, LibraryEntry]
    by_path: dict[str, LibraryEntry]
    orders: dict[str, list[LibraryEntry]] = field(default_factory=dict)

    def order(self, sort: str) -> list[LibraryEntry]:
        """All entries in one order."""
        if sort not in self.orders:
            self.orders[sort] = _sorted(self.entries, sort)
        return self.orders[sort]

    def without(self, videos: Iterable[str], paths: Iterable[str]) -> Snapshot:
        """The same after some videos and failed files have left."""
        gone = {id(self.by_id[video]) for video in videos if video in self.by_id}
        gone |= {id(self.by_path[path]) for path in paths if path in self.by_path}

        def left(entries: Iterable[LibraryEntry]) -> list[LibraryEntry]:
            return [entry for entry in entries if id(entry) not in gone]

        return Snapshot(
            self.version,
            left(self.entries),
            {name: entry for name, entry in self.by_id.items() if id(entry) not in gone},
            {path: entry for path, entry in self.by_path.items() if id(entry) not in gone},
            {sort: left(entries) for sort, entries in self.orders.items()},
        )


def _sorted(entries: Iterable[LibraryEntry], sort: str) -> list[LibraryEntry]:
    return sorted(entries, key=SORTS[sort.removeprefix("-")], reverse=sort.startswith("-"))


class Library:
    """The videos of a collection for lists of them; it notices when others change it."""

    def __init__(self, index: Index) -> None:
        self.catalogue = index.catalogue
        """For what the collection as a whole says."""
        self._listing = Listing(index.folder)
        self._snapshot: Snapshot | None = None
        self._due = 0.0
        self._left: list[tuple[list[str], list[str]]] = []
        self._reading = threading.Lock()
        self._working: dict[str, None] = {}
        self._read: dict[tuple[str, Stamp], str] = {}

    def close(self) -> None:
        """Let go of the files, once nobody reads them any more."""
        with self._reading:
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
    ) -> tuple[int, list[LibraryEntry], int]:
        """How many there are in all, some of them, and how many of all failed; those being added come first."""
        snapshot = self.snapshot()
        entries = snapshot.order(sort)
        if self._working and state in (None, "working"):
            more = [LibraryEntry(path, "working") for path in self._working if path not in snapshot.by_path]
            entries = [*_sorted(more, sort), *entries]
        if state is not None:
            entries = [entry for entry in entries if entry.state == state]
        if text:
            wanted = text.casefold()
            entries = [entry for entry in entries if wanted in entry.path.casefold()]
        failed = len(snapshot.entries) - len(snapshot.by_id)
        if text or state is not None:
            failed = sum(entry.state == "failed" for entry in entries)
        return len(entries), entries[offset : offset + limit], failed

    def entry(self, video: str) -> LibraryEntry:
        """A video by its id; a problem 404 where there is none."""
        entry = self.snapshot().by_id.get(video)
        if entry is None:
            raise Problem(404, NO_VIDEO)
        return entry

    def failed(self, files: Sequence[str]) -> list[str]:
        """The paths of files that failed, by their keys; a problem 404 where one has not."""
        known = {file_key(one.path): one.path for one in self.snapshot().entries if one.state == "failed"}
        if not known.keys() >= set(files):
            raise Problem(404, "One of these files is not among those that failed any more.")
        return [known[file] for file in files]

    def held_by(self, entry: LibraryEntry) -> tuple[str, Stamp] | None:
        """A file that still is what was added; None where there is none. One that was touched is read once to see."""
        for path, stamp, unchanged in entry.there():
            if unchanged or self._holds(path, stamp, entry.id):
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
        """The collection as it is, or was a moment ago while it keeps changing.

        A large one takes seconds to read: whoever asks meanwhile gets the one before.
        """
        kept = self._snapshot
        if kept is not None and (time.monotonic() < self._due or kept.version == self._listing.version()):
            return kept
        if kept is None or len(kept.entries) < LARGE:
            with self._reading:
                if self._snapshot is not kept and self._snapshot is not None:
                    return self._snapshot
                return self._renew()
        self.read_behind()
        return kept

    def read_behind(self) -> None:
        """Begin to read the catalogue, unless someone does; nobody waits."""
        if self._reading.acquire(blocking=False):
            threading.Thread(target=self._read_and_release, daemon=True).start()

    def _read_and_release(self) -> None:
        try:
            self._renew()
        finally:
            self._reading.release()

    def _renew(self) -> Snapshot:
        """Read everything, and sort it as it was asked for before; the caller holds the lock."""
        began = time.monotonic()
        self._left.clear()
        kept, fresh = self._snapshot, self._read_all()
        for videos, paths in self._left:  # while it was read
            fresh = fresh.without(videos, paths)
        for sort in () if kept is None else tuple(kept.orders):
            fresh.order(sort)
        self._snapshot = fresh
        took = time.monotonic() - began
        self._due = 0.0 if kept is None else time.monotonic() + max(OFTEN_S, SHARE * took)
        return fresh

    def read_again(self) -> None:
        """Read the catalogue next time: this server itself has changed something."""
        self._due = 0.0

    def left(self, videos: Iterable[str] = (), paths: Iterable[str] = ()) -> None:
        """Videos and failed files that were taken out just now: no list shows them any more."""
        videos, paths = list(videos), list(paths)
        self._left.append((videos, paths))
        if self._snapshot is not None:
            self._snapshot = self._snapshot.without(videos, paths)

    def _read_all(self) -> Snapshot:
        version = self._listing.version()
        entries = [_ready(video) for video in self._listing.videos()]
        entries += [
            LibraryEntry(one.path, "failed", reason=one.reason, bytes=one.bytes, added=one.added)
            for one in self._listing.failures()
        ]
        by_id = {entry.id: entry for entry in entries if entry.id is not None}
        by_path = {path: entry for entry in entries for path, _ in entry.files}
        by_path |= {entry.path: entry for entry in entries if entry.state == "failed"}
        return Snapshot(version, entries, by_id, by_path)


def _ready(video: Listed) -> LibraryEntry:
    path = video.files[0][0] if video.files else ""
    facts = (video.duration, video.width, video.height, video.bytes, video.frames, video.added)
    return LibraryEntry(path, "ready", video.id, None, *facts, video.files)


def iso(seconds: float | None) -> str | None:
    """A moment as ISO 8601, in UTC."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
