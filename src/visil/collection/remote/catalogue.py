"""The catalogue of a collection on a store: one object for each state of it, written whole and never changed.

``catalogue/0000000042`` is the 42nd state. Readers take the highest. A writer works on its own copy in memory and
writes the next number, which the store refuses where somebody else was first; then it brings its changes into theirs
(:mod:`visil.collection.remote.merge`) and tries the number after that. A process that is killed leaves the last
whole state.
"""

from __future__ import annotations

import json
import logging
import random
import secrets
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from visil.collection.database import Database
from visil.collection.remote.cache import LocalCache
from visil.collection.remote.merge import memory, merged
from visil.collection.remote.objects import Objects, StoreError
from visil.errors import IndexFolderError

logger = logging.getLogger("visil")

MARKER = "visil.json"
"""Says that a collection is here; written once."""

FOLDER = "catalogue"
FORMAT = 1

PUBLISH_S = 30.0
"""Seconds of work that a kill may cost: a writer writes its changes so often."""

SHARE = 0.1
"""Part of its time that a writer may spend on that: a large catalogue is written less often."""

KEPT = 5
"""States that stay on the store, for readers that are about to read them."""

ATTEMPTS = 50
"""Times that a writer tries to be the next one."""


@dataclass(frozen=True)
class Placed:
    """The object that holds a video's features."""

    name: str
    bytes: int
    crc: int


@dataclass(frozen=True)
class Snapshot:
    """A state of the catalogue."""

    generation: int
    data: bytes | None
    """Of the SQLite file; None before there is one."""
    highest: int
    """Number of the last object, whole or not."""


class Snapshots:
    """Reads and writes states."""

    def __init__(self, objects: Objects, cache: LocalCache) -> None:
        self.objects = objects
        self.cache = cache
        self._refusing = False
        self._warned: set[int] = set()

    def generations(self) -> list[int]:
        """Numbers of the states on the store, rising."""
        names = (name.rpartition("/")[2] for name in self.objects.sizes(FOLDER))
        return sorted(int(name) for name in names if name.isdecimal())

    def newest(self) -> Snapshot:
        """The last whole state."""
        for _ in range(ATTEMPTS):
            found = self.generations()
            if not found:
                return Snapshot(0, None, 0)
            for generation in reversed(found):
                try:
                    return Snapshot(generation, self._read(generation), found[-1])
                except ValueError:
                    if generation not in self._warned:
                        self._warned.add(generation)
                        logger.warning("%s is damaged; the state before it is used", self._url(generation))
                except FileNotFoundError:
                    break  # writers were quick: look again
            else:
                raise IndexFolderError(
                    self._url(found[-1]), "the catalogue is damaged; put back a copy of it"
                )
        raise StoreError(self.objects.url(FOLDER), "lists states of the catalogue that cannot be read")

    def create(self, generation: int, data: bytes) -> bool:
        """Write a state; False where somebody else was first."""
        self._must_refuse()
        writer = secrets.token_hex(8)
        packed = _packed(generation, data, writer)
        try:
            self.objects.create(_name(generation), packed)
        except FileExistsError:
            # The answer to our own attempt may have been lost on the way, and been tried again.
            if not self._is_ours(generation, writer):
                return False
        with suppress(IndexFolderError), self.cache.filling(_name(generation)) as part:
            part.write_bytes(packed)
        return True

    def prune(self, generation: int) -> None:
        """Delete states that nobody needs any more."""
        with suppress(StoreError):  # they are in nobody's way
            self.objects.delete(_name(old) for old in self.generations() if old <= generation - KEPT)
        for old in self.cache.path(FOLDER).glob("*"):
            if old.name.isdecimal() and int(old.name) < generation:
                self.cache.drop(f"{FOLDER}/{old.name}")

    def _read(self, generation: int) -> bytes:
        name = _name(generation)
        if self.cache.has(name):
            with suppress(ValueError, OSError):
                return _unpacked(self.cache.path(name).read_bytes(), generation)
            self.cache.drop(name)
        packed = self.objects.read(name)
        data = _unpacked(packed, generation)
        with suppress(IndexFolderError), self.cache.filling(name) as part:
            part.write_bytes(packed)
        return data

    def _is_ours(self, generation: int, writer: str) -> bool:
        try:
            head = json.loads(self.objects.read(_name(generation)).partition(b"\n")[0])
        except (FileNotFoundError, ValueError):
            return False
        return isinstance(head, dict) and head.get("writer") == writer

    def _must_refuse(self) -> None:
        """A store that lets an object be written twice would lose one of two writers' work: found out once."""
        if self._refusing:
            return
        try:
            self.objects.create(MARKER, self.objects.read(MARKER))
        except FileExistsError:
            self._refusing = True
            return
        except FileNotFoundError:
            raise IndexFolderError(self.objects.base, "the collection was deleted meanwhile") from None
        raise StoreError(
            self.objects.base,
            "this store overwrites objects that it was told not to (If-None-Match): two writers could lose each "
            "other's work, so nothing is written",
        )

    def _url(self, generation: int) -> str:
        return self.objects.url(_name(generation))


