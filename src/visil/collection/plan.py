"""What to do with every file of a group: keep it, or let it go because a file that is kept shows all of it.

A file may go for another only where that is certain: the same bytes; or every moment of it was shown to be in the
other, picture by picture (:mod:`visil.footage`), and it has nothing else that the other has not (sound, a second
video, colour, clearly more detail); or a person called the two the same, and it is no longer than the other. The
other is there, undamaged, and holds not much else: a compilation does not replace a clip, nor the clip the
compilation. Whatever is not certain is kept, and the note says "may be".
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from visil.collection.groups import length, merged
from visil.files import natural_order

if TYPE_CHECKING:
    from visil.collection.catalogue import Video
    from visil.collection.duplicates import Pair
    from visil.collection.presence import HeldFile
    from visil.footage.proof import Proof

Action = Literal["keep", "drop", "missing"]

PROMISING = 0.5
"""Share of a video that must match another for it to be worth showing that all of it is there."""

OTHER_SHARE = 0.4
"""Share of a video outside what it shares from which it *contains* the other among other footage."""

SLACK = 1.0
"""Seconds by which a video may be longer than another that a person called the same."""

SMALLER = 1.05
"""Ratio of heights from which one picture is larger than another."""

AGAIN = 2
"""Times that a video is looked at again after the one that it was to go for has gone itself."""


@dataclass(frozen=True)
class PlannedFile:
    """One row of a plan."""

    video: str
    """Its id."""
    path: str
    action: Action
    reason: str
    footage_in: str | None
    """The file that shows all of it, of one that may go."""
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        """As JSON says it."""
        return {
            "id": self.video,
            "path": self.path,
            "action": self.action,
            "reason": self.reason,
            "footage_in": self.footage_in,
            "bytes": self.bytes,
        }


@dataclass(frozen=True)
class Advice:
    """What to do with the videos of one group."""

    keep: str | None
    """Id of the video that is worth most; None where no file of the group is there."""
    reason: str
    """Why that one."""
    also: list[str]
    """Ids of the others that are kept."""
    notes: dict[str, str]
    """What every video but ``keep`` is to the others, in words."""
    files: list[PlannedFile]


Prove = Callable[["Pair"], "Proof | None"]
"""What is known for certain of a pair's files, query first; None where they are not looked at."""


def advise(
    videos: Sequence[Video],
    pairs: Iterable[Pair],
    files: Mapping[str, Sequence[HeldFile]],
    prove: Prove,
    same: Iterable[tuple[str, str]] = (),
) -> Advice:
    """A plan for the videos of one group; ``same`` are ids of pairs that someone called the same."""
    relations = _Relations(videos, pairs, files, prove, same)
    there = [video for video in videos if relations.file(video) is not None]
    held_by = _held_by(relations, there)
    kept = [video for video in there if video.id not in held_by]
    goes = Counter(held_by.values())
    kept.sort(key=lambda video: (-goes[video.id], -video.duration, natural_order(video.path)))
    notes = {video: relations.goes(video, held_by[video]) for video in held_by}
    if kept:
        notes |= {video.id: relations.stays(video, kept) for video in kept[1:]}
    for video in videos:
        if video.id not in notes and video not in kept:
            notes[video.id] = relations.absence(video)
    best = kept[0] if kept else None
    reason = "no file is there" if best is None else _reason(relations, best, held_by)
    rows = [row for video in (*kept, *videos) for row in relations.rows(video, held_by, notes, reason, best)]
    return Advice(
        None if best is None else best.id,
        reason,
        [video.id for video in kept[1:]],
        notes,
        list({row.path: row for row in rows}.values()),
    )


def _held_by(relations: _Relations, videos: Sequence[Video]) -> dict[str, str]:
    """{id of a video that may go: id of one that is kept and holds all of it}."""
    order = sorted(
        videos, key=lambda video: (bool(video.damaged), -video.duration, natural_order(video.path))
    )
    kept: list[Video] = []
    held_by: dict[str, str] = {}
    looked: Counter[str] = Counter()
    waiting = list(order)
    while waiting:
        video = waiting.pop(0)
        looked[video.id] += 1
        holder = next((other for other in kept if relations.yields(video, other)), None)
        if holder is not None:
            held_by[video.id] = holder.id
            continue
        gone = (
            [other for other in kept if relations.yields(other, video)] if looked[video.id] <= AGAIN else []
        )
        for other in gone:
            kept.remove(other)
            held_by[other.id] = video.id
            waiting += [one for one in order if held_by.get(one.id) == other.id]
        for one in waiting:
            held_by.pop(one.id, None)
        kept.append(video)
    return held_by


