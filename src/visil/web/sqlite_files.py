"""The SQLite files of a server: all opened alike, and used by several of its threads."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from visil.errors import IndexFolderError


def open_sqlite(path: Path, tables: str, what: str, way_out: str) -> sqlite3.Connection:
    """Open a file and make its tables; the error says that ``what`` cannot be opened, and the ``way_out``."""
    try:
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA foreign_keys = ON")
        database.executescript(tables)
    except sqlite3.DatabaseError as error:
        raise IndexFolderError(path, f"{what} cannot be opened ({error}); {way_out}") from error
    return database
