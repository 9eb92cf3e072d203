"""One part of a collection: a catalogue, a feature store, candidates and a first look, at one location.

A collection in a folder, or on a store, is one part; a sharded one has several. Methods take and give plain data only,
so that a part can be called in this process, or in an actor on another machine that keeps it open between calls.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Self

from visil.collection import entries
from visil.collection.candidate_cache import CandidateCache, clear_leftovers
from visil.collection.candidates import NEIGHBOURS, Probes
from visil.collection.first_look import FILE, FirstLook, clear_first_look
from visil.collection.model import CollectionModel, load
from visil.collection.recent_features import RecentFeatures
from visil.collection.remote.objects import is_url
from visil.collection.remote.storage import RemoteStorage
from visil.collection.search import best_of, compared, hit_of, rank
from visil.collection.shards.manifest import is_sharded
from visil.collection.state import PartFacts, Problem
from visil.collection.storage import CATALOGUE, FolderStorage, Storage
from visil.collection.transfers import Transfers
from visil.collection.votes import Nearest
from visil.errors import IndexFolderError
from visil.model.code_kinds import KINDS, checked

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from visil.collection.candidates import CandidateIndex
    from visil.collection.first_look import Ranked
    from visil.collection.search import Hit
    from visil.collection.votes import Candidate
    from visil.compare.pair_reading import Common
    from visil.compare.visil import ViSiL
    from visil.model.code_kinds import Codes
    from visil.model.features import VideoFeatures


class Part:
    """One part of a collection, in a storage; ``model`` and ``codes`` as for :class:`visil.Index`.

    ``catalogue``, ``store`` and ``transfers`` may be called from elsewhere too (:mod:`visil.collection.connection`).
    """

    def __init__(
        self, storage: Storage, *, model: ViSiL | str | None = None, codes: Codes | None = None
    ) -> None:
        self.storage = storage
        self.location = storage.location
        self.catalogue = storage.catalogue
        self.store = storage.store
        self.chosen = CollectionModel(model, self.location, self.catalogue, self.writable)
        self._candidates: CandidateCache | None = None
        self._signs: FirstLook | None = None
        self._recent: RecentFeatures | None = None
        self.transfers = Transfers(self.catalogue, self.store)
        try:
            self.settle_codes(codes, settle=codes is not None)
        except BaseException:
            storage.close(keep=False)
            raise

    @classmethod
    def open(
        cls,
        location: str | os.PathLike[str],
        *,
        model: ViSiL | str | None = None,
        codes: Codes | None = None,
        create: bool = True,
    ) -> Self:
        """The part at a location, opened or made."""
        if codes is not None:
            checked(codes)
        ready = None
        if create and isinstance(model, str) and (is_url(location) or not os.path.exists(location)):
            ready = load(model)  # one that does not exist is refused before anything is made
        storage = (
            RemoteStorage(str(location), create=create)
            if is_url(location)
            else FolderStorage(location, create=create)
        )
        part = cls(storage, model=model, codes=codes)
        part.chosen.ready = ready
        return part

    @classmethod
    def shard(cls, location: str | os.PathLike[str], *, model: ViSiL | str | None = None) -> Self:
        """The part at a location, which must be there, as one of several."""
        if is_sharded(location):
            raise IndexFolderError(location, "is a sharded collection itself; a shard is an ordinary one")
        if not is_url(location) and not os.path.isfile(os.path.join(location, CATALOGUE)):
            raise IndexFolderError(location, "this shard is missing; put its folder back, or mount its disk")
        return cls.open(location, model=model, create=False)

    def __len__(self) -> int:
        return self.catalogue.count()[0]

    def close(self, *, keep: bool = True) -> None:
        """Let go of the files, a second time does nothing; ``keep``: changes are to last."""
        self.transfers.close()
        self.storage.close(keep=keep)

    # ------------------------------------------------------------------ what is here

    @property
    def model(self) -> ViSiL:
        """The model of this part, loaded when first needed."""
        return self.chosen.get()

    def use(self, model: ViSiL) -> None:
        """Use a model that this process has loaded already; one that did not make this part is refused when needed."""
        self.chosen.use(model)

    def writable(self) -> bool:
        """Whether the part may be changed; one that may not is read without a lock or a cache written."""
        return self.storage.writable

    def must_be_writable(self) -> None:
        """Refuse a part that cannot be changed; and take over what others have changed."""
        if not self.storage.writable:
            raise IndexFolderError(self.location, "the folder cannot be written to")
        self.storage.renew(0.0)

    def settle_codes(self, wanted: Codes | None = None, *, settle: bool = True) -> Codes:
        """The kind of codes that features are kept as; the first who asks for a kind, or adds, settles it."""
        known = self.catalogue.fact("codes")
        if known is None and settle and self.storage.writable:
            self.catalogue.settle_codes(wanted)
            known = self.catalogue.fact("codes")
        held = known or "fp16"
        if wanted not in (None, held):
            raise IndexFolderError(
                self.location,
                f"keeps its features as {held}, not {wanted}; to change that, make a new collection",
            )
        if held not in KINDS:
            raise IndexFolderError(
                self.location, f"keeps its features as {held}: of a newer visil; upgrade to open it"
            )
        self.store.codes = checked(held)
        return self.store.codes

    def settle(self, facts: dict[str, str]) -> None:
        """Record the model and the kind of codes that a collection of several parts has settled on."""
        for key, value in facts.items():
            if self.catalogue.fact(key) != value:
                self.catalogue.set_fact(key, value)
        if "codes" in facts:
            self.store.codes = checked(facts["codes"])

    def facts(self, measure: bool = False) -> PartFacts:
        """State of the part; ``measure`` adds up the bytes on disk, which takes a look at every file."""
        videos, frames, seconds = self.catalogue.count()
        known = self.catalogue.fact("codes") is not None or videos
        return PartFacts(
            self.location,
            self.catalogue.fact("model"),
            self.catalogue.fact("fingerprint"),
            self.store.codes if known else None,
            self.storage.writable,
            videos,
            frames,
            seconds,
            self.storage.bytes() if measure else 0,
            self.catalogue.failures(),
        )

    def version(self) -> tuple[int, int]:
        """Changes whenever a video comes or goes."""
        rows = self.catalogue.database.rows("SELECT count(*), coalesce(max(number), 0) FROM videos")
        return int(rows[0][0]), int(rows[0][1])

    def renew(self, max_age: float) -> None:
        """Take over what others have written, unless that was looked for within ``max_age`` seconds."""
        self.storage.renew(max_age)

    def keep(self) -> None:
        """Make changes last, before others let go of the part: only now are they written to a store."""
        self.storage.keep()

    def order(self) -> entries.Order:
        """All videos here, in the order in which they came."""
        return entries.order(self.catalogue)

    # ------------------------------------------------------------------ caches

    def candidates(self) -> CandidateIndex:
        """The candidate index, up to date with the catalogue."""
        return self._cached(self.model.dim)

    def _cached(self, dim: int) -> CandidateIndex:
        self.storage.keep()
        if self._candidates is None:
            self.storage.fetch_candidates()
            self._candidates = CandidateCache(
                self.storage.folder, dim, self.catalogue, self.store, self.storage.left_out
            )
        found = self._candidates.refresh(save=self.storage.writable)
        self.storage.share_candidates()
        return found

    def signs(self, progress: Callable[[int, int], None] | None = None) -> FirstLook:
        """The signs that a first look goes by, up to date: features that are new are read once for that."""
        self.storage.keep()
        if self._signs is None:
            self._signs = FirstLook(self.storage.folder, self.model, self.catalogue, self.store)
        self._signs.refresh(save=self.storage.writable, progress=progress)
        return self._signs

    def caches_on_disk(self) -> bool:
        """Whether whoever opens this part in another process finds its candidates there."""
        return not len(self) or self.candidates().on_disk

    def warm(self) -> None:
        """Load the network and map the candidate index, so that the first search does not have to."""
        if len(self):
            self.candidates()

    def catch_up(self) -> None:
        """Bring the caches that are in use up to date."""
        if len(self):
            self.candidates()
            if (self.storage.folder / FILE).exists():
                self.signs()

    def prepare(self) -> None:
        """Bring the candidate cache up to date; without the network, since features know how wide they are."""
        first = next(self.store.readable(self.catalogue.videos()), None)
        if first is not None and self.storage.writable:
            self._cached(int(first[1].vectors.shape[-1]))

    def prepare_first_look(self) -> None:
        """Bring the signs that a first look goes by up to date."""
        if len(self):
            self.signs()

    def clear_leftovers(self) -> None:
        """Delete what killed processes left half-written."""
        self.store.clear_leftovers()
        clear_leftovers(self.storage.folder)
        clear_first_look(self.storage.folder)

    # ------------------------------------------------------------------ searching

    def vote(self, queries: Sequence[Probes], limit: int) -> list[list[Candidate]]:
        """For each query the videos here whose frames are nearest to its own, strongest first."""
        if not len(self):
            return [[] for _ in queries]
        return self.candidates().vote(queries, limit, device=self.model.device)

    def nearest(self, probes: Sequence[NDArray[np.float32]], neighbours: int = NEIGHBOURS) -> list[Nearest]:
        """The nearest frames here of each probe, for several queries; ``videos`` are this part's own numbers."""
        if not len(self):
            return [Nearest.joined(()) for _ in probes]
        return self.candidates().nearest(probes, neighbours)

    def probes(self, videos: Sequence[str]) -> list[Probes | None]:
        """The probes of videos of this part in a search for duplicates, by id; None for those that cannot be read."""
        here = [known for name in videos if (known := self.catalogue.video(name)) is not None]
        readable = (self._recent or self.store).readable(here)
        ids, read = [], []
        for video, features in readable:
            ids.append(video.id)
            read.append(features)
        probes = Probes.of_each(read, [2 * len(features) for features in read])
        found = dict(zip(ids, probes, strict=True))
        return [found.get(name) for name in videos]

    def remember(self, wanted: bool) -> None:
        """Whether features that were read are kept for the next who asks: while many videos are compared, each is
        read many times. What changes on disk meanwhile is not seen."""
        self._recent = RecentFeatures(self.store, self.model.device) if wanted else None

    def compare(
        self, query: VideoFeatures, common: Common | None, numbers: Sequence[int], k: int | None = None
    ) -> list[Hit]:
        """The query with some videos here, by number; the best ``k`` of them, or all, those unreadable left out."""
        videos = self.catalogue.numbered(sorted(numbers)).values()
        matches = compared(self.model, self._recent or self.store, query, videos, common)
        hits = [hit_of(video, match) for video, match in matches]
        return hits if k is None else best_of(hits, k)

    def compare_each(
        self,
        asked: Sequence[tuple[VideoFeatures, Common | None, Sequence[int]]],
        k: int | None = None,
        sharing: bool = False,
        leave: int = 0,
    ) -> list[tuple[list[Hit], list[int]]]:
        """:meth:`compare` for several queries at once, and the numbers of the videos that are left to others.

        ``sharing``: without those that share nothing for certain; ``leave``: see
        :func:`visil.compare.many_pairs.compare_each`.
        """
        from visil.compare.many_pairs import Unread, compare_each

        wanted = sorted({number for _, _, numbers in asked for number in numbers})
        videos = self.catalogue.numbered(wanted).values()
        known = {
            video.number: (video, found) for video, found in (self._recent or self.store).readable(videos)
        }
        own = [[known[number] for number in sorted(numbers) if number in known] for _, _, numbers in asked]
        queries = [
            (query, [features for _, features in some], common)
            for (query, common, _), some in zip(asked, own, strict=True)
        ]
        answers = compare_each(self.model, self.model.scorer(), queries, sharing=sharing, leave=leave)
        told: list[tuple[list[Hit], list[int]]] = []
        for some, matches in zip(own, answers, strict=True):
            both = [(video, match) for (video, _), match in zip(some, matches, strict=True)]
            hits = [hit_of(video, match) for video, match in both if not isinstance(match, Unread)]
            left = [video.number for video, match in both if match is Unread.left]
            told.append((hits if k is None else best_of(hits, k), left))
        return told

    def best(self, query: VideoFeatures, common: Common | None, k: int) -> list[Hit]:
        """The best ``k`` of all videos here, without candidates."""
        return rank(self.model, self.store, query, self.catalogue.videos(), k, common)

    def first_look(self, query: VideoFeatures, common: Common | None, count: int) -> list[Ranked]:
        """The ``count`` videos here that look most like a query, best first."""
        return self.signs().nearest(query, common, count) if len(self) else []

    def read(self, video: str, path: str | None = None) -> VideoFeatures:
        """A video's features, by id; an error where they cannot be read."""
        return self.store.read(video, path=path)

    def features(self, video: str) -> VideoFeatures | None:
        """A video's features; None (and a warning) where they cannot be read, or it is not here any more."""
        known = self.catalogue.video(video)
        return None if known is None else (self._recent or self.store).try_read(known)

    def middle_frames(self, numbers: Sequence[int]) -> dict[str, Tensor]:
        """One frame [R, C] of each of some videos, by id, those left out that are unreadable or blank."""
        from visil.collection.background import middle_frame

        found: dict[str, Tensor] = {}
        for video, features in self.store.glimpses(self.catalogue.numbered(numbers).values()):
            frame = middle_frame(features)
            if frame is not None:
                found[video.id] = frame.clone()  # not the whole file with it
        return found

    # ------------------------------------------------------------------ care

    def verify(self, repair: bool, progress: Callable[[int, int], None] | None = None) -> list[Problem]:
        """Read everything and name damage; ``repair`` takes damaged entries out."""
        self.storage.renew(0.0)
        if repair:
            self.must_be_writable()
            clear_leftovers(self.storage.folder)
            clear_first_look(self.storage.folder)
        trouble = self.catalogue.database.integrity()
        if trouble is not None:
            return [Problem(CATALOGUE, trouble)]
        problems = [*self._damaged(repair, progress), *self._orphans(repair)]
        if len(self) and not self.storage.candidates_sound():
            problems.append(
                Problem("frames.faiss", "the candidate cache is missing or damaged; it is made anew")
            )
            if repair:
                self.candidates()
        self.storage.keep()
        unused = self.storage.unused()
        if repair:
            self.storage.delete_unused(unused)
        return [*problems, *(Problem(name, "belongs to nothing in the catalogue") for name in unused)]

    def _damaged(self, repair: bool, progress: Callable[[int, int], None] | None) -> Iterator[Problem]:
        total = len(self)
        for done, video in enumerate(self.catalogue.videos(), 1):
            reason = self.store.sound(video.id)
            if reason is not None:
                yield Problem(video.path, f"its features ({self.store.path(video.id).name}) are {reason}")
                if (
                    repair and self.store.sound(video.id) is not None
                ):  # it may have been added again meanwhile
                    self.remove(video.id)
            if progress is not None:
                progress(done, total)

    def _orphans(self, repair: bool) -> Iterator[Problem]:
        for orphan in self.store.ids():
            if not self.catalogue.has(orphan):
                yield Problem(self.store.path(orphan).name, "belongs to no video of the catalogue")
                if repair:
                    self.drop(orphan)

    def remove(self, video: str) -> None:
        """Take a video out; nothing happens where it is not here.

        Entry first, features after: if killed in between, the files left over belong to nothing and harm nothing.
        """
        self.catalogue.remove(video)
        self.drop(video)

    def drop(self, video: str) -> None:
        """Delete the features of a video that is not in the catalogue (any more)."""
        self.catalogue.clear(video, self.store.remove)
