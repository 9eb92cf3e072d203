"""A server's state on disk: its folder, comparisons, and jobs with their results, so that a restart forgets none."""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from visil.collection.lock import can_write, lock_open_file
from visil.errors import IndexFolderError, UsageError, os_reason, printable
from visil.web import banks
from visil.web.problems import Problem
from visil.web.settings import Limits
from visil.web.sqlite_files import open_sqlite

TABLES = """
CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    title TEXT NOT NULL,
    request TEXT NOT NULL,
    progress TEXT NOT NULL,
    created REAL NOT NULL,
    finished REAL,
    error TEXT,
    caller TEXT NOT NULL DEFAULT ''
);
CREATE TABLE IF NOT EXISTS keys (
    caller TEXT NOT NULL,
    key TEXT NOT NULL,
    asked TEXT NOT NULL,
    job TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (caller, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS webhooks (job TEXT PRIMARY KEY, url TEXT NOT NULL) WITHOUT ROWID;
"""
KEYS_S = 24 * 3600.0
"""Seconds for which an Idempotency-Key is known."""
COLUMNS = "id, kind, state, title, request, progress, created, finished, error, caller"
OVER = ("done", "failed", "cancelled")
SAVED = "saved"
"""In the folder of a comparison that is kept for good."""
CLIPS = "clips"
"""Folder in a collection for clips that were searched for and then added."""


class StateFolder:
    """``serve/`` in the collection's folder, or in the user's cache where that cannot be written to.

    One server at a time holds it; the system lets go of the lock when the server ends, however it ends.
    """

    def __init__(self, index: Path) -> None:
        self.folder = index / "serve" if can_write(index) else _in_cache(index)
        self.jobs = self.folder / "jobs.sqlite"
        self.access = self.folder / "access.sqlite"
        self.banks = self.folder / banks.FILE
        self.decisions = self.folder / "review.sqlite"
        self.results = self.folder / "results"
        self.comparisons = self.folder / "comparisons"
        self.pictures = self.folder / "pictures"
        self.copies = self.folder / "copies"
        self.uploads = self.folder / "uploads"
        self.exports = self.folder / "exports"
        try:
            for folder in (self.results, self.comparisons, self.pictures, self.copies):
                folder.mkdir(parents=True, exist_ok=True)
            os.chmod(self.folder, 0o700)
            self._lock = (self.folder / "lock").open("wb")
        except OSError as error:
            raise IndexFolderError(self.folder, f"cannot be made ({os_reason(error)})") from error
        if not lock_open_file(self._lock.fileno(), wait=False):
            self._lock.close()
            raise UsageError(f"{printable(os.fspath(index))}: another `visil serve` has this collection open")
        for folder in (self.uploads, self.exports):
            shutil.rmtree(folder, ignore_errors=True)  # what a killed server left
            folder.mkdir(exist_ok=True)

    def close(self) -> None:
        """Delete uploads, and let another server have the folder."""
        for folder in (self.uploads, self.exports):
            shutil.rmtree(folder, ignore_errors=True)
        self._lock.close()

    def new_comparison(self, limits: Limits) -> str:
        """A name for the matrices of a comparison; the oldest of too many make way."""
        folders = []
        for folder in self.comparisons.iterdir():
            try:
                if (folder / SAVED).exists():
                    continue
                size = sum(file.stat().st_size for file in folder.iterdir())
                folders.append((folder.stat().st_mtime_ns, size, folder))
            except OSError:
                continue
        total = sum(size for _, size, _ in folders)
        for count, (_, size, folder) in zip(range(len(folders), 0, -1), sorted(folders), strict=True):
            if count < limits.comparisons and total < limits.comparisons_bytes:
                break
            shutil.rmtree(folder, ignore_errors=True)
            total -= size
        return secrets.token_hex(16)

    def comparison(self, comparison: str) -> Path:
        """Where the matrices of a comparison are; a problem 404 where they are kept no longer."""
        folder = self.comparisons / comparison
        if not (comparison.isalnum() and (folder / "meta.json").is_file()):
            raise Problem(404, "This comparison is no longer kept. Compare the two videos again.")
        return folder


def _in_cache(index: Path) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = hashlib.blake2b(os.fsencode(index), digest_size=8).hexdigest()
    return cache / "visil" / f"serve-{name}"


@dataclass
class Job:
    """One job."""

    id: str
    kind: str
    state: str
    title: str
    request: dict[str, Any]
    progress: dict[str, Any]
    created: float
    finished: float | None = None
    error: str | None = None
    caller: str = ""

    @property
    def over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state in OVER


