"""The place where one part of a collection lies: a folder, or a store (:mod:`visil.collection.remote.storage`).

In a folder, ``catalogue.sqlite`` says what is there and ``features/`` holds one file a video; ``frames*``, for
candidates, and ``first-look*``, the signs of all vectors, are caches.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from visil.collection.candidate_cache import LeftOut
from visil.collection.candidates import CandidateIndex
from visil.collection.catalogue import Catalogue
from visil.collection.database import DAMAGED, FileDatabase, size_of
from visil.collection.lock import can_write
from visil.collection.store import FeatureStore, PartFeatures
from visil.errors import IndexFolderError, os_reason

CATALOGUE = "catalogue.sqlite"

BEGUN_S = 1.0
"""How long a catalogue that another process makes may be without a byte."""

# What a process killed while it made the folder may have left: no reason to refuse it.
OWN = {"features", *(f"{CATALOGUE}{end}" for end in ("", "-wal", "-shm", "-journal"))}


class Storage(Protocol):
    """The interface of the place where a part lies."""

    location: str
    """Its name for people: a folder, or a URL."""
    folder: Path
    """Where caches lie on this machine."""
    catalogue: Catalogue
    store: PartFeatures
    left_out: LeftOut

    @property
    def writable(self) -> bool:
        """Whether it may be changed; where it may not, it is read without a lock or a cache written."""

    def renew(self, max_age: float) -> None:
        """Take over what others have written, unless that was looked for within ``max_age`` seconds."""

    def keep(self) -> None:
        """Make changes last, and visible to others."""

    def fetch_candidates(self) -> None:
        """Take over a candidate cache that another machine made, where that is less work than making it."""

    def share_candidates(self) -> None:
        """Give the candidate cache to others, where they are better off with it."""

    def candidates_sound(self) -> bool:
        """Whether the candidate cache is in order."""

    def bytes(self) -> int:
        """All that lies there."""

    def unused(self) -> list[str]:
        """Leftovers that belong to nothing in the catalogue, apart from feature files."""

    def delete_unused(self, names: list[str]) -> None:
        """Delete some of :meth:`unused`."""

    def close(self, *, keep: bool = True) -> None:
        """Let go of everything; ``keep``: after :meth:`keep`."""


class FolderStorage:
    """A folder of this machine; ``create`` makes one where there is none."""

    def __init__(self, folder: str | os.PathLike[str], *, create: bool = True) -> None:
        self.location = os.fspath(folder)
        self.folder = Path(folder)
        if not (self.folder / CATALOGUE).is_file():
            make_folder(self.folder, create)
        self._features = FeatureStore(self.folder / "features")
        self._refuse_emptied(create)
        self.catalogue = Catalogue(FileDatabase(self.folder / CATALOGUE))
        self.store: PartFeatures = self._features
        self.left_out: LeftOut = LeftOutFact(self.catalogue)

    def _refuse_emptied(self, create: bool) -> None:
        """A catalogue of no bytes is a damaged one, unless a process has only just begun it."""
        until = time.monotonic() + BEGUN_S
        while self._emptied():
            if next(self._features.ids(), None) is None:
                if create:
                    return
                if time.monotonic() < until:
                    time.sleep(0.02)
                    continue
            raise IndexFolderError(self.folder / CATALOGUE, DAMAGED)

    def _emptied(self) -> bool:
        catalogue = self.folder / CATALOGUE
        return catalogue.is_file() and not any(
            size_of(catalogue.with_name(f"{CATALOGUE}{end}")) for end in ("", "-wal")
        )

    @property
    def writable(self) -> bool:
        """See :attr:`Storage.writable`."""
        return not self.catalogue.database.readonly and can_write(self.folder)

    def renew(self, max_age: float) -> None:
        """See :meth:`Storage.renew`: a folder is always new."""

    def keep(self) -> None:
        """See :meth:`Storage.keep`: every transaction does."""

    def fetch_candidates(self) -> None:
        """See :meth:`Storage.fetch_candidates`: it lies here."""

    def share_candidates(self) -> None:
        """See :meth:`Storage.share_candidates`: it lies here."""

    def candidates_sound(self) -> bool:
        """See :meth:`Storage.candidates_sound`: as wide as the features are, without the network."""
        widths = (self._features.channels(video.id) for video in self.catalogue.videos())
        dim = next((width for width in widths if width is not None), None)
        return dim is None or CandidateIndex(self.folder, dim).load()

    def bytes(self) -> int:
        """See :meth:`Storage.bytes`."""
        total = 0
        for path in self.folder.rglob("*"):
            with suppress(OSError):  # a writer may have renamed it since it was listed
                if path.is_file():
                    total += path.stat().st_size
        return total

    def unused(self) -> list[str]:
        """See :meth:`Storage.unused`."""
        return []

    def delete_unused(self, names: list[str]) -> None:
        """See :meth:`Storage.delete_unused`."""

    def close(self, *, keep: bool = True) -> None:  # noqa: ARG002
        """See :meth:`Storage.close`."""
        self.catalogue.close()


class LeftOutFact:
    """:class:`LeftOut` as a fact in the catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def read(self) -> str | None:
        """See :meth:`LeftOut.read`."""
        return self._catalogue.fact("left_out")

    def write(self, text: str) -> None:
        """See :meth:`LeftOut.write`."""
        self._catalogue.set_fact("left_out", text)


def make_folder(folder: Path, create: bool) -> None:
    """Make the folder for a new collection; where that is not wanted, or something else is there, an error."""
    if folder.exists() and not folder.is_dir():
        raise IndexFolderError(folder, "is a file; a collection is a folder")
    if not create:
        raise IndexFolderError(folder, "no collection here; `visil add` makes one")
    if folder.is_dir() and {path.name for path in folder.iterdir()} - OWN:
        raise IndexFolderError(folder, "is a folder with other things in it; name a new one")
    try:
        (folder / "features").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise IndexFolderError(folder, f"cannot be made ({os_reason(error)})") from error
