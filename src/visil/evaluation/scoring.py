"""Every query of a benchmark against its database with the model's own engine, in memory for a few videos at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.compare import comparing
from visil.compare.many_scores import matrix_scores
from visil.compare.visil import ViSiL
from visil.evaluation import gpu_scoring
from visil.evaluation.predictions import Pair, Predictions, QueryScores
from visil.matching.localize import Segment
from visil.model.features import VideoFeatures

Read = Callable[[str], VideoFeatures | None]
"""Features of an id; None where they cannot be had."""

OnPairs = Callable[[int, int, int], None]
"""Called with targets done, targets in all, pairs so far."""

Candidates = Callable[[str], Collection[str]]

Block = list[tuple[str, Tensor]]
"""Ids with their vectors."""

Each = Callable[[Callable[[tuple[str, Tensor]], list[float]], Block], Iterable[list[float]]]
"""``map`` over queries."""

QUERY_BYTES = 1 << 29
"""Query vectors that are held at once (of the default model, ten hours of video); more take another pass."""

BLOCK_BYTES = 1 << 26
"""Target vectors that are held at once (of the default model, 4,700 frames)."""


@dataclass
class Answers:
    """What came of scoring."""

    predictions: Predictions
    unreadable: set[str] = field(default_factory=set)
    """Ids whose features could not be had."""


def score_videos(
    model: ViSiL,
    read: Read,
    queries: Sequence[str],
    candidates: Candidates,
    progress: OnPairs | None = None,
    *,
    targets: Sequence[str] | None = None,
) -> Answers:
    """CS_v of each query and each of its candidates, equal to :meth:`visil.ViSiL.scores`.

    Each block of targets is read once for as many queries as fit into memory, and each core takes a query.
    ``targets``, in order, are those of a larger run that this one is part of: blocks are then cut as there.
    """
    reader = _Reader(model, read)
    scores: dict[str, QueryScores] = {}
    with _cores(model) as each:
        for held in _blocks(queries, reader, QUERY_BYTES):
            scores |= _score_held(model, reader, held, candidates, each, progress, targets)
    return Answers(Predictions(scores), reader.unreadable)


def _score_held(
    model: ViSiL,
    reader: _Reader,
    held: Block,
    candidates: Candidates,
    each: Each,
    progress: OnPairs | None,
    targets: Sequence[str] | None,
) -> dict[str, QueryScores]:
    """Scores of queries whose vectors are at hand, in one pass over their candidates."""
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

    def on_gpu(some: Sequence[str], found: NDArray[np.float64]) -> None:
        for row, (query, _) in zip(found, held, strict=True):
            chosen = [place for place, target in enumerate(some) if target in wanted[query]]
            keep(query, [some[place] for place in chosen], row[chosen])
        tell(len(some))

    if gpu_scoring.suits(model, held, wanted, len(targets)):
        targets = gpu_scoring.score(model, held, targets, reader.features, on_gpu)

    def score(query: tuple[str, Tensor], block: Block) -> list[float]:
        return _scored(model, query[1], [v for target, v in block if target in wanted[query[0]]])

    for block in _blocks(targets, reader, BLOCK_BYTES):
        found = each(partial(score, block=block), held)
        for (query, _), some in zip(held, found, strict=True):
            keep(query, [t for t, _ in block if t in wanted[query]], np.array(some, np.float64))
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
    reader = _Reader(model, read)
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


class _Reader:
    """Reads features, checks them, and remembers which could not be had and how far the work is."""

    def __init__(self, model: ViSiL, read: Read) -> None:
        self.model = model
        self._read = read
        self.unreadable: set[str] = set()
        self.pairs = 0
        """Scored so far."""

    def features(self, name: str) -> VideoFeatures | None:
        found = None if name in self.unreadable else self._read(name)
        if found is None:
            self.unreadable.add(name)
        else:
            comparing.check(self.model, found, "video")
        return found


def _readable(names: Sequence[str], reader: _Reader, kept: list[str]) -> Iterator[VideoFeatures]:
    for name in names:
        features = reader.features(name)
        if features is not None:
            kept.append(name)
            yield features


@contextmanager
def _cores(model: ViSiL) -> Iterator[Each]:
    """Something like ``map`` that gives each core items of its own.

    On a processor, as many threads as torch would use for one product, each with products of its own: threads that
    share a product wait for each other at its end, and most of all where other programs run beside.
    """
    threads = torch.get_num_threads()
    if model.device.type != "cpu" or threads < 2:
        yield map
        return
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool.map
    finally:
        torch.set_num_threads(threads)


def _blocks(names: Sequence[str], reader: _Reader, limit: int) -> Iterator[Block]:
    """Videos with their vectors, where the model is and in the arithmetic's precision, some bytes at a time."""
    block: Block = []
    held = 0
    for name in names:
        features = reader.features(name)
        if features is None:
            continue
        size = 4 * features.vectors.numel()
        if block and held + size > limit:
            yield block
            block, held = [], 0
        long = size > limit  # alone in its block, and left where it is mapped: strips convert it
        vectors = features.vectors if long else features.vectors.to(reader.model.device, torch.float32)
        block.append((name, vectors))
        held += size
    if block:
        yield block


def _scored(model: ViSiL, query: Tensor, targets: list[Tensor]) -> list[float]:
    config, device = model.config, model.device
    scores = matrix_scores(
        query.to(device),
        [target.to(device) for target in targets],
        symmetric=config.symmetric,
        frame_pool=config.frame_pool,
        video_pool=config.video_pool,
        comparator=model.comparator,
    )
    return scores.tolist()