class SnapshotDatabase(Database):
    """A copy of the newest state, in memory; :meth:`publish` gives its changes to everybody."""

    def __init__(self, snapshots: Snapshots, location: str) -> None:
        super().__init__(location)
        self.location = location
        self.before_publishing: Callable[[], None] = lambda: None
        """Called first: features must be there before the catalogue names them."""
        self._snapshots = snapshots
        self._changed = False
        self._took = 0.0
        """Seconds that the last publishing took."""
        self._published = self._looked = time.monotonic()
        self._take(snapshots.newest())

    def _take(self, snapshot: Snapshot) -> None:
        self._db = self._whole(snapshot)
        self._base = self._db.serialize()
        self.generation = snapshot.generation

    def _whole(self, snapshot: Snapshot) -> sqlite3.Connection:
        try:
            return memory(snapshot.data, self.location)
        except sqlite3.DatabaseError as error:
            raise IndexFolderError(
                self.location, "the catalogue is damaged; put back a copy of it"
            ) from error

    # ------------------------------------------------------------------ which object holds what

    def placed(self, video: str) -> Placed | None:
        """Where a video's features are."""
        row = self.one("SELECT object, bytes, crc FROM objects WHERE video = ?", video)
        return None if row is None else Placed(*row)

    def place(self, video: str, placed: Placed) -> None:
        """A video's features are there now; part of the transaction under way."""
        self._db.execute(
            "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)",
            (video, placed.name, placed.bytes, placed.crc),
        )

    def unplace(self, video: str) -> None:
        """Forget where a video's features were; the object goes when that is published."""
        self._db.execute("DELETE FROM objects WHERE video = ?", (video,))

    def objects(self) -> set[str]:
        """The names of all objects that hold features."""
        return {str(row[0]) for row in self.rows("SELECT object FROM objects")}

    def object_bytes(self) -> int:
        """Bytes of all features."""
        row = self.one("SELECT coalesce(sum(bytes), 0) FROM objects")
        assert row is not None
        return int(row[0])

    # ------------------------------------------------------------------ changes

    @contextmanager
    def writing(self, *, publish: bool = True) -> Iterator[sqlite3.Connection]:
        """One transaction on the copy; changes that have waited long enough are published after it."""
        with self._lock:
            before = self._db.total_changes
            with super().writing() as db:
                yield db
            if publish and self._db.total_changes != before and not self._changed:
                self._changed = True
                self._published = time.monotonic()
        if self._changed and time.monotonic() - self._published > max(PUBLISH_S, self._took / SHARE):
            self.publish()

    def reload(self, max_age: float = 0.0) -> bool:
        """Take over what others have published, unless that was looked for lately; whether there was something."""
        with self._lock:
            if self._changed or time.monotonic() - self._looked < max_age:
                return False
            self._looked = time.monotonic()
            newest = self._snapshots.newest()
            if newest.generation == self.generation:
                return False
            self._db.close()
            self._take(newest)
            return True

    def publish(self) -> None:
        """Write the changes since the last time as the next state."""
        with self._lock:
            if not self._changed:
                return
            self.before_publishing()
            began = time.monotonic()
            mine = self._db.serialize()
            for attempt in range(ATTEMPTS):
                newest = self._snapshots.newest()
                db, unused = merged(newest.data, self._base, mine, self.location)
                data = db.serialize()
                if self._snapshots.create(newest.highest + 1, data):
                    break
                db.close()
                time.sleep(random.uniform(0, 0.05 * min(attempt + 1, 20)))
            else:
                raise StoreError(self.location, "too many others write to the collection; try again")
            self._db.close()
            self._db, self._base = db, data
            self.generation = newest.highest + 1
            self._changed = False
            self._published = self._looked = time.monotonic()
            self._took = self._published - began
        with suppress(StoreError):  # what stays is found by `verify`
            self._snapshots.objects.delete(unused)
        self._snapshots.prune(self.generation)


def _name(generation: int) -> str:
    return f"{FOLDER}/{generation:010d}"


def _packed(generation: int, data: bytes, writer: str) -> bytes:
    body = zlib.compress(data, 1)
    head = {
        "visil": "catalogue",
        "format": FORMAT,
        "generation": generation,
        "writer": writer,
        "bytes": len(body),
        "crc": zlib.crc32(body),
    }
    return json.dumps(head).encode() + b"\n" + body


def _unpacked(packed: bytes, generation: int) -> bytes:
    """ValueError where it is not whole."""
    line, _, body = packed.partition(b"\n")
    head = json.loads(line)
    if not isinstance(head, dict) or head.get("visil") != "catalogue" or head.get("generation") != generation:
        raise ValueError("not a catalogue")
    if head["format"] > FORMAT:
        raise IndexFolderError(_name(generation), "was made by a newer visil; upgrade to open it")
    if head.get("bytes") != len(body) or head.get("crc") != zlib.crc32(body):
        raise ValueError("not whole")
    try:
        return zlib.decompress(body)
    except zlib.error as error:
        raise ValueError("not whole") from error
