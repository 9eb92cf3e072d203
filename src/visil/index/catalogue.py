"""The catalogue of a collection: which videos, from which files, with which failures and verdicts. SQLite, WAL.

Readers never wait for a writer; writers wait for each other. One transaction a video, so a killed process leaves
whole entries only.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from visil.errors import IndexFolderError
from visil.index.identity import Stamp

FORMAT = 1
"""Of the whole folder: catalogue, feature files, candidates."""

WAIT_S = 60.0

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE videos (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    frames INTEGER NOT NULL,
    duration REAL NOT NULL,
    width INTEGER NOT NULL,
    height INTEGER NOT NULL,
    codec TEXT NOT NULL,
    bit_rate INTEGER,
    bytes INTEGER NOT NULL,
    damaged INTEGER NOT NULL,
    added REAL NOT NULL
);
CREATE TABLE files (
    path BLOB PRIMARY KEY,
    video INTEGER NOT NULL REFERENCES videos (number) ON DELETE CASCADE,
    bytes INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL,
    reference INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX files_of_video ON files (video);
CREATE TABLE failures (
    path BLOB PRIMARY KEY,
    reason TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL,
    at REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE verdicts (
    a TEXT NOT NULL,
    b TEXT NOT NULL,
    verdict TEXT NOT NULL CHECK (verdict IN ('same', 'different')),
    at REAL NOT NULL,
    PRIMARY KEY (a, b),
    CHECK (a < b)
) WITHOUT ROWID;
"""

MIGRATIONS: dict[int, str] = {}
"""From a format to the next: SQL that an older catalogue is brought up to date with, in one transaction."""

Judgement = Literal["same", "different"]


@dataclass(frozen=True)
class Video:
    """One video of the collection."""

    number: int
    """Small and never used again: what the candidate index stores."""
    id: str
    """Hash of its content."""
    path: str
    """One of the files that hold it, as last seen."""
    frames: int
    duration: float
    width: int
    height: int
    codec: str
    bit_rate: int | None
    bytes: int
    damaged: int
    reference: bool


@dataclass(frozen=True)
class NewVideo:
    """What is known of a video when it has been embedded."""

    id: str
    frames: int
    duration: float
    width: int
    height: int
    codec: str
    bit_rate: int | None
    bytes: int
    damaged: int


@dataclass(frozen=True)
class Failure:
    """A file that could not be read, and why."""

    path: str
    reason: str


