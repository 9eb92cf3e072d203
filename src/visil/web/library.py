"""The videos of a collection as lists: sorted, filtered and paged from memory, so that a page costs next to nothing."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from visil.collection.identity import Stamp, content_id
from visil.collection.index import Index
from visil.collection.listing import Listing
from visil.errors import VideoError, printable
from visil.files import natural_order
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


def file_key(path: str) -> str:
    """Names a file in an address, whatever bytes its path has."""
    return hashlib.blake2b(os.fsencode(path), digest_size=8).hexdigest()


def name_of(path: str) -> str:
    """A file's name, fit to print."""
    return printable(os.path.basename(path) or path)


class LibraryEntry(NamedTuple):
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
        return name_of(self.path)

    @property
    def copies(self) -> list[str]:
        """Other files with the same bytes."""
        return sorted((path for path, _ in self.files if path != self.path), key=natural_order)

    def there(self) -> Iterator[tuple[str, Stamp, bool]]:
        """Files that may still hold the video: path, stamp as it is now, whether that has not changed."""
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
            "copies": [printable(path) for path in self.copies],
            "playable": any(True for _ in self.there()),
        }


LibraryRow = tuple[Any, ...]
"""The fields of an entry, but size and time of change in place of its files: plain, or 200,000 would cost the garbage
collector half a second whenever it looks."""

_DURATION, _BYTES, _ADDED, _SIZE, _MODIFIED = (
    *(LibraryEntry._fields.index(name) for name in ("duration", "bytes", "added", "files")),
    len(LibraryEntry._fields),
)

SORTS: dict[str, Callable[[LibraryRow], Any]] = {
    "path": lambda row: (natural_order(row[0]), row[0]),
    "name": lambda row: (natural_order(name_of(row[0])), row[0]),
    "added": lambda row: (row[_ADDED] or 0.0, row[0]),
    "duration": lambda row: (row[_DURATION] or 0.0, row[0]),
    "size": lambda row: (row[_BYTES] or 0, row[0]),
}


class Entries(Mapping[str, LibraryEntry]):
    """Entries by id or path, each made when it is asked for."""

    def __init__(self, rows: dict[str, LibraryRow], made: Callable[[LibraryRow], LibraryEntry]) -> None:
        self.rows = rows
        self._made = made

    def __getitem__(self, key: str) -> LibraryEntry:
        return self._made(self.rows[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


class Snapshot:
    """All entries at one moment; orders are made when first asked for.

    ``others`` are the files of videos that several hold, but for the one in the row.
    """

    def __init__(
        self, version: tuple[object, ...], rows: list[LibraryRow], others: dict[str, list[tuple[str, Stamp]]]
    ) -> None:
        self.version = version
        self.rows = rows
        self.others = others
        self.orders: dict[str, list[LibraryRow]] = {}
        self.by_id = Entries({row[2]: row for row in rows if row[2] is not None}, self.entry)
        self.by_path = Entries({row[0]: row for row in rows}, self.entry)
        self.by_path.rows.update(
            (path, self.by_id.rows[video]) for video, files in others.items() for path, _ in files
        )

    def entry(self, row: LibraryRow) -> LibraryEntry:
        """A row as a video."""
        files = () if row[_SIZE] is None else (_file(row), *self.others.get(row[2], ()))
        return LibraryEntry._make((*row[:_SIZE], files))

    def order(self, sort: str) -> list[LibraryRow]:
        """All entries in one order."""
        if sort not in self.orders:
            self.orders[sort] = _sorted(self.rows, sort)
        return self.orders[sort]

    def added_since(self, moment: float) -> int:
        """How many videos were added after it, in seconds since 1970."""
        return sum((row[_ADDED] or 0.0) > moment for row in self.by_id.rows.values())

    def without(self, videos: Iterable[str], paths: Iterable[str]) -> Snapshot:
        """The same after some videos and failed files have left."""
        gone = {id(self.by_id.rows[video]) for video in videos if video in self.by_id.rows}
        gone |= {id(self.by_path.rows[path]) for path in paths if path in self.by_path.rows}

        def left(rows: Iterable[LibraryRow]) -> list[LibraryRow]:
            return [row for row in rows if id(row) not in gone]

        others = {
            video: files for video, files in self.others.items() if id(self.by_id.rows[video]) not in gone
        }
        after = Snapshot(self.version, left(self.rows), others)
        after.orders = {sort: left(rows) for sort, rows in self.orders.items()}
        return after


def _sorted(rows: Iterable[LibraryRow], sort: str) -> list[LibraryRow]:
    return sorted(rows, key=SORTS[sort.removeprefix("-")], reverse=sort.startswith("-"))


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
        rows = snapshot.order(sort)
        if self._working and state in (None, "working"):
            more = [_row(path, "working") for path in self._working if path not in snapshot.by_path.rows]
            rows = [*_sorted(more, sort), *rows]
        if state is not None:
            rows = [row for row in rows if row[1] == state]
        if text:
            wanted = text.casefold()
            rows = [row for row in rows if wanted in row[0].casefold()]
        failed = len(snapshot.rows) - len(snapshot.by_id)
        if text or state is not None:
            failed = sum(row[1] == "failed" for row in rows)
        return len(rows), [snapshot.entry(row) for row in rows[offset : offset + limit]], failed

    def entry(self, video: str) -> LibraryEntry:
        """A video by its id; a problem 404 where there is none."""
        entry = self.snapshot().by_id.get(video)
        if entry is None:
            raise Problem(404, NO_VIDEO)
        return entry

    def failed(self, files: Sequence[str]) -> list[str]:
        """The paths of files that failed, by their keys; a problem 404 where one has not."""
        known = {file_key(row[0]): row[0] for row in self.snapshot().rows if row[1] == "failed"}
        if not known.keys() >= set(files):
            raise Problem(404, "One of these files is not among those that failed any more.")
        return [known[file] for file in files]

    def held_by(self, entry: LibraryEntry) -> tuple[str, Stamp] | None:
        """A file that still holds the video; None where there is none. One that was touched is read once to see."""
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
        if kept is None or len(kept.rows) < LARGE:
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
        kept = self._snapshot
        fresh = self._read_all()
        for videos, paths in self._left:  # while it was read
            fresh = fresh.without(videos, paths)
        for sort in ("name",) if kept is None else tuple(kept.orders):
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
        rows: dict[str, LibraryRow] = {}
        others: dict[str, list[tuple[str, Stamp]]] = {}
        for path, size, modified, video, *facts in self._listing.videos():
            row = (os.fsdecode(path or b""), "ready", video, None, *facts, size, modified)
            known = rows.setdefault(video, row)
            if known is not row:
                rows[video], other = sorted((known, row), key=SORTS["path"])
                others.setdefault(video, []).append(_file(other))
        failed = [
            _row(one.path, "failed", one.reason, one.bytes, one.added) for one in self._listing.failures()
        ]
        return Snapshot(version, [*rows.values(), *failed], others)


def _row(
    path: str, state: State, reason: str | None = None, size: int | None = None, at: float | None = None
) -> LibraryRow:
    """Of a file that holds no video of the collection, or none yet."""
    return (*LibraryEntry(path, state, None, reason, bytes=size, added=at)[:_SIZE], None, None)


def _file(row: LibraryRow) -> tuple[str, Stamp]:
    return row[0], Stamp(row[_SIZE], row[_MODIFIED])


def iso(seconds: float | None) -> str | None:
    """A moment as ISO 8601, in UTC."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
