"""The catalogue of a collection: which videos, from which files, with which failures and verdicts.

One transaction a video, so a killed process leaves whole entries only.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from visil.collection.database import Database
from visil.collection.identity import Stamp

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
    """Facts about a video that was embedded."""

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


@dataclass(frozen=True)
class ListedFailure:
    """A file that could not be read, for lists of all of them."""

    path: str
    reason: str
    bytes: int | None
    """None where the failure is of a passing kind, and the file is tried again each time."""
    added: float


class Catalogue:
    """The entries of a collection's database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._counted: tuple[object, tuple[int, int, float]] | None = None

    def version(self) -> object:
        """Equals an earlier answer only where nothing was written in between, by anybody."""
        return self.database.version()

    def close(self) -> None:
        """Let go of the database."""
        self.database.close()

    # ------------------------------------------------------------------ facts about the collection

    def fact(self, key: str) -> str | None:
        """A fact about the whole collection, such as its model."""
        row = self.database.one("SELECT value FROM meta WHERE key = ?", key)
        return None if row is None else str(row[0])

    def set_fact(self, key: str, value: str) -> None:
        """Record a fact about the whole collection. Whoever only searches may have no right to publish it."""
        with self.database.writing(publish=False) as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def settle_codes(self, wanted: str | None) -> None:
        """Record what features are kept as, where that is not known: fp16, unless something else is wanted.

        Of videos that are here already, and so from before there was a choice, it is fp16 in any case.
        """
        with self.database.writing() as db:
            older = db.execute("SELECT 1 FROM videos").fetchone()
            kind = "fp16" if older or wanted is None else wanted
            db.execute("INSERT OR IGNORE INTO meta VALUES ('codes', ?)", (kind,))

    # ------------------------------------------------------------------ videos and files

    def add(
        self,
        video: NewVideo,
        path: str,
        stamp: Stamp,
        *,
        reference: bool = False,
        place: Callable[[], object] | None = None,
    ) -> list[str]:
        """A video with the file it was read from. Returns the videos that no file holds since, and that are gone.

        ``place`` puts its features in their place while nobody else can add or clear that video.
        """
        with self.database.writing() as db:
            if place is not None:
                place()
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
        with self.database.writing() as db:
            return _put_file(db, video, path, stamp, reference)

    def mark_reference(self, path: str) -> None:
        """Mark a file that is here already as one that others are compared against."""
        with self.database.writing() as db:
            db.execute("UPDATE files SET reference = 1 WHERE path = ?", (os.fsencode(path),))

    def fail(self, path: str, reason: str, stamp: Stamp) -> list[str]:
        """A file that cannot be read; it is tried again when it changes. What was known of its path is gone.

        Returns the videos that no file holds since, and that are gone.
        """
        with self.database.writing() as db:
            name = os.fsencode(path)
            gone = _take_out(db, [name])
            db.execute(
                "INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?)",
                (name, reason, stamp.size, stamp.modified_ns, time.time()),
            )
            return gone

    def forget(self, path: str) -> list[str]:
        """Forget a path, as a file or as a failure. Returns the videos that no file holds since."""
        with self.database.writing() as db:
            db.execute("DELETE FROM failures WHERE path = ?", (os.fsencode(path),))
            return _take_out(db, [os.fsencode(path)])

    def file(self, path: str) -> tuple[str, Stamp] | None:
        """The video that a path held when last seen, and the file's stamp then."""
        row = self.database.one(
            "SELECT v.id, f.bytes, f.modified_ns FROM files f JOIN videos v ON v.number = f.video WHERE f.path = ?",
            os.fsencode(path),
        )
        return None if row is None else (str(row[0]), Stamp(int(row[1]), int(row[2])))

    def failed_before(self, path: str, stamp: Stamp) -> str | None:
        """Why this very file could not be read before; None where it was not tried, or has changed."""
        row = self.database.one(
            "SELECT reason FROM failures WHERE path = ? AND bytes = ? AND modified_ns = ?",
            *(os.fsencode(path), stamp.size, stamp.modified_ns),
        )
        return None if row is None else str(row[0])

    def failures(self) -> list[Failure]:
        """All files that cannot be read."""
        rows = self.database.rows("SELECT path, reason FROM failures ORDER BY path")
        return [Failure(os.fsdecode(path), str(reason)) for path, reason in rows]

    def has(self, video: str) -> bool:
        """Whether a video is here."""
        return self.database.one("SELECT 1 FROM videos WHERE id = ?", video) is not None

    def count(self) -> tuple[int, int, float]:
        """Videos, frames and seconds in all; counted anew where something was written."""
        version = self.version()
        if self._counted is None or self._counted[0] != version:
            row = self.database.one(
                "SELECT count(*), coalesce(sum(frames), 0), coalesce(sum(duration), 0) FROM videos"
            )
            assert row is not None
            self._counted = version, (int(row[0]), int(row[1]), float(row[2]))
        return self._counted[1]

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

    def sample(self, count: int) -> list[Video]:
        """So many videos, by id: as good as drawn by lot, and the same ones in whichever order all of them came."""
        rows = self.database.rows("SELECT number FROM videos ORDER BY id LIMIT ?", count)
        return sorted(self.numbered([int(row[0]) for row in rows]).values(), key=lambda video: video.id)

    def numbers(self) -> list[int]:
        """The numbers of all videos, rising."""
        return [int(row[0]) for row in self.database.rows("SELECT number FROM videos ORDER BY number")]

    def paths(self, video: str) -> list[str]:
        """Every file that holds a video."""
        rows = self.database.rows(
            "SELECT f.path FROM files f JOIN videos v ON v.number = f.video WHERE v.id = ? ORDER BY f.path",
            video,
        )
        return [os.fsdecode(row[0]) for row in rows]

    def files(self, video: str) -> list[tuple[str, Stamp, bool]]:
        """Every file that holds a video, by path: (path, its stamp when added, whether it is a reference)."""
        rows = self.database.rows(
            "SELECT f.path, f.bytes, f.modified_ns, f.reference FROM files f JOIN videos v ON v.number = f.video"
            " WHERE v.id = ? ORDER BY f.path",
            video,
        )
        return [(os.fsdecode(path), Stamp(size, modified), bool(mark)) for path, size, modified, mark in rows]

    def known_paths(self) -> list[str]:
        """Every file that is here, or could not be read."""
        rows = self.database.rows("SELECT path FROM files UNION SELECT path FROM failures ORDER BY path")
        return [os.fsdecode(row[0]) for row in rows]

    def copies(self) -> dict[str, list[tuple[str, bool]]]:
        """{id: [(path, whether it is a reference)]} of the videos that several files hold, byte for byte."""
        found: dict[str, list[tuple[str, bool]]] = defaultdict(list)
        for video, path, reference in self.database.rows(
            "SELECT v.id, f.path, f.reference FROM files f JOIN videos v ON v.number = f.video WHERE f.video IN"
            " (SELECT video FROM files GROUP BY video HAVING count(*) > 1) ORDER BY v.number, f.path"
        ):
            found[video].append((os.fsdecode(path), bool(reference)))
        return dict(found)

    def listed(self) -> list[tuple[Any, ...]]:
        """A plain row for each file of each video: path, bytes and time of change of the file; id, duration, width,
        height, bytes and frames of the video, and when it was added. One without a file has a row without a path.
        """
        return self.database.rows(
            "SELECT f.path, f.bytes, f.modified_ns, v.id, v.duration, v.width, v.height, v.bytes, v.frames, v.added"
            " FROM videos v LEFT JOIN files f ON f.video = v.number"
        )

    def listed_failures(self) -> Iterator[ListedFailure]:
        """All files that could not be read."""
        for path, reason, size, at in self.database.rows("SELECT path, reason, bytes, at FROM failures"):
            yield ListedFailure(os.fsdecode(path), reason, None if size < 0 else size, at)

    def remove(self, video: str) -> None:
        """Forget a video and its files; verdicts about it stay, in case it comes back."""
        with self.database.writing() as db:
            db.execute("DELETE FROM videos WHERE id = ?", (video,))

    def clear(self, video: str, clear: Callable[[str], None]) -> None:
        """Call ``clear`` for a video that is not here (any more), while nobody can add it."""
        with self.database.writing() as db:
            if not db.execute("SELECT 1 FROM videos WHERE id = ?", (video,)).fetchone():
                clear(video)

    def _videos(self, condition: str, *values: object) -> list[Video]:
        rows = self.database.rows(
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
        with self.database.writing() as db:
            if verdict is None:
                db.execute("DELETE FROM verdicts WHERE a = ? AND b = ?", (low, high))
            else:
                db.execute(
                    "INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?)", (low, high, verdict, time.time())
                )

    def verdicts(self) -> dict[tuple[str, str], Judgement]:
        """{(id, id): what was said}, ids in order."""
        return {(a, b): verdict for a, b, verdict in self.database.rows("SELECT a, b, verdict FROM verdicts")}


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
