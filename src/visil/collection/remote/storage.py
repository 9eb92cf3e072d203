"""A part of a collection on an fsspec store: the catalogue as whole states, features as objects, and a cache here.

Below its URL lie ``visil.json`` (that it is one), ``catalogue/`` (:mod:`visil.collection.remote.catalogue`) and
``features/`` (:mod:`visil.collection.remote.features`); ``candidates/`` holds copies of the candidate cache
(:mod:`visil.collection.remote.candidates`).

What ``add``, ``remove``, ``judge`` and ``verify`` change is on the store when they return, and every 30 seconds while
they work.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from contextlib import suppress
from pathlib import Path

from visil.collection.candidate_cache import LeftOut
from visil.collection.catalogue import Catalogue
from visil.collection.lock import can_write
from visil.collection.remote.cache import LocalCache
from visil.collection.remote.candidates import SharedCandidates
from visil.collection.remote.catalogue import MARKER, SnapshotDatabase, Snapshots
from visil.collection.remote.features import RemoteFeatures
from visil.collection.remote.objects import Objects
from visil.collection.store import PartFeatures
from visil.errors import IndexFolderError
from visil.files import cache_folder

GRACE_S = 3600.0
"""Age from which an object that no catalogue names is left over: a younger one may be about to be named."""


class RemoteStorage:
    """:class:`visil.collection.storage.Storage` at a URL: ``s3://bucket/name.visil``, or another that fsspec knows."""

    def __init__(self, url: str, *, create: bool = True) -> None:
        self.objects = Objects(url)
        self.location = self.objects.base
        self.folder = cache_folder() / "stores" / _folder_name(url, self._identity(create))
        cache = LocalCache(self.folder / "cache")
        self.database = SnapshotDatabase(Snapshots(self.objects, cache), self.location)
        self.catalogue = Catalogue(self.database)
        self._features = RemoteFeatures(self.objects, self.database, cache)
        self.store: PartFeatures = self._features
        self.left_out: LeftOut = LeftOutFile(self.folder / "left_out.json")
        self._shared = SharedCandidates(self.objects, self.folder)
        self._changed = False
        """Whether this process has changed the collection: then its candidate cache is worth sharing."""

    def _identity(self, create: bool) -> str:
        """Tells this collection from another one that was, or will be, at the same URL."""
        for _ in range(3):
            try:
                return _identity_in(self.objects.read(MARKER), self.objects.url(MARKER))
            except FileNotFoundError:
                if not create:
                    raise IndexFolderError(
                        self.objects.base, "no collection here; `visil add` makes one"
                    ) from None
            if self.objects.sizes(""):
                raise IndexFolderError(self.objects.base, "there are other things here; name a new place")
            made = {"visil": "collection", "format": 1, "id": secrets.token_hex(16)}
            try:
                self.objects.create(MARKER, json.dumps(made).encode())
            except FileExistsError:
                continue  # somebody else has just made it
            except FileNotFoundError:
                break
        raise IndexFolderError(self.objects.base, "the bucket or folder that is to hold it does not exist")

    @property
    def writable(self) -> bool:
        """See :attr:`Storage.writable`: that the cache may be; a store that refuses says so when it is written to."""
        return can_write(self.folder)

    def renew(self, max_age: float) -> None:
        """See :meth:`Storage.renew`."""
        self.database.reload(max_age)

    def keep(self) -> None:
        """See :meth:`Storage.keep`: numbers of videos, too, are everybody's only once they are published."""
        generation = self.database.generation
        self.database.publish()
        self._changed = self._changed or self.database.generation != generation

    def fetch_candidates(self) -> None:
        """See :meth:`Storage.fetch_candidates`."""
        self._shared.fetch(self.catalogue.count()[1])

    def share_candidates(self) -> None:
        """See :meth:`Storage.share_candidates`."""
        if self._changed:
            self._changed = False
            self._shared.send(self.database.generation)

    def candidates_sound(self) -> bool:
        """See :meth:`Storage.candidates_sound`: this machine's own, made anew where need be."""
        return True

    def bytes(self) -> int:
        """See :meth:`Storage.bytes`."""
        return self.database.object_bytes()

    def unused(self) -> list[str]:
        """See :meth:`Storage.unused`: old objects that no catalogue names."""
        found = self.objects.sizes("")
        known = self.database.objects()
        known |= {name.replace(".json", ".faiss") for name in found if name.endswith(".json")}
        now = time.time()
        return [
            name
            for name, (_, written) in found.items()
            if name.endswith((".safetensors", ".faiss")) and name not in known and now - written > GRACE_S
        ]

    def delete_unused(self, names: list[str]) -> None:
        """See :meth:`Storage.delete_unused`."""
        self.objects.delete(names)

    def close(self, *, keep: bool = True) -> None:
        """See :meth:`Storage.close`."""
        try:
            if keep:
                self.database.publish()
        finally:
            self._features.close()
            self.catalogue.close()


class LeftOutFile:
    """:class:`LeftOut` as a file of this machine: the others may be able to read what this one could not."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> str | None:
        """See :meth:`LeftOut.read`."""
        try:
            return self._path.read_text("utf-8")
        except (OSError, ValueError):
            return None

    def write(self, text: str) -> None:
        """See :meth:`LeftOut.write`."""
        with suppress(OSError):
            self._path.write_text(text, "utf-8")


def _identity_in(data: bytes, name: str) -> str:
    try:
        known = json.loads(data)
        if known["visil"] != "collection":
            raise ValueError
        if known["format"] > 1:
            raise IndexFolderError(name, "was made by a newer visil; upgrade to open it")
        return str(known["id"])
    except (ValueError, KeyError, TypeError):
        raise IndexFolderError(name, "is not the mark of a collection") from None


def _folder_name(url: str, identity: str) -> str:
    digest = hashlib.blake2b(f"{url.rstrip('/')} {identity}".encode(), digest_size=8).hexdigest()
    plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in Path(url).name)[:40]
    return f"{plain}-{digest}"
