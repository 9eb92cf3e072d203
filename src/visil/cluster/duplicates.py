"""Every pair of a sharded collection that shares footage, in one shard or in two: as in one index, step by step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from visil.cluster.manifest import MOST
from visil.collection.catalogue import Video
from visil.collection.duplicates import (
    CANDIDATES,
    Duplicates,
    OnPairs,
    Pair,
    copies_in,
    group,
    key_of,
    pair_of,
)
from visil.collection.search import Hit
from visil.model.features import VideoFeatures

if TYPE_CHECKING:
    from visil.cluster.sharded import ShardedIndex

Item = TypeVar("Item")
Result = TypeVar("Result")

TOGETHER = 16
"""Videos whose probes travel in one call."""


def find_duplicates(
    index: ShardedIndex,
    *,
    min_confidence: float,
    new_against_references: bool = False,
    progress: OnPairs | None = None,
) -> Duplicates:
    """As :func:`visil.collection.duplicates.find_duplicates`; each comparison runs in the shard of the later video."""
    listed = list(index.catalogue.videos())
    candidates = index.refresh()
    # Numbers in the order in which videos came: which of a pair is the query, and the order of groups, hang on it.
    homes = {i: video.number for i, video in enumerate(listed, 1)}
    videos = {i: replace(video, number=i) for i, video in enumerate(listed, 1)}
    places = {number: i for i, number in homes.items()}
    said = index.catalogue.verdicts()
    background = index.common_now()

    def voted(some: list[int]) -> Iterator[tuple[int, int]]:
        """Pairs that videos of one shard vote for."""
        ids = [videos[i].id for i in some]
        found = index.shards.call(homes[some[0]] % MOST, "probes", ids)
        readable = [(i, probes) for i, probes in zip(some, found, strict=True) if probes is not None]
        votes = candidates.vote_for_many([probes for _, probes in readable], CANDIDATES + 1)
        for (i, _), chosen in zip(readable, votes, strict=True):
            for vote in chosen:
                other = places.get(vote.number)
                if other is None or other == i:
                    continue
                if not (new_against_references and not videos[other].reference):
                    yield min(i, other), max(i, other)

    asking = [i for i, video in videos.items() if not (new_against_references and video.reference)]
    worth: dict[int, set[int]] = defaultdict(set)
    for pairs in _at_once(index.shards.at_once, lambda some: list(voted(some)), _batches(asking, homes)):
        for a, b in pairs:
            worth[a].add(b)

    def compared(a: int) -> tuple[int, list[Hit]]:
        undecided = [b for b in sorted(worth[a]) if key_of(videos[a], videos[b]) not in said]
        query: VideoFeatures | None = (
            index.shards.call(homes[a] % MOST, "features", videos[a].id) if undecided else None
        )
        if query is None:
            return a, []
        asked: dict[int, list[int]] = defaultdict(list)
        for b in undecided:
            asked[homes[b] % MOST].append(homes[b] // MOST)
        common = background.beyond_typical(query)
        answers = index.shards.some("compare", {p: (query, common, some) for p, some in asked.items()})
        return a, [hit for hits in answers.values() for hit in hits]

    numbers = {video.id: i for i, video in videos.items()}
    found: dict[tuple[int, int], Pair] = {}
    for a, hits in _at_once(index.shards.at_once, compared, (i for i in videos if i in worth)):
        if progress is not None:
            progress(a - 1, len(videos), len(found))
        for hit in sorted(hits, key=lambda hit: numbers[hit.id]):
            if hit.confidence >= min_confidence and hit.segments:
                found[a, numbers[hit.id]] = pair_of(videos[a].id, hit)
    if progress is not None:
        progress(len(videos), len(videos), len(found))
    copies = copies_in(index.catalogue, new_against_references)
    same = {key for key, verdict in said.items() if verdict == "same"}
    return group({i: _own(videos[i], homes[i]) for i in videos}, found, same, copies)


def _own(video: Video, number: int) -> Video:
    """With the number that the catalogue knows it by."""
    return replace(video, number=number)


def _batches(chosen: list[int], homes: dict[int, int]) -> Iterator[list[int]]:
    """Videos of one shard at a time, a few together."""
    shards: dict[int, list[int]] = defaultdict(list)
    for i in chosen:
        shards[homes[i] % MOST].append(i)
    for some in shards.values():
        for start in range(0, len(some), TOGETHER):
            yield some[start : start + TOGETHER]


def _at_once(most: int, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Results in the order of the items, up to ``most`` of them under way."""
    if most <= 1:
        yield from map(work, items)
        return
    source = iter(items)
    with ThreadPoolExecutor(most) as pool:
        waiting = [pool.submit(work, item) for item in islice(source, most)]
        while waiting:
            first = waiting.pop(0)
            yield first.result()
            waiting += [pool.submit(work, item) for item in islice(source, 1)]