class _Relations:
    """Who may go for whom, and in which words."""

    def __init__(
        self,
        videos: Sequence[Video],
        pairs: Iterable[Pair],
        files: Mapping[str, Sequence[HeldFile]],
        prove: Prove,
        same: Iterable[tuple[str, str]],
    ) -> None:
        self.videos = {video.id: video for video in videos}
        self.files = files
        self._prove = prove
        self._same_name = Counter(os.path.basename(video.path) for video in videos)
        self._pairs = {(pair.query, pair.target): pair for pair in pairs}
        self._same = {frozenset(pair) for pair in same}

    def file(self, video: Video) -> HeldFile | None:
        """The file of a video that stands for it: a reference before others, a real one before a link."""
        there = [file for file in self.files[video.id] if file.state == "there"]
        return min(
            there, key=lambda file: (not file.reference, file.link, natural_order(file.path)), default=None
        )

    def name(self, video: Video) -> str:
        """A video's file name, or its path where others in the group are called the same."""
        file = self.file(video)
        path = video.path if file is None else file.path
        name = os.path.basename(path)
        return name if name and self._same_name[name] <= 1 else path

    # ------------------------------------------------------------------ who may go for whom

    def yields(self, video: Video, other: Video) -> bool:
        """Whether a video may go for another; of two that may go for each other, the better stays."""
        if not self.may_go(video, other):
            return False
        return not self.may_go(other, video) or not self._better(video, other)

    def may_go(self, video: Video, other: Video) -> bool:
        """Whether nothing is lost with a video where another is kept."""
        return self._hindrance(video, other) is None

    def _hindrance(self, video: Video, other: Video) -> str | None:
        """What is in the way of letting a video go for another, in words; None where nothing is."""
        proof = self.proof(video, other)
        said = self.called_same(video, other)
        if proof is None or not proof.first_in_second.whole:
            if not said:
                return "not all of it was shown to be there"
            if video.duration > other.duration + SLACK:
                return f"it is {video.duration - other.duration:.0f} s longer"
        elif self._outside(other, proof) > OTHER_SHARE * other.duration:
            return f"{self.name(other)} contains other footage as well"
        return self._hindrance_beside_pictures(video, other, proof)

    def _hindrance_beside_pictures(self, video: Video, other: Video, proof: Proof | None) -> str | None:
        """What is in the way though all pictures of a video are in another."""
        if any(file.reference for file in self.files[video.id]):
            return "it is a reference"
        if any(file.folder for file in self.files[video.id] if file.state == "there"):
            return "it is a folder of images, which may hold other things"
        if other.damaged and not video.damaged:
            return f"{self.name(other)} is damaged"
        if proof is not None and proof.first_only is not None:
            return f"this file {proof.first_only}"
        if proof is not None and proof.finer.which == "first":
            if proof.finer.clearly:
                return "this file shows it in more detail"
            # The same pictures, coded again, and something added: else the other would go for this one.
            if proof.second_in_first.whole and not video.damaged:
                return "this file shows it in a little more detail"
        if proof is not None and proof.finer.which is None and proof.finer.clearly:
            return "which of the two shows more detail is unclear"
        return None

    def proof(self, video: Video, other: Video) -> Proof | None:
        """What is known for certain of a video and another, in that order; None where nothing is worth looking at."""
        pair = self._pairs.get((video.id, other.id)) or self._pairs.get((other.id, video.id))
        if pair is None or video is other:
            return None
        turned = pair.query != video.id
        promising = pair.verdict == "copy" and any(self._promising(one, pair) for one in (video, other))
        if pair.proof is None and not promising and not self.called_same(video, other):
            return None
        proof = pair.proof or self._prove(pair)
        return proof.turned() if proof is not None and turned else proof

    def _promising(self, video: Video, pair: Pair) -> bool:
        spans = [s.query if video.id == pair.query else s.target for s in pair.segments]
        return length(merged(spans)) >= PROMISING * video.duration

    def called_same(self, video: Video, other: Video) -> bool:
        """Whether a person said so."""
        return frozenset((video.id, other.id)) in self._same

    def _outside(self, video: Video, proof: Proof) -> float:
        """Seconds of the second video of a proof that the first does not show."""
        return max(0.0, video.duration - max(proof.second_in_first.seconds, proof.first_in_second.seconds))

    def _better(self, video: Video, other: Video) -> bool:
        """Of two videos that may go for each other: whether this one is the better file."""
        return self._better_by(video, other)[0]

    def _better_by(self, video: Video, other: Video) -> tuple[bool, str]:
        """The same, and by what."""
        if bool(video.damaged) != bool(other.damaged):
            return not video.damaged, "undamaged"
        proof = self.proof(video, other)
        if proof is not None and proof.finer.which is not None:
            return (
                proof.finer.which == "first",
                "more detail" if proof.finer.clearly else "a little more detail",
            )
        if max(video.height, other.height) > SMALLER * max(1, min(video.height, other.height)):
            return video.height < other.height, "the same detail in a smaller picture"
        mine, theirs = self.file(video), self.file(other)
        assert mine is not None
        assert theirs is not None
        if mine.modified_ns != theirs.modified_ns:
            return mine.modified_ns < theirs.modified_ns, "the older of two alike"
        return video.id < other.id, "all alike"

    def why_better(self, video: Video, other: Video) -> str:
        """Why a video is kept that another goes for."""
        proof = self.proof(video, other)
        if proof is None or not proof.second_in_first.whole:
            return "called the same"
        if not proof.first_in_second.whole:
            return "complete"
        if any(file.reference for file in self.files[video.id]):
            return "a reference"
        return proof.first_only or self._better_by(video, other)[1]

    # ------------------------------------------------------------------ words

    def goes(self, video: str, holder: str) -> str:
        """Of a video that may go."""
        mine, other = self.videos[video], self.videos[holder]
        proof = self.proof(mine, other)
        if proof is None or not proof.first_in_second.whole:
            return f"someone called it the same as {self.name(other)}"
        shown = proof.first_in_second
        return f"all of it is in {self.name(other)} ({shown.seconds:.1f} of {shown.of:.1f} s)"

    def stays(self, video: Video, kept: Sequence[Video]) -> str:
        """Of a video that is kept beside the best: what is known of it and the others."""
        best = kept[0]
        others = sorted(
            (other for other in kept if other is not video and self._known(video, other)),
            key=lambda other: other is not best,
        )
        for other in others:
            proof = self.proof(video, other)
            if proof is None:
                continue
            if proof.first_in_second.whole:
                return f"all of it is in {self.name(other)}, but {self._hindrance(video, other)}"
            if proof.second_in_first.whole:
                seconds = round(max(0.0, video.duration - proof.second_in_first.seconds))
                more = f"{seconds} s of other footage" if seconds else "something else beside it"
                return f"contains {self.name(other)}, and {more}"
        for other in others:
            return self._may_be(video, other)
        return f"is not a copy of {self.name(best)}"

    def _known(self, video: Video, other: Video) -> bool:
        return (video.id, other.id) in self._pairs or (other.id, video.id) in self._pairs

    def _may_be(self, video: Video, other: Video) -> str:
        """Of a video and another of which nothing is certain."""
        pair = self._pairs.get((video.id, other.id)) or self._pairs[other.id, video.id]
        if pair.verdict != "copy":
            return f"is not a copy of {self.name(other)}"
        proof = self.proof(video, other)
        name = self.name(other)
        if not self._promising(video, pair):
            spans = [s.query if video.id == pair.query else s.target for s in pair.segments]
            return f"has {max(0.0, video.duration - length(merged(spans))):.0f} s that are not in {name}"
        if proof is not None and proof.unread is not None:
            return f"may be contained in {name}, but could not be compared: {proof.unread}"
        if proof is not None and proof.first_in_second.seconds > 0:
            shown, of = (
                f"{seconds:.1f}" for seconds in (proof.first_in_second.seconds, proof.first_in_second.of)
            )
            if shown == of:
                return f"may be contained in {name}, but not every moment of it was confirmed"
            return f"may be contained in {name}, but only {shown} of {of} s were confirmed"
        return f"may be contained in {name}, but that could not be confirmed"

    def absence(self, video: Video) -> str:
        """Of a video that no file holds any more."""
        states = {file.state for file in self.files[video.id]}
        return (
            "the file has changed since it was added; add it again"
            if "changed" in states
            else "the file is gone"
        )

    # ------------------------------------------------------------------ files

    def rows(
        self, video: Video, held_by: Mapping[str, str], notes: Mapping[str, str], why: str, best: Video | None
    ) -> list[PlannedFile]:
        """What to do with each file of a video."""
        stands = self.file(video)
        holder = held_by.get(video.id)
        kept = None if holder is None else self.file(self.videos[holder])
        note = why if video is best else notes.get(video.id, "")
        rows = []
        for file in self.files[video.id]:
            action: Action = "keep"
            reason, inside = note, None
            if file.state == "missing":
                action, reason = "missing", "the file is gone"
            elif file.state == "changed":
                reason = "has changed since it was added; add it again"
            elif kept is not None:
                action, inside = "drop", kept.path
            elif stands is not None and file is not stands:
                action, reason, inside = self._copy(file, stands)
            rows.append(PlannedFile(video.id, file.path, action, reason, inside, file.bytes))
        return rows

    def _copy(self, file: HeldFile, stands: HeldFile) -> tuple[Action, str, str | None]:
        """What to do with a further file of the same bytes."""
        if file.inode == stands.inode:
            return "keep", f"another name of {stands.path}", None
        if file.reference:
            return "keep", "is a reference", None
        if file.folder:
            return "keep", "is a folder of images, which may hold other things", None
        return "drop", f"the same bytes as {stands.path}", stands.path


def _reason(relations: _Relations, best: Video, held_by: Mapping[str, str]) -> str:
    """What sets the best apart from what goes for it."""
    gone = [video for video, holder in held_by.items() if holder == best.id]
    if gone:
        return ", ".join(sorted({relations.why_better(best, relations.videos[video]) for video in gone}))
    if len(relations.videos) == 1:
        return "identical files"
    return "nothing else holds all of it"
