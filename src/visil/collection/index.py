"""`visil.Index`: a collection of videos in a folder, in shards, or on a store.

It is written once, over parts (:mod:`visil.collection.parts`): what is asked of all of them comes together here, what
is asked of a collection that is one part goes straight through to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit
from urllib.request import url2pathname

from visil.collection.discover import discover
from visil.collection.duplicates import find_duplicates
from visil.collection.identity import stamp_of
from visil.collection.intake import Intake
from visil.collection.part import Part
from visil.collection.parts import FRESH_S, SinglePart
from visil.collection.presence import Gone, gone_files
from visil.collection.queries import answered, check_confidence, features_of, held, search
from visil.collection.selection import Selection
from visil.collection.shards.manifest import is_sharded
from visil.collection.shards.parts import ShardedParts
from visil.collection.state import EMBEDDED_IN, IndexInfo
from visil.errors import IndexFolderError, ModelError, UsageError, VisilError

if TYPE_CHECKING:
    from visil.collection.background import Background
    from visil.collection.catalogue import Judgement, Video
    from visil.collection.connection import Connect
    from visil.collection.duplicates import Duplicates, Group
    from visil.collection.intake import AddReport, Engine, OnProgress
    from visil.collection.local_engine import Decode
    from visil.collection.parts import AnyCatalogue, Parts
    from visil.collection.search import Hits
    from visil.collection.spread import Spread
    from visil.collection.state import Problem
    from visil.collection.store import Features
    from visil.compare.visil import ViSiL
    from visil.footage.proof import Prover
    from visil.model.code_kinds import Codes
    from visil.model.features import VideoFeatures
    from visil.progress import OnCount, OnPairs


class Index:
    """Opens the collection at ``location``, or makes a new one there.

    ``location`` is a folder, the folder of a sharded collection (``visil shards create`` makes one), or a URL:
    ``s3://bucket/name.visil``, or any other that fsspec knows. ``model`` is a model or the name of one; by default the
    one that the collection was made with. ``codes`` is what a new collection keeps its features as: fp16 (the
    default), int8 (half the bytes) or binary (a sixteenth). ``connect`` says how the shards of a sharded collection
    are reached; by default they are opened in this process.
    """

    def __init__(
        self,
        location: str | os.PathLike[str],
        *,
        model: ViSiL | str | None = None,
        codes: Codes | None = None,
        create: bool = True,
        connect: Connect | None = None,
    ) -> None:
        if str(location).lower().startswith("file://"):
            location = url2pathname(urlsplit(str(location)).path)
        self.parts: Parts
        """The parts of the collection."""
        if is_sharded(location):
            self.parts = ShardedParts(location, model=model, codes=codes, connect=connect)
        elif connect is not None:
            raise IndexFolderError(
                location, "is not in shards, so there is nothing to spread; leave --ray out"
            )
        else:
            self.parts = SinglePart(Part.open(location, model=model, codes=codes, create=create))
        self._background: tuple[int, Background] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.parts.close(keep=error is None)  # after an error, what could be kept has been

    def close(self) -> None:
        """Let go of the files; on a store, after writing remaining changes."""
        self.parts.close()

    def __len__(self) -> int:
        return self.catalogue.count()[0]

    @property
    def location(self) -> str:
        """The name of the collection for people."""
        return self.parts.location

    @property
    def folder(self) -> Path:
        """The collection's folder or, where it lies on a store, that of its cache on this machine."""
        return self.parts.folder

    @property
    def catalogue(self) -> AnyCatalogue:
        """Which videos are here, from which files, with which failures and verdicts."""
        return self.parts.catalogue

    @property
    def store(self) -> Features:
        """The videos' features, by id."""
        return self.parts.store

    @property
    def model(self) -> ViSiL:
        """The model of this collection, loaded when first needed; another one than it was made with is refused."""
        return self.parts.model

    @property
    def writable(self) -> bool:
        """Whether the collection may be changed; one that may not is read without a lock or a cache written."""
        return self.parts.writable

    # ------------------------------------------------------------------ changing

    def add(
        self,
        paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
        *,
        workers: int | None = None,
        selection: Selection | None = None,
        reference: bool = False,
        progress: OnProgress | None = None,
        decode: Decode | None = None,
        engine: Engine | None = None,
    ) -> AddReport:
        """Files and folders into the collection; a known file costs a look at its time stamp.

        ``selection`` says what to take of the files in folders; by default all videos, and no link out of its folder.
        ``workers`` is how many cores to use, by default all that this process may: where there is much to do, as many
        processes decode and embed; with a GPU they decode. ``reference`` marks the files as ones that others
        are compared against (:meth:`duplicates`). ``decode`` opens them in place of :func:`visil.video.stream_frames`.
        ``engine`` decodes and embeds in place of this process (:func:`visil.cluster.ray_extraction.over`).
        """
        if workers is not None and workers < 1:
            raise UsageError(f"workers must be at least 1, not {workers}")
        if isinstance(paths, (str, os.PathLike)):
            paths = [paths]
        with self.parts.changing():
            model = self.model
            if self.parts.begin_adding() == "binary" and model.whitening is None:
                raise ModelError(
                    f"{self.location}: binary codes need a model that whitens, and {model.config.name} does not: "
                    "make a new collection with int8 codes"
                )
            self.parts.connection.each("clear_leftovers")
            selection = selection or Selection()
            intake = Intake(self.parts, selection=selection, reference=reference, progress=progress)
            if engine is None:
                from visil.collection.local_engine import LocalEngine
                from visil.machine.processor import usable_cores

                engine = LocalEngine(workers=workers or usable_cores(), decode=decode)
            try:
                found = discover(paths, selection, passed_over=intake.pass_over)
                return intake.run(engine, list(found))
            finally:
                self.parts.keep()
                self.parts.connection.each("catch_up")

    def judge(self, a: str, b: str, verdict: Judgement | None) -> None:
        """Record that two videos are the "same" or "different"; None takes it back. By content: renames keep it."""
        with self.parts.changing():
            first, second = self.video(a), self.video(b)
            if first.id == second.id:
                raise UsageError("a video is always the same as itself")
            self.catalogue.judge(first.id, second.id, verdict)
            self.parts.keep()

    def forget_files(self, paths: Iterable[str]) -> None:
        """Forget some files, and videos that no file holds any more; the files themselves are not touched."""
        with self.parts.changing():
            for path in paths:
                for video in self.catalogue.forget(path):
                    self.parts.drop(video)
            self.parts.keep()

    def prune(
        self,
        below: Iterable[str | os.PathLike[str]] | None = None,
        *,
        dry_run: bool = True,
        gone_folders: bool = False,
    ) -> Gone:
        """Forget files that are not there any more; with ``dry_run``, only say which.

        ``below``: only files in some folders. Files whose whole folder is gone may be on a disk that is not mounted:
        they are forgotten only with ``gone_folders``.
        """
        self.parts.follow(0.0)
        known = self.catalogue.known_paths()
        if below is not None:
            folders = [os.path.join(os.path.abspath(folder), "") for folder in below]
            known = [path for path in known if path.startswith(tuple(folders))]
        gone = gone_files(known)
        if not dry_run:
            self.forget_files([*gone.files, *(gone.folders if gone_folders else ())])
        return gone

    def hold_files(self, files: Iterable[tuple[str, str]]) -> None:
        """Files that now hold a video of the collection: (path, id)."""
        with self.parts.changing():
            for path, video in files:
                for gone in self.catalogue.add_file(video, path, stamp_of(Path(path))):
                    self.parts.drop(gone)
            self.parts.keep()

    def remove(self, videos: Iterable[str]) -> int:
        """Take videos out, by id or path; the files themselves are never touched. Returns how many there were."""
        with self.parts.changing():
            found = {video.id for video in map(self.video, videos)}
            for video in found:
                self.parts.connection.each("remove", video)
            self.parts.keep()
            return len(found)

    # ------------------------------------------------------------------ caches

    def refresh(self) -> None:
        """Bring the candidate cache up to date with the catalogue, and the network into memory."""
        if self.parts.connection.parts is not None:
            _ = self.model  # one for all parts
        self.parts.connection.each("warm")

    def prepare_first_look(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Bring the signs that a first look goes by up to date: every video's features are read once for that."""
        self.parts.prepare_first_look(progress)

    def common_here(self) -> Background:
        """Footage that is common in this collection, sampled anew when it has grown or shrunk by a tenth."""
        from visil.collection.background import sampled

        count = len(self)
        if self._background is None or abs(count - self._background[0]) > 0.1 * self._background[0]:
            self._background = (count, sampled(self.parts))
        return self._background[1]

    def use_common(self, background: Background) -> None:
        """Go by a sample of this collection that was made elsewhere, or just now."""
        self._background = (len(self), background)

    # ------------------------------------------------------------------ asking

    def search(
        self,
        query: str | os.PathLike[str] | VideoFeatures,
        k: int = 10,
        *,
        exhaustive: bool = False,
        first_look: int | None = None,
        min_confidence: float = 0.0,
        verdicts: Collection[str] | None = None,
        among: Collection[str] | None = None,
        refine: bool = False,
    ) -> Hits:
        """The ``k`` videos of the collection that share most with a query: a file, an id, or features.

        Likely ones are compared; ``exhaustive``: all. With ``first_look`` all are looked at by the signs of their
        vectors, and so many of them compared, which are the most alike. Hits that are less sure than
        ``min_confidence``, or have none of the ``verdicts``, are left out, and others take their places. With
        ``among`` only videos with these ids are looked at: all of them, if they are few. A video with the query's bytes
        is a copy, whatever it shows. ``refine``: where both files are at hand, hits that share footage are looked at
        more closely, as :meth:`visil.ViSiL.compare` does.
        """
        return search(
            *(self, query, k),
            exhaustive=exhaustive,
            first_look=first_look,
            min_confidence=min_confidence,
            verdicts=verdicts,
            among=among,
            refine=refine,
        )

    def search_many(
        self,
        queries: Sequence[str | os.PathLike[str] | VideoFeatures],
        k: int = 10,
        *,
        workers: int | None = None,
        **options: Any,
    ) -> Iterator[Hits | VisilError]:
        """:meth:`search` for each of many queries, with its options: the same answers, in order, as they are found.

        On ``workers`` cores, by default on all. What is wrong with one query is its answer, and the others go on.
        """
        self.parts.follow(FRESH_S)
        with self._spread(workers) as spread:
            cuts = range(0, len(queries), spread.together)
            asked = [(queries[start : start + spread.together], k, options) for start in cuts]
            here = (answered(self, some, spread) for some in asked)  # a GPU's work
            for answers in here if spread.screens else spread.map(answered, asked, len(asked)):
                yield from answers

    def features(self, query: str | os.PathLike[str] | VideoFeatures) -> VideoFeatures:
        """Features of a query; those of a video that is in the collection are not made again."""
        return features_of(self.parts, query, held(self.catalogue, query))

    def duplicates(
        self,
        min_confidence: float = 0.5,
        *,
        new_against_references: bool = False,
        progress: OnPairs | None = None,
        prove: Prover | bool = True,
        workers: int | None = None,
    ) -> list[Group]:
        """Groups of videos that share footage, looked for on ``workers`` cores; all as for :meth:`find_duplicates`."""
        return self.find_duplicates(
            min_confidence,
            new_against_references=new_against_references,
            progress=progress,
            prove=prove,
            workers=workers,
        ).groups

    def find_duplicates(
        self,
        min_confidence: float = 0.5,
        *,
        new_against_references: bool = False,
        progress: OnPairs | None = None,
        prove: Prover | bool = True,
        proving: OnCount | None = None,
        workers: int | None = None,
    ) -> Duplicates:
        """Groups, and the pairs that share only common footage.

        ``prove``: the files of likely copies are decoded and compared picture by picture, since only what is shown
        that way may go for another; False leaves that out, and only files with the same bytes may go. ``proving`` is
        called with how many videos of groups are done with that, and of how many. Pairs are compared on ``workers``
        cores, by default on all.
        """
        check_confidence(min_confidence)
        from visil.collection.background import sampled
        from visil.footage.proof import Prover

        prover = (Prover() if prove else None) if isinstance(prove, bool) else prove
        self.parts.follow(FRESH_S)
        self.refresh()
        self.use_common(sampled(self.parts))
        with self._spread(workers) as spread:
            return find_duplicates(
                spread,
                min_confidence=min_confidence,
                new_against_references=new_against_references,
                progress=progress,
                prover=prover,
                proving=proving,
            )

    def _spread(self, workers: int | None) -> Spread:
        """To ask on so many cores, by default on all that this process may use."""
        from visil.collection.spread import Spread
        from visil.machine.processor import usable_cores

        if workers is not None and workers < 1:
            raise UsageError(f"workers must be at least 1, not {workers}")
        return Spread(self, workers or usable_cores())

    def video(self, id_or_path: str) -> Video:
        """A video of the collection by id, the beginning of its id, or path."""
        found = self.catalogue.video(id_or_path)
        if found is None:
            raise IndexFolderError(self.location, f"holds no video {id_or_path}")
        return found

    # ------------------------------------------------------------------ care

    def info(self) -> IndexInfo:
        """The state of the collection."""
        videos, frames, seconds = self.catalogue.count()
        return IndexInfo(
            self.location,
            self.catalogue.fact("model") or "not chosen yet",
            self.store.codes,
            videos,
            frames,
            seconds / 3600,
            self.parts.bytes(),
            self.catalogue.failures(),
            ", ".join(name for name, fact in EMBEDDED_IN.items() if self.catalogue.fact(fact)) or None,
        )

    def verify(
        self, *, repair: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> list[Problem]:
        """Read everything and name damage. ``repair`` takes damaged entries out; adding makes them anew."""
        if not repair:
            self.parts.follow(0.0)
            return self.parts.verify(False, progress)
        with self.parts.changing():
            return self.parts.verify(True, progress)
