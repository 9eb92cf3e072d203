"""`visil.Index`: a collection of videos in one folder.

``catalogue.sqlite`` says what is there, ``features/`` holds one file a video; ``frames*``, for candidates, and
``first-look*``, the signs of all vectors, are caches.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from visil.collection.background import Background
from visil.collection.cache import CandidateCache, clear_leftovers
from visil.collection.candidates import CandidateIndex, Probes
from visil.collection.catalogue import Catalogue, Judgement, Video
from visil.collection.condition import IndexInfo, Problem
from visil.collection.discover import discover
from visil.collection.duplicates import Duplicates, Group, OnPairs, find_duplicates
from visil.collection.extraction import AddReport, Decode, Extraction, OnProgress
from visil.collection.first_look import FILE, FirstLook, check_first_look, clear_first_look
from visil.collection.folder import bytes_below, make
from visil.collection.identity import stamp_of
from visil.collection.lock import can_write
from visil.collection.remote_objects import is_url
from visil.collection.search import Hit, rank
from visil.collection.store import FeatureStore
from visil.compare.loading import load
from visil.compare.visil import ViSiL
from visil.errors import IndexFolderError, ModelError, UsageError
from visil.model.codes import KINDS, Codes, checked
from visil.model.features import VideoFeatures

__all__ = ["CANDIDATES", "Index", "IndexInfo", "Problem"]

CANDIDATES = 100
"""Videos that a search compares exactly, at the least."""


class Index:
    """Opens the collection in ``folder``, or makes a new one there.

    ``model`` is a model or the name of one; by default the one that the collection was made with. ``codes`` is what
    a new collection keeps its features as: fp16 (the default), int8 (half the bytes) or binary (a sixteenth).
    """

    engine: type[Extraction] | partial[Extraction] = Extraction
    """What ``add`` runs: on this machine, or over a cluster (:mod:`visil.cluster.ray_extraction`)."""

    _first_look: FirstLook | None = None

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        model: ViSiL | str | None = None,
        codes: Codes | None = None,
        create: bool = True,
    ) -> None:
        if is_url(folder):
            raise UsageError(f"{folder}: a folder opens with Index; a URL with visil.collection.opened")
        self.folder = Path(folder)
        if codes is not None:
            checked(codes)
        if not (self.folder / "catalogue.sqlite").is_file():
            make(self.folder, create)
        self.catalogue = Catalogue(self.folder / "catalogue.sqlite")
        try:
            self.store = FeatureStore(self.folder / "features", self._codes(codes))
        except BaseException:
            self.catalogue.close()
            raise
        self._wanted = model
        self._model: ViSiL | None = None
        self._cache: CandidateCache | None = None
        self._background: tuple[int, Background] | None = None

    def _codes(self, wanted: Codes | None, *, settle: bool = False) -> Codes:
        """What features are kept as. The first who asks for a kind, or adds, settles it."""
        known = self.catalogue.fact("codes")
        if known is None and self.writable and (wanted or settle):
            with self.catalogue.writing() as db:
                older = db.execute("SELECT 1 FROM videos").fetchone()  # from before there was a choice
                kind = "fp16" if older or wanted is None else wanted
                db.execute("INSERT OR IGNORE INTO meta VALUES ('codes', ?)", (kind,))
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
        return checked(held)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def location(self) -> str:
        """What people call the collection."""
        return os.fspath(self.folder)

    def __len__(self) -> int:
        return self.catalogue.count()[0]

    def close(self) -> None:
        """Let go of the files."""
        self.catalogue.close()

    @property
    def writable(self) -> bool:
        """Whether the collection may be changed; one that may not is read without a lock or a cache written."""
        return not self.catalogue.readonly and can_write(self.folder)

    def _must_be_writable(self) -> None:
        if not self.writable:
            raise IndexFolderError(self.location, "the folder cannot be written to")

    @property
    def model(self) -> ViSiL:
        """The model of this collection, loaded when first needed; another one than it was made with is refused."""
        if self._model is None:
            wanted, known = self._wanted, self.catalogue.fact("model")
            model = (
                wanted if isinstance(wanted, ViSiL) else load(wanted or self.catalogue.fact("model_source"))
            )
            fingerprint = model.fingerprint()
            if known is None:
                if self.writable:
                    self.catalogue.set_fact("fingerprint", fingerprint)
                    if isinstance(wanted, str):
                        self.catalogue.set_fact("model_source", wanted)
                    self.catalogue.set_fact("model", model.config.name)
            elif self.catalogue.fact("fingerprint") != fingerprint:
                raise ModelError(
                    f"{self.location}: was made with the model {known}, and {model.config.name} gives other features: "
                    "open it with that model, or make a new collection"
                )
            self._model = model
        return self._model

    # ------------------------------------------------------------------ adding

    def add(
        self,
        paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
        *,
        workers: int | None = None,
        reference: bool = False,
        progress: OnProgress | None = None,
        decode: Decode | None = None,
    ) -> AddReport:
        """Files and folders into the collection; what is there already costs a look at its time stamp.

        ``workers`` threads decode; by default one for each core. ``reference`` marks the files as ones that others
        are compared against (:meth:`duplicates`). ``decode`` opens them in place of :func:`visil.video.stream_frames`.
        """
        if workers is not None and workers < 1:
            raise UsageError(f"workers must be at least 1, not {workers}")
        if isinstance(paths, (str, os.PathLike)):
            paths = [paths]
        self._must_be_writable()
        model = self.model
        self.store.codes = self._codes(None, settle=True)
        if self.store.codes == "binary" and model.whitening is None:
            raise ModelError(
                f"{self.location}: binary codes need a model that whitens, and {model.config.name} does not: "
                "make a new collection with int8 codes"
            )
        self._clear_leftovers()
        run = self.engine(
            model,
            self.catalogue,
            self.store,
            workers=workers or len(os.sched_getaffinity(0)),
            reference=reference,
            progress=progress,
            decode=decode,
        )
        try:
            return run.run(discover(paths))
        finally:
            self._kept()
            if len(self):
                self.refresh()
                if (self.folder / FILE).exists():
                    self.prepare_first_look()

    def _kept(self) -> None:
        """What was changed is to last from here on: in a folder it does already."""

    def _clear_leftovers(self) -> None:
        self.store.clear_leftovers()
        clear_leftovers(self.folder)
        clear_first_look(self.folder)

    # ------------------------------------------------------------------ candidates

    def refresh(self) -> CandidateIndex:
        """Bring the candidate cache up to date with the catalogue."""
        if self._cache is None:
            self._cache = CandidateCache(self.folder, self.model.dim, self.catalogue, self.store)
        return self._cache.refresh(save=self.writable)

    def prepare_first_look(self, progress: Callable[[int, int], None] | None = None) -> FirstLook:
        """Bring the signs that a first look goes by up to date: every video's features are read once for that."""
        if self._first_look is None:
            self._first_look = FirstLook(self.folder, self.model, self.catalogue, self.store)
        self._first_look.refresh(save=self.writable, progress=progress)
        return self._first_look

    # ------------------------------------------------------------------ asking

    def search(
        self,
        query: str | os.PathLike[str] | VideoFeatures,
        k: int = 10,
        *,
        exhaustive: bool = False,
        first_look: int | None = None,
    ) -> list[Hit]:
        """The ``k`` videos of the collection that share most with a query: a file, an id, or features.

        Likely ones are compared; ``exhaustive``: all. With ``first_look`` all are looked at by the signs of their
        vectors, and so many of them compared, which are the most alike.
        """
        if k < 1:
            raise UsageError(f"k must be at least 1, not {k}")
        check_first_look(first_look)
        features = self.features(query)
        common = self.common_here().beyond_typical(features)
        if (exhaustive and first_look is None) or (first_look is not None and first_look >= len(self)):
            return rank(self.model, self.store, features, self.catalogue.videos(), k, common)
        if first_look is not None:
            chosen = self.prepare_first_look().best(features, common, first_look)
        else:
            votes = self.refresh().vote(Probes.of(features), max(CANDIDATES, 4 * k))
            chosen = [vote.number for vote in votes]
        return rank(self.model, self.store, features, self.catalogue.numbered(chosen).values(), k, common)

    def common_here(self) -> Background:
        """What is common in this collection, sampled anew when it has grown or shrunk by a tenth."""
        count = len(self)
        if self._background is None or abs(count - self._background[0]) > 0.1 * self._background[0]:
            self._background = (count, Background.read(self.model, self.store, self.catalogue))
        return self._background[1]

    def features(self, query: str | os.PathLike[str] | VideoFeatures) -> VideoFeatures:
        """Features of a query; those of a video that is in the collection are not made again."""
        if isinstance(query, VideoFeatures):
            return query
        name = os.fspath(query)
        known = self.catalogue.video(name)
        if known is not None and not os.path.exists(name):
            return self.store.read(known.id, path=known.path)
        if known is not None and self._unchanged(name):
            features = self.store.try_read(known)
            if features is not None:
                return features
        return self.model.embed(query)

    def _unchanged(self, path: str) -> bool:
        known = self.catalogue.file(os.path.abspath(path))
        return known is not None and known[1] == stamp_of(Path(os.path.abspath(path)))

    def duplicates(
        self,
        min_confidence: float = 0.5,
        *,
        new_against_references: bool = False,
        progress: OnPairs | None = None,
    ) -> list[Group]:
        """Groups of videos that share footage."""
        return self.find_duplicates(
            min_confidence, new_against_references=new_against_references, progress=progress
        ).groups

    def find_duplicates(
        self,
        min_confidence: float = 0.5,
        *,
        new_against_references: bool = False,
        progress: OnPairs | None = None,
    ) -> Duplicates:
        """Groups, and the pairs that share only common footage."""
        if not 0 <= min_confidence <= 1:
            raise UsageError(f"min_confidence must be from 0 to 1, not {min_confidence}")
        return find_duplicates(
            self.model,
            self.catalogue,
            self.store,
            self.refresh(),
            min_confidence=min_confidence,
            new_against_references=new_against_references,
            progress=progress,
        )

    def judge(self, a: str, b: str, verdict: Judgement | None) -> None:
        """Record that two videos are the "same" or "different"; None takes it back. By content: renames keep it."""
        self._must_be_writable()
        first, second = self.video(a), self.video(b)
        if first.id == second.id:
            raise UsageError("a video is always the same as itself")
        self.catalogue.judge(first.id, second.id, verdict)
        self._kept()

    def video(self, id_or_path: str) -> Video:
        """A video of the collection by id, the beginning of its id, or path."""
        found = self.catalogue.video(id_or_path)
        if found is None:
            raise IndexFolderError(self.location, f"holds no video {id_or_path}")
        return found

    # ------------------------------------------------------------------ care

    def info(self) -> IndexInfo:
        """What is here."""
        videos, frames, seconds = self.catalogue.count()
        return IndexInfo(
            self.location,
            self.catalogue.fact("model") or "not chosen yet",
            self._codes(None),
            videos,
            frames,
            seconds / 3600,
            self._bytes(),
            self.catalogue.failures(),
        )

    def verify(
        self, *, repair: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> list[Problem]:
        """Read everything and name what is damaged. ``repair`` takes damaged entries out; adding makes them anew."""
        if repair:
            self._must_be_writable()
            clear_leftovers(self.folder)
            clear_first_look(self.folder)
        problems = []
        trouble = self.catalogue.integrity()
        if trouble is not None:
            return [Problem("catalogue.sqlite", trouble)]
        total = len(self)
        for done, video in enumerate(self.catalogue.videos(), 1):
            reason = self.store.sound(video.id)
            if reason is not None:
                problems.append(
                    Problem(video.path, f"its features ({self.store.path(video.id).name}) are {reason}")
                )
                if (
                    repair and self.store.sound(video.id) is not None
                ):  # it may have been added again meanwhile
                    self._take_out(video)
            if progress is not None:
                progress(done, total)
        for orphan in self.store.ids():
            if not self.catalogue.has(orphan):
                problems.append(Problem(self.store.path(orphan).name, "belongs to no video of the catalogue"))
                if repair:
                    self.catalogue.clear(orphan, self.store.remove)
        if total and not self._candidates_sound():
            problems.append(
                Problem("frames.faiss", "the candidate cache is missing or damaged; it is made anew")
            )
            if repair:
                self.refresh()
        self._kept()
        return problems

    def _candidates_sound(self) -> bool:
        return CandidateIndex(self.folder, self.model.dim).load()

    def _bytes(self) -> int:
        return bytes_below(self.folder)

    def remove(self, videos: Iterable[str]) -> int:
        """Take videos out, by id or path; the files themselves are never touched. Returns how many there were."""
        self._must_be_writable()
        found = {video.id: video for video in map(self.video, videos)}
        for video in found.values():
            self._take_out(video)
        self._kept()
        return len(found)

    def _take_out(self, video: Video) -> None:
        """Entry first, features after: killed in between, what is left over belongs to nothing and harms nothing."""
        self.catalogue.remove(video.id)
        self.catalogue.clear(video.id, self.store.remove)
