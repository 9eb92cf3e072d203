"""One shard: an ordinary collection, behind methods that take and give plain data only.

So it can be called in this process, or in an actor on another machine that keeps it open between calls.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from visil.cluster.manifest import is_sharded
from visil.collection import entries
from visil.collection.background import middle_frame
from visil.collection.cache import CandidateCache
from visil.collection.candidates import NEIGHBOURS, Nearest, Probes
from visil.collection.catalogue import Failure
from visil.collection.collection import Index, Problem
from visil.collection.first_look import Look
from visil.collection.receiving import Receiver, file_of, receiver
from visil.collection.remote import RemoteIndex
from visil.collection.remote_objects import is_url
from visil.collection.search import Hit, compared, hit_of, rank
from visil.compare.matches import Common
from visil.compare.visil import ViSiL
from visil.errors import IndexFolderError
from visil.model.codes import Codes, checked
from visil.model.features import VideoFeatures

PART = 1 << 26
"""Bytes of a feature file that are moved at once."""


@dataclass(frozen=True)
class ShardFacts:
    """The state of a shard."""

    location: str
    model: str | None
    fingerprint: str | None
    """Of its model; None while none was chosen."""
    codes: Codes | None
    """What features are kept as; None while nothing was added and no kind was asked for."""
    writable: bool
    videos: int
    frames: int
    seconds: float
    bytes: int
    """On disk; 0 where it was not asked for."""
    failed: list[Failure]


class Shard:
    """The collection at a location, which must be there; ``model`` as for :class:`visil.Index`."""

    def __init__(self, location: str | os.PathLike[str], *, model: ViSiL | str | None = None) -> None:
        from visil.collection.opening import opened

        self.location = os.fspath(location)
        if is_sharded(location):
            raise IndexFolderError(location, "is a sharded collection itself; a shard is an ordinary one")
        if not is_url(self.location) and not os.path.isfile(os.path.join(self.location, "catalogue.sqlite")):
            raise IndexFolderError(location, "this shard is missing; put its folder back, or mount its disk")
        self.index: Index = opened(location, model=model, create=False)
        self._receiving: dict[str, Receiver] = {}

    def close(self) -> None:
        """Let go of the files; a second time does nothing."""
        for writer in self._receiving.values():
            writer.discard()
        self._receiving = {}
        self.index.close()

    def use(self, model: ViSiL) -> None:
        """A model that this process has loaded already; one that did not make this shard is refused when needed."""
        self.index._wanted, self.index._model = model, None

    def facts(self, measure: bool = False) -> ShardFacts:
        """What is here; ``measure`` adds up the bytes on disk, which takes a look at every file."""
        catalogue = self.index.catalogue
        info = self.index.info() if measure else None
        videos, frames, seconds = catalogue.count()
        fact = catalogue.fact("codes")
        codes: Codes | None = self.index.store.codes if fact is not None or videos else None
        return ShardFacts(
            self.location,
            catalogue.fact("model"),
            catalogue.fact("fingerprint"),
            codes,
            self.index.writable,
            videos,
            frames,
            seconds,
            info.bytes if info is not None else 0,
            catalogue.failures(),
        )

    def ask(self, part: Literal["catalogue", "store"], method: str, *arguments: Any) -> Any:
        """``index.catalogue``'s or ``index.store``'s own answer: for questions about few videos."""
        answer = getattr(getattr(self.index, part), method)(*arguments)
        return list(answer) if isinstance(answer, Iterator) else answer

    def writable(self) -> bool:
        """Whether the shard may be changed."""
        return self.index.writable

    def version(self) -> tuple[int, int]:
        """Changes whenever a video comes or goes."""
        rows = self.index.catalogue.rows("SELECT count(*), coalesce(max(number), 0) FROM videos")
        return int(rows[0][0]), int(rows[0][1])

    def renew(self, max_age: float) -> None:
        """Take over what others have written to a store, unless that was looked for lately; a folder is always new."""
        if isinstance(self.index, RemoteIndex):
            self.index.reload(max_age)

    def order(self) -> entries.Order:
        """All videos here, in the order in which they came."""
        return entries.order(self.index.catalogue)

    # ------------------------------------------------------------------ searching

    def warm(self) -> None:
        """Load the network and map the candidate index, so that the first search does not have to."""
        if len(self.index):
            self.index.refresh()

    def prepare(self) -> None:
        """Bring the candidate cache up to date; without the network, since features know how wide they are."""
        index = self.index
        readable = index.store.readable(index.catalogue.videos())
        first = next(readable, None)
        if first is not None and index.writable:
            dim = first[1].vectors.shape[-1]
            CandidateCache(index.folder, dim, index.catalogue, index.store).refresh(save=True)

    def nearest(self, vectors: NDArray[np.float32], neighbours: int = NEIGHBOURS) -> Nearest:
        """The nearest frames here of each probe; ``videos`` are this shard's own numbers."""
        return self.nearest_of_many([vectors], neighbours)[0]

    def nearest_of_many(
        self, probes: Sequence[NDArray[np.float32]], neighbours: int = NEIGHBOURS
    ) -> list[Nearest]:
        """:meth:`nearest` for several queries."""
        if not len(self.index):
            nothing = Nearest(np.empty(0, np.int64), np.empty(0, np.float32), np.empty(0, np.int64))
            return [nothing for _ in probes]
        candidates = self.index.refresh()
        return [candidates.nearest(vectors, neighbours) for vectors in probes]

    def probes(self, videos: Sequence[str]) -> list[Probes | None]:
        """What videos of this shard look with for duplicates, by id; None of those that cannot be read."""
        found: list[Probes | None] = []
        for name in videos:
            features = self.features(name)
            found.append(None if features is None else Probes.of(features, 2 * len(features)))
        return found

    def compare(self, query: VideoFeatures, common: Common | None, numbers: Sequence[int]) -> list[Hit]:
        """The query with some videos of this shard, by their numbers here; those gone or unreadable are left out."""
        found = self.index.catalogue.numbered(numbers)
        videos = [found[number] for number in numbers if number in found]
        matches = compared(self.index.model, self.index.store, query, videos, common)
        return [hit_of(video, match) for video, match in matches]

    def best(self, query: VideoFeatures, common: Common | None, k: int) -> list[Hit]:
        """The best ``k`` of all videos of this shard, without candidates."""
        videos = self.index.catalogue.videos()
        return rank(self.index.model, self.index.store, query, videos, k, common)

    def prepare_first_look(self) -> None:
        """Bring the signs that a first look goes by up to date."""
        if len(self.index):
            self.index.prepare_first_look()

    def first_look(self, query: VideoFeatures, common: Common | None, count: int) -> list[Look]:
        """The ``count`` videos of this shard that look most like a query, best first."""
        return self.index.prepare_first_look().nearest(query, common, count) if len(self.index) else []

    def read(self, video: str, path: str | None = None) -> VideoFeatures:
        """A video's features, by id; an error where they cannot be read."""
        return self.index.store.read(video, path=path)

    def features(self, video: str) -> VideoFeatures | None:
        """A video's features; None (and a warning) where they cannot be read, or it is not here any more."""
        known = self.index.catalogue.video(video)
        return None if known is None else self.index.store.try_read(known)

    def middle_frames(self, videos: Sequence[str]) -> list[Tensor | None]:
        """One frame [R, C] of each of some videos, by id, for what is common in the collection."""
        found: list[Tensor | None] = []
        for name in videos:
            video = self.index.catalogue.video(name)
            features = None if video is None else next(iter(self.index.store.glimpses([video])), None)
            frame = None if features is None else middle_frame(features)
            found.append(None if frame is None else frame.clone())  # not the whole file with it
        return found

    # ------------------------------------------------------------------ care

    def verify(self, repair: bool) -> list[Problem]:
        """What is damaged here."""
        return self.index.verify(repair=repair)

    def remove(self, video: str) -> None:
        """Take a video out; nothing happens where it is not here."""
        self.index.catalogue.remove(video)
        self.index.catalogue.clear(video, self.index.store.remove)

    def clear_leftovers(self) -> None:
        """Delete what killed processes left half-written."""
        self.index._clear_leftovers()

    def settle(self, facts: dict[str, str]) -> None:
        """Record the model and the kind of codes that the whole collection has settled on."""
        for key, value in facts.items():
            if self.index.catalogue.fact(key) != value:
                self.index.catalogue.set_fact(key, value)
        if "codes" in facts:
            self.index.store.codes = checked(facts["codes"])

    # ------------------------------------------------------------------ moving

    def entry(self, video: str) -> entries.Entry | None:
        """All that the catalogue knows of a video."""
        return entries.entry(self.index.catalogue, video)

    def part(self, video: str, start: int) -> bytes:
        """Some of a feature file's bytes; fewer than ``PART`` at its end."""
        path = file_of(self.index.store, video)
        try:
            with path.open("rb") as file:
                file.seek(start)
                return file.read(PART)
        except OSError as error:
            reason = f"cannot be read ({(error.strerror or '').lower()})"
            raise IndexFolderError(path, reason) from error

    def file(self, video: str) -> str:
        """A video's features as a file on the machine of this shard."""
        return os.fspath(file_of(self.index.store, video))

    def receive(self, video: str, data: bytes) -> None:
        """Bytes of a feature file that comes from another shard, in order; seen by nobody until :meth:`put`."""
        if video not in self._receiving:
            self._receiving[video] = receiver(self.index.store, video)
        self._receiving[video].append(data)

    def take(self, video: str, file: str) -> None:
        """As :meth:`receive`, all of it, from a file that this process can read."""
        self._receiving[video] = receiver(self.index.store, video)
        self._receiving[video].take(file)

    def put(self, entry: entries.Entry) -> None:
        """An entry with the features received before: both are here from now on, or neither.

        Of a video that is here already only the files are new.
        """
        self.index.catalogue.rows("PRAGMA synchronous = FULL")  # not only written, but on the disk
        received = self._receiving.pop(entry.id, None)
        if received is None:
            return entries.put(self.index.catalogue, entry)
        try:
            received.seal()
            return entries.put(self.index.catalogue, entry, received.place)
        except BaseException:
            received.discard()
            raise

    def flush(self) -> None:
        """See to it that what was changed here lasts, before others let go of it: a store is told only now."""
        self.index._kept()

    def give_up(self, video: str) -> None:
        """Forget what was received of a video."""
        received = self._receiving.pop(video, None)
        if received is not None:
            with suppress(OSError):
                received.discard()

    def verdicts(self) -> list[entries.Row]:
        """What people said, as rows."""
        return entries.verdicts(self.index.catalogue)

    def put_verdicts(self, rows: Sequence[entries.Row]) -> None:
        """Rows of another shard."""
        entries.put_verdicts(self.index.catalogue, rows)

    def drop_verdicts(self, rows: Sequence[entries.Row]) -> None:
        """Rows that another shard has now."""
        entries.drop_verdicts(self.index.catalogue, rows)
