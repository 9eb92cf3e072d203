"""Videos from one part to another, with all that is known of them, not embedded again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from visil.collection import entries
from visil.collection.catalogue import Catalogue
from visil.collection.feature_writer import FeatureCopy
from visil.collection.store import PartFeatures
from visil.errors import IndexFolderError, os_reason

PIECE = 1 << 26
"""Bytes of a feature file that are moved at once."""


class Transfers:
    """Moves between parts, out of one and into it. Features on their way in are not seen before :meth:`put`."""

    def __init__(self, catalogue: Catalogue, store: PartFeatures) -> None:
        self._catalogue = catalogue
        self._store = store
        self._copies: dict[str, FeatureCopy] = {}

    # ------------------------------------------------------------------ out

    def entry(self, video: str) -> entries.Entry | None:
        """All that the catalogue knows of a video."""
        return entries.entry(self._catalogue, video)

    def piece(self, video: str, start: int) -> bytes:
        """Some of a feature file's bytes; fewer than ``PIECE`` at its end."""
        path = self._store.file(video)
        try:
            with path.open("rb") as file:
                file.seek(start)
                return file.read(PIECE)
        except OSError as error:
            reason = f"cannot be read ({os_reason(error)})"
            raise IndexFolderError(path, reason) from error

    def file(self, video: str) -> str:
        """A video's features as a file on the machine of this part."""
        return os.fspath(self._store.file(video))

    def verdicts(self) -> list[entries.Row]:
        """People's verdicts, as rows."""
        return entries.verdicts(self._catalogue)

    def drop_verdicts(self, rows: Sequence[entries.Row]) -> None:
        """Take out rows that another part has now."""
        entries.drop_verdicts(self._catalogue, rows)

    # ------------------------------------------------------------------ in

    def receive(self, video: str, data: bytes) -> None:
        """Bytes of a feature file, in order."""
        if video not in self._copies:
            self._copies[video] = self._store.copy(video)
        self._copies[video].append(data)

    def take(self, video: str, file: str) -> None:
        """As :meth:`receive`, all of it, from a file that this process can read."""
        self._copies[video] = self._store.copy(video)
        self._copies[video].take(file)

    def put(self, entry: entries.Entry) -> None:
        """An entry with the features received before: both are here from now on, or neither.

        Of a video that is here already only the files are new.
        """
        self._catalogue.database.rows("PRAGMA synchronous = FULL")  # not only written, but on the disk
        copy = self._copies.pop(entry.id, None)
        if copy is None:
            return entries.put(self._catalogue, entry)
        try:
            copy.seal()
            return entries.put(self._catalogue, entry, copy.place)
        except BaseException:
            copy.discard()
            raise

    def give_up(self, video: str) -> None:
        """Forget the received part of a video."""
        copy = self._copies.pop(video, None)
        if copy is not None:
            with suppress(OSError):
                copy.discard()

    def add_verdicts(self, rows: Sequence[entries.Row]) -> None:
        """Rows of another part."""
        entries.put_verdicts(self._catalogue, rows)

    def close(self) -> None:
        """Forget all that was received and not put."""
        for copy in self._copies.values():
            copy.discard()
        self._copies = {}
