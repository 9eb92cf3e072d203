"""Entries of a catalogue as plain rows: listed in the order they came, moved from one catalogue to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visil.collection.catalogue import Catalogue

Row = tuple[Any, ...]

VIDEO = "id, frames, duration, width, height, codec, bit_rate, bytes, damaged, added"
FILE = "path, bytes, modified_ns, reference"


@dataclass(frozen=True)
class Entry:
    """A video's row, and the rows of its files."""

    video: Row
    files: list[Row]

    @property
    def id(self) -> str:
        """Hash of its content."""
        return str(self.video[0])


@dataclass(frozen=True)
class Order:
    """All videos of a catalogue in the order in which they came: when, and by id where that is the same moment."""

    numbers: NDArray[np.int64]
    ids: list[str]
    added: NDArray[np.float64]


def order(catalogue: Catalogue) -> Order:
    """Of all videos; a video that was moved here keeps the time at which it first came."""
    rows = catalogue.database.rows("SELECT number, id, added FROM videos ORDER BY added, id")
    numbers = np.array([row[0] for row in rows], np.int64)
    return Order(numbers, [str(row[1]) for row in rows], np.array([row[2] for row in rows], np.float64))


def entry(catalogue: Catalogue, video: str) -> Entry | None:
    """All that a catalogue knows of a video; None where it is not (any more)."""
    rows = catalogue.database.rows(f"SELECT number, {VIDEO} FROM videos WHERE id = ?", video)
    if not rows:
        return None
    return Entry(
        rows[0][1:], catalogue.database.rows(f"SELECT {FILE} FROM files WHERE video = ?", rows[0][0])
    )


def put(catalogue: Catalogue, moved: Entry, place: Callable[[], object] | None = None) -> None:
    """An entry from elsewhere; ``place`` puts its features in their place. One that is here already stays as it is."""
    with catalogue.database.writing() as db:
        if place is not None:
            place()
        marks = ", ".join("?" * len(moved.video))
        db.execute(f"INSERT INTO videos ({VIDEO}) VALUES ({marks}) ON CONFLICT (id) DO NOTHING", moved.video)
        (number,) = db.execute("SELECT number FROM videos WHERE id = ?", (moved.id,)).fetchone()
        db.executemany(
            "INSERT OR IGNORE INTO files (video, path, bytes, modified_ns, reference) VALUES (?, ?, ?, ?, ?)",
            [(number, *file) for file in moved.files],
        )


def verdicts(catalogue: Catalogue) -> list[Row]:
    """People's verdicts: (id, id, verdict, when)."""
    return catalogue.database.rows("SELECT a, b, verdict, at FROM verdicts ORDER BY a, b")


def put_verdicts(catalogue: Catalogue, rows: Iterable[Row]) -> None:
    """Take in people's verdicts from elsewhere; of two on one pair the later stays."""
    with catalogue.database.writing() as db:
        db.executemany(
            "INSERT INTO verdicts VALUES (?, ?, ?, ?) ON CONFLICT (a, b) DO UPDATE"
            " SET verdict = excluded.verdict, at = excluded.at WHERE excluded.at > verdicts.at",
            list(rows),
        )


def drop_verdicts(catalogue: Catalogue, rows: Iterable[Row]) -> None:
    """Take a verdict out, if it is still the one given."""
    with catalogue.database.writing() as db:
        db.executemany("DELETE FROM verdicts WHERE a = ? AND b = ? AND verdict = ? AND at = ?", list(rows))


def failures(catalogue: Catalogue) -> list[Row]:
    """Files that cannot be read: (path, reason, bytes, modified, when)."""
    return catalogue.database.rows("SELECT path, reason, bytes, modified_ns, at FROM failures ORDER BY path")


def put_failures(catalogue: Catalogue, rows: Iterable[Row]) -> None:
    """Files that cannot be read, from elsewhere."""
    with catalogue.database.writing() as db:
        db.executemany("INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?)", list(rows))
