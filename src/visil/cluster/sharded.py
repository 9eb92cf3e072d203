"""`ShardedIndex`: a collection cut into shards, each an ordinary one, that answers as if it were whole.

Frames vote over all shards together, what is common is sampled over all of them, and exact comparisons run where the
features are; only the best of each shard travel. Answers are those of one index with the same videos, as long as that
would be exact itself (up to ``candidates.FLAT_FRAMES`` frames; beyond, smaller shards are exact for longer).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from visil.cluster import manifest as manifests
from visil.cluster.candidates import ShardedCandidates
from visil.cluster.catalogue import ShardedCatalogue
from visil.cluster.checks import check
from visil.cluster.duplicates import find_duplicates
from visil.cluster.first_look import ShardedFirstLook
from visil.cluster.manifest import MOST, Manifest
from visil.cluster.shard import ShardFacts
from visil.cluster.shards import LocalShards, Shards
from visil.cluster.store import ShardedStore
from visil.collection.background import SAMPLE, Background
from visil.collection.candidates import Probes
from visil.collection.catalogue import Judgement
from visil.collection.collection import CANDIDATES, Index, IndexInfo, Problem
from visil.collection.duplicates import Duplicates, OnPairs
from visil.collection.extraction import AddReport, Decode, OnProgress
from visil.collection.first_look import check_first_look
from visil.collection.lock import can_write
from visil.collection.remote import FRESH_S
from visil.collection.remote_objects import is_url
from visil.collection.search import Hit, best_of
from visil.compare.visil import ViSiL
from visil.errors import IndexFolderError, UsageError
from visil.model.codes import Codes, checked
from visil.model.features import VideoFeatures

Connect = Callable[[Sequence[str]], Shards]
"""From the shards' locations to something that calls them."""


