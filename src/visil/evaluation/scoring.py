"""Every query of a benchmark against its database by any system, in memory for a few videos at a time.

A :class:`System` describes each video once and compares descriptions. A model of the product is one
(:class:`ModelSystem`, what ``visil evaluate`` runs); the methods that the paper compares with are others
(:mod:`visil.paper.baselines`). Whoever reads the features, :func:`score_videos` does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf
from operator import itemgetter
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.compare import matches
from visil.compare.visil import ViSiL
from visil.evaluation.predictions import Pair, Predictions, QueryScores
from visil.kernels import Scorer
from visil.kernels.packing import runs
from visil.matching.localize import Segment
from visil.model.features import VideoFeatures
from visil.progress import OnPairs

Description = TypeVar("Description")

Read = Callable[[str], VideoFeatures | None]
"""Features of an id; None where they cannot be had."""

Candidates = Callable[[str], Collection[str]]

Block = list[tuple[str, Any]]
"""Ids with their descriptions."""

Each = Callable[[Callable[[tuple[str, Any]], NDArray[np.float64]], Block], Iterable[NDArray[np.float64]]]
"""``map`` over queries."""

QUERY_BYTES = 1 << 29
"""Features of queries that are held at once (of the default model, ten hours of video); more take another pass."""

QUERY_SHARE = 8
"""On a GPU, queries may fill one part in so many of its free memory: every further pass reads all targets anew."""

BLOCK_BYTES = 1 << 26
"""Features of targets that are held at once (of the default model, 4,700 frames)."""

WORTH = 0.5
"""Share of all pairs that must be wanted for the GPU's engine, which compares every query with every target."""


class System(Protocol, Generic[Description]):
    """One way to say how alike two videos are."""

    @property
    def scorer(self) -> Scorer | None:
        """The formula for two descriptions, where these are region vectors; None: they are something else."""

    @property
    def device(self) -> torch.device:
        """Where it computes."""

    @property
    def collection_wide(self) -> bool:
        """Whether a score depends on all targets, so that all must be given at once."""

    def describe(self, video: VideoFeatures) -> Description:
        """The description of a video: made once, compared often."""

    def scores(self, query: Description, targets: Sequence[Description]) -> NDArray[np.float64]:
        """The higher, the more alike; finite, float64 [targets]."""


class ModelSystem:
    """A model of the product: descriptions are its features, scores CS_v."""

    collection_wide = False

    def __init__(self, model: ViSiL) -> None:
        self.model, self.scorer = model, model.scorer()

    @property
    def device(self) -> torch.device:
        """The model's."""
        return self.model.device

    def describe(self, video: VideoFeatures) -> Tensor:
        """The vectors as they are, once they are known to be this model's."""
        matches.check(self.model, video, "video")
        return video.vectors

    def scores(self, query: Tensor, targets: Sequence[Tensor]) -> NDArray[np.float64]:
        """CS_v with each target, as :meth:`visil.ViSiL.scores` gives it."""
        return self.scorer.scores(query, targets)


@dataclass
class Answers:
    """The outcome of scoring."""

    predictions: Predictions
    unreadable: set[str] = field(default_factory=set)
    """Ids whose features could not be had."""


def score_videos(
    system: System[Any] | ViSiL,
    read: Read,
    queries: Sequence[str],
    candidates: Candidates,
    progress: OnPairs | None = None,
    *,
    targets: Sequence[str] | None = None,
) -> Answers:
    """Scores of each query and each of its candidates; of a model, equal to :meth:`visil.ViSiL.scores`.

    Each block of targets is read once for as many queries as fit into memory, and each core takes a query.
    ``targets``, in order, are those of a larger run that this one is part of: blocks are then cut as there.
    """
    chosen: System[Any] = ModelSystem(system) if isinstance(system, ViSiL) else system
    reader = FeatureReader(chosen, read)
    scores: dict[str, QueryScores] = {}
    with on_cores(chosen) as each:
        for held in reader.blocks(queries, query_bytes(chosen.device)):
            scores |= score_held(chosen, reader, held, candidates, each, progress, targets)
    return Answers(Predictions(scores), reader.unreadable)


