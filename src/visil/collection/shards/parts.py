"""Shards as the parts of one collection, which answers as if it were whole.

Frames vote over all shards together, common footage is sampled over all of them, and exact comparisons run where the
features are; only the best of each shard travel. Answers are those of one part with the same videos, as long as that
would be exact itself (up to ``candidates.FLAT_FRAMES`` frames; beyond, smaller shards are exact for longer).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from visil.collection.candidates import NEIGHBOURS, Probes
from visil.collection.connection import Connect, Connection, LocalConnection
from visil.collection.lock import can_write
from visil.collection.model import CollectionModel
from visil.collection.remote.objects import is_url
from visil.collection.shards import manifest as manifests
from visil.collection.shards.catalogue import ShardedCatalogue
from visil.collection.shards.manifest import MOST, Manifest
from visil.collection.shards.members import Members, ShardedFeatures, by_place, check_alike, number_of
from visil.collection.state import PartFacts, Problem
from visil.collection.store import Features
from visil.collection.votes import Candidate, Nearest
from visil.errors import IndexFolderError
from visil.model.code_kinds import Codes, checked

if TYPE_CHECKING:
    from visil.compare.visil import ViSiL


class ShardedParts:
    """The shards of the collection in ``folder`` (:func:`visil.collection.shards.create.create` makes one).

    ``connect`` says how shards are reached; by default they are opened in this process.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        model: ViSiL | str | None = None,
        codes: Codes | None = None,
        connect: Connect | None = None,
    ) -> None:
        self.location = os.fspath(folder)
        self.folder = Path(folder)
        self._connect = connect or LocalConnection.to
        self._retired: list[Connection] = []
        manifest = manifests.read(self.folder)
        self.members = Members(self.folder, manifest, self._connect(manifest.locations(self.folder)))
        self.catalogue = ShardedCatalogue(self.members)
        self.store: Features = ShardedFeatures(self.members)
        self._chosen = CollectionModel(model, self.location, self.catalogue, lambda: self.writable)
        try:
            check_alike(self.folder, manifest, self.facts())
            self._settle_codes(codes, settle=codes is not None and self.writable)
        except BaseException:
            self.connection.close(keep=False)
            raise

    @property
    def connection(self) -> Connection:
        """See :attr:`Parts.connection`."""
        return self.members.connection

    @property
    def manifest(self) -> Manifest:
        """The content of ``shards.json``, as of the last :meth:`follow`."""
        return self.members.manifest

    def facts(self, *, measure: bool = False) -> list[PartFacts]:
        """The state of each shard."""
        found: list[PartFacts] = self.connection.each("facts", measure)
        return found

    @property
    def model(self) -> ViSiL:
        """See :attr:`Parts.model`; shards in this process use the same one."""
        first = self._chosen.loaded is None
        model = self._chosen.get()
        if first:
            self.connection.use(model)
        return model

    @property
    def writable(self) -> bool:
        """See :attr:`Parts.writable`: its folder and all its shards."""
        return can_write(self.folder) and all(self.connection.each("writable"))

    def follow(self, max_age: float) -> None:
        """See :meth:`Parts.follow`: notices that shards were added, or that videos move, as well."""
        members = self.members
        if any(map(is_url, self.connection.locations)):
            self.connection.each("renew", max_age)
        found = manifests.read(self.folder)
        if found == members.manifest:
            return
        if found.locations(self.folder) != list(self.connection.locations):
            fresh = self._connect(found.locations(self.folder))
            try:
                check_alike(self.folder, found, fresh.each("facts"))
            except BaseException:
                fresh.close()
                raise
            self._retired.append(self.connection)  # another thread may be in the middle of a question
            members.connection = fresh
            if self._chosen.loaded is not None:
                fresh.use(self._chosen.loaded)
        members.manifest = found
        self.catalogue.changed()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """See :meth:`Parts.changing`: no shard is added, and no video moved, meanwhile."""
        if not self.writable:
            raise IndexFolderError(self.location, "the folder cannot be written to")
        with manifests.held(self.folder, alone=False):
            self.follow(0.0)
            yield

    def begin_adding(self) -> Codes:
        """See :meth:`Parts.begin_adding`; refused where the shards are not open in this process."""
        self.members.local(0)
        codes = self._settle_codes(None, settle=True)
        self.connection.each("settle", self.manifest.facts)
        return codes

    def _settle_codes(self, wanted: Codes | None, *, settle: bool) -> Codes:
        known = self.manifest.facts.get("codes")
        if wanted not in (None, known or wanted):
            raise IndexFolderError(
                self.location,
                f"keeps its features as {known}, not {wanted}; to change that, make a new collection",
            )
        kind = checked(known or wanted or "fp16")
        if settle and known is None:
            self.catalogue.settle(codes=kind)
        self.store.codes = kind
        return kind

    def keep(self) -> None:
        """See :meth:`Parts.keep`."""
        self.connection.each("keep")

    # ------------------------------------------------------------------ searching

    def by_place(self, numbers: Iterable[int]) -> dict[int, list[int]]:
        """See :meth:`Parts.by_place`."""
        return by_place(numbers)

    def number(self, place: int, local: int) -> int:
        """See :meth:`Parts.number`."""
        return number_of(place, local)

    def vote(self, queries: Sequence[Probes], limit: int) -> list[list[Candidate]]:
        """See :meth:`Parts.vote`; of equal votes, the video that came first. One call to each shard."""
        answers = self.connection.each("nearest", [probes.vectors for probes in queries])
        return [self._tally(probes, [some[i] for some in answers], limit) for i, probes in enumerate(queries)]

    def _tally(self, probes: Probes, answers: Sequence[Nearest], limit: int) -> list[Candidate]:
        found = Nearest.joined(
            replace(one, videos=one.videos * MOST + number_of(place, 0)) for place, one in enumerate(answers)
        )
        if self.manifest.moving:
            real = ~np.isin(found.videos, self.catalogue.order().doubled)
            found = Nearest(found.probes[real], found.similarity[real], found.videos[real])
        return found.cut(NEIGHBOURS).strongest(probes.frames, limit, self.catalogue.ranks)

    # ------------------------------------------------------------------ care

    def drop(self, video: str) -> None:
        """See :meth:`Parts.drop`: from shards that do not have it; each sees to its own files."""
        self.connection.each("drop", video)

    def prepare_first_look(self, progress: Callable[[int, int], None] | None) -> None:
        """See :meth:`Parts.prepare_first_look`; shards write their signs where they may, ``progress`` counts shards."""
        if progress is None:
            self.connection.each("prepare_first_look")
            return
        for place in self.members.places:
            self.connection.call(place, "prepare_first_look")
            progress(place + 1, len(self.members.places))

    def verify(self, repair: bool, progress: Callable[[int, int], None] | None) -> list[Problem]:
        """See :meth:`Parts.verify`; problems name the shard they are in, ``progress`` counts shards."""
        if repair and self.connection.parts is not None:
            _ = self.model  # one for all of them
        problems: list[Problem] = []
        for place, name in enumerate(self.manifest.names):
            found = self.connection.call(place, "verify", repair)
            problems += [Problem(one.what, f"{one.reason} ({name})") for one in found]
            if progress is not None:
                progress(place + 1, len(self.manifest.names))
        if not problems:
            try:
                self.catalogue.order()
            except IndexFolderError as error:
                problems.append(Problem(os.fspath(error.path), error.reason))
        return problems

    def bytes(self) -> int:
        """See :meth:`Parts.bytes`."""
        return (
            sum(one.bytes for one in self.facts(measure=True)) + (self.folder / manifests.FILE).stat().st_size
        )

    def close(self, *, keep: bool = True) -> None:
        """See :meth:`Parts.close`."""
        for connection in (*self._retired, self.connection):
            connection.close(keep=keep)