class ShardedIndex(Index):
    """Opens the sharded collection in ``folder`` (:func:`visil.cluster.making.create` makes one).

    ``connect`` says how shards are reached; by default they are opened in this process.
    """

    catalogue: ShardedCatalogue
    store: ShardedStore

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        model: ViSiL | str | None = None,
        codes: Codes | None = None,
        connect: Connect | None = None,
    ) -> None:
        self.folder = Path(folder)
        self._connect = connect or LocalShards
        self._wanted = model
        self._model: ViSiL | None = None
        self._background: tuple[int, Background] | None = None
        self._cache = None
        self._retired: list[Shards] = []
        self.manifest: Manifest = manifests.read(self.folder)
        self.shards: Shards = self._connect(self.manifest.locations(self.folder))
        try:
            check(self.folder, self.manifest, self.shards.each("facts"))
            self.catalogue = ShardedCatalogue(self)
            self.store = ShardedStore(self)
            self.store.codes = self._codes(codes, settle=codes is not None and self.writable)
        except BaseException:
            self.shards.close()
            raise

    def close(self) -> None:
        """Let go of all shards."""
        for shards in (*self._retired, self.shards):
            shards.close()

    @property
    def writable(self) -> bool:
        """Whether the collection may be changed: its folder and all its shards."""
        return can_write(self.folder) and all(self.shards.each("writable"))

    def local(self, place: int) -> Index:
        """A shard as a collection of this process: for what only whoever has its folder at hand can do."""
        if not isinstance(self.shards, LocalShards):
            raise UsageError(
                f"{self.folder}: its shards are open elsewhere; open it here (without --ray) to change it"
            )
        return self.shards.shards[place].index

    def follow(self, max_age: float = FRESH_S) -> None:
        """Notice that shards were added, or that videos move, since this was opened; and what stores hold now."""
        if any(map(is_url, self.shards.locations)):
            self.shards.each("renew", max_age)
        found = manifests.read(self.folder)
        if found == self.manifest:
            return
        if found.locations(self.folder) != list(self.shards.locations):
            fresh = self._connect(found.locations(self.folder))
            try:
                check(self.folder, found, fresh.each("facts"))
            except BaseException:
                fresh.close()
                raise
            self._retired.append(self.shards)  # another thread may be in the middle of a question
            self.shards = fresh
            self._share_model()
        self.manifest = found
        self.catalogue.changed()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the collection so that no shard is added, and no video moved, meanwhile."""
        self._must_be_writable()
        with manifests.held(self.folder, alone=False):
            self.follow(0.0)
            yield

    # ------------------------------------------------------------------ model and codes

    @property
    def model(self) -> ViSiL:
        """The model of this collection; shards in this process use the same one."""
        first = self._model is None
        model = super().model
        if first:
            self._share_model()
        return model

    def _share_model(self) -> None:
        if self._model is not None and isinstance(self.shards, LocalShards):
            for shard in self.shards.shards:
                shard.use(self._model)

    def settle(self, **facts: str) -> None:
        """Record what the whole collection is made with: here first, then in each shard, where it is checked."""
        with manifests.held(self.folder, alone=False):
            self.manifest = manifests.read(self.folder).with_facts(**facts)
            manifests.write(self.folder, self.manifest)
        self.shards.each("settle", self.manifest.facts)

    def _codes(self, wanted: Codes | None, *, settle: bool = False) -> Codes:
        known = self.manifest.facts.get("codes")
        if wanted not in (None, known or wanted):
            raise IndexFolderError(
                self.folder,
                f"keeps its features as {known}, not {wanted}; to change that, make a new collection",
            )
        kind = checked(known or wanted or "fp16")
        if settle and known is None:
            self.settle(codes=kind)
        return kind

    # ------------------------------------------------------------------ changing

    def add(
        self,
        paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
        *,
        workers: int | None = None,
        reference: bool = False,
        progress: OnProgress | None = None,
        decode: Decode | None = None,
    ) -> AddReport:
        """Files and folders into the collection, each video into the shard that its content belongs to."""
        with self.changing():
            self.local(0)
            self.shards.each("settle", self.manifest.facts)
            return super().add(paths, workers=workers, reference=reference, progress=progress, decode=decode)

    def _clear_leftovers(self) -> None:
        self.shards.each("clear_leftovers")

    def judge(self, a: str, b: str, verdict: Judgement | None) -> None:
        """Record that two videos are the "same" or "different"; None takes it back."""
        with self.changing():
            super().judge(a, b, verdict)

    def remove(self, videos: Iterable[str]) -> int:
        """Take videos out, by id or path. Returns how many there were."""
        with self.changing():
            found = {video.id for video in map(self.video, videos)}
            for video in found:
                self.shards.each("remove", video)
            self._kept()
            return len(found)

    def _kept(self) -> None:
        self.shards.each("flush")

    # ------------------------------------------------------------------ asking

    def refresh(self) -> ShardedCandidates:
        """Bring every shard's candidate cache up to date, and the network into memory."""
        if isinstance(self.shards, LocalShards):
            _ = self.model
        self.shards.each("warm")
        return ShardedCandidates(self)

    def prepare_first_look(self, progress: Callable[[int, int], None] | None = None) -> ShardedFirstLook:
        """Bring every shard's signs up to date; ``progress`` counts shards."""
        looks = ShardedFirstLook(self)
        looks.refresh(progress=progress)
        return looks

    def search(
        self,
        query: str | os.PathLike[str] | VideoFeatures,
        k: int = 10,
        *,
        exhaustive: bool = False,
        first_look: int | None = None,
    ) -> list[Hit]:
        """The ``k`` videos of the collection that share most with a query: see :meth:`visil.Index.search`."""
        if k < 1:
            raise UsageError(f"k must be at least 1, not {k}")
        check_first_look(first_look)
        self.follow()
        features = self.features(query)
        common = self.common_here().beyond_typical(features)
        if (exhaustive and first_look is None) or (first_look is not None and first_look >= len(self)):
            answers = self.shards.each("best", features, common, k)
            return best_of({hit.id: hit for hits in answers for hit in hits}.values(), k)
        if first_look is not None:
            numbers = ShardedFirstLook(self).best(features, common, first_look)
        else:
            votes = ShardedCandidates(self).vote(Probes.of(features), max(CANDIDATES, 4 * k))
            numbers = [vote.number for vote in votes]
        chosen: dict[int, list[int]] = defaultdict(list)
        for number in numbers:
            chosen[number % MOST].append(number // MOST)
        asked = {place: (features, common, local) for place, local in chosen.items()}
        found = (hit for hits in self.shards.some("compare", asked).values() for hit in hits)
        return best_of({hit.id: hit for hit in found}.values(), k)

    def common_here(self) -> Background:
        """What is common in all shards together, sampled anew when they have grown or shrunk by a tenth."""
        count = len(self)
        if self._background is None or abs(count - self._background[0]) > 0.1 * self._background[0]:
            self._background = (count, self.common_now())
        return self._background[1]

    def common_now(self) -> Background:
        """What is common in all shards together, sampled just now."""
        chosen = self.catalogue.sample(SAMPLE)
        asked: dict[int, list[str]] = defaultdict(list)
        for video in chosen:
            asked[video.number % MOST].append(video.id)
        answers = self.shards.some("middle_frames", {place: (ids,) for place, ids in asked.items()})
        frames = {
            name: frame
            for place, ids in asked.items()
            for name, frame in zip(ids, answers[place], strict=True)
        }
        inorder = (frames[video.id] for video in chosen)
        return Background(self.model, [frame for frame in inorder if frame is not None])

    def find_duplicates(
        self,
        min_confidence: float = 0.5,
        *,
        new_against_references: bool = False,
        progress: OnPairs | None = None,
    ) -> Duplicates:
        """Groups, and the pairs that share only common footage, within and between shards."""
        if not 0 <= min_confidence <= 1:
            raise UsageError(f"min_confidence must be from 0 to 1, not {min_confidence}")
        self.follow()
        return find_duplicates(
            self,
            min_confidence=min_confidence,
            new_against_references=new_against_references,
            progress=progress,
        )

    # ------------------------------------------------------------------ care

    def facts(self) -> list[ShardFacts]:
        """The state of each shard."""
        found: list[ShardFacts] = self.shards.each("facts", True)
        return found

    def info(self) -> IndexInfo:
        """What is here, in all shards together."""
        videos, frames, seconds = self.catalogue.count()
        return IndexInfo(
            os.fspath(self.folder),
            self.catalogue.fact("model") or "not chosen yet",
            self._codes(None),
            videos,
            frames,
            seconds / 3600,
            sum(facts.bytes for facts in self.facts()) + (self.folder / manifests.FILE).stat().st_size,
            self.catalogue.failures(),
        )

    def verify(
        self, *, repair: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> list[Problem]:
        """Read everything in all shards and name what is damaged, with the shard it is in."""
        self.follow()
        if not repair:
            return self._verify(False, progress)
        with self.changing():
            return self._verify(True, progress)

    def _verify(self, repair: bool, progress: Callable[[int, int], None] | None) -> list[Problem]:
        problems: list[Problem] = []
        places = range(len(self.manifest.shards))
        if isinstance(self.shards, LocalShards):
            _ = self.model
        for place in places:
            name = self.manifest.names[place]
            found = self.shards.call(place, "verify", repair)
            problems += [Problem(one.what, f"{one.reason} ({name})") for one in found]
            if progress is not None:
                progress(place + 1, len(places))
        if not problems:
            try:
                self.catalogue.order()
            except IndexFolderError as error:
                problems.append(Problem(os.fspath(error.path), error.reason))
        return problems
