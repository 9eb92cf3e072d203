"""Banks: named sets of the collection's videos to look among, with labels, ids of their owners, and a threshold."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from visil.web.sqlite_files import open_sqlite

FILE = "banks.sqlite"

TABLES = """
CREATE TABLE IF NOT EXISTS banks (
    name TEXT PRIMARY KEY,
    description TEXT NOT NULL,
    threshold REAL NOT NULL,
    enabled INTEGER NOT NULL,
    created REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS bank_references (
    bank TEXT NOT NULL REFERENCES banks ON DELETE CASCADE,
    video TEXT NOT NULL,
    external_id TEXT,
    labels TEXT NOT NULL,
    enabled INTEGER NOT NULL,
    added REAL NOT NULL,
    PRIMARY KEY (bank, video)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS references_by_video ON bank_references (video);
CREATE INDEX IF NOT EXISTS references_by_external_id ON bank_references (external_id);
"""


@dataclass(frozen=True)
class Bank:
    """A named set of references."""

    name: str
    description: str = ""
    threshold: float = 0.0
    """Confidence from which a hit counts."""
    enabled: bool = True
    created: float = 0.0
    references: int = 0


@dataclass(frozen=True)
class Reference:
    """A video in a bank."""

    video: str
    external_id: str | None = None
    labels: tuple[str, ...] = ()
    enabled: bool = True
    added: float = 0.0


class NoBank(LookupError):
    """There is no such bank; the message is its name."""


class Banks:
    """``banks.sqlite``."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._db = open_sqlite(path, TABLES, "the banks", "move the file away to start without any")

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    # ------------------------------------------------------------------ banks

    def page(self, offset: int, limit: int) -> tuple[int, list[Bank]]:
        """How many there are, and some of them by name."""
        total = self._one("SELECT count(*) FROM banks")
        return total, self._banks("ORDER BY name LIMIT ? OFFSET ?", limit, offset)

    def bank(self, name: str) -> Bank:
        """One of them; :class:`NoBank` where there is none."""
        found = self._banks("WHERE name = ?", name)
        if not found:
            raise NoBank(name)
        return found[0]

    def create(self, bank: Bank) -> bool:
        """Make a bank; False where there is one of that name."""
        values = (bank.name, bank.description, bank.threshold, bank.enabled, time.time())
        with self._lock:
            made = self._db.execute("INSERT OR IGNORE INTO banks VALUES (?, ?, ?, ?, ?)", values)
            return made.rowcount == 1

    def change(self, name: str, changes: Mapping[str, Any]) -> Bank:
        """Change the named values of a bank."""
        bank = replace(self.bank(name), **changes)
        with self._lock:
            self._db.execute(
                "UPDATE banks SET description = ?, threshold = ?, enabled = ? WHERE name = ?",
                (bank.description, bank.threshold, bank.enabled, name),
            )
        return bank

    def delete(self, name: str) -> None:
        """Forget a bank; its videos stay in the collection."""
        self.bank(name)
        with self._lock:
            self._db.execute("DELETE FROM banks WHERE name = ?", (name,))

    # ------------------------------------------------------------------ references

    def references(
        self, bank: str, offset: int, limit: int, *, label: str = "", external_id: str = ""
    ) -> tuple[int, list[Reference]]:
        """How many there are in a bank, and some of them, the newest first."""
        self.bank(bank)
        condition = (
            "FROM bank_references WHERE bank = ? AND (? = '' OR external_id = ?) AND"
            " (? = '' OR EXISTS (SELECT 1 FROM json_each(labels) WHERE value = ?))"
        )
        values = (bank, external_id, external_id, label, label)
        total = self._one(f"SELECT count(*) {condition}", *values)
        rows = self._all(
            f"SELECT video, external_id, labels, enabled, added {condition}"
            " ORDER BY added DESC, video LIMIT ? OFFSET ?",
            *(*values, limit, offset),
        )
        return total, [_reference(row) for row in rows]

    def reference(self, bank: str, video: str) -> Reference | None:
        """A video in a bank; None where it is not."""
        rows = self._all(
            "SELECT video, external_id, labels, enabled, added FROM bank_references WHERE bank = ? AND video = ?",
            *(bank, video),
        )
        return _reference(rows[0]) if rows else None

    def put(self, bank: str, references: Sequence[Reference]) -> None:
        """Videos into a bank; those that are in it are changed."""
        self.bank(bank)
        with self._writing():
            for one in references:
                self._db.execute(
                    "INSERT INTO bank_references VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (bank, video) DO UPDATE SET"
                    " external_id = excluded.external_id, labels = excluded.labels, enabled = excluded.enabled",
                    (bank, one.video, one.external_id, json.dumps(one.labels), one.enabled, time.time()),
                )

    def take_out(self, bank: str, video: str) -> bool:
        """A video out of a bank; False where it was not in it."""
        self.bank(bank)
        with self._lock:
            gone = self._db.execute("DELETE FROM bank_references WHERE bank = ? AND video = ?", (bank, video))
            return gone.rowcount == 1

    # ------------------------------------------------------------------ for a search

    def members(self, names: Iterable[str]) -> dict[str, float]:
        """Videos of some banks, each with the confidence from which it counts; those turned off are left out."""
        found: dict[str, float] = {}
        for name in names:
            bank = self.bank(name)
            rows = self._all("SELECT video FROM bank_references WHERE bank = ? AND enabled", name)
            for (video,) in rows if bank.enabled else []:
                found[video] = min(bank.threshold, found.get(video, bank.threshold))
        return found

    def known_as(self, video: str) -> list[dict[str, Any]]:
        """The names of a video in every bank that is on."""
        rows = self._all(
            "SELECT bank, external_id, labels FROM bank_references JOIN banks ON banks.name = bank"
            " WHERE video = ? AND bank_references.enabled AND banks.enabled ORDER BY bank",
            video,
        )
        return [
            {"bank": bank, "external_id": external_id, "labels": json.loads(labels)}
            for bank, external_id, labels in rows
        ]

    # ------------------------------------------------------------------ SQLite

    def _banks(self, condition: str, *values: object) -> list[Bank]:
        rows = self._all(
            "SELECT name, description, threshold, enabled, created,"
            " (SELECT count(*) FROM bank_references WHERE bank = name)"
            f" FROM banks {condition}",
            *values,
        )
        return [Bank(name, said, least, bool(on), made, count) for name, said, least, on, made, count in rows]

    def _one(self, statement: str, *values: object) -> int:
        return int(self._all(statement, *values)[0][0])

    def _all(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(statement, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")


def _reference(row: tuple[Any, ...]) -> Reference:
    video, external_id, labels, enabled, added = row
    return Reference(video, external_id, tuple(json.loads(labels)), bool(enabled), added)