class Catalogue:
    """Opens or creates ``catalogue.sqlite`` in a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        try:
            self._db = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA foreign_keys = ON")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._prepare()
        except sqlite3.DatabaseError as error:
            raise IndexFolderError(path, _plain(error)) from error

    def _prepare(self) -> None:
        with self.writing() as db:
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
                for statement in SCHEMA.split(";\n"):
                    db.execute(statement)
                db.execute("INSERT INTO meta VALUES ('format', ?)", (str(FORMAT),))
                return
            row = db.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
            if row is None or not str(row[0]).isdecimal():
                raise IndexFolderError(self.path, "is not the catalogue of a collection: it names no format")
            found = int(row[0])
            if found > FORMAT:
                raise IndexFolderError(
                    self.path, f"was made by a newer visil (format {found}); upgrade to open it"
                )
            while found < FORMAT:
                for statement in MIGRATIONS[found].split(";\n"):
                    db.execute(statement)
                found += 1
                db.execute("UPDATE meta SET value = ? WHERE key = 'format'", (str(found),))

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it, or none."""
        try:
            with self._lock:
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield self._db
                    self._db.execute("COMMIT")
                except BaseException:
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
                    raise
        except sqlite3.DatabaseError as error:
            raise IndexFolderError(self.path, _plain(error)) from error

    # ------------------------------------------------------------------ facts about the collection

    def fact(self, key: str) -> str | None:
        """A fact about the whole collection, such as its model."""
        row = self._one("SELECT value FROM meta WHERE key = ?", key)
        return None if row is None else str(row[0])

    def set_fact(self, key: str, value: str) -> None:
        """Record a fact about the whole collection."""
        with self.writing() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    # ------------------------------------------------------------------ videos and files

    def add(self, video: NewVideo, path: str, stamp: Stamp, *, reference: bool = False) -> list[str]:
        """A video with the file it was read from. Returns the videos that no file holds since, and that are gone."""
        with self.writing() as db:
            db.execute(
                "INSERT INTO videos (id, frames, duration, width, height, codec, bit_rate, bytes, damaged, added)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
                (
                    *(video.id, video.frames, video.duration, video.width, video.height),
                    *(video.codec, video.bit_rate, video.bytes, video.damaged, time.time()),
                ),
            )
            return _put_file(db, video.id, path, stamp, reference)

    def add_file(self, video: str, path: str, stamp: Stamp, *, reference: bool = False) -> list[str]:
        """Another file with the content of a video that is here already; LookupError where it is not, any more.

        Returns the videos that no file holds since, and that are gone.
        """
        with self.writing() as db:
            return _put_file(db, video, path, stamp, reference)

    def mark_reference(self, path: str) -> None:
        """Mark a file that is here already as one that others are compared against."""
        with self.writing() as db:
            db.execute("UPDATE files SET reference = 1 WHERE path = ?", (os.fsencode(path),))

    def fail(self, path: str, reason: str, stamp: Stamp) -> list[str]:
        """A file that cannot be read; it is tried again when it changes. What was known of its path is gone.

        Returns the videos that no file holds since, and that are gone.
        """
        with self.writing() as db:
            name = os.fsencode(path)
            gone = _take_out(db, [name])
            db.execute(
                "INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?)",
                (name, reason, stamp.size, stamp.modified_ns, time.time()),
            )
            return gone

    def file(self, path: str) -> tuple[str, Stamp] | None:
        """The video that a path held when last seen, and the file's stamp then."""
        row = self._one(
            "SELECT v.id, f.bytes, f.modified_ns FROM files f JOIN videos v ON v.number = f.video WHERE f.path = ?",
            os.fsencode(path),
        )
        return None if row is None else (str(row[0]), Stamp(int(row[1]), int(row[2])))

    def failed_before(self, path: str, stamp: Stamp) -> str | None:
        """Why this very file could not be read before; None where it was not tried, or has changed."""
        row = self._one(
            "SELECT reason FROM failures WHERE path = ? AND bytes = ? AND modified_ns = ?",
            *(os.fsencode(path), stamp.size, stamp.modified_ns),
        )
        return None if row is None else str(row[0])

    def failures(self) -> list[Failure]:
        """All files that cannot be read."""
        rows = self._all("SELECT path, reason FROM failures ORDER BY path")
        return [Failure(os.fsdecode(path), str(reason)) for path, reason in rows]

    def has(self, video: str) -> bool:
        """Whether a video is here."""
        return self._one("SELECT 1 FROM videos WHERE id = ?", video) is not None

    def count(self) -> tuple[int, int, float]:
        """Videos, frames and seconds in all."""
        row = self._one("SELECT count(*), coalesce(sum(frames), 0), coalesce(sum(duration), 0) FROM videos")
        assert row is not None
        return int(row[0]), int(row[1]), float(row[2])

    def videos(self) -> Iterator[Video]:
        """All videos, by number, a page at a time: readable while others write."""
        last = 0
        while page := self._videos("v.number > ? ORDER BY v.number LIMIT 1000", last):
            yield from page
            last = page[-1].number

    def video(self, id_or_path: str) -> Video | None:
        """A video by its id, the beginning of its id (eight digits or more), or the path of a file that holds it."""
        hexadecimal = set(id_or_path) <= set("0123456789abcdef")
        found = self._videos("v.id = ?", id_or_path) if hexadecimal else []
        if not found:
            found = self._videos(
                "v.number = (SELECT video FROM files WHERE path = ?)",
                os.fsencode(os.path.abspath(id_or_path)),
            )
        if not found and hexadecimal and len(id_or_path) >= 8:
            found = self._videos("v.id GLOB ?", id_or_path + "*")
        return found[0] if len(found) == 1 else None

    def numbered(self, numbers: Sequence[int]) -> dict[int, Video]:
        """Videos by number; those that are gone are left out."""
        found: dict[int, Video] = {}
        for start in range(0, len(numbers), 500):
            some = [int(n) for n in numbers[start : start + 500]]
            marks = ", ".join("?" * len(some))
            found |= {video.number: video for video in self._videos(f"v.number IN ({marks})", *some)}
        return found

    def numbers(self) -> list[int]:
        """The numbers of all videos, rising."""
        return [int(row[0]) for row in self._all("SELECT number FROM videos ORDER BY number")]

    def paths(self, video: str) -> list[str]:
        """Every file that holds a video."""
        rows = self._all(
            "SELECT f.path FROM files f JOIN videos v ON v.number = f.video WHERE v.id = ? ORDER BY f.path",
            video,
        )
        return [os.fsdecode(row[0]) for row in rows]

    def remove(self, video: str) -> None:
        """Forget a video and its files; verdicts about it stay, in case it comes back."""
        with self.writing() as db:
            db.execute("DELETE FROM videos WHERE id = ?", (video,))

    def _videos(self, condition: str, *values: object) -> list[Video]:
        rows = self._all(
            "SELECT v.number, v.id, (SELECT path FROM files WHERE video = v.number ORDER BY path LIMIT 1),"
            " v.frames, v.duration, v.width, v.height, v.codec, v.bit_rate, v.bytes, v.damaged,"
            f" (SELECT max(reference) FROM files WHERE video = v.number) FROM videos v WHERE {condition}",
            *values,
        )
        return [
            Video(
                r[0],
                r[1],
                os.fsdecode(r[2] or b""),
                r[3],
                r[4],
                r[5],
                r[6],
                r[7],
                r[8],
                r[9],
                r[10],
                bool(r[11]),
            )
            for r in rows
        ]

    # ------------------------------------------------------------------ what people said

    def judge(self, a: str, b: str, verdict: Judgement | None) -> None:
        """Record that two videos are the same or not a match, by content; None takes it back."""
        low, high = sorted((a, b))
        with self.writing() as db:
            if verdict is None:
                db.execute("DELETE FROM verdicts WHERE a = ? AND b = ?", (low, high))
            else:
                db.execute(
                    "INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?)", (low, high, verdict, time.time())
                )

    def verdicts(self) -> dict[tuple[str, str], Judgement]:
        """{(id, id): what was said}, ids in order."""
        return {(a, b): verdict for a, b, verdict in self._all("SELECT a, b, verdict FROM verdicts")}

    # ------------------------------------------------------------------ SQLite

    def integrity(self) -> str | None:
        """What SQLite finds wrong with the file; None where it is sound."""
        try:
            row = self._db.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.DatabaseError as error:
            return _plain(error)
        return None if row[0] == "ok" else str(row[0])

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def _one(self, query: str, *values: object) -> tuple[Any, ...] | None:
        rows = self._all(query, *values)
        return rows[0] if rows else None

    def _all(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._db.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise IndexFolderError(self.path, _plain(error)) from error


def _put_file(db: sqlite3.Connection, video: str, path: str, stamp: Stamp, reference: bool) -> list[str]:
    """A path now holds a video; those under which it is no longer found make way, a reference stays one."""
    name = os.fsencode(path)
    row = db.execute("SELECT number FROM videos WHERE id = ?", (video,)).fetchone()
    if row is None:
        raise LookupError(video)
    (number,) = row
    paths = db.execute("SELECT path, reference FROM files WHERE video = ?", (number,)).fetchall()
    moved = [(old, mark) for old, mark in paths if old != name and not os.path.lexists(old)]
    before = db.execute("SELECT reference FROM files WHERE path = ?", (name,)).fetchone()
    marked = reference or any(mark for _, mark in moved) or (before is not None and before[0])
    gone = _take_out(db, [name, *(old for old, _ in moved)], but=number)
    db.execute(
        "INSERT INTO files VALUES (?, ?, ?, ?, ?)",
        (name, number, stamp.size, stamp.modified_ns, int(marked)),
    )
    db.execute("DELETE FROM failures WHERE path = ?", (name,))
    return gone


def _take_out(db: sqlite3.Connection, names: Sequence[bytes], *, but: int | None = None) -> list[str]:
    """Forget paths, and the videos (except one) that no path is left of; returns the ids of those."""
    gone = []
    for name in names:
        row = db.execute("SELECT video FROM files WHERE path = ?", (name,)).fetchone()
        db.execute("DELETE FROM files WHERE path = ?", (name,))
        if row is None or row[0] == but:
            continue
        if not db.execute("SELECT 1 FROM files WHERE video = ?", row).fetchone():
            gone += [str(video) for (video,) in db.execute("SELECT id FROM videos WHERE number = ?", row)]
            db.execute("DELETE FROM videos WHERE number = ?", row)
    return gone


def _plain(error: sqlite3.DatabaseError) -> str:
    """SQLite's objection in words that say what to do."""
    said = str(error)
    if "full" in said:
        return "the disk is full; what was added before is safe"
    if "readonly" in said or "unable to open" in said or "read-only" in said:
        return "the folder cannot be written to"
    if "I/O error" in said:
        return "the disk is full, or cannot be read or written; what was added before is safe"
    if "locked" in said or "busy" in said:
        return f"another process has been writing for more than {WAIT_S:.0f} s; try again"
    if "not a database" in said or "malformed" in said:
        return "the catalogue is damaged; put back a copy of it, or add the videos to a new collection"
    return said
