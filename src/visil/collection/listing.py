"""Everything that a collection's catalogues say, read at once, for lists of all of it.

It has connections of its own, so that a list never waits for a change that is being made.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from visil.collection.catalogue import Catalogue, ListedFailure
from visil.collection.database import FileDatabase
from visil.collection.remote.objects import is_url
from visil.collection.shards import manifest as manifests
from visil.collection.storage import CATALOGUE
from visil.errors import UsageError, printable


class Listing:
    """The catalogue in a folder, or those of all shards; it notices when shards come or go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sharded = manifests.is_sharded(folder)
        self._catalogues: list[Catalogue] = []
        self._of: object = None
        self._open()

    def _open(self) -> None:
        stamp = self._manifest()
        if self._catalogues and stamp == self._of:
            return
        self.close()
        places = [os.fspath(self.folder)]
        if self._sharded:
            places = manifests.read(self.folder).locations(self.folder)
        elsewhere = [place for place in places if is_url(place)]
        if elsewhere:
            raise UsageError(
                f"{printable(elsewhere[0])}: `visil serve` needs shards that are folders of this machine"
            )
        self._catalogues = [Catalogue(FileDatabase(Path(place) / CATALOGUE)) for place in places]
        self._of = stamp

    def _manifest(self) -> object:
        if not self._sharded:
            return None
        status = (self.folder / manifests.FILE).stat()
        return status.st_ino, status.st_mtime_ns

    def version(self) -> tuple[object, ...]:
        """Changes whenever somebody has changed the collection."""
        self._open()
        return (self._of, *(catalogue.database.seen() for catalogue in self._catalogues))

    def videos(self) -> Iterator[tuple[Any, ...]]:
        """The rows of all catalogues, as :meth:`Catalogue.listed` gives them.

        A video that is on its way from one shard to another counts once.
        """
        self._open()
        seen: set[str] = set()
        for catalogue in self._catalogues:
            rows = catalogue.listed()
            yield from [row for row in rows if row[3] not in seen] if seen else rows
            if len(self._catalogues) > 1:
                seen |= {row[3] for row in rows}

    def failures(self) -> Iterator[ListedFailure]:
        """Of all catalogues: files that could not be read."""
        self._open()
        for catalogue in self._catalogues:
            yield from catalogue.listed_failures()

    def close(self) -> None:
        """Let go of the files."""
        for catalogue in self._catalogues:
            catalogue.close()
        self._catalogues = []
