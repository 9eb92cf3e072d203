"""Features on a store: one object a video, written once under a name of its own, read by range through a local cache.

Names end in a random part, so that an object is never written over: whoever deletes one that a video had cannot hit
the one that somebody else has just made for it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from visil.collection.feature_writer import FeatureCopy, FeatureWriter, clear_parts
from visil.collection.identity import Stamp
from visil.collection.remote.cache import LocalCache
from visil.collection.remote.catalogue import Placed, SnapshotDatabase
from visil.collection.remote.objects import Answer, Objects
from visil.collection.store import PartFeatures, features_in
from visil.errors import IndexFolderError

if TYPE_CHECKING:
    from visil.collection.catalogue import Video
    from visil.model.code_kinds import Codes
    from visil.model.features import VideoFeatures

FOLDER = "features"

PART = 8 << 20
"""Bytes that are asked for at once: what a dropped connection costs."""

SMALL = 256 << 10
"""Bytes up to which an object is fetched whole: one request in place of three."""

AHEAD = 16
"""Videos that are fetched before they are asked for."""

TOGETHER = 8
"""Objects that are fetched or sent at the same time."""

WAITING = 32
"""Finished videos that may wait to be sent."""

MENDS = "`visil verify --repair` takes it out, adding mends it"


class RemoteFeatures(PartFeatures):
    """Features as the objects of a collection on a store; files that are on this machine are in ``cache``."""

    def __init__(
        self, objects: Objects, database: SnapshotDatabase, cache: LocalCache, codes: Codes = "fp16"
    ) -> None:
        super().__init__(codes)
        self.objects = objects
        self.database = database
        self.cache = cache
        # Apart: whoever waits for all to be sent may hold what a fetching thread waits for.
        self._fetchers = ThreadPoolExecutor(TOGETHER, "visil-fetch")
        self._senders = ThreadPoolExecutor(TOGETHER, "visil-send")
        self._room = threading.Semaphore(WAITING)
        self._unsent: dict[str, tuple[Path, Future[None]]] = {}
        database.before_publishing = self.wait

    def close(self) -> None:
        """Let go of the threads, and of what could not be sent."""
        self._fetchers.shutdown(wait=True, cancel_futures=True)
        self._senders.shutdown(wait=True, cancel_futures=True)
        for file, _ in self._unsent.values():
            file.unlink(missing_ok=True)

    def path(self, video: str) -> Path:
        """Where a video's features are on this machine, or would be."""
        placed = self.database.placed(video)
        return self.cache.path(placed.name if placed else _name(video, "missing"))

    # ------------------------------------------------------------------ reading

    def read(self, video: str, *, path: str | None = None) -> VideoFeatures:
        """A video's features, fetched unless they are here; what the store cannot give now is a StoreError."""
        placed = self._placed(video)
        try:
            if self.cache.has(placed.name):
                with suppress(_ClearedAway):
                    return _features_in(self.cache.path(placed.name), path)
            with self.cache.filling(placed.name) as part:
                self._fetch(placed, part)
                # Before it is where another thread's file may push it out again: what is mapped stays.
                return _features_in(part, path)
        except _Damaged as error:
            self.cache.drop(placed.name)
            raise IndexFolderError(self.objects.url(placed.name), f"is damaged; {MENDS}") from error

    def file(self, video: str) -> Path:
        """See :meth:`PartFeatures.file`."""
        placed = self._placed(video)
        if not self.cache.has(placed.name):
            with self.cache.filling(placed.name) as part:
                self._fetch(placed, part)
        return self.cache.path(placed.name)

    def _fetch(self, placed: Placed, part: Path) -> None:
        with part.open("wb") as file:
            self._copy(placed, file.write)

    def readable(self, videos: Iterable[Video]) -> Iterator[tuple[Video, VideoFeatures]]:
        """As everywhere, with the next ones being fetched meanwhile."""
        for video, future in self._ahead(videos, self.file):
            try:
                future.result()
                features = self.read(video.id, path=video.path)
            except IndexFolderError as error:
                self.warn(video, error)
                continue
            yield video, features

    def glimpses(self, videos: Iterable[Video]) -> Iterator[tuple[Video, VideoFeatures]]:
        """The middle frame of each video that is not blank: a few hundred bytes to kilobytes of each object."""
        for video, future in self._ahead(videos, self._middle):
            try:
                features = future.result()
            except IndexFolderError as error:
                self.warn(video, error)
                continue
            if features is not None:
                yield video, features

    def _ahead(
        self, videos: Iterable[Video], ask: Callable[[str], Answer]
    ) -> Iterator[tuple[Video, Future[Answer]]]:
        waiting: deque[tuple[Video, Future[Answer]]] = deque()
        try:
            for video in videos:
                waiting.append((video, self._fetchers.submit(ask, video.id)))
                if len(waiting) > AHEAD:
                    yield waiting.popleft()
            while waiting:
                yield waiting.popleft()
        finally:
            for _, future in waiting:
                future.cancel()

    def _middle(self, video: str) -> VideoFeatures | None:
        from visil.collection.remote.ranged import RangedFeatures

        placed = self._placed(video)
        if placed.bytes <= SMALL or self.cache.has(placed.name):
            return self.read(video)
        try:
            return RangedFeatures(partial(self._range, placed)).middle()
        except (ValueError, KeyError, TypeError) as error:
            raise IndexFolderError(self.objects.url(placed.name), f"is damaged; {MENDS}") from error

    def _range(self, placed: Placed, start: int, stop: int) -> bytes:
        """Some bytes of an object, kept for the next time."""
        stop = min(stop, placed.bytes)
        name = f"ranges/{placed.name.rpartition('/')[2]}/{start}-{stop}"
        if self.cache.has(name):
            try:
                return self.cache.path(name).read_bytes()
            except OSError:
                pass  # cleared away in between
        data = self._bytes(placed, start, stop)
        with self.cache.filling(name) as part:
            part.write_bytes(data)
        return data

    def _bytes(self, placed: Placed, start: int, stop: int) -> bytes:
        try:
            return self.objects.read(placed.name, start, stop)
        except FileNotFoundError:
            raise IndexFolderError(self.objects.url(placed.name), f"is missing; {MENDS}") from None

    def _copy(self, placed: Placed, write: Callable[[bytes], object]) -> None:
        """All of an object, part by part; one that differs from the written one is refused."""
        crc = done = 0
        while done < placed.bytes:
            data = self._bytes(placed, done, min(done + PART, placed.bytes))
            if not data:
                break
            crc = zlib.crc32(data, crc)
            done += len(data)
            write(data)
        if (done, crc) != (placed.bytes, placed.crc):
            raise IndexFolderError(self.objects.url(placed.name), f"is damaged; {MENDS}")

    def _placed(self, video: str) -> Placed:
        placed = self.database.placed(video)
        if placed is None:
            raise IndexFolderError(self.objects.url(_name(video, "…")), f"is missing; {MENDS}")
        return placed

    # ------------------------------------------------------------------ care

    def stamp(self, video: str) -> Stamp | None:
        """Tells that features have changed: an object never does, so only its being there counts."""
        placed = self.database.placed(video)
        if placed is None:
            return None
        try:
            self.objects.read(placed.name, 0, 1)
        except FileNotFoundError:
            return None
        return Stamp(placed.bytes, placed.crc)

    def sound(self, video: str) -> str | None:
        """The fault in a video's object; None where there is none. Reads all of it from the store."""
        placed = self.database.placed(video)
        if placed is None:
            return "missing"
        try:
            self._copy(placed, lambda _: None)
        except IndexFolderError as error:
            self.cache.drop(placed.name)
            return error.reason.removeprefix("is ").partition(";")[0]
        return None

    def remove(self, video: str) -> None:
        """Forget a video's features, in the transaction under way; the object goes when that is published."""
        placed = self.database.placed(video)
        if placed is not None:
            self.database.unplace(video)
            self.cache.drop(placed.name)

    def ids(self) -> Iterator[str]:
        """The videos that have features."""
        yield from (str(row[0]) for row in self.database.rows("SELECT video FROM objects"))

    # ------------------------------------------------------------------ writing

    def writer(self, video: str) -> FeatureWriter:
        """To write a video's features part by part; they are sent when they are whole."""
        name = _name(video, secrets.token_hex(4))
        file = self.cache.path(name)
        return FeatureWriter(file, video, self.codes, partial(self._send_off, video, name, file))

    def copy(self, video: str) -> FeatureCopy:
        """See :meth:`PartFeatures.copy`."""
        name = _name(video, secrets.token_hex(4))
        file = self.cache.path(name)
        return FeatureCopy(file, partial(self._send_off, video, name, file))

    def clear_leftovers(self) -> None:
        """See :meth:`PartFeatures.clear_leftovers`: those in the cache of this machine."""
        clear_parts(self.cache.path(FOLDER).glob("??/.*.part"))

    def _send_off(self, video: str, name: str, file: Path) -> None:
        """A whole file in the cache is to become a video's object, in the transaction under way."""
        crc = 0
        with file.open("rb") as opened:
            while data := opened.read(PART):
                crc = zlib.crc32(data, crc)
        placed = Placed(name, file.stat().st_size, crc)
        self._room.acquire()  # a slow store holds up the work, not fills the disk
        # A second name, so that the cache may clear the first one away meanwhile.
        waiting = file.with_name(f".{file.name}.sending")
        try:
            os.link(file, waiting)
        except OSError:  # a file system without such names
            shutil.copyfile(file, waiting)
        self._unsent[name] = waiting, self._senders.submit(self._send, name, waiting)
        self.database.place(video, placed)
        self.cache.make_room(placed.bytes)

    def _send(self, name: str, file: Path) -> None:
        try:
            self.objects.upload(name, file)
        finally:
            self._room.release()

    def wait(self) -> None:
        """Until all that was written is on the store. What could not be sent is kept, and tried again the next time."""
        for name, (file, future) in self._unsent.items():
            if future.done() and future.exception() is not None:
                self._room.acquire()
                self._unsent[name] = file, self._senders.submit(self._send, name, file)
        for name, (file, future) in list(self._unsent.items()):
            if future.exception() is None:
                del self._unsent[name]
                file.unlink(missing_ok=True)
        for _, future in self._unsent.values():
            future.result()


class _ClearedAway(Exception):
    """A file of the cache is gone since it was seen there."""


class _Damaged(Exception):
    """A file of the cache differs from the written one."""


def _features_in(file: Path, path: str | None) -> VideoFeatures:
    try:
        return features_in(file, path)
    except IndexFolderError as error:
        gone = isinstance(error.__cause__, FileNotFoundError)
        raise (_ClearedAway if gone else _Damaged) from error


def _name(video: str, ending: str) -> str:
    return f"{FOLDER}/{video[:2]}/{video}-{ending}.safetensors"
