"""The tables of a catalogue, and how an older one is brought up to date."""

from __future__ import annotations

import sqlite3
from os import PathLike

from visil.errors import IndexFolderError

FORMAT = 1
"""Of the whole folder: catalogue, feature files, candidates."""

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


def found_format(db: sqlite3.Connection, path: str | PathLike[str]) -> int | None:
    """The format of a catalogue, None of an empty file; one that is no catalogue, or too new, is refused."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
        return None
    row = db.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
    if row is None or not str(row[0]).isdecimal():
        raise IndexFolderError(path, "is not the catalogue of a collection: it names no format")
    found = int(row[0])
    if found > FORMAT:
        raise IndexFolderError(path, f"was made by a newer visil (format {found}); upgrade to open it")
    return found


def bring_up_to_date(db: sqlite3.Connection, path: str | PathLike[str]) -> None:
    """Make the tables, or migrate them; inside a transaction of the caller's."""
    found = found_format(db, path)
    if found is None:
        _run(db, SCHEMA)
        db.execute("INSERT INTO meta VALUES ('format', ?)", (str(FORMAT),))
        return
    while found < FORMAT:
        _run(db, MIGRATIONS[found])
        found += 1
        db.execute("UPDATE meta SET value = ? WHERE key = 'format'", (str(found),))


def _run(db: sqlite3.Connection, script: str) -> None:
    for statement in script.split(";\n"):
        db.execute(statement)
