"""The duplicates that were found last, as they are reviewed: suggestions, decisions, progress."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from visil.collection.decided import Decision, rows_of_group
from visil.collection.duplicates import Duplicates, Group
from visil.collection.plan import PlannedFile
from visil.collection.plan_file import PlanRow
from visil.errors import printable
from visil.web.decisions import DecisionStore, File
from visil.web.export import Judged, as_judged, key, pairs_in
from visil.web.library import Library, Snapshot, file_key, iso
from visil.web.moments import Lines, moments
from visil.web.problems import Problem
from visil.web.state import Job, JobStore

Show = Literal["all", "open", "done"]

FRESH_S = 20.0
"""Seconds for which files are taken to be where they were."""
NO_DUPLICATES = "Duplicates have not been looked for yet."


@dataclass(frozen=True)
class ReviewedGroup:
    """A group as it was suggested and as it is decided."""

    number: int
    """From 1, in the order in which groups are shown and exported."""
    suggested: Group
    decided: Group
    bound: Mapping[str, str]
    """{path: why} of the files that must stay."""
    settled: frozenset[str]
    """Paths of files that someone has decided about."""

    @cached_property
    def key(self) -> str:
        """The same for the same videos."""
        return _digest(" ".join(sorted(video.id for video in self.suggested.videos)).encode())

    @cached_property
    def rows(self) -> list[PlannedFile]:
        """The plan for every file."""
        return rows_of_group(self.decided)

    @cached_property
    def open(self) -> list[PlannedFile]:
        """Files that nobody has decided about."""
        return [row for row in self.rows if row.path not in self.bound and row.path not in self.settled]

    @property
    def reviewed(self) -> bool:
        """Whether everything is decided."""
        return not self.open

    @cached_property
    def exact(self) -> list[PlannedFile]:
        """Files that nobody has decided about and that go for a file with the same bytes."""
        videos = {row.path: row.video for row in self.rows}
        return [
            row for row in self.open if row.action == "drop" and videos.get(row.footage_in or "") == row.video
        ]


@dataclass(frozen=True)
class Reviewed:
    """Everything that was found last."""

    job: Job | None
    kept: dict[str, Any]
    """The result as it was written."""
    found: Duplicates
    groups: list[ReviewedGroup]
    files: dict[str, tuple[ReviewedGroup, PlannedFile]] = field(repr=False)
    """Every file by its key."""

    def rows(self, only_reviewed: bool = False) -> list[PlanRow]:
        """The plan."""
        chosen = [group for group in self.groups if group.reviewed or not only_reviewed]
        return [PlanRow(group.number, row) for group in chosen for row in group.rows]


class Review:
    """Duplicates to review; the next answer has all judgements, decisions and changes on disk."""

    def __init__(self, library: Library, store: JobStore, decisions: DecisionStore) -> None:
        self.library = library
        self.store = store
        self.decisions = decisions
        self._lock = threading.Lock()
        self._judged: tuple[object, float, dict[str, Any], Judged] | None = None
        self._reviewed: tuple[object, Reviewed] | None = None

    def latest(self) -> Reviewed:
        """The duplicates found last; a problem 404 where nobody has looked."""
        job = self.store.latest_done("duplicates")
        if job is None:
            raise Problem(404, NO_DUPLICATES)
        with self._lock:
            version = (job.id, self.library.snapshot().version)
            now = time.monotonic()
            if self._judged is None or self._judged[0] != version or now - self._judged[1] > FRESH_S:
                kept = self.store.result(job.id)
                if kept is None:
                    raise Problem(404, NO_DUPLICATES)
                self._judged = version, now, kept, as_judged(self.library.catalogue, kept)
                self._reviewed = None
            decided = (version, self.decisions.version)
            if self._reviewed is None or self._reviewed[0] != decided:
                self._reviewed = decided, self._review(job, self._judged[2], self._judged[3])
            return self._reviewed[1]

    def of(self, kept: dict[str, Any]) -> Reviewed:
        """An earlier result, as it stands now."""
        return self._review(None, kept, as_judged(self.library.catalogue, kept))

    def _review(self, job: Job | None, kept: dict[str, Any], judged: Judged) -> Reviewed:
        decisions = self.decisions.all()
        found = judged.decided(decisions)
        groups = []
        for number, (before, after) in enumerate(zip(judged.found.groups, found.groups, strict=True), 1):
            settled = frozenset(
                row.path for row in rows_of_group(before) if (row.video, row.path) in decisions
            )
            groups.append(ReviewedGroup(number, before, after, judged.bound(before), settled))
        files = {file_key(row.path): (group, row) for group in groups for row in group.rows}
        return Reviewed(job, kept, found, groups, files)

    # ------------------------------------------------------------------ deciding

    def decide(self, changes: Mapping[str, Decision | None]) -> list[str]:
        """Decide about files by their keys; returns the keys of their groups. A problem where that cannot be."""
        reviewed = self.latest()
        wanted: dict[File, Decision | None] = {}
        touched: dict[str, ReviewedGroup] = {}
        for name, action in changes.items():
            if name not in reviewed.files:
                raise Problem(404, "There is no such file in the duplicates that were found last.")
            group, row = reviewed.files[name]
            if action == "drop" and row.path in group.bound:
                raise Problem(409, group.bound[row.path])
            wanted[row.video, row.path] = action
            touched[group.key] = group
        for group in touched.values():
            self._check(group, wanted)
        names = [printable(os.path.basename(path)) for _, path in wanted]
        said = {"keep": "Keep", "drop": "Drop", None: "Undecide"}[next(iter(wanted.values()), None)]
        self.decisions.decide(f"{said} {names[0]}" if len(names) == 1 else f"{len(names)} files", wanted)
        return list(touched)

    def _check(self, group: ReviewedGroup, wanted: Mapping[File, Decision | None]) -> None:
        """A problem where a decision would let go of every file of a group."""
        staying = [
            row
            for row in group.rows
            if row.action != "missing" and (wanted.get((row.video, row.path)) or row.action) == "keep"
        ]
        if not staying and any(action == "drop" for action in wanted.values()):
            raise Problem(
                409, "Keep at least one file of the group: this one holds the footage of the others."
            )

    def accept(self, groups: Iterable[str] | None, exact: bool) -> int:
        """Decide as it is suggested: in some groups or all, about everything or exact copies alone; how many files."""
        reviewed = self.latest()
        wanted = None if groups is None else set(groups)
        chosen = [group for group in reviewed.groups if wanted is None or group.key in wanted]
        if wanted is not None and len(chosen) < len(wanted):
            raise Problem(404, "There is no such group in the duplicates that were found last.")
        changes: dict[File, Decision | None] = {}
        for group in chosen:
            for row in group.exact if exact else group.open:
                changes[row.video, row.path] = "drop" if row.action == "drop" else "keep"
                if exact and row.footage_in is not None and row.footage_in not in group.bound:
                    changes.setdefault((row.video, row.footage_in), "keep")
        if changes:
            what = "exact copies" if exact else "suggestions"
            self.decisions.decide(f"Accept {what} for {len(changes)} files", changes)
        return len(changes)

    # ------------------------------------------------------------------ as callers get it

    def page(self, offset: int, limit: int, show: Show) -> dict[str, Any]:
        """Some of the groups, and how far the review is."""
        reviewed = self.latest()
        chosen = [group for group in reviewed.groups if show == "all" or group.reviewed == (show == "done")]
        told = Telling(self.library, reviewed)
        return {
            **self.state(reviewed),
            "total": len(chosen),
            "offset": offset,
            "groups": [told.group(group) for group in chosen[offset : offset + limit]],
            "common": told.common(),
            "different": told.different(),
        }

    def some(self, keys: Iterable[str]) -> dict[str, Any]:
        """The groups of some keys, after a change."""
        reviewed, wanted = self.latest(), set(keys)
        told = Telling(self.library, reviewed)
        groups = [told.group(group) for group in reviewed.groups if group.key in wanted]
        return {**self.state(reviewed), "groups": groups}

    def everything(self, reviewed: Reviewed) -> dict[str, Any]:
        """All groups at once."""
        told = Telling(self.library, reviewed)
        return {
            "groups": [told.group(group) for group in reviewed.groups],
            "common": told.common(),
            "different": told.different(),
        }

    def state(self, reviewed: Reviewed) -> dict[str, Any]:
        """When it was found, how far the review is, and the videos that have come or gone since."""
        rows = [(group, row) for group in reviewed.groups for row in group.rows]
        going = [(group, row) for group, row in rows if row.action == "drop"]
        settled = [row for group, row in going if row.path in group.settled]
        job = reviewed.job
        return {
            "made": iso(job.finished if job else None),
            "min_confidence": reviewed.kept["min_confidence"],
            "newer": self._newer(reviewed),
            "progress": {
                "groups": len(reviewed.groups),
                "reviewed": sum(group.reviewed for group in reviewed.groups),
                "files": len(rows),
                "drop": len(going),
                "drop_bytes": sum(row.bytes for _, row in going),
                "decided_drop": len(settled),
                "decided_bytes": sum(row.bytes for row in settled),
                "exact": sum(len(group.exact) for group in reviewed.groups),
            },
            "undo": self.decisions.last_step(),
        }

    def _newer(self, reviewed: Reviewed) -> dict[str, int]:
        """Videos that were added since they were compared, and found ones that have left."""
        snapshot = self.library.snapshot()
        since = reviewed.job.created if reviewed.job else 0.0
        found = {video for pair in pairs_in(reviewed.kept) for video in (pair["query"], pair["target"])}
        return {
            "added": snapshot.added_since(since),
            "gone": len(found - snapshot.by_id.keys()),
        }


class Telling:
    """Groups and pairs as JSON, with the videos as they are now."""

    def __init__(self, library: Library, reviewed: Reviewed) -> None:
        self.reviewed = reviewed
        self.snapshot: Snapshot = library.snapshot()
        self.said = library.catalogue.verdicts()
        self.lines: Lines = {(*line["videos"],): line for line in reviewed.kept.get("lines", [])}

    def group(self, one: ReviewedGroup) -> dict[str, Any]:
        """One group."""
        group, known, times = one.decided, self.snapshot.by_id, moments(one.suggested, self.lines)
        videos = [
            {
                **known[video.id].to_dict(),
                "keep": group.kept(video),
                "why": printable(group.note(video)),
                "missing": group.missing(video),
                "times": times[video.id].times,
                "same_moment": times[video.id].same,
            }
            for video in group.videos
            if video.id in known
        ]
        return {
            "id": one.number,
            "key": one.key,
            "reviewed": one.reviewed,
            "videos": videos,
            "pairs": [self.judged(pair.to_dict()) for pair in group.pairs if pair.query != pair.target],
            "files": [self._file(one, row, before) for row, before in self._rows(one)],
        }

    def _rows(self, one: ReviewedGroup) -> Iterable[tuple[PlannedFile, PlannedFile]]:
        before = {row.path: row for row in rows_of_group(one.suggested)}
        return [(row, before[row.path]) for row in one.rows]

    def _file(self, one: ReviewedGroup, row: PlannedFile, before: PlannedFile) -> dict[str, Any]:
        return {
            **row.to_dict(),
            "file": file_key(row.path),
            "name": printable(os.path.basename(row.path) or row.path),
            "path": printable(row.path),
            "reason": printable(row.reason),
            "footage_in": None if row.footage_in is None else printable(row.footage_in),
            "suggested": before.action,
            "decided": row.path in one.settled,
            "must_stay": None if row.path not in one.bound else printable(one.bound[row.path]),
        }

    def common(self) -> list[dict[str, Any]]:
        """Pairs that share only what many videos share."""
        return [self.judged(pair.to_dict()) for pair in self.reviewed.found.common]

    def different(self) -> list[dict[str, Any]]:
        """Pairs that someone judged different, so that it can be taken back."""
        return [
            self.judged(pair)
            for pair in pairs_in(self.reviewed.kept)
            if self.said.get(key(pair["query"], pair["target"])) == "different"
            and {pair["query"], pair["target"]} <= self.snapshot.by_id.keys()
        ]

    def judged(self, pair: dict[str, Any]) -> dict[str, Any]:
        """A pair with a person's verdict, and a moment that both show, where one was looked for."""
        line = self.lines.get((pair["query"], pair["target"]))
        moment = None if line is None else [sum(line[side]) / 2 for side in ("query", "target")]
        return {**pair, "moment": moment, "judgement": self.said.get(key(pair["query"], pair["target"]))}


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
