"""Which videos of a group are worth keeping, and what the others are to them, in words.

A video *replaces* another where it shows all of it (but for ``LOSS``) and not much else: at most ``OTHER_SHARE`` of it
lies outside what the two share. So an original replaces a copy that was cut at its ends; a compilation does not replace
a clip, nor the clip the compilation, however long or large the one is. Videos that nothing replaces are all kept; pairs
that are merely related replace nothing.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from visil.collection.catalogue import Video
from visil.collection.groups import Span, length, merged

if TYPE_CHECKING:
    from visil.collection.duplicates import Pair

LOSS = 0.1
"""Share of a video that may be missing from what replaces it,"""
LOSS_SECONDS = 2.0
"""or as many seconds: stretches are not exact at their ends."""

FASTEST = 2.0
"""How many times faster than the original a copy may run that still shows all of it."""

OTHER_SHARE = 0.4
"""Share of a video outside what it shares from which it *contains* the other among other footage."""


@dataclass(frozen=True)
class Advice:
    """What to do with the videos of one group."""

    keep: str
    """Id of the video that is worth most."""
    reason: str
    """Why that one."""
    also: list[str]
    """Ids of the others that nothing in the group replaces."""
    notes: dict[str, str]
    """What every video but ``keep`` is to the others, in words."""


def worth_keeping(videos: list[Video], pairs: Iterable[Pair], same: Iterable[tuple[str, str]] = ()) -> Advice:
    """The video worth most, those it does not replace, and why.

    Undamaged comes before complete (no other shows all of it and more), then the larger picture, the higher bit rate,
    the length. ``same`` are ids of pairs that someone called the same: they replace each other.
    """
    group = _Relations(videos, pairs, same)
    complete = {
        video.id: not any(
            group.replaces(other, video) and not group.replaces(video, other) for other in videos
        )
        for video in videos
    }

    def worth(video: Video) -> tuple[bool, bool, int, int, float]:
        pixels = video.width * video.height
        return not video.damaged, complete[video.id], pixels, video.bit_rate or 0, video.duration

    ranked = sorted(videos, key=lambda video: (worth(video), video.id), reverse=True)
    kept: list[Video] = []
    notes: dict[str, str] = {}
    for video in ranked:
        better = next((other for other in kept if group.replaces(other, video)), None)
        if better is not None:
            notes[video.id] = f"all of it is in {group.name(better)}"
        else:
            notes[video.id] = group.relation(video, ranked[0])
            kept.append(video)
    del notes[ranked[0].id]
    return Advice(
        ranked[0].id, _reason([worth(video) for video in ranked[:2]]), [v.id for v in kept[1:]], notes
    )


class _Relations:
    """Who shows how much of whom."""

    def __init__(self, videos: list[Video], pairs: Iterable[Pair], same: Iterable[tuple[str, str]]) -> None:
        self.videos = videos
        self._same_name = Counter(os.path.basename(video.path) for video in videos)
        self._shared = _shared_seconds(pairs)
        known = {video.id: video for video in videos}
        for pair in same:
            for a, b in (pair, pair[::-1]):
                if a in known and b in known:
                    self._shared[a, b] = known[a].duration

    def name(self, video: Video) -> str:
        """A video's file name, or its path where others in the group are called the same."""
        name = os.path.basename(video.path)
        return name if name and self._same_name[name] == 1 else video.path

    def outside(self, video: Video, other: Video) -> float:
        """Seconds of a video that another does not show."""
        return max(0.0, video.duration - self._shared.get((video.id, other.id), 0.0))

    def inside(self, video: Video, other: Video) -> bool:
        """Whether another video shows all of it."""
        if (
            other.duration * FASTEST < video.duration
        ):  # a still scene aligns with anything: no copy is that fast
            return False
        loss = max(LOSS * video.duration, min(LOSS_SECONDS, video.duration / 2))
        return (video.id, other.id) in self._shared and self.outside(video, other) <= loss

    def has_other_footage(self, video: Video, other: Video) -> bool:
        """Whether much of a video is not in another."""
        return self.outside(video, other) > OTHER_SHARE * video.duration

    def replaces(self, other: Video, video: Video) -> bool:
        """Whether nothing is lost with ``video`` where ``other`` is kept."""
        if other is video or (other.damaged and not video.damaged):
            return False
        return self.inside(video, other) and not self.has_other_footage(other, video)

    def relation(self, video: Video, best: Video) -> str:
        """Of a video that is kept beside the best: what it contains, what contains it, or what it has of its own."""
        others = [other for other in self.videos if (video.id, other.id) in self._shared]
        for other in others:
            if self.inside(other, video) and self.has_other_footage(video, other):
                seconds = self.outside(video, other)
                return f"contains {self.name(other)}, and {seconds:.0f} s of other footage"
        for other in others:
            if self.inside(video, other) and self.has_other_footage(other, video):
                return f"all of it is in {self.name(other)}, which contains other footage as well"
        if best in others and not self.inside(video, best):
            return f"contains {self.outside(video, best):.0f} s that are not in {self.name(best)}"
        return f"is no copy of {self.name(best)}"


def _shared_seconds(pairs: Iterable[Pair]) -> dict[tuple[str, str], float]:
    """{(id, id): seconds of the first that the second shows}; pairs that are merely related show nothing surely."""
    spans: dict[tuple[str, str], list[Span]] = defaultdict(list)
    for pair in pairs:
        if pair.verdict != "copy":
            continue
        spans[pair.query, pair.target] += [segment.query for segment in pair.segments]
        spans[pair.target, pair.query] += [segment.target for segment in pair.segments]
    return {both: length(merged(some)) for both, some in spans.items()}


def _reason(worths: list[tuple[bool, bool, int, int, float]]) -> str:
    """What sets the first apart from the second."""
    if len(worths) == 1:
        return "the only one"
    reasons = ("undamaged", "complete", "largest picture", "highest bit rate", "longest")
    return next((why for why, mine, other in zip(reasons, *worths, strict=True) if mine > other), "all alike")
