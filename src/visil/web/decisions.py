"""People's decisions about files of a plan, kept over restarts, with steps to undo."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from visil.collection.decided import Decision
from visil.web.sqlite_files import open_sqlite

TABLES = """
CREATE TABLE IF NOT EXISTS decisions (
    video TEXT NOT NULL,
    path BLOB NOT NULL,
    action TEXT NOT NULL CHECK (action IN ('keep', 'drop')),
    at REAL NOT NULL,
    PRIMARY KEY (video, path)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS steps (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    title TEXT NOT NULL,
    before TEXT NOT NULL,
    at REAL NOT NULL
);
"""
MOST_STEPS = 500
"""That can be undone."""

File = tuple[str, str]
"""Id of its video, and path."""


@dataclass(frozen=True)
class Step:
    """The step that was undone."""

    title: str
    files: list[File]


class DecisionStore:
    """``review.sqlite``: a decision for each file that someone has looked at, by content and path."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._db = open_sqlite(
            path, TABLES, "the file of decisions about duplicates", "delete it to start anew"
        )
        self._all = _decisions(self._db)
        self.version = 0
        """Another one after every change."""

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def all(self) -> Mapping[File, Decision]:
        """Every decision."""
        return self._all

    def decide(self, title: str, changes: Mapping[File, Decision | None]) -> None:
        """Decide about some files as one step; None takes a decision back."""
        with self._lock:
            now = self._all
            before = [[video, os.fsencode(path).hex(), now.get((video, path))] for video, path in changes]
            with self._writing():
                self._put(changes)
                self._db.execute(
                    "INSERT INTO steps (title, before, at) VALUES (?, ?, ?)",
                    (title, json.dumps(before), time.time()),
                )
                self._db.execute(
                    "DELETE FROM steps WHERE number <= (SELECT max(number) FROM steps) - ?", (MOST_STEPS,)
                )
            self._remember(changes)

    def undo(self) -> Step | None:
        """Take the last step back; None where there is none."""
        with self._lock:
            row = self._db.execute("SELECT number, title, before FROM steps ORDER BY number DESC").fetchone()
            if row is None:
                return None
            number, title, before = row
            changes = {
                (video, os.fsdecode(bytes.fromhex(name))): action
                for video, name, action in json.loads(before)
            }
            with self._writing():
                self._put(changes)
                self._db.execute("DELETE FROM steps WHERE number = ?", (number,))
            self._remember(changes)
            return Step(title, list(changes))

    def last_step(self) -> str | None:
        """The step that the next undo takes back."""
        with self._lock:
            row = self._db.execute("SELECT title FROM steps ORDER BY number DESC LIMIT 1").fetchone()
        return None if row is None else str(row[0])

    def _put(self, changes: Mapping[File, Decision | None]) -> None:
        for (video, path), action in changes.items():
            name = os.fsencode(path)
            if action is None:
                self._db.execute("DELETE FROM decisions WHERE video = ? AND path = ?", (video, name))
            else:
                self._db.execute(
                    "INSERT OR REPLACE INTO decisions VALUES (?, ?, ?, ?)", (video, name, action, time.time())
                )

    def _remember(self, changes: Mapping[File, Decision | None]) -> None:
        merged: dict[File, Any] = {**self._all, **changes}
        self._all = {file: action for file, action in merged.items() if action is not None}
        self.version += 1

    def _writing(self) -> _Transaction:
        return _Transaction(self._db)


def read_decisions(path: Path) -> dict[File, Decision]:
    """Every decision of a server that runs, read by another process."""
    if not path.is_file():
        return {}
    with closing(sqlite3.connect(path)) as db:
        return _decisions(db)


def _decisions(db: sqlite3.Connection) -> dict[File, Decision]:
    rows = db.execute("SELECT video, path, action FROM decisions")
    return {(video, os.fsdecode(name)): action for video, name, action in rows}


class _Transaction:
    """All of a block, or nothing of it."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        self._db.execute("COMMIT" if kind is None else "ROLLBACK")
