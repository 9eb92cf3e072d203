"""``access.sqlite``: who changed what and when, and which sessions were logged out."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from pathlib import Path
from typing import Any

from visil.web.library import iso
from visil.web.sqlite_files import open_sqlite

TABLES = """
CREATE TABLE IF NOT EXISTS audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    who TEXT NOT NULL,
    role TEXT NOT NULL,
    address TEXT NOT NULL,
    action TEXT NOT NULL,
    said TEXT,
    status INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS logged_out (session TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
"""


class AccessStore:
    """The file of both: the record of callers' changes, and sessions that are over."""

    def __init__(self, path: Path, kept_s: float) -> None:
        self.kept_s = kept_s
        self._lock = threading.Lock()
        self._db = open_sqlite(
            path, TABLES, "the record of who changed what", "move it away to start a new one"
        )
        self._db.execute("DELETE FROM logged_out WHERE until < ?", (time.time(),))
        self._logged_out = {row[0] for row in self._db.execute("SELECT session FROM logged_out")}

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    # ------------------------------------------------------------------ sessions

    def log_out(self, cookie: str, until: int) -> None:
        """The session of a cookie is over, also for who has copied it."""
        with self._lock:
            self._db.execute("INSERT OR IGNORE INTO logged_out VALUES (?, ?)", (_named(cookie), until))
            self._logged_out.add(_named(cookie))

    def logged_out(self, cookie: str) -> bool:
        """Whether it is."""
        return _named(cookie) in self._logged_out

    # ------------------------------------------------------------------ the audit

    def note(self, who: str, role: str, address: str, action: str, said: str | None, status: int) -> None:
        """One call that was to change something."""
        with self._lock:
            self._db.execute(
                "INSERT INTO audit (at, who, role, address, action, said, status) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (time.time(), who, role, address, action, said, status),
            )
            self._db.execute("DELETE FROM audit WHERE at < ?", (time.time() - self.kept_s,))

    def audit(
        self, offset: int, limit: int, *, who: str = "", action: str = "", since: float = 0.0
    ) -> tuple[int, list[dict[str, Any]]]:
        """How many entries there are in all, and some of them, newest first."""
        condition = "WHERE at >= ? AND (? = '' OR who = ?) AND instr(action, ?)"
        chosen = [since, who, who, action]
        with self._lock:
            (total,) = self._db.execute(f"SELECT count(*) FROM audit {condition}", chosen).fetchone()
            rows = self._db.execute(
                f"SELECT at, who, role, address, action, said, status FROM audit {condition}"
                " ORDER BY number DESC LIMIT ? OFFSET ?",
                [*chosen, limit, offset],
            ).fetchall()
        return total, [
            {
                "at": iso(at),
                **dict(zip(("who", "role", "address", "action"), names, strict=True)),
                "said": _parsed(said),
                "status": status,
            }
            for at, *names, said, status in rows
        ]


def _named(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "surrogateescape")).hexdigest()


def _parsed(said: str | None) -> Any:
    try:
        return None if said is None else json.loads(said)
    except ValueError:
        return None
