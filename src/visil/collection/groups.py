"""From matching pairs to groups of duplicates, without letting a shared intro chain strangers together.

Footage that many videos share (an intro, a jingle card, a black screen) says that they come from one channel, not that
they are copies. A stretch is *common* when the same seconds of a video match more than ``COMMON_FROM`` others; a pair
links two videos only by what it shares beyond common footage: enough seconds of it, or enough of the shorter video.
And only pairs that are called copies chain; a pair that is merely related makes a group of two, or none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Span = tuple[float, float]

COMMON_FROM = 4
"""Videos beyond this many that match the same stretch of one video make the stretch common."""

LINK_SECONDS = 5.0
"""Shared seconds beyond common footage that link two videos,"""

LINK_SHARE = 0.3
"""or this share of the shorter one, where it is shorter than that."""


@dataclass(frozen=True)
class Shared:
    """The shared stretches of one pair, in each of the two."""

    a: int
    b: int
    spans_a: Sequence[Span]
    spans_b: Sequence[Span]


def common_stretches(pairs: Iterable[Shared]) -> dict[int, list[Span]]:
    """For each video, the stretches that more than ``COMMON_FROM`` other videos match."""
    edges: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for pair in pairs:
        for video, spans in ((pair.a, pair.spans_a), (pair.b, pair.spans_b)):
            for start, end in merged(spans):
                edges[video] += [(start, 1), (end, -1)]
    common: dict[int, list[Span]] = {}
    for video, changes in edges.items():
        depth, found, since = 0, [], 0.0
        for time, change in sorted(changes):
            before, depth = depth, depth + change
            if before <= COMMON_FROM < depth:
                since = time
            elif depth <= COMMON_FROM < before and time > since:
                found.append((since, time))
        if found:
            common[video] = merged(found)
    return common


def links(pair: Shared, durations: dict[int, float], common: dict[int, list[Span]]) -> bool:
    """Whether a pair shares enough that is its own to belong into one group."""
    own = min(
        length(without(merged(spans), common.get(video, [])))
        for video, spans in ((pair.a, pair.spans_a), (pair.b, pair.spans_b))
    )
    shorter = min(durations[pair.a], durations[pair.b])
    # Copies of one video that is in the collection many times share all of it, and all of it is "common":
    # what covers most of the shorter video links all the same.
    whole = min(length(merged(pair.spans_a)), length(merged(pair.spans_b))) >= 0.8 * shorter
    return whole or own >= min(LINK_SECONDS, LINK_SHARE * shorter)


def components(
    nodes: Iterable[int], edges: Iterable[tuple[int, int]], weak: Iterable[tuple[int, int]] = ()
) -> list[list[int]]:
    """Connected components of two and more, each sorted, the largest first.

    A ``weak`` edge, in the order given, makes a group of two videos that no other edge has taken; it never joins
    groups nor grows one, so doubtful pairs cannot chain.
    """
    edges = list(edges)
    parent = {node: node for node in nodes}

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for a, b in edges:
        parent[root(a)] = root(b)
    taken = {node for edge in edges for node in edge}
    for a, b in weak:
        if a not in taken and b not in taken:
            parent[root(a)] = root(b)
            taken |= {a, b}
    groups: dict[int, list[int]] = defaultdict(list)
    for node in sorted(parent):
        groups[root(node)].append(node)
    found = [group for group in groups.values() if len(group) > 1]
    return sorted(found, key=lambda group: (-len(group), group[0]))


def merged(spans: Iterable[Span]) -> list[Span]:
    """Overlapping spans as one, in order."""
    result: list[Span] = []
    for start, end in sorted(spans):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((start, end))
    return result


def without(spans: Sequence[Span], holes: Sequence[Span]) -> list[Span]:
    """The parts of sorted ``spans`` outside ``holes``."""
    left = list(spans)
    for low, high in holes:
        left = [
            part
            for start, end in left
            for part in ((start, min(end, low)), (max(start, high), end))
            if part[1] > part[0]
        ]
    return left


def length(spans: Iterable[Span]) -> float:
    """Seconds in all."""
    return sum(end - start for start, end in spans)
