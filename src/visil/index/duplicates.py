"""Every pair of a collection that shares footage, without comparing all pairs; groups; which one to keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from visil.calibration import Verdict
from visil.index.candidates import CandidateIndex, frame_vectors
from visil.index.catalogue import Catalogue, Video
from visil.index.groups import Shared, common_stretches, components, links
from visil.index.store import FeatureStore
from visil.localize import Segment
from visil.model import ViSiL

OnPairs = Callable[[int, int, int], None]
"""Called with videos done, videos in all, matching pairs so far."""

CANDIDATES = 40
"""Videos that each video is compared with exactly, at the most."""


@dataclass(frozen=True)
class Pair:
    """Two videos of the collection that share footage; ``query`` and ``target`` are ids."""

    query: str
    target: str
    score: float
    confidence: float
    segments: list[Segment]
    verdict: Verdict
    common: bool
    """Whether it rests on footage that many videos share, and so links no group."""

    def to_dict(self) -> dict[str, object]:
        """As ``visil duplicates --json`` prints it."""
        return {
            "query": self.query,
            "target": self.target,
            "score": self.score,
            "confidence": self.confidence,
            "segments": [segment.to_dict() for segment in self.segments],
        }


@dataclass(frozen=True)
class Group:
    """Videos that belong together, the one to keep first; nothing is ever deleted."""

    videos: list[Video]
    pairs: list[Pair]
    keep: str
    """Id of the video that is worth most."""
    reason: str
    """Why that one."""

    def to_dict(self) -> dict[str, object]:
        """As ``visil duplicates --json`` prints it."""
        return {
            "videos": [{"id": video.id, "path": video.path} for video in self.videos],
            "pairs": [pair.to_dict() for pair in self.pairs],
            "keep": self.keep,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Duplicates:
    """What a search for duplicates found."""

    groups: list[Group]
    common: list[Pair]
    """Pairs that share only footage which many videos share (an intro): shown, but no reason to group."""

    def to_dict(self) -> dict[str, object]:
        """As ``visil duplicates --json`` prints it."""
        return {
            "groups": [group.to_dict() for group in self.groups],
            "common": [pair.to_dict() for pair in self.common],
        }


def find_duplicates(
    model: ViSiL,
    catalogue: Catalogue,
    store: FeatureStore,
    candidates: CandidateIndex,
    *,
    min_confidence: float,
    new_against_references: bool = False,
    progress: OnPairs | None = None,
) -> Duplicates:
    """Compare each video with its candidates, then group.

    ``new_against_references`` compares only videos outside reference folders with those inside. Pairs that someone
    judged "different" are left out; those judged "same" are linked whatever was measured.
    """
    videos = {video.number: video for video in catalogue.videos()}
    said = catalogue.verdicts()
    found: dict[tuple[int, int], Pair] = {}
    for done, (a, b) in enumerate_pairs(videos, store, candidates, new_against_references):
        if (a, b) not in found and _key(videos[a], videos[b]) not in said:
            match = model.compare(
                store.read(videos[a].id, path=videos[a].path), store.read(videos[b].id, path=videos[b].path)
            )
            if match.confidence >= min_confidence and match.segments:
                ids = (videos[a].id, videos[b].id)
                found[a, b] = Pair(
                    *ids, match.score, match.confidence, match.segments, match.verdict, common=False
                )
        if progress is not None:
            progress(done, len(videos), len(found))
    if progress is not None:
        progress(len(videos), len(videos), len(found))
    return group(videos, found, {key for key, verdict in said.items() if verdict == "same"})


def enumerate_pairs(
    videos: dict[int, Video], store: FeatureStore, candidates: CandidateIndex, new_against_references: bool
) -> Iterator[tuple[int, tuple[int, int]]]:
    """(videos done, (number, number)) for every pair worth comparing, each once, the smaller number first."""
    seen: set[tuple[int, int]] = set()
    for done, (number, video) in enumerate(videos.items()):
        if new_against_references and video.reference:
            continue
        query = frame_vectors(store.read(video.id))
        for candidate in candidates.vote(query, CANDIDATES + 1):
            other = videos.get(candidate.number)
            if other is None or other.number == number or (new_against_references and not other.reference):
                continue
            pair = (min(number, other.number), max(number, other.number))
            if pair not in seen:
                seen.add(pair)
                yield done, pair


def group(
    videos: dict[int, Video], pairs: dict[tuple[int, int], Pair], same: set[tuple[str, str]]
) -> Duplicates:
    """Link pairs into groups by what they share beyond common footage."""
    shared = {
        key: Shared(*key, [s.query for s in pair.segments], [s.target for s in pair.segments])
        for key, pair in pairs.items()
    }
    common = common_stretches(shared.values())
    durations = {number: video.duration for number, video in videos.items()}
    linked = {key for key, pair in shared.items() if links(pair, durations, common)}
    numbers = {video.id: number for number, video in videos.items()}
    judged = {(numbers[a], numbers[b]) for a, b in same if a in numbers and b in numbers}
    groups = []
    strong = {key for key in linked if pairs[key].verdict == "copy"} | judged
    weak = sorted(linked - strong, key=lambda key: -pairs[key].confidence)
    for members in components(videos, strong, weak):
        inside = set(members)
        own = [pair for key, pair in pairs.items() if key in linked and inside.issuperset(key)]
        chosen = [videos[number] for number in members]
        keep, reason = worth_keeping(chosen)
        chosen.sort(key=lambda video: (video.id != keep, video.path))
        groups.append(Group(chosen, own, keep, reason))
    left = [replace(p, common=True) for key, p in pairs.items() if key not in linked]
    return Duplicates(groups, left)


def worth_keeping(videos: list[Video]) -> tuple[str, str]:
    """The video worth most, and why: complete before long before large before richly encoded."""
    longest = max(video.duration for video in videos)

    def worth(video: Video) -> tuple[bool, bool, int, float, int]:
        complete = video.duration >= 0.95 * longest
        return (not video.damaged, complete, video.width * video.height, video.duration, video.bit_rate or 0)

    best = max(videos, key=lambda video: (worth(video), video.id))
    second = max((worth(video) for video in videos if video is not best), default=None)
    reasons = ("undamaged", "complete", "largest picture", "longest", "highest bit rate")
    if second is None:
        return best.id, "the only one"
    return best.id, next(
        (why for why, mine, other in zip(reasons, worth(best), second, strict=True) if mine > other),
        "all alike",
    )


def _key(a: Video, b: Video) -> tuple[str, str]:
    return (a.id, b.id) if a.id < b.id else (b.id, a.id)
