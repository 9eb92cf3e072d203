"""Every pair of a collection that shares footage, without comparing all pairs; groups; which ones to keep."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from visil.collection.groups import Shared, common_stretches, components, links
from visil.collection.pairs import Listed, compared, worth_comparing
from visil.collection.plan import Action, Advice, PlannedFile, advise
from visil.collection.presence import HeldFile, held_files
from visil.files import natural_order
from visil.matching.localize import Segment

if TYPE_CHECKING:
    from visil.collection.catalogue import Video
    from visil.collection.parts import AnyCatalogue
    from visil.collection.search import Hit
    from visil.collection.spread import Spread
    from visil.footage.proof import Proof, Prover
    from visil.matching.calibration import Verdict
    from visil.progress import OnCount, OnPairs


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
    proof: Proof | None = None
    """The proof by their pictures, where they were compared (:mod:`visil.footage`)."""

    def to_dict(self) -> dict[str, object]:
        """As ``visil duplicates --json`` prints it."""
        told: dict[str, object] = {
            "query": self.query,
            "target": self.target,
            "score": self.score,
            "confidence": self.confidence,
            "verdict": self.verdict,
            "segments": [segment.to_dict() for segment in self.segments],
        }
        return told if self.proof is None else told | {"proof": self.proof.to_dict("query", "target")}


@dataclass(frozen=True)
class Group:
    """Videos that belong together, the one to keep first; nothing is ever deleted.

    One video alone is a group where several files hold it byte for byte; its pair is the video with itself.
    """

    videos: list[Video]
    pairs: list[Pair]
    keep: str | None
    """Id of the video that is worth most; None where no file of the group is there."""
    reason: str
    """Why that one."""
    also: list[str] = field(default_factory=list)
    """Ids of others that are kept, as not all of them was shown to be in one that is (:mod:`visil.collection.plan`)."""
    notes: dict[str, str] = field(default_factory=dict)
    """Of the videos besides ``keep``, by id: what they are to the others, in words."""
    copies: dict[str, list[str]] = field(default_factory=dict)
    """All files of the videos that several files hold, by id."""
    files: list[PlannedFile] = field(default_factory=list)
    """The plan for every file of the group, that ``visil apply`` carries out."""

    @property
    def identical(self) -> bool:
        """Whether this is one video in several files."""
        return len(self.videos) == 1

    def paths(self, video: Video) -> list[str]:
        """Every file that holds a video of the group, those that are there; the last known one where none is."""
        held = [f.path for f in self.files if f.video == video.id and f.action != "missing"]
        return held or self.copies.get(video.id, [video.path])

    def plan(self, video: Video) -> list[PlannedFile]:
        """The plan for each file of a video."""
        known = [file for file in self.files if file.video == video.id]
        action: Action = "keep" if self.kept(video) else "drop"
        return known or [PlannedFile(video.id, video.path, action, self.note(video), None, video.bytes)]

    def kept(self, video: Video) -> bool:
        """Whether a video is to be kept: one that may not go, and of which a file is there."""
        return video.id in (self.keep, *self.also) or any(
            file.action == "keep" for file in self.files if file.video == video.id
        )

    def missing(self, video: Video) -> bool:
        """Whether no file of a video is there any more."""
        states = {file.action for file in self.files if file.video == video.id}
        return states == {"missing"}

    def note(self, video: Video) -> str:
        """Why a video is kept, or need not be."""
        return self.reason if video.id == self.keep else self.notes.get(video.id, "")

    def to_dict(self) -> dict[str, object]:
        """As ``visil duplicates --json`` prints it."""
        return {
            "videos": [
                {
                    "id": video.id,
                    "path": self.paths(video)[0],
                    "paths": self.paths(video),
                    "keep": self.kept(video),
                    "note": self.notes.get(video.id, ""),
                    "missing": self.missing(video),
                }
                for video in self.videos
            ],
            "pairs": [pair.to_dict() for pair in self.pairs],
            "keep": self.keep,
            "reason": self.reason,
            "files": [file.to_dict() for file in self.files],
        }


@dataclass(frozen=True)
class Duplicates:
    """The result of a search for duplicates."""

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
    spread: Spread,
    *,
    min_confidence: float,
    new_against_references: bool = False,
    progress: OnPairs | None = None,
    prover: Prover | None = None,
    proving: OnCount | None = None,
) -> Duplicates:
    """Compare each video of a collection with its candidates, then group.

    ``new_against_references`` compares only videos outside reference folders with those inside. Pairs that someone
    judged "different" are left out; those judged "same" are linked whatever was measured. Videos whose features cannot
    be read are left out with a warning. ``prover`` compares files picture by picture; without one only files with the
    same bytes may go.
    """
    parts = spread.index.parts
    listed = Listed(parts)
    said = parts.catalogue.verdicts()
    worth = worth_comparing(spread, listed, new_against_references)
    found: dict[tuple[int, int], Pair] = {}
    total = len(listed.videos)
    for a, hits in compared(spread, listed, worth, said):
        if progress is not None:
            progress(a - 1, total, len(found))
        for hit in sorted(hits, key=lambda hit: listed.places_of_ids[hit.id]):
            if hit.confidence >= min_confidence and hit.segments:
                found[a, listed.places_of_ids[hit.id]] = pair_of(listed.videos[a].id, hit)
    if progress is not None:
        progress(total, total, len(found))
    copies = copies_in(parts.catalogue, new_against_references)
    same = {key for key, verdict in said.items() if verdict == "same"}
    files = partial(held_files, parts.catalogue)
    return group(listed.videos, found, same, copies, files, prover=prover, proving=proving)


def group(
    videos: dict[int, Video],
    pairs: dict[tuple[int, int], Pair],
    same: set[tuple[str, str]],
    copies: dict[str, list[str]],
    files: Callable[[str], list[HeldFile]],
    *,
    prover: Prover | None = None,
    proving: OnCount | None = None,
) -> Duplicates:
    """Link pairs into groups by what they share beyond common footage, and plan what to do with the files of each.

    ``copies`` are all files of some videos; ``files`` tells those of a video by id, as they are now.
    """
    shared = {
        key: Shared(*key, [s.query for s in pair.segments], [s.target for s in pair.segments])
        for key, pair in pairs.items()
    }
    common = common_stretches(shared.values())
    durations = {number: video.duration for number, video in videos.items()}
    linked = {key for key, pair in shared.items() if links(pair, durations, common)}
    numbers = {video.id: number for number, video in videos.items()}
    judged = {(numbers[a], numbers[b]) for a, b in same if a in numbers and b in numbers}
    strong = {key for key in linked if pairs[key].verdict == "copy"} | judged
    weak = sorted(linked - strong, key=lambda key: -pairs[key].confidence)
    found = components(videos, strong, weak)
    total, done = sum(map(len, found)), 0
    groups = []
    for members in found:
        if proving is not None:
            proving(done, total)
        inside = set(members)
        own = [pair for key, pair in pairs.items() if key in linked and inside.issuperset(key)]
        groups.append(_planned([videos[number] for number in members], own, same, copies, files, prover))
        done += len(members)
    if proving is not None and total:
        proving(total, total)
    grouped = {video.id for some in groups for video in some.videos}
    groups += [
        _identical(video, copies, files)
        for video in videos.values()
        if video.id in copies and video.id not in grouped
    ]
    left = [replace(p, common=True) for key, p in pairs.items() if key not in linked]
    return Duplicates(groups, left)


def _planned(
    videos: list[Video],
    pairs: list[Pair],
    same: set[tuple[str, str]],
    copies: dict[str, list[str]],
    files: Callable[[str], list[HeldFile]],
    prover: Prover | None,
) -> Group:
    """A group with its plan; pairs whose pictures were compared for it say what was found."""
    proofs: dict[tuple[str, str], Proof | None] = {}
    there = {video.id: files(video.id) for video in videos}
    known = {video.id: video for video in videos}

    def prove(pair: Pair) -> Proof | None:
        key = (pair.query, pair.target)
        if key not in proofs:
            proofs[key] = None if prover is None else _proved(prover, pair, known, there)
        return proofs[key]

    advice = advise(videos, pairs, there, prove, same)
    videos.sort(
        key=lambda video: (video.id != advice.keep, video.id not in advice.also, natural_order(video.path))
    )
    pairs = [replace(pair, proof=pair.proof or proofs.get((pair.query, pair.target))) for pair in pairs]
    own = {video.id: copies[video.id] for video in videos if video.id in copies}
    return _group(videos, pairs, advice, own)


def _proved(
    prover: Prover, pair: Pair, videos: dict[str, Video], files: dict[str, list[HeldFile]]
) -> Proof | None:
    from visil.footage.proof import File

    def there(video: Video) -> File | None:
        path = next((file.path for file in files[video.id] if file.state == "there"), None)
        return None if path is None else File(path, video.duration, video.bytes)

    query, target = there(videos[pair.query]), there(videos[pair.target])
    if query is None or target is None:
        return None
    return prover.prove(query, target, [(segment.query, segment.target) for segment in pair.segments])


def _group(videos: list[Video], pairs: list[Pair], advice: Advice, copies: dict[str, list[str]]) -> Group:
    return Group(
        *(videos, pairs, advice.keep, advice.reason, advice.also, advice.notes, copies, advice.files)
    )


def pair_of(query: str, hit: Hit) -> Pair:
    """A video of the collection with one that it was compared with."""
    return Pair(query, hit.id, hit.score, hit.confidence, hit.segments, hit.verdict, common=False)


def _identical(video: Video, copies: dict[str, list[str]], files: Callable[[str], list[HeldFile]]) -> Group:
    whole = (0.0, video.duration)
    pair = Pair(video.id, video.id, 1.0, 1.0, [Segment(whole, whole, 1.0)], "copy", common=False)
    advice = advise([video], [], {video.id: files(video.id)}, lambda _: None)
    return _group([video], [pair], advice, {video.id: copies[video.id]})


def copies_in(catalogue: AnyCatalogue, new_against_references: bool) -> dict[str, list[str]]:
    """Files with the same bytes, as far as they are still there; new ones with references only, if told to."""
    found = {}
    for video, files in catalogue.copies().items():
        there = [(path, reference) for path, reference in files if os.path.lexists(path)]
        if len(there) > 1 and not (new_against_references and len({mark for _, mark in there}) == 1):
            found[video] = sorted((path for path, _ in there), key=natural_order)
    return found
