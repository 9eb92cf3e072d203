"""A collection on an fsspec store: the catalogue as whole states, features as objects, and a cache on this machine.

Below its URL lie ``visil.json`` (that it is one), ``catalogue/`` (:mod:`visil.collection.remote_catalogue`) and
``features/`` (:mod:`visil.collection.remote_features`); ``candidates/`` holds copies of the candidate cache
(:mod:`visil.collection.remote_candidates`).
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from visil.collection.candidates import CandidateIndex
from visil.collection.collection import Index
from visil.collection.condition import Problem
from visil.collection.first_look import FirstLook
from visil.collection.remote_cache import LocalCache, cache_root
from visil.collection.remote_candidates import SharedCandidates
from visil.collection.remote_catalogue import MARKER, RemoteCatalogue, Snapshots
from visil.collection.remote_features import RemoteStore
from visil.collection.remote_objects import Objects, Patience
from visil.collection.search import Hit
from visil.compare.visil import ViSiL
from visil.errors import IndexFolderError
from visil.model.codes import Codes, checked
from visil.model.features import VideoFeatures

FRESH_S = 30.0
"""Seconds after which a collection that stays open looks for what others have written."""

GRACE_S = 3600.0
"""Age from which an object that no catalogue names is left over: a younger one may be about to be named."""


class RemoteIndex(Index):
    """:class:`visil.Index` at a URL: ``s3://bucket/name.visil``, or any other that fsspec knows.

    What ``add``, ``remove``, ``judge`` and ``verify`` change is on the store when they return, and every 30 seconds
    while they work.
    """

    def __init__(
        self,
        url: str,
        *,
        model: ViSiL | str | None = None,
        codes: Codes | None = None,
        create: bool = True,
        patience: Patience | None = None,
    ) -> None:
        if codes is not None:
            checked(codes)
        self.objects = Objects(url, patience)
        self.folder = cache_root() / "stores" / _folder_name(url, self._identity(create))
        cache = LocalCache(self.folder / "cache")
        self.catalogue: RemoteCatalogue = RemoteCatalogue(
            Snapshots(self.objects, cache), self.objects.base, self.folder / "left_out.json"
        )
        self.store: RemoteStore = RemoteStore(self.objects, self.catalogue, cache)
        self._shared = SharedCandidates(self.objects, self.folder)
        self._to_send = False
        """Whether this process has changed the collection: then its candidate cache is worth sharing."""
        self._wanted = model
        self._model = None
        self._cache = None
        self._background = None
        try:
            self.store.codes = self._codes(codes)
        except BaseException:
            self._let_go()
            raise

    @property
    def location(self) -> str:
        """What people call the collection."""
        return self.objects.base

    def _identity(self, create: bool) -> str:
        """What tells this collection from another that was, or will be, at the same URL."""
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:  # what could be kept has been
            self._let_go()

    def close(self) -> None:
        """Write what is still to be written, and let go of everything."""
        try:
            self.catalogue.publish()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        self.store.close()
        self.catalogue.close()

    def _must_be_writable(self) -> None:
        super()._must_be_writable()
        self.catalogue.reload()

    def _kept(self) -> None:
        generation = self.catalogue.generation
        self.catalogue.publish()
        self._to_send = self._to_send or self.catalogue.generation != generation

    def reload(self, max_age: float = 0.0) -> None:
        """Take over what others have written."""
        self.catalogue.reload(max_age)

    # ------------------------------------------------------------------ asking

    def refresh(self) -> CandidateIndex:
        """Bring this machine's candidate cache up to date; numbers are everybody's only once they are published."""
        self.catalogue.publish()
        if self._cache is None:
            self._shared.fetch(self.catalogue.count()[1])
        candidates = super().refresh()
        if self._to_send:
            self._to_send = False
            self._shared.send(self.catalogue.generation)
        return candidates

    def prepare_first_look(self, progress: Callable[[int, int], None] | None = None) -> FirstLook:
        """As :meth:`Index.prepare_first_look`, into this machine's cache: all features are fetched once for that."""
        self.catalogue.publish()
        return super().prepare_first_look(progress)

    def search(
        self,
        query: str | os.PathLike[str] | VideoFeatures,
        k: int = 10,
        *,
        exhaustive: bool = False,
        first_look: int | None = None,
    ) -> list[Hit]:
        """As :meth:`Index.search`, over the newest state."""
        self.reload(FRESH_S)
        return super().search(query, k, exhaustive=exhaustive, first_look=first_look)

    # ------------------------------------------------------------------ care

    def verify(
        self, *, repair: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> list[Problem]:
        """As :meth:`Index.verify`, from the store itself; also objects that no catalogue names."""
        self.reload()
        problems = super().verify(repair=repair, progress=progress)
        found = self.objects.sizes("")
        known = self.catalogue.objects()
        known |= {name.replace(".json", ".faiss") for name in found if name.endswith(".json")}
        now = time.time()
        unused = [
            name
            for name, (_, written) in found.items()
            if name.endswith((".safetensors", ".faiss")) and name not in known and now - written > GRACE_S
        ]
        problems += [Problem(name, "belongs to nothing in the catalogue") for name in unused]
        if repair:
            self.objects.delete(unused)
        return problems

    def _candidates_sound(self) -> bool:
        return True  # this machine's own, made anew where need be

    def _bytes(self) -> int:
        return self.catalogue.object_bytes()


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
