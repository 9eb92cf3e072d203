"""Every query against every video in one pass: decode, embed, compare with all queries, forget.

FIVR-200K's features in the paper's 3,840 dimensions are 1.6 TB; its scores are some hundred megabytes. Queries are read
first and stay in memory. Every other video is read once, scored against all of them, by several systems at once where
a table asks for it, and its features are gone. The scores go to a log, a line a video, which a run that was stopped
goes on with; videos that could not be read are tried again then.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from visil.collection.extraction import extract
from visil.collection.extraction_work import Method, Task
from visil.collection.feature_writer import FeatureWriter
from visil.collection.lock import exclusive
from visil.collection.store import features_in
from visil.errors import FileError, UsageError, VideoError, os_reason
from visil.evaluation.predictions import Predictions, QueryScores
from visil.evaluation.scoring import FeatureReader, System, on_cores, score_held
from visil.files import make_folder, replacing
from visil.model.features import VideoFeatures
from visil.progress import OnPairs

HEAD, LOG, SCRATCH, LOCK = "run.json", "scores.jsonl", "passing", "lock"

PASSING_BYTES = 1 << 28
"""Features that wait to be compared together, at most about."""

ByKind = Mapping[str, VideoFeatures]


@dataclass(frozen=True)
class Passer:
    """How videos become features that are not kept: a method for the extraction, and its task for each id."""

    method: Method
    kinds: tuple[str, ...]
    task: Callable[[str, Mapping[str, FeatureWriter]], Task]
    workers: int


@dataclass(frozen=True)
class Streamed:
    """One system of a pass: how it compares, and which of a video's features it takes.

    One that looks at all videos at once can only be streamed where its descriptions are small enough to be kept:
    ``packed`` makes numbers of one, ``unpacked`` makes it again.
    """

    system: System[Any]
    features: Callable[[ByKind], VideoFeatures]
    packed: Callable[[Any], list[int]] | None = None
    unpacked: Callable[[NDArray[np.int64]], Any] | None = None


class ScoreLog:
    """Scores as they come, in a folder; ``identity`` names all that they depend on; another one is refused.

    A context: inside it, no other process may have the folder.
    """

    def __init__(self, folder: Path, identity: Mapping[str, object], queries: Sequence[str]) -> None:
        self.folder, self.queries = make_folder(folder, "the folder of scores"), list(queries)
        self.failed: dict[str, str] = {}
        """Videos that could not be read, and why."""
        self._lines: dict[str, dict[str, NDArray[np.float64]]] = {}
        self.kept: dict[str, dict[str, NDArray[np.int64]]] = {}
        """Descriptions of targets by systems that look at all of them at once."""
        self._identity = json.loads(json.dumps({**identity, "queries": self.queries}))
        self._head = folder / HEAD
        self._held = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._held.enter_context(exclusive(self.folder / LOCK, wait=False))
        except BlockingIOError:
            raise UsageError(
                f"{self.folder}: another evaluation is at work on it: wait for its end"
            ) from None
        with ExitStack() as opened:
            opened.push(self._held)
            if not self._head.exists():
                with replacing(self._head) as fresh:
                    fresh.write_text(json.dumps(self._identity), "utf-8")
            self._begin(self._identity)
            opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def _begin(self, head: dict[str, object]) -> None:
        try:
            known = json.loads(self._head.read_text("utf-8"))
        except (OSError, ValueError):
            raise FileError(self._head, "is damaged: delete the folder to begin anew") from None
        if known != head:
            raise UsageError(f"{self.folder}: has scores of another evaluation: choose another folder")
        log = self.folder / LOG
        whole = 0
        if log.exists():
            with open(log, "rb") as file:
                for number, line in enumerate(file, 1):
                    if not line.endswith(b"\n"):
                        break  # the last one of a run that was killed
                    try:
                        self._take(json.loads(line))
                    except (ValueError, KeyError, TypeError, AttributeError):
                        raise FileError(log, f"line {number} is damaged: delete that line") from None
                    whole += len(line)
            os.truncate(log, whole)

    @property
    def begun(self) -> bool:
        """Whether it has any scores."""
        return bool(self._lines)

    def __contains__(self, target: str) -> bool:
        """Whether nothing is left to do for a target; a query that could not be read has no scores with any."""
        return target in self._lines or (target in self.failed and target in self.queries)

    def add(
        self,
        scores: Mapping[str, Mapping[str, Sequence[float]]],
        failed: Mapping[str, str],
        kept: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
    ) -> None:
        """Scores {target: {system: one for each query}}, descriptions that are kept, and videos that could not be read,
        brought to the disk.
        """
        lines: list[dict[str, Any]] = [
            {"target": target, "scores": own, **({"kept": kept[target]} if kept else {})}
            for target, own in scores.items()
        ]
        lines += [
            {"target": target, "failed": reason}
            for target, reason in failed.items()
            if self.failed.get(target) != reason
        ]
        log = self.folder / LOG
        try:
            with open(log, "a", encoding="utf-8") as file:
                for line in lines:
                    file.write(json.dumps(line) + "\n")
                    self._take(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            why = f"{os_reason(error)}; what was scored before is kept: run again to go on"
            raise FileError(log, f"cannot be written: {why}") from error

    def _take(self, line: dict[str, Any]) -> None:
        target = line["target"]
        if "failed" in line:
            self.failed[target] = line["failed"]
            return
        rows = {name: np.array(values, np.float64) for name, values in line["scores"].items()}
        if any(len(row) != len(self.queries) for row in rows.values()):
            raise ValueError
        self.kept[target] = {name: np.array(some, np.int64) for name, some in line.get("kept", {}).items()}
        self._lines[target] = rows
        self.failed.pop(target, None)

    def predictions(self, system: str) -> Predictions:
        """The scores of one system."""
        targets = list(self._lines)
        table = np.array([self._lines[target][system] for target in targets], np.float64)
        table = table.reshape(len(targets), len(self.queries))
        scored = [query for query in self.queries if query not in self.failed]
        columns = {query: place for place, query in enumerate(self.queries)}
        return Predictions({query: QueryScores(targets, table[:, columns[query]]) for query in scored})


def stream_scores(
    systems: Mapping[str, Streamed],
    targets: Sequence[str],
    passer: Passer,
    log: ScoreLog,
    progress: OnPairs | None = None,
) -> dict[str, Predictions]:
    """Scores of every query of ``log`` with every target, by every system; those in the log are not computed again.

    Returned are the scores of systems that look at all targets at once; those of the others are in the log.
    """
    wide = {name for name, one in systems.items() if one.system.collection_wide}
    if any(systems[name].packed is None for name in wide):
        raise UsageError("a system that looks at all videos at once cannot be streamed: leave it out")
    left = [target for target in targets if target not in log]
    if not left and not wide:
        return {}
    queries: dict[str, ByKind] = {}
    failed: dict[str, str] = {}
    asked = [query for query in log.queries if query not in log.failed]
    pass_through(passer, asked, log.folder / SCRATCH, queries.__setitem__, failed.__setitem__)
    if failed and log.begun:
        query, reason = next(iter(failed.items()))
        raise UsageError(
            f"the query {query} could be read when {log.folder} was begun, and cannot be now: {reason}; "
            "make it readable and run again, or choose another folder"
        )
    log.add({}, failed)
    stream = _Stream(systems, queries, log, passer, targets, progress)
    stream.run(left)
    return {name: stream.at_once(name) for name in wide}


@dataclass
class _Stream:
    systems: Mapping[str, Streamed]
    queries: dict[str, ByKind]
    log: ScoreLog
    passer: Passer
    targets: Sequence[str]
    progress: OnPairs | None
    waiting: dict[str, ByKind] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    size: int = 0
    done: int = 0

    def run(self, left: Sequence[str]) -> None:
        self.done = len(self.targets) - len(left)
        with on_cores(next(iter(self.systems.values())).system) as self.each:
            self.held = {
                name: FeatureReader(one.system, self._reading(one, self.queries)).described(
                    list(self.queries)
                )
                for name, one in self.systems.items()
            }
            again = [target for target in left if target in self.queries]
            for target in again:  # a query that is in the database has been read already
                self._take(target, self.queries[target])
            rest = [t for t in left if t not in self.queries and t not in self.log]
            pass_through(self.passer, rest, self.log.folder / SCRATCH, self._take, self.failed.__setitem__)
            self._compare()

    def _take(self, target: str, features: ByKind) -> None:
        self.waiting[target] = features
        self.size += sum(one.vectors.nbytes for one in features.values())
        if self.size >= PASSING_BYTES:
            self._compare()

    def _compare(self) -> None:
        found: dict[str, dict[str, list[float]]] = {target: {} for target in self.waiting}
        kept: dict[str, dict[str, list[int]]] = {target: {} for target in self.waiting}
        names = list(self.waiting)
        for name, one in self.systems.items():
            reader = FeatureReader(one.system, self._reading(one, self.waiting))
            if one.packed is not None:
                for target, description in reader.described(names):
                    kept[target][name] = one.packed(description)
                continue
            rows = score_held(one.system, reader, self.held[name], lambda _: names, self.each, None, names)
            for place, target in enumerate(names):
                found[target][name] = [
                    float(rows[query].values[place]) if query in rows else 0.0 for query in self.log.queries
                ]
        self.log.add(found, self.failed, kept if any(kept.values()) else None)
        self.done += len(names) + len(self.failed)
        self.waiting, self.size = {}, 0
        self.failed.clear()
        if self.progress is not None:
            self.progress(self.done, len(self.targets), self.done * len(self.queries))

    def at_once(self, name: str) -> Predictions:
        """Scores of a system that looks at all targets at once, from the descriptions that were kept."""
        one = self.systems[name]
        assert one.unpacked is not None
        targets = [target for target in self.targets if target in self.log.kept]
        descriptions = [one.unpacked(self.log.kept[target][name]) for target in targets]
        return Predictions(
            {
                query: QueryScores(
                    targets, np.asarray(one.system.scores(description, descriptions), np.float64)
                )
                for query, description in self.held[name]
            }
        )

    def _reading(self, one: Streamed, some: Mapping[str, ByKind]) -> Callable[[str], VideoFeatures]:
        return lambda name: one.features(some[name])


def pass_through(
    passer: Passer,
    names: Sequence[str],
    scratch: Path,
    take: Callable[[str, ByKind], None],
    fail: Callable[[str, str], None],
) -> None:
    """Features of videos as they are made, on all cores; of their files, none is left."""
    shutil.rmtree(scratch, ignore_errors=True)
    make_folder(scratch, "a folder for features")
    try:
        extract(_Passing(passer, scratch, take, fail), list(names), workers=passer.workers)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@dataclass
class _Passing:
    """:class:`visil.collection.extraction_work.Work` that hands features on and deletes them."""

    passer: Passer
    scratch: Path
    take: Callable[[str, ByKind], None]
    tell: Callable[[str, str], None]
    numbers: Iterator[int] = field(default_factory=count)

    @property
    def method(self) -> Method:
        return self.passer.method

    def claim(self, name: str) -> Task:
        number = next(self.numbers)
        places = {kind: self.scratch / f"{number}-{kind}.safetensors" for kind in self.passer.kinds}
        return self.passer.task(
            name, {kind: FeatureWriter(place, place.stem) for kind, place in places.items()}
        )

    def embedded(self, frames: int) -> None:
        """Videos are counted, not frames."""

    def keep(self, task: Task, _: object) -> None:
        made: dict[str, VideoFeatures] = {}
        for kind, writer in task.writers.items():
            writer.place()
            features = features_in(writer.target)
            vectors, blank = features.vectors.clone(), features.blank
            made[kind] = VideoFeatures(
                vectors,
                features.timestamps.clone(),
                None,
                task.name,
                None if blank is None else blank.clone(),
            )
            writer.target.unlink()
        self.take(task.name, made)

    def fail(self, name: str, _: Task | None, error: VideoError) -> None:
        self.tell(name, error.reason)
