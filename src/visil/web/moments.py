"""Times at which the videos of a group show the same moment, for pictures to lay side by side."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from visil.collection.duplicates import Group, Pair
from visil.matching.localize import Segment

FRAMES = 4
"""Pictures of each video."""
BLINK = 2.0
"""Seconds under which a stretch is too short for so many pictures."""
ROUGH = 3.0
"""Seconds by which a stretch may be longer in one video than in the other at the same speed."""

Span = tuple[float, float]


@dataclass(frozen=True)
class Moments:
    """Times of one video, in its own seconds."""

    times: list[float]
    same: bool
    """Whether they are the same moments as those of the video that is shown first."""


Lines = Mapping[tuple[str, ...], Mapping[str, Sequence[float]]]
"""{(query, target): where its longest stretch runs in both}: see :func:`~visil.web.comparison.same_moments`."""


def moments(group: Group, lines: Lines | None = None) -> dict[str, Moments]:
    """Of every video of a group, by id: moments of the stretch that most of them share with the one to keep.

    Where ``lines`` know a pair, its videos are laid side by side along its line rather than from end to end.
    """
    durations = {video.id: video.duration for video in group.videos}
    anchor = group.keep if group.keep in durations else group.videos[0].id
    spans = {
        other: _sides(longest(pair.segments), pair, anchor, (lines or {}).get((pair.query, pair.target)))
        for other, pair in _pairs_with(group.pairs, anchor)
    }
    stretch = _most_covered([own for own, _ in spans.values()]) or (0.0, durations[anchor])
    found = {anchor: Moments(spread(stretch), True)}
    for video, seconds in durations.items():
        if video == anchor:
            continue
        if video in spans:
            own, other = spans[video]
            inside = own[0] - 1e-6 <= stretch[0] and stretch[1] <= own[1] + 1e-6
            times = [_mapped(time, own, other) for time in found[anchor].times] if inside else spread(other)
            found[video] = Moments(times, inside)
        else:
            found[video] = Moments(spread(_shared_with_any(group.pairs, video) or (0.0, seconds)), False)
    return found


def longest(segments: Sequence[Segment]) -> Segment:
    """The stretch with most of the query."""
    return max(segments, key=lambda segment: segment.query[1] - segment.query[0])


def spread(span: Span, count: int = FRAMES) -> list[float]:
    """So many moments of a stretch, none at its very ends."""
    start, end = span
    return [round(start + (end - start) * (place + 0.5) / count, 2) for place in range(count)]


def _pairs_with(pairs: Iterable[Pair], video: str) -> list[tuple[str, Pair]]:
    """The videos that one shares something with, and the pair of each."""
    return [
        (pair.target if pair.query == video else pair.query, pair)
        for pair in pairs
        if video in (pair.query, pair.target) and pair.query != pair.target and pair.segments
    ]


def _sides(
    segment: Segment, pair: Pair, own: str, line: Mapping[str, Sequence[float]] | None = None
) -> tuple[Span, Span]:
    """A stretch in one video of a pair, and in the other; the other's is turned where it runs backwards."""
    query, target = _evened(segment.query, segment.target)
    if segment.reversed:
        target = target[1], target[0]
    if line is not None:
        query, target = ((line[side][0], line[side][1]) for side in ("query", "target"))
    if pair.query == own:
        return query, target
    return (target, query) if target[0] <= target[1] else ((target[1], target[0]), (query[1], query[0]))


def _evened(query: Span, target: Span) -> tuple[Span, Span]:
    """Two spans as long as the shorter, about their middles, where that is no other speed but rough ends."""
    lengths = query[1] - query[0], target[1] - target[0]
    if abs(lengths[0] - lengths[1]) > ROUGH:
        return query, target
    half = min(lengths) / 2
    return tuple(((a + b) / 2 - half, (a + b) / 2 + half) for a, b in (query, target))  # type: ignore[return-value]


def _mapped(time: float, own: Span, other: Span) -> float:
    """A moment of one video in the other."""
    share = (time - own[0]) / max(own[1] - own[0], 1e-6)
    return round(max(0.0, other[0] + share * (other[1] - other[0])), 2)


def _most_covered(spans: Sequence[Span]) -> Span | None:
    """The part of a video that most of some spans cover, and that is no mere blink; of several, the longest."""
    edges = sorted({edge for span in spans for edge in span})

    def worth(part: Span) -> tuple[bool, int, float]:
        start, end = part
        return end - start >= BLINK, sum(a <= start and end <= b for a, b in spans), end - start

    return max(itertools.pairwise(edges), key=worth, default=None)


def _shared_with_any(pairs: Iterable[Pair], video: str) -> Span | None:
    for _, pair in _pairs_with(pairs, video):
        own, _ = _sides(longest(pair.segments), pair, video)
        return own
    return None
