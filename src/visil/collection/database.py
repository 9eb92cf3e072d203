"""The SQLite file under a catalogue: opened to write where that is permitted, to read where it is not.

Readers never wait for a writer; writers wait for each other.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from visil.collection import schema
from visil.collection.lock import can_write
from visil.errors import IndexFolderError

WAIT_S = 60.0


class Database:
    """One connection, shared by the threads of a process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.readonly = False
        """Whether the file, or the folder around it, cannot be written to."""
        self._lock = threading.RLock()
        self._frozen: tuple[object, ...] | None = None
        """What the file looked like when it was opened without any locking; None where SQLite locks."""
        try:
            if path.is_file() and not (can_write(path) and can_write(path.parent)):
                self._open_to_read()
            else:
                self._open()
        except sqlite3.DatabaseError as error:
            raise IndexFolderError(path, plain(error)) from error

    def _open(self) -> None:
        try:
            self._open_to_write()
        except sqlite3.OperationalError as error:  # rights are not all: a server may refuse what they permit
            if not _not_writable(error) or not self.path.is_file():
                raise
            self._open_to_read()

    def _open_to_write(self) -> None:
        self._db = self._connect(self.path)
        _switch_to_wal(self._db)
        self._db.execute("PRAGMA foreign_keys = ON")
        self._db.execute("PRAGMA synchronous = NORMAL")
        if schema.found_format(self._db, self.path) != schema.FORMAT:
            with self.writing() as db:
                schema.bring_up_to_date(db, self.path)

    def _open_to_read(self) -> None:
        self.readonly = True
        address = f"file:{quote(os.fsencode(os.path.abspath(self.path)))}"
        try:
            self._frozen = None
            self._db = self._connect(f"{address}?mode=ro", uri=True)
            found = schema.found_format(self._db, self.path)
        except sqlite3.OperationalError as error:
            # WAL needs two more files beside this one. Where they cannot be made nobody writes: no need to lock.
            if not _not_writable(error):
                raise
            if _size(self._wal):
                raise IndexFolderError(
                    self.path, "was not closed by its last writer; open it once where it can be written to"
                ) from error
            self._frozen = self._look()
            self._db = self._connect(f"{address}?mode=ro&immutable=1", uri=True)
            found = schema.found_format(self._db, self.path)
        if found != schema.FORMAT:
            raise IndexFolderError(self.path, "is of an older visil; open it once where it can be written to")

    def _connect(self, name: str | Path, *, uri: bool = False) -> sqlite3.Connection:
        return sqlite3.connect(name, timeout=WAIT_S, isolation_level=None, check_same_thread=False, uri=uri)

    @property
    def _wal(self) -> Path:
        return self.path.with_name(f"{self.path.name}-wal")

    def _look(self) -> tuple[object, ...]:
        status = self.path.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns, self._wal.exists()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it, or none."""
        if self.readonly:
            raise IndexFolderError(self.path, "the folder cannot be written to")
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
            raise IndexFolderError(self.path, plain(error)) from error

    def integrity(self) -> str | None:
        """What SQLite finds wrong with the file; None where it is sound."""
        try:
            row = self._db.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.DatabaseError as error:
            return plain(error)
        return None if row[0] == "ok" else str(row[0])

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def version(self) -> object:
        """Equals an earlier answer only where nothing was written in between, by anybody; costs next to nothing."""
        with self._lock:
            if self._frozen is not None:
                return object()  # no lock, no telling
            (version,) = self._all("PRAGMA data_version")[0]
            return self._db, version, self._db.total_changes

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """The answer to a query that changes nothing."""
        return self._all(query, *values)

    def _one(self, query: str, *values: object) -> tuple[Any, ...] | None:
        rows = self._all(query, *values)
        return rows[0] if rows else None

    def _all(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                if self._frozen is not None and self._frozen != self._look():
                    self._db.close()  # someone who may write has come since
                    self._open_to_read()
                return self._db.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise IndexFolderError(self.path, plain(error)) from error


def plain(error: sqlite3.DatabaseError) -> str:
    """SQLite's objection in words that say what to do."""
    said = str(error)
    if "full" in said:
        return "the disk is full; what was added before is safe"
    if _not_writable(error):
        return "the folder cannot be written to"
    if "I/O error" in said:
        return "the disk is full, or cannot be read or written; what was added before is safe"
    if "locked" in said or "busy" in said:
        return f"another process has been writing for more than {WAIT_S:.0f} s; try again"
    if "not a database" in said or "malformed" in said:
        return "the catalogue is damaged; put back a copy of it, or add the videos to a new collection"
    return said


def _not_writable(error: sqlite3.DatabaseError) -> bool:
    return any(words in str(error) for words in ("readonly", "read-only", "unable to open"))


def _switch_to_wal(db: sqlite3.Connection) -> None:
    """SQLite does not wait for the lock that this needs where another process makes the same file."""
    until = time.monotonic() + WAIT_S
    while True:
        try:
            if db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