class JobStore:
    """``jobs.sqlite``, and a JSON file for each result."""

    def __init__(self, path: Path, results: Path, kept: int, kept_s: float = math.inf) -> None:
        """Finished jobs are kept so long, and of each caller so many."""
        self.results = results
        self.kept = kept
        self.kept_s = kept_s
        self._lock = threading.Lock()
        self._db = open_sqlite(path, TABLES, "the list of jobs", "delete it to start a new one")
        self._db.execute("PRAGMA synchronous = NORMAL")
        if "caller" not in {row[1] for row in self._db.execute("PRAGMA table_info(jobs)")}:
            self._db.execute("ALTER TABLE jobs ADD COLUMN caller TEXT NOT NULL DEFAULT ''")

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def put(self, job: Job) -> None:
        """Keep a job as it stands."""
        values = (
            *(job.id, job.kind, job.state, job.title, json.dumps(job.request), json.dumps(job.progress)),
            *(job.created, job.finished, job.error, job.caller),
        )
        with self._lock:
            self._db.execute(
                f"INSERT INTO jobs ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
                " state = excluded.state, progress = excluded.progress, finished = excluded.finished,"
                " error = excluded.error",
                values,
            )

    def get(self, job: str) -> Job | None:
        """A job by its id."""
        found = self._select("WHERE id = ?", job)
        return found[0] if found else None

    def latest(
        self, limit: int, offset: int = 0, *, kind: str = "", state: str = "", caller: str = ""
    ) -> list[Job]:
        """The newest first; of a kind, in a state, of a caller."""
        chosen, values = _chosen(kind, state, caller)
        return self._select(f"{chosen} ORDER BY number DESC LIMIT ? OFFSET ?", *values, limit, offset)

    def count(self, *, kind: str = "", state: str = "", caller: str = "") -> int:
        """How many there are."""
        chosen, values = _chosen(kind, state, caller)
        with self._lock:
            return int(self._db.execute(f"SELECT count(*) FROM jobs {chosen}", values).fetchone()[0])

    def latest_done(self, kind: str) -> Job | None:
        """The one of its kind that was done last."""
        found = self._select("WHERE kind = ? AND state = 'done' ORDER BY finished DESC LIMIT 1", kind)
        return found[0] if found else None

    def after_restart(self) -> list[Job]:
        """The jobs to start again: additions. Everything else that was not over has failed."""
        with self._lock:
            self._db.execute(
                "UPDATE jobs SET state = 'failed', error = 'the server was restarted', finished = ?"
                " WHERE kind != 'add' AND state IN ('waiting', 'running')",
                (time.time(),),
            )
            self._db.execute("UPDATE jobs SET state = 'waiting' WHERE state = 'running'")
        return self._select("WHERE state = 'waiting' ORDER BY number")

    # ------------------------------------------------------------------ what callers asked for besides

    def keep_key(self, caller: str, key: str, asked: str, job: str) -> None:
        """The job that a caller's key has started, and its request."""
        with self._lock:
            self._db.execute("DELETE FROM keys WHERE at < ?", (time.time() - KEYS_S,))
            self._db.execute(
                "INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?, ?)", (caller, key, asked, job, time.time())
            )

    def job_of_key(self, caller: str, key: str) -> tuple[str, str] | None:
        """The request made with a key, and the job; None where the key is not known."""
        chosen = (caller, key, time.time() - KEYS_S)
        with self._lock:
            found = self._db.execute(
                "SELECT asked, job FROM keys WHERE caller = ? AND key = ? AND at >= ?", chosen
            ).fetchone()
        return None if found is None else (found[0], found[1])

    def keep_webhook(self, job: str, url: str) -> None:
        """Where to send word when a job is over."""
        with self._lock:
            self._db.execute("INSERT OR REPLACE INTO webhooks VALUES (?, ?)", (job, url))

    def webhook(self, job: str) -> str | None:
        """Where that is; None: nowhere, or it was sent."""
        with self._lock:
            found = self._db.execute("SELECT url FROM webhooks WHERE job = ?", (job,)).fetchone()
        return None if found is None else str(found[0])

    def webhooks(self) -> list[tuple[str, str]]:
        """All of them, by job."""
        with self._lock:
            return self._db.execute("SELECT job, url FROM webhooks").fetchall()

    def webhook_over(self, job: str) -> None:
        """Word was sent, or cannot be."""
        with self._lock:
            self._db.execute("DELETE FROM webhooks WHERE job = ?", (job,))

    # ------------------------------------------------------------------ results

    def result_file(self, job: str) -> Path:
        """Where the result of a job is."""
        return self.results / f"{job}.json"

    def keep_result(self, job: str, result: dict[str, Any]) -> None:
        """Write a result, whole or not at all."""
        fresh = self.results / f".{job}.json"
        fresh.write_text(json.dumps(result), "utf-8")
        fresh.replace(self.result_file(job))

    def result(self, job: str) -> dict[str, Any] | None:
        """The result of a job; None where there is none, or it is kept no longer."""
        try:
            found: dict[str, Any] = json.loads(self.result_file(job).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return found

    def prune(self) -> None:
        """Forget jobs that are over and old, or too many of one caller, but for the last search for duplicates."""
        last = self.latest_done("duplicates")
        old = self._select(
            "WHERE state IN ('done', 'failed', 'cancelled') AND (finished < ? OR number IN (SELECT number FROM"
            " (SELECT number, row_number() OVER (PARTITION BY caller ORDER BY number DESC) AS place FROM jobs"
            " WHERE state IN ('done', 'failed', 'cancelled')) WHERE place > ?))",
            *(time.time() - self.kept_s, self.kept),
        )
        for job in old:
            if last is not None and job.id == last.id:
                continue
            with self._lock:
                self._db.execute("DELETE FROM jobs WHERE id = ?", (job.id,))
            for file in self.results.glob(f"{job.id}*"):
                file.unlink(missing_ok=True)

    def _select(self, condition: str, *values: object) -> list[Job]:
        with self._lock:
            rows = self._db.execute(f"SELECT {COLUMNS} FROM jobs {condition}", values).fetchall()
        return [
            Job(
                *(row[0], row[1], row[2], row[3], json.loads(row[4]), json.loads(row[5])),
                *(row[6], row[7], row[8], row[9]),
            )
            for row in rows
        ]


def _chosen(kind: str, state: str, caller: str) -> tuple[str, list[str]]:
    """A condition for the named values."""
    named = {"kind": kind, "state": state, "caller": caller}
    given = {name: value for name, value in named.items() if value}
    condition = " AND ".join(f"{name} = ?" for name in given)
    return f"WHERE {condition}" if given else "", list(given.values())
