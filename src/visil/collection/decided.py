"""A plan as a person has decided it, file by file; what nobody has decided stays as it was suggested.

Decisions never lose footage by accident: a file goes only for one that stays. Where a decision lets go of the file that
a suggestion rests on, and no file with the same bytes is kept, the suggestion falls and its file is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Literal

from visil.collection.duplicates import Group
from visil.collection.plan import PlannedFile
from visil.collection.presence import HeldFile

Decision = Literal["keep", "drop"]
Decisions = Mapping[tuple[str, str], Decision]
"""By the id of a video and the path of a file that holds it."""

KEPT = "you chose to keep it"


def decided(group: Group, decisions: Decisions, bound: Collection[str] = ()) -> Group:
    """A group with the decisions about its files; ``bound`` are paths that must stay (:func:`must_stay`)."""
    rows = rows_of_group(group)
    said = {
        row.path: decisions[row.video, row.path]
        for row in rows
        if (row.video, row.path) in decisions and row.action != "missing" and row.path not in bound
    }
    if not said:
        return group
    return _regrouped(group, _Deciding(group, rows, said).rows())


def rows_of_group(group: Group) -> list[PlannedFile]:
    """The plan for every file of a group, as people decided."""
    return [row for video in group.videos for row in group.plan(video)]


def must_stay(files: Iterable[HeldFile]) -> dict[str, str]:
    """{path: why} of the files of one video that no decision lets go of."""
    found: dict[str, str] = {}
    names: dict[tuple[int, int], str] = {}
    for file in files:
        if file.state == "missing":
            found[file.path] = "The file is gone."
        elif file.state == "changed":
            found[file.path] = "The file has changed since it was added. Add it again first."
        elif file.reference:
            found[file.path] = "This file is a reference, which is always kept."
        elif file.folder:
            found[file.path] = "This is a folder of images, which may hold other things."
        elif file.inode is not None and file.inode in names:
            found[file.path] = f"This is another name of {names[file.inode]}."
        if file.inode is not None:
            names.setdefault(file.inode, file.path)
    return found


class _Deciding:
    """The rows of one group, decided one after another."""

    def __init__(self, group: Group, rows: list[PlannedFile], said: Mapping[str, Decision]) -> None:
        self.group = group
        self.suggested = rows
        self.said = said
        self.stays = {
            row.path
            for row in rows
            if row.action != "missing" and (said.get(row.path) or row.action) == "keep"
        }

    def rows(self) -> list[PlannedFile]:
        """Every row as it is decided; suggestions first, as their fall adds to what stays."""
        undecided = {row.path: self._suggestion(row) for row in self.suggested if row.path not in self.said}
        self.stays |= {row.path for row in undecided.values() if row.action == "keep"}
        return [undecided.get(row.path) or self._decision(row) for row in self.suggested]

    def _suggestion(self, row: PlannedFile) -> PlannedFile:
        if row.action != "drop" or row.footage_in in self.stays:
            return row
        twin = self._twin(row.video) or self._twin(self._video_of(row.footage_in))
        if twin is not None:
            return replace(row, footage_in=twin)
        return replace(
            row, action="keep", footage_in=None, reason="the file that holds its footage is dropped"
        )

    def _decision(self, row: PlannedFile) -> PlannedFile:
        if self.said[row.path] == "keep":
            reason = row.reason if row.action == "keep" else KEPT
            return replace(row, action="keep", footage_in=None, reason=reason)
        if row.action == "drop" and row.footage_in in self.stays:
            return row
        twin = self._twin(row.video)
        if twin is not None:
            return replace(row, action="drop", footage_in=twin, reason=f"the same bytes as {twin}")
        holder = self._holder(row.video)
        if holder is None:
            return replace(
                row, action="keep", footage_in=None, reason="every other file of the group is dropped"
            )
        reason = f"you chose to drop it; {holder.path} was not shown to hold all of it"
        if self._shown(row.video, holder.video):
            reason = f"you chose to drop it; all of it is in {holder.path}"
        return replace(row, action="drop", footage_in=holder.path, reason=reason)

    def _twin(self, video: str | None) -> str | None:
        """A file of a video that stays."""
        return next((r.path for r in self.suggested if r.video == video and r.path in self.stays), None)

    def _video_of(self, path: str | None) -> str | None:
        return next((row.video for row in self.suggested if row.path == path), None)

    def _holder(self, video: str) -> PlannedFile | None:
        """The file that stays and is most like a video: one that was shown to hold it first, then by confidence."""
        order = {other.id: place for place, other in enumerate(self.group.videos)}
        staying = [row for row in self.suggested if row.path in self.stays]
        return min(
            staying,
            key=lambda row: (
                not self._shown(video, row.video),
                -self._confidence(video, row.video),
                order[row.video],
            ),
            default=None,
        )

    def _confidence(self, a: str, b: str) -> float:
        return max((p.confidence for p in self.group.pairs if {p.query, p.target} == {a, b}), default=0.0)

    def _shown(self, video: str, other: str) -> bool:
        """Whether all of a video was shown to be in another."""
        for pair in self.group.pairs:
            if pair.proof is None:
                continue
            if (pair.query, pair.target) == (video, other):
                return pair.proof.first_in_second.whole
            if (pair.target, pair.query) == (video, other):
                return pair.proof.second_in_first.whole
        return False


def _regrouped(group: Group, rows: list[PlannedFile]) -> Group:
    """A group with decided rows, from which follow the videos that stay and the note about each."""
    kept = [
        video.id for video in group.videos if any(r.video == video.id and r.action == "keep" for r in rows)
    ]
    best = group.keep if group.keep in kept else next(iter(kept), None)
    notes = dict(group.notes)
    before = {row.path: row for row in rows_of_group(group)}
    for row in rows:
        if row != before[row.path]:
            notes[row.video] = row.reason
    reason = group.reason if best == group.keep else notes.get(best or "", "no file is there")
    return replace(
        group, keep=best, reason=reason, also=[one for one in kept if one != best], notes=notes, files=rows
    )
