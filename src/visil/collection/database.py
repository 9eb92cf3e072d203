"""The SQLite file under a catalogue: opened to write where that is permitted, to read where it is not.

Readers never wait for a writer; writers wait for each other.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from visil.collection import schema
from visil.collection.lock import can_write
from visil.errors import IndexFolderError

WAIT_S = 60.0

DAMAGED = "the catalogue is damaged; put back a copy of it, or add the videos to a new collection"


class Database:
    """One connection, shared by the threads of a process. Where it comes from is its kinds' business.

    A kind sets ``_db`` when it is made, and may set another one later, under ``_lock``.
    """

    _db: sqlite3.Connection

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        """Named in messages."""
        self.readonly = False
        """Whether it cannot be written to."""
        self._lock = threading.RLock()

    @contextmanager
    def writing(self, *, publish: bool = True) -> Iterator[sqlite3.Connection]:  # noqa: ARG002
        """One transaction: all of it, or none. ``publish``: whether it is by itself worth writing to a store."""
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

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """The answer to a query that changes nothing."""
        try:
            with self._lock:
                self.renew()
                return self._db.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise IndexFolderError(self.path, plain(error)) from error

    def one(self, query: str, *values: object) -> tuple[Any, ...] | None:
        """The first row of an answer; None where there is none."""
        rows = self.rows(query, *values)
        return rows[0] if rows else None

    def renew(self) -> None:
        """Called under the lock before each query, by which a kind may open another connection."""

    def version(self) -> object:
        """Equals an earlier answer only where nothing was written in between, by anybody; costs next to nothing."""
        with self._lock:
            (version,) = self.rows("PRAGMA data_version")[0]
            return self._db, version, self._db.total_changes

    def seen(self) -> tuple[object, ...]:
        """Changes whenever another connection has changed the file; where nothing is locked, as soon as that shows."""
        with self._lock:
            (version,) = self.rows("PRAGMA data_version")[0]
            return id(self._db), version

    def integrity(self) -> str | None:
        """The fault that SQLite finds in the file; None where it is sound."""
        try:
            row = self._db.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.DatabaseError as error:
            return plain(error)
        return None if row[0] == "ok" else str(row[0])

    def close(self) -> None:
        """Let go of the connection."""
        self._db.close()


class FileDatabase(Database):
    """The catalogue in a folder: made where there is none, only read where it cannot be written to."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self._frozen: tuple[object, ...] | None = None
        """Size and times of the file when it was opened without any locking; None where SQLite locks."""
        self._open()
        _OPEN.add(self)

    def close(self) -> None:
        """See :meth:`Database.close`."""
        _OPEN.discard(self)
        super().close()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Let go of the file for as long as the block lasts; whoever asks meanwhile waits."""
        with self._lock:
            self._db.close()
            try:
                yield
            finally:
                self._open()

    def _open(self) -> None:
        try:
            if self.path.is_file() and not (can_write(self.path) and can_write(self.path.parent)):
                self._open_to_read()
            else:
                self._open_as_permitted()
        except sqlite3.DatabaseError as error:
            raise IndexFolderError(self.path, plain(error)) from error

    def _open_as_permitted(self) -> None:
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
        address = Path(os.path.abspath(self.path)).as_uri()
        try:
            self._frozen = None
            self._db = self._connect(f"{address}?mode=ro", uri=True)
            found = schema.found_format(self._db, self.path)
        except sqlite3.OperationalError as error:
            # WAL needs two more files beside this one. Where they cannot be made nobody writes: no need to lock.
            if not _not_writable(error):
                raise
            if size_of(self._wal):
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

    def renew(self) -> None:
        """Where nothing is locked: open the file anew once someone who may write has come."""
        if self._frozen is not None and self._frozen != self._look():
            self._db.close()
            self._open_to_read()

    def version(self) -> object:
        """See :meth:`Database.version`."""
        with self._lock:
            if self._frozen is not None:
                return object()  # no lock, no telling
            return super().version()


_OPEN: weakref.WeakSet[FileDatabase] = weakref.WeakSet()


@contextmanager
def none_open() -> Iterator[None]:
    """No catalogue is open in this process during the block, in which it may be forked.

    SQLite takes a file that was open at a fork for open in the new process as well, where its locks are gone: it can
    be opened no more.
    """
    with ExitStack() as stack:
        for database in list(_OPEN):
            stack.enter_context(database.closed())
        yield


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
        return DAMAGED
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


def size_of(path: Path) -> int:
    """Bytes of a file; none where there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
