"""Every pair of a collection that shares footage, without comparing all pairs; groups; which ones to keep."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from visil.collection.background import Background
from visil.collection.candidates import CandidateIndex, Probes
from visil.collection.catalogue import Catalogue, Video
from visil.collection.groups import Shared, common_stretches, components, links
from visil.collection.keeping import worth_keeping
from visil.collection.search import Hit, compared, hit_of
from visil.collection.store import FeatureStore
from visil.compare.visil import ViSiL
from visil.matching.calibration import Verdict
from visil.matching.localize import Segment

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
            "verdict": self.verdict,
            "segments": [segment.to_dict() for segment in self.segments],
        }


@dataclass(frozen=True)
class Group:
    """Videos that belong together, the one to keep first; nothing is ever deleted.

    One video alone is a group where several files hold it byte for byte; its pair is the video with itself.
    """

    videos: list[Video]
    pairs: list[Pair]
    keep: str
    """Id of the video that is worth most."""
    reason: str
    """Why that one."""
    also: list[str] = field(default_factory=list)
    """Ids of others worth keeping, as nothing in the group replaces them (:mod:`visil.collection.keeping`)."""
    notes: dict[str, str] = field(default_factory=dict)
    """Of the videos besides ``keep``, by id: what they are to the others, in words."""
    copies: dict[str, list[str]] = field(default_factory=dict)
    """All files of the videos that several files hold, by id."""

    @property
    def identical(self) -> bool:
        """Whether this is one video in several files."""
        return len(self.videos) == 1

    def paths(self, video: Video) -> list[str]:
        """Every file that holds a video of the group."""
        return self.copies.get(video.id, [video.path])

    def to_dict(self) -> dict[str, object]:
        """As ``visil duplicates --json`` prints it."""
        return {
            "videos": [
                {
                    "id": video.id,
                    "path": video.path,
                    "paths": self.paths(video),
                    "keep": video.id == self.keep or video.id in self.also,
                    "note": self.notes.get(video.id, ""),
                }
                for video in self.videos
            ],
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
    judged "different" are left out; those judged "same" are linked whatever was measured. Videos whose features cannot
    be read are left out with a warning.
    """
    videos = {video.number: video for video in catalogue.videos()}
    said = catalogue.verdicts()
    found: dict[tuple[int, int], Pair] = {}
    background = Background.read(model, store, catalogue)
    worth = pairs_worth_comparing(videos, store, candidates, new_against_references)
    for done, a in enumerate(videos):
        if progress is not None:
            progress(done, len(videos), len(found))
        query = store.try_read(videos[a]) if a in worth else None
        if query is None:
            continue
        undecided = [videos[b] for b in sorted(worth[a]) if key_of(videos[a], videos[b]) not in said]
        common = background.beyond_typical(query)
        for other, match in compared(model, store, query, undecided, common):
            if match.confidence >= min_confidence and match.segments:
                found[a, other.number] = pair_of(videos[a].id, hit_of(other, match))
    if progress is not None:
        progress(len(videos), len(videos), len(found))
    copies = copies_in(catalogue, new_against_references)
    return group(videos, found, {key for key, verdict in said.items() if verdict == "same"}, copies)


def pairs_worth_comparing(
    videos: dict[int, Video], store: FeatureStore, candidates: CandidateIndex, new_against_references: bool
) -> dict[int, set[int]]:
    """For each video, those of higher number that it voted for or that voted for it."""
    worth: dict[int, set[int]] = {}
    for number, video in videos.items():
        if new_against_references and video.reference:
            continue
        features = store.try_read(video)
        if features is None:
            continue
        for candidate in candidates.vote(Probes.of(features, 2 * len(features)), CANDIDATES + 1):
            other = videos.get(candidate.number)
            if other is None or other.number == number or (new_against_references and not other.reference):
                continue
            worth.setdefault(min(number, other.number), set()).add(max(number, other.number))
    return worth


def group(
    videos: dict[int, Video],
    pairs: dict[tuple[int, int], Pair],
    same: set[tuple[str, str]],
    copies: dict[str, list[str]],
) -> Duplicates:
    """Link pairs into groups by what they share beyond common footage; ``copies`` are all files of some videos."""
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
        advice = worth_keeping(chosen, own, same)
        chosen.sort(key=lambda video: (video.id != advice.keep, video.id not in advice.also, video.path))
        files = {video.id: copies[video.id] for video in chosen if video.id in copies}
        groups.append(Group(chosen, own, advice.keep, advice.reason, advice.also, advice.notes, files))
    grouped = {video.id for some in groups for video in some.videos}
    groups += [
        _identical(video, copies[video.id])
        for video in videos.values()
        if video.id in copies and video.id not in grouped
    ]
    left = [replace(p, common=True) for key, p in pairs.items() if key not in linked]
    return Duplicates(groups, left)


def pair_of(query: str, hit: Hit) -> Pair:
    """A video of the collection with one that it was compared with."""
    return Pair(query, hit.id, hit.score, hit.confidence, hit.segments, hit.verdict, common=False)


def _identical(video: Video, paths: list[str]) -> Group:
    whole = (0.0, video.duration)
    pair = Pair(video.id, video.id, 1.0, 1.0, [Segment(whole, whole, 1.0)], "copy", common=False)
    return Group([video], [pair], video.id, "identical files", copies={video.id: paths})


def copies_in(catalogue: Catalogue, new_against_references: bool) -> dict[str, list[str]]:
    """Files with the same bytes, as far as they are still there; new ones with references only, if told to."""
    found = {}
    for video, files in catalogue.copies().items():
        there = [(path, reference) for path, reference in files if os.path.lexists(path)]
        if len(there) > 1 and not (new_against_references and len({mark for _, mark in there}) == 1):
            found[video] = [path for path, _ in there]
    return found


def key_of(a: Video, b: Video) -> tuple[str, str]:
    """How verdicts name a pair."""
    return (a.id, b.id) if a.id < b.id else (b.id, a.id)
