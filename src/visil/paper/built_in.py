"""The built-in benchmark: any folder of videos, and edited copies of them to find, so that every table can be made.

- **Learning and evaluation.** About two fifths of the clips are only learned from (whitening, codebooks, learned
  systems), whole top-level folders where there are enough; the rest are the database.
- **Queries.** Of each clip of the database, or of some where there are many, three copies: a stretch of at most 64
  frames under *mild* edits; under the *paper's* (one of colour, one of geometry, one of time, Sec. 4.5); and under
  *heavy* ones, half of them changed in time too. A quarter of the paper-like ones and half of the heavy ones are
  *strung*: between clips that are only learned from, which make up half to three quarters of the copy. Frames are
  taken half a sampling step after those of the original, as no two people sample alike.
- **Truth.** DSVR: the clip that a copy was made from. CSVR: also the other clips of its lowest folder. ISVR: also the
  clips of its top-level folder, where folders have two levels. Only where the layout has them: clips that lie in no
  folder show no scene in common.

Each query's AP is that of FIVR (:func:`visil.evaluation.metrics.average_precision`); all is drawn from one seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

import numpy as np

from visil.edits import temporal
from visil.errors import UsageError
from visil.evaluation.benchmark import Figures, RankedTargets, taking_part
from visil.evaluation.metrics import mean
from visil.evaluation.predictions import AnyScores, Segments
from visil.training.snippets import ForeignClips, Frame

Edit = Literal["mild", "paper", "heavy"]

TASKS = ("DSVR", "CSVR", "ISVR")
EDITS: tuple[Edit, ...] = ("mild", "paper", "heavy")
STRUNG = "strung"
GROUPS: dict[Edit, str] = {"mild": "mild", "paper": "paper-like", "heavy": "heavy"}
"""The names of the figures of each edit."""

KEPT: dict[Edit, tuple[float, float]] = {"mild": (0.7, 1.0), "paper": (0.6, 1.0), "heavy": (0.5, 0.9)}
"""Share of the clip that a copy shows."""
IN_TIME: dict[Edit, float] = {"mild": 0.0, "paper": 1.0, "heavy": 0.5}
"""How often a copy is changed in time."""
IN_STRINGS: dict[Edit, float] = {"mild": 0.0, "paper": 0.25, "heavy": 0.5}
"""How often it lies between foreign clips."""
STRING_LENGTHS = (2.0, 4.0)
"""How many times as long as the copy such a string is."""

LONGEST = 64
"""Frames of a clip that a copy shows, at most."""
SHORTEST = 4
LEARNED = 0.4
"""Share of the clips that is learned from."""
SOURCES = 60
"""Clips that copies are made of, at most; the others of the database are there to distract."""
FEWEST = 6
"""Clips that the benchmark needs."""


@dataclass(frozen=True)
class Copy:
    """A query: which frames it shows, and how its pictures are changed."""

    name: str
    source: int
    """Number of the clip that it was made from."""
    edit: Edit
    frames: tuple[Frame, ...]
    """(clip, sample) of each frame, in order."""
    seed: int
    in_time: str | None
    """The temporal transform, by its name in :mod:`visil.edits.temporal`."""
    strung: bool


@dataclass(frozen=True)
class BuiltIn:
    """The benchmark: queries, a database, and the videos to be found for each query in each task."""

    queries: tuple[str, ...]
    database: frozenset[str]
    truth: Mapping[str, Mapping[str, frozenset[str]]]
    """{task: {query: ids}}; tasks that the layout does not have are not there."""
    groups: Mapping[str, frozenset[str]]
    """Queries by edit, and the strung ones: DSVR is given for each group by itself, too."""

    name = "built-in"
    measures = frozenset({"scores"})

    def candidates(self, query: str) -> frozenset[str]:  # noqa: ARG002
        """All of the database: queries are not in it."""
        return self.database

    def evaluate(
        self,
        scores: AnyScores,
        available: Set[str] | None = None,
        *,
        segments: Segments | None = None,  # noqa: ARG002
    ) -> Figures:
        """{"DSVR": mAP, …, "edits": {"mild": mAP of DSVR, …}} and what took part."""
        part = taking_part(self, scores, available)
        found: dict[str, dict[str, float]] = {}
        for task, truth in self.truth.items():
            found[task] = {
                query: RankedTargets(part.scores[query], part.database).precision(relevant)
                for query in part.queries
                if (relevant := truth[query] & part.database)
            }
        figures: Figures = {task: mean(list(values.values())) for task, values in found.items()}
        figures["edits"] = {
            group: mean(own)
            for group, members in self.groups.items()
            if (own := [value for query, value in found["DSVR"].items() if query in members])
        }
        return figures | part.counts


@dataclass(frozen=True)
class Plan:
    """Which clips are learned from, which are evaluated, and the copies; clips by their number."""

    names: tuple[str, ...]
    learning: tuple[int, ...]
    evaluated: tuple[int, ...]
    copies: tuple[Copy, ...]
    benchmark: BuiltIn


def plan(
    names: Sequence[str], lengths: Sequence[int], *, seed: int = 0, flat: bool = False, sources: int = SOURCES
) -> Plan:
    """Lay out the benchmark for clips called by their path below the folder, with so many samples each.

    ``flat``: folders mean nothing; there is only DSVR.
    """
    if len(names) < FEWEST:
        raise UsageError(
            f"the built-in benchmark needs at least {FEWEST} readable videos, found {len(names)}"
        )
    learning = split(names, seed)
    evaluated = [clip for clip in range(len(names)) if clip not in learning]
    rng = np.random.default_rng([seed, 0])
    chosen = evaluated
    if len(evaluated) > sources:
        chosen = sorted(rng.choice(evaluated, sources, replace=False).tolist())
    foreign_clips = ForeignClips(lengths)
    copies = [
        _copy(
            names[clip], clip, lengths[clip], edit, foreign_clips, frozenset(evaluated), [seed, clip, number]
        )
        for clip in chosen
        for number, edit in enumerate(EDITS, 1)
    ]
    return Plan(
        tuple(names),
        tuple(sorted(learning)),
        tuple(evaluated),
        tuple(copies),
        _truth(names, evaluated, copies, flat),
    )


def split(names: Sequence[str], seed: int, share: float = LEARNED) -> set[int]:
    """Clips to learn from: whole top-level folders that together are near the share, else clips drawn one by one."""
    rng = np.random.default_rng([seed, 1])
    tops: dict[str, list[int]] = {}
    for clip, name in enumerate(names):
        folders = _folders(name)
        tops.setdefault(folders[0] if folders else f"/{clip}", []).append(clip)
    wanted = share * len(names)
    learning: set[int] = set()
    keys = sorted(tops)
    for place in rng.permutation(len(keys)).tolist():
        group = tops[keys[place]]
        if len(learning) < wanted and len(learning) + len(group) <= 1.25 * wanted:
            learning.update(group)
    if len(learning) < 0.5 * wanted:
        learning = set(rng.permutation(len(names))[: round(wanted)].tolist())
    return learning


def _copy(
    name: str,
    clip: int,
    length: int,
    edit: Edit,
    foreign_clips: ForeignClips,
    evaluated: frozenset[int],
    seed: list[int],
) -> Copy:
    rng = np.random.default_rng(seed)
    share = rng.uniform(*KEPT[edit])
    size = min(max(round(share * length), min(SHORTEST, length)), LONGEST)
    start = int(rng.integers(length - size + 1))
    in_time, positions = None, list(range(size))
    if rng.random() < IN_TIME[edit]:
        in_time, positions = temporal.draw(size, rng)
    foreign = iter(foreign_clips.run(positions.count(temporal.FOREIGN), evaluated, rng))
    frames = [next(foreign) if p == temporal.FOREIGN else (clip, start + p) for p in positions]
    strung = bool(rng.random() < IN_STRINGS[edit])
    if strung:
        total = round(len(frames) * float(rng.uniform(*STRING_LENGTHS)))
        frames = foreign_clips.around(frames, total, evaluated, rng)
    picture_seed = int(rng.integers(2**31))
    return Copy(f"{name}#{edit}", clip, edit, tuple(frames), picture_seed, in_time, strung)


def _truth(names: Sequence[str], evaluated: Sequence[int], copies: Sequence[Copy], flat: bool) -> BuiltIn:
    truth: dict[str, dict[str, frozenset[str]]] = {task: {} for task in TASKS}
    for copy in copies:
        own = _folders(names[copy.source])
        scene = [c for c in evaluated if own and _folders(names[c]) == own]
        incident = [c for c in evaluated if len(own) > 1 and _folders(names[c])[:1] == own[:1]]
        relevant = {copy.source}
        for task, more in zip(TASKS, ([], scene, incident), strict=True):
            relevant = relevant.union(more)
            truth[task][copy.name] = frozenset(names[c] for c in relevant)
    kept = ["DSVR"]
    for task, narrower in zip(TASKS[1:], TASKS, strict=False):
        if not flat and truth[task] != truth[narrower]:
            kept.append(task)
    groups: dict[str, frozenset[str]] = {
        GROUPS[edit]: frozenset(c.name for c in copies if c.edit == edit) for edit in EDITS
    }
    return BuiltIn(
        tuple(copy.name for copy in copies),
        frozenset(names[clip] for clip in evaluated),
        {task: truth[task] for task in kept},
        {**groups, STRUNG: frozenset(copy.name for copy in copies if copy.strung)},
    )


def _folders(name: str) -> tuple[str, ...]:
    return PurePosixPath(name).parts[:-1]
