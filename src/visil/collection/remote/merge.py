"""Two writers' work on one catalogue brought together: what one changed since a common state, done to the other's.

Rows are told by what they are about (a content hash, a path, a pair), never by number, which each writer gives out on
its own. A video stays as long as some file holds it, whoever said so.
"""

from __future__ import annotations

import sqlite3
from os import PathLike

from visil.collection import schema
from visil.collection.entries import VIDEO
from visil.errors import IndexFolderError

OBJECTS = (
    "CREATE TABLE IF NOT EXISTS objects (video TEXT PRIMARY KEY, object TEXT NOT NULL, bytes INTEGER NOT NULL,"
    " crc INTEGER NOT NULL) WITHOUT ROWID"
)
"""Beside the tables of every catalogue: the object that holds a video's features, its size and its CRC-32."""

_FILES = (
    "SELECT f.path AS path, v.id AS id, f.bytes AS bytes, f.modified_ns AS modified_ns, f.reference AS reference"
    " FROM {0}.files f JOIN {0}.videos v ON v.number = f.video"
)
_MINE, _BASE = _FILES.format("mine"), _FILES.format("base")

STEPS = (
    "CREATE TEMP TABLE had AS SELECT object FROM main.objects",
    # Files first: they decide which videos stay.
    f"INSERT OR IGNORE INTO main.videos ({VIDEO}) SELECT {VIDEO} FROM mine.videos"
    " WHERE id NOT IN (SELECT id FROM base.videos) ORDER BY number",
    f"DELETE FROM main.files WHERE path IN (SELECT b.path FROM ({_BASE}) b WHERE b.path NOT IN"
    " (SELECT path FROM mine.files) AND b.id = (SELECT id FROM main.videos WHERE number = main.files.video))",
    "INSERT OR REPLACE INTO main.files (path, video, bytes, modified_ns, reference)"
    f" SELECT r.path, v.number, r.bytes, r.modified_ns, r.reference FROM ({_MINE} EXCEPT {_BASE}) r"
    " JOIN main.videos v ON v.id = r.id",
    "DELETE FROM main.videos WHERE number NOT IN (SELECT video FROM main.files)",
    "DELETE FROM main.failures WHERE path IN (SELECT path FROM base.failures EXCEPT SELECT path FROM mine.failures)",
    "INSERT OR REPLACE INTO main.failures SELECT * FROM mine.failures EXCEPT SELECT * FROM base.failures",
    "DELETE FROM main.verdicts WHERE (a, b) IN"
    " (SELECT a, b FROM base.verdicts EXCEPT SELECT a, b FROM mine.verdicts)",
    "INSERT OR REPLACE INTO main.verdicts SELECT * FROM mine.verdicts EXCEPT SELECT * FROM base.verdicts",
    # Features that were made anew take the place of those they were made for, and of no others.
    "DELETE FROM main.objects WHERE (video, object) IN (SELECT b.video, b.object FROM base.objects b"
    " JOIN mine.objects m ON m.video = b.video WHERE m.object != b.object)",
    "INSERT OR IGNORE INTO main.objects SELECT * FROM mine.objects EXCEPT SELECT * FROM base.objects",
    "DELETE FROM main.objects WHERE video NOT IN (SELECT id FROM main.videos)",
    "INSERT OR REPLACE INTO main.meta SELECT key, value FROM mine.meta WHERE key NOT IN ('format', 'left_out')"
    " EXCEPT SELECT key, value FROM base.meta",
)


def memory(data: bytes | None, path: str | PathLike[str]) -> sqlite3.Connection:
    """A catalogue in memory: from the bytes of one, or empty."""
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    if data is not None:
        db.deserialize(data)
    db.execute("PRAGMA foreign_keys = ON")
    if schema.found_format(db, path) != schema.FORMAT:
        db.execute("BEGIN")
        schema.bring_up_to_date(db, path)
        db.execute("COMMIT")
    db.execute(OBJECTS)
    return db


def merged(
    newest: bytes | None, base: bytes, mine: bytes, path: str | PathLike[str]
) -> tuple[sqlite3.Connection, list[str]]:
    """``newest`` with what ``mine`` changed since ``base``; and the objects that nothing names any more."""
    db = memory(newest, path)
    for name, data in (("base", base), ("mine", mine)):
        db.execute(f"ATTACH ':memory:' AS {name}")
        db.deserialize(data, name=name)
    _refuse_other_facts(db, path)
    db.execute("BEGIN")
    for step in STEPS:
        db.execute(step)
    unused = db.execute(
        "SELECT object FROM temp.had UNION SELECT object FROM base.objects UNION SELECT object FROM mine.objects"
        " EXCEPT SELECT object FROM main.objects"
    ).fetchall()
    db.execute("DROP TABLE temp.had")
    db.execute("COMMIT")
    for name in ("base", "mine"):
        db.execute(f"DETACH {name}")
    return db, [str(row[0]) for row in unused]


def _refuse_other_facts(db: sqlite3.Connection, path: str | PathLike[str]) -> None:
    """Two that made a collection at once, with another model or other codes: the second gives way."""
    row = db.execute(
        "SELECT m.key, n.value FROM mine.meta m JOIN main.meta n ON n.key = m.key AND n.value != m.value"
        " LEFT JOIN base.meta b ON b.key = m.key WHERE m.key NOT IN ('format', 'left_out')"
        " AND (b.value IS NULL OR b.value != m.value) LIMIT 1"
    ).fetchone()
    if row is not None:
        said = f"its {row[0]} is {row[1]} now" if row[0] in ("codes", "model") else "with another model"
        raise IndexFolderError(
            path, f"another process has made the collection meanwhile ({said}); nothing of this run was kept"
        )