def query_bytes(device: torch.device) -> int:
    """Features of queries that are held at once where they are compared."""
    if device.type != "cuda":
        return QUERY_BYTES
    return max(QUERY_BYTES, torch.cuda.mem_get_info(device)[0] // QUERY_SHARE)


def score_held(
    system: System[Any],
    reader: FeatureReader,
    held: Block,
    candidates: Candidates,
    each: Each,
    progress: OnPairs | None,
    targets: Sequence[str] | None,
) -> dict[str, QueryScores]:
    """Scores of queries whose descriptions are at hand, in one pass over their candidates."""
    wanted = {query: frozenset(candidates(query)) for query, _ in held}
    if targets is None:
        targets = sorted(frozenset().union(*wanted.values()))
    names: dict[str, list[str]] = {query: [] for query in wanted}
    values: dict[str, list[NDArray[np.float64]]] = {query: [np.empty(0)] for query in wanted}
    done, total = 0, len(targets)

    def keep(query: str, some: Sequence[str], found: NDArray[np.float64]) -> None:
        names[query] += some
        values[query].append(found)
        reader.pairs += len(some)

    def tell(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(done, total, reader.pairs)

    scorer = system.scorer
    asked = sum(len(chosen) for chosen in wanted.values())
    if scorer is not None and scorer.on_gpu and asked >= WORTH * len(targets) * len(held):
        read: list[str] = []
        vectors = (system.describe(features) for features in _readable(targets, reader, read))
        at = 0
        for some, rows in scorer.stream([description for _, description in held], vectors):
            here = read[at : at + len(some)]
            at += len(some)
            for (query, _), row in zip(held, rows, strict=True):
                places = [place for place, target in enumerate(here) if target in wanted[query]]
                keep(query, [here[place] for place in places], row[places])
            tell(len(here))
        targets = ()

    def score(query: tuple[str, Any], block: Block) -> NDArray[np.float64]:
        own = [description for target, description in block if target in wanted[query[0]]]
        return system.scores(query[1], own) if own else np.empty(0)

    for block in reader.blocks(targets, inf if system.collection_wide else BLOCK_BYTES):
        found = each(partial(score, block=block), held)
        for (query, _), row in zip(held, found, strict=True):
            keep(query, [target for target, _ in block if target in wanted[query]], row)
        tell(len(block))
    return {query: QueryScores(names[query], np.concatenate(values[query])) for query in wanted}


def find_segments(
    model: ViSiL,
    read: Read,
    queries: Sequence[str],
    candidates: Candidates,
    progress: OnPairs | None = None,
) -> Answers:
    """Scores of each query and its candidates, and where they match: :meth:`visil.ViSiL.compare_many`."""
    reader = FeatureReader(ModelSystem(model), read)
    scores: dict[str, QueryScores] = {}
    segments: dict[Pair, list[Segment]] = {}
    for number, query in enumerate(queries):
        features = reader.features(query)
        names: list[str] = []
        if features is not None:
            targets = _readable(sorted(candidates(query)), reader, names)
            values = []
            for place, match in enumerate(model.compare_many(features, targets)):
                values.append(match.score)
                segments[query, names[place]] = match.segments
            scores[query] = QueryScores(names, np.array(values, np.float64))
        if progress is not None:
            progress(number + 1, len(queries), len(segments))
    return Answers(Predictions(scores, segments), reader.unreadable)


class FeatureReader:
    """Reads and describes videos, and remembers which could not be had and how far the work is."""

    def __init__(self, system: System[Any], read: Read) -> None:
        self.system = system
        self._read = read
        self.unreadable: set[str] = set()
        self.pairs = 0
        """Scored so far."""

    def features(self, name: str) -> VideoFeatures | None:
        """Those of a video; None where they cannot be had."""
        found = None if name in self.unreadable else self._read(name)
        if found is None:
            self.unreadable.add(name)
        return found

    def described(self, names: Sequence[str]) -> Block:
        """All of them at once."""
        return [video for block in self.blocks(names, inf) for video in block]

    def blocks(self, names: Sequence[str], limit: float) -> Iterator[Block]:
        """Videos with their descriptions, so many bytes of features at a time.

        Region vectors are put where the system computes, in single precision; those of a video that is too long for a
        block stay where they are mapped, and are converted strip by strip.
        """
        system = self.system

        def described() -> Iterator[tuple[str, Any, int]]:
            read: list[str] = []
            for features in _readable(names, self, read):
                size = 4 * features.vectors.numel()
                description = system.describe(features)
                if system.scorer is not None and size <= limit:
                    description = description.to(system.device, torch.float32)
                yield read[-1], description, size

        for run in runs(described(), itemgetter(2), limit):
            yield [(name, description) for name, description, _ in run]


def _readable(names: Sequence[str], reader: FeatureReader, kept: list[str]) -> Iterator[VideoFeatures]:
    for name in names:
        features = reader.features(name)
        if features is not None:
            kept.append(name)
            yield features


@contextmanager
def on_cores(system: System[Any]) -> Iterator[Each]:
    """Something like ``map`` that gives each core items of its own.

    On a processor, as many threads as torch would use for one product, each with products of its own: threads that
    share a product wait for each other at its end, and most of all where other programs run beside. Systems that look
    at all targets at once may remember them from one query to the next, so that these take queries in turn.
    """
    threads = torch.get_num_threads()
    if system.device.type != "cpu" or threads < 2 or system.collection_wide:
        yield map
        return
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool.map
    finally:
        torch.set_num_threads(threads)
