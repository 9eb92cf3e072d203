"""The parts of a collection: a single one, or the shards of :mod:`visil.collection.shards`, behind one interface."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from visil.collection.catalogue import Catalogue
from visil.collection.connection import Connection, LocalConnection
from visil.collection.part import Part
from visil.collection.shards.catalogue import ShardedCatalogue

if TYPE_CHECKING:
    from visil.collection.candidates import Probes
    from visil.collection.state import Problem
    from visil.collection.store import Features
    from visil.collection.votes import Candidate
    from visil.compare.visil import ViSiL
    from visil.model.code_kinds import Codes
    from visil.progress import OnCount

FRESH_S = 30.0
"""Seconds after which a collection on a store that stays open looks for what others have written."""

AnyCatalogue = Catalogue | ShardedCatalogue
"""Of one part, or of several."""


class Parts(Protocol):
    """The parts of one collection, and their catalogue and features as one."""

    location: str
    """The name of the collection for people."""
    folder: Path
    """The folder of the collection or, where it lies on a store, of its cache on this machine."""
    store: Features

    @property
    def catalogue(self) -> AnyCatalogue:
        """All catalogues as one."""

    @property
    def connection(self) -> Connection:
        """How to call the parts."""

    @property
    def model(self) -> ViSiL:
        """The model of the collection, loaded when first needed; another one than it was made with is refused."""

    @property
    def writable(self) -> bool:
        """Whether the collection may be changed."""

    def follow(self, max_age: float) -> None:
        """Take over what others have changed; on a store, unless that was looked for within ``max_age`` seconds."""

    def changing(self) -> AbstractContextManager[None]:
        """Hold the parts of a collection as they are while it is changed; an error where it may not be."""

    def begin_adding(self) -> Codes:
        """See to it that all parts take new videos, and settle what features are kept as."""

    def keep(self) -> None:
        """Make changes last."""

    def by_place(self, numbers: Iterable[int]) -> dict[int, list[int]]:
        """Numbers of videos as {place of a part: numbers there}."""

    def number(self, place: int, local: int) -> int:
        """The number of a video in the collection, from its part's place and its number there."""

    def vote(self, queries: Sequence[Probes], limit: int) -> list[list[Candidate]]:
        """For each query the videos whose frames are nearest to its own in any part, strongest first."""

    def drop(self, video: str) -> None:
        """Delete the features of a video that no catalogue has (any more)."""

    def prepare_first_look(self, progress: OnCount | None) -> None:
        """Bring the signs that a first look goes by up to date."""

    def verify(self, repair: bool, progress: OnCount | None) -> list[Problem]:
        """Read everything and name damage; ``repair`` takes damaged entries out."""

    def bytes(self) -> int:
        """All that the collection takes."""

    def close(self, *, keep: bool = True) -> None:
        """Let go of everything; ``keep``: changes are to last."""


class SinglePart:
    """A collection that is one part: everything goes straight through to it."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.location = part.location
        self.folder = part.storage.folder
        self.catalogue: AnyCatalogue = part.catalogue
        self.store: Features = part.store
        self.connection: Connection = LocalConnection([part])

    @property
    def model(self) -> ViSiL:
        """See :attr:`Parts.model`."""
        return self.part.model

    @property
    def writable(self) -> bool:
        """See :attr:`Parts.writable`."""
        return self.part.writable()

    def follow(self, max_age: float) -> None:
        """See :meth:`Parts.follow`."""
        self.part.renew(max_age)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """See :meth:`Parts.changing`."""
        self.part.must_be_writable()
        yield

    def begin_adding(self) -> Codes:
        """See :meth:`Parts.begin_adding`."""
        return self.part.settle_codes()

    def keep(self) -> None:
        """See :meth:`Parts.keep`."""
        self.part.keep()

    def by_place(self, numbers: Iterable[int]) -> dict[int, list[int]]:
        """See :meth:`Parts.by_place`."""
        chosen = [int(number) for number in numbers]
        return {0: chosen} if chosen else {}

    def number(self, place: int, local: int) -> int:  # noqa: ARG002
        """See :meth:`Parts.number`."""
        return local

    def vote(self, queries: Sequence[Probes], limit: int) -> list[list[Candidate]]:
        """See :meth:`Parts.vote`."""
        return self.part.vote(queries, limit)

    def drop(self, video: str) -> None:
        """See :meth:`Parts.drop`."""
        self.part.drop(video)

    def prepare_first_look(self, progress: OnCount | None) -> None:
        """See :meth:`Parts.prepare_first_look`; ``progress`` counts videos."""
        self.part.signs(progress)

    def verify(self, repair: bool, progress: OnCount | None) -> list[Problem]:
        """See :meth:`Parts.verify`; ``progress`` counts videos."""
        return self.part.verify(repair, progress)

    def bytes(self) -> int:
        """See :meth:`Parts.bytes`."""
        return self.part.storage.bytes()

    def close(self, *, keep: bool = True) -> None:
        """See :meth:`Parts.close`."""
        self.connection.close(keep=keep)
