"""Feature files from one collection to another, byte by byte: unseen until they are whole."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from visil.collection.remote_features import RemoteStore
from visil.collection.store import FeatureStore, _locked_part, _plain
from visil.errors import IndexFolderError


def file_of(store: FeatureStore, video: str) -> Path:
    """A video's features as a file on this machine."""
    if isinstance(store, RemoteStore):
        store.fetched(video)
    return store.path(video)


def receiver(store: FeatureStore, video: str) -> Receiver:
    """To put a video's features, which come from elsewhere, into a store."""
    if isinstance(store, RemoteStore):
        return RemoteReceiver(store, video)
    return Receiver(store.path(video))


class Receiver:
    """Appends bytes to a file that nobody sees until :meth:`place`; :meth:`discard` leaves nothing behind."""

    def __init__(self, target: Path) -> None:
        self.target = target
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, self._part = _locked_part(target)
        except OSError as error:
            raise IndexFolderError(target.parent, _plain(error)) from error
        self._file = os.fdopen(handle, "wb")
        self._link = self._part.with_name(f"{self._part.stem}.link.part")
        self._source: Path | None = None

    def append(self, data: bytes) -> None:
        """Some bytes more."""
        try:
            self._file.write(data)
        except OSError as error:
            self._fail(error)

    def take(self, file: str | os.PathLike[str]) -> None:
        """All of another file: the same blocks of the disk where it can be (feature files are never changed)."""
        try:
            os.link(file, self._link)
            self._link.unlink()
            self._source = Path(file)
        except OSError:
            try:
                with open(file, "rb") as source:
                    shutil.copyfileobj(source, self._file, 1 << 20)
            except OSError as error:
                self.discard()
                raise IndexFolderError(file, _plain(error)) from error

    def seal(self) -> None:
        """Bring everything to the disk."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            os.chmod(self._part, 0o644)
        except OSError as error:
            self._fail(error)

    def place(self) -> None:
        """Put the sealed file in its place; until then its lock keeps it from being cleared as a leftover."""
        try:
            if self._source is not None:
                os.link(self._source, self._link)
                os.replace(self._link, self.target)
                self._link.unlink(missing_ok=True)  # two names of one file: replacing does nothing
                self.discard()
                return
            os.replace(self._part, self.target)
            self._file.close()
        except OSError as error:
            self._fail(error)

    def discard(self) -> None:
        """Forget what was written."""
        with suppress(OSError):  # a full disk refuses the last buffer; the file goes anyway
            self._file.close()
        self._part.unlink(missing_ok=True)

    def _fail(self, error: OSError) -> None:
        self.discard()
        raise IndexFolderError(self.target.parent, _plain(error)) from error


class RemoteReceiver(Receiver):
    """Into the cache of a collection on a store, and from there on its way to the store."""

    def __init__(self, store: RemoteStore, video: str) -> None:
        self._store, self._video = store, video
        self._name = store.new_name(video)
        super().__init__(store.cache.path(self._name))

    def place(self) -> None:
        """In the transaction under way."""
        super().place()
        self._store.send(self._video, self._name, self.target)
