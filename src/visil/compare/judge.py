"""From the stretches of a pair to its answer: segments, confidence and verdict, all from the same evidence.

A pair is as sure as its surest stretch. Stretches from "related" on are shown, each with its own confidence; a pair
without one is unrelated, or unclear where nearly all frames of a video are blank. Files with the same bytes are copies
of each other, whatever they show.
"""

from __future__ import annotations

import filecmp
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import VideoError
from visil.kernels import Scorer
from visil.matching.calibration import Calibration, Verdict, verdict
from visil.matching.localize import Segment, strength
from visil.matching.match import Match, Matrices
from visil.matching.moves import STILL, Moves, moves
from visil.matching.stretches import Stretch, grown
from visil.model.comparator import SHORTEST
from visil.model.config import ViSiLConfig
from visil.model.features import VideoFeatures

FRAMES_COMPARED = 24
"""Frames of a stretch, evenly spaced, whose changes are compared."""

MOST_JUDGED = 12
"""Stretches of a pair that are judged, the strongest."""

LEAST_SHOWN = 0.25
"""Share of a video's frames that must show something, or a pair without a stretch says nothing."""

SAME_BYTES = "the same bytes"
"""The remark about files that are copies for certain."""

CERTAIN = 100.0
"""The evidence of that: more than any measured."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Two videos, and the evidence about them beside their stretches."""

    config: ViSiLConfig
    scorer: Scorer
    query: VideoFeatures
    target: VideoFeatures
    score: float
    """CS_v."""
    shown: float
    """CS_v without blank frames, less common footage: the number that evidence uses."""
    matrices: Callable[[], Matrices]

    @property
    def calibration(self) -> Calibration | None:
        """The model's."""
        return self.config.calibration

    def worth(self, strength: float, moved: Moves = STILL, likeness: float = 0.0) -> tuple[float, float]:
        """Evidence and confidence of a stretch of some strength that moves like that, its frames so much alike.

        Without a calibration the score stands for both.
        """
        if self.calibration is None:
            return self.score, min(max(self.score, 0.0), 1.0)
        known = (self.shown, strength, len(self.query) * len(self.target), moved, likeness)
        return self.calibration.evidence(*known), self.calibration.confidence(*known)

    def shows(self, confidence: float) -> bool:
        """Whether a stretch of that confidence is named; without calibration all are."""
        return self.calibration is None or confidence >= self.calibration.related

    def verdict(self, confidence: float) -> Verdict:
        """The confidence in one word."""
        return verdict(confidence) if self.calibration is None else self.calibration.verdict(confidence)


@dataclass(frozen=True)
class Judged:
    """A stretch in seconds, and how much it says."""

    segment: Segment
    evidence: float
    strength: float
    moves: Moves


def judged(pair: Pair, found: Sequence[Stretch]) -> list[Judged]:
    """Stretches, strongest first, with the worth of each."""
    return [_judged(pair, stretch, _strength(pair, stretch)) for stretch in found[:MOST_JUDGED]]


def _strength(pair: Pair, stretch: Stretch) -> float:
    """A stretch's own; a video of one to three frames that it holds whole counts as four, as for the comparator."""
    threshold = pair.config.localize.reading.threshold
    sides = ((len(pair.query), stretch.query), (len(pair.target), stretch.target))
    frames, (first, last) = min(sides, key=lambda side: side[0])
    if frames >= SHORTEST or last - first + 1 < frames:
        return stretch.strength(threshold)
    cells = max(SHORTEST, len(stretch.cells))
    return float(strength(np.array([stretch.score]), np.array([cells]), threshold)[0])


def _judged(pair: Pair, stretch: Stretch, strong: float) -> Judged:
    score, moved, worth = stretch.score, STILL, pair.worth(strong)
    if pair.calibration is None or strong >= pair.calibration.promising:
        cells = _shown(stretch, pair)
        rows, columns = cells[evenly(len(cells), FRAMES_COMPARED)].T
        score, moved = likeness(pair.scorer, pair.query.vectors[rows], pair.target.vectors[columns])
        worth = pair.worth(strong, moved, score)
    spans = grown(stretch, blank_of(pair.query), blank_of(pair.target))
    query, target = (
        (float(video.timestamps[first]), float(video.ends[last]))
        for video, (first, last) in zip((pair.query, pair.target), spans, strict=True)
    )
    segment = Segment(query, target, score, worth[1], stretch.reversed)
    return Judged(segment, worth[0], strong, moved)


def _shown(stretch: Stretch, pair: Pair) -> NDArray[np.int64]:
    """The cells of a stretch where both frames show something; all of them where hardly any does."""
    shown = np.ones(len(stretch.cells), bool)
    for blank, frames in zip((blank_of(pair.query), blank_of(pair.target)), stretch.cells.T, strict=True):
        if blank is not None:
            shown &= ~blank[frames]
    return stretch.cells[shown] if shown.sum() >= 2 else stretch.cells


def likeness(scorer: Scorer, query: Tensor, target: Tensor, apart: int = 1) -> tuple[float, Moves]:
    """How alike frames are with their counterparts, on average, and how far they change in step.

    ``apart``: frames to a second.
    """
    sides = ((query, target), (query, query), (target, target))
    across, own, other = (scorer.frames(a, [b]).float().cpu().numpy() for a, b in sides)
    return float(across.diagonal().mean()), moves(across, own, other, apart)


def evenly(count: int, most: int) -> NDArray[np.int64]:
    """At most so many places of a list, evenly spaced, the ends among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def answer(pair: Pair, found: Sequence[Judged]) -> Match:
    """The answer about a pair."""
    nothing = pair.worth(0.0)
    evidence = max((one.evidence for one in found), default=nothing[0])
    confidence = max((one.segment.confidence for one in found), default=nothing[1])
    word = pair.verdict(confidence) if found else "unrelated"
    note = too_little(query=pair.query, target=pair.target) if word == "unrelated" else ""
    shown = [
        replace(one.segment, score=bounded(one.segment.score))
        for one in found
        if pair.shows(one.segment.confidence)
    ]
    return Match(
        score=bounded(pair.score),
        confidence=confidence,
        verdict="unclear" if note else word,
        evidence=evidence,
        stretch=max((one.strength for one in found), default=0.0),
        segments=sorted(shown, key=lambda segment: (segment.query, segment.target)),
        calibrated=pair.calibration is not None,
        query_path=pair.query.path,
        target_path=pair.target.path,
        query_times=pair.query.timestamps.numpy(),
        target_times=pair.target.timestamps.numpy(),
        note=note,
        _matrices=pair.matrices,
    )


def bounded(score: float) -> float:
    """A score in [-1, 1]: vectors that were kept in half precision are a little shorter or longer than 1."""
    return min(max(score, -1.0), 1.0)


def same_files(query: VideoFeatures, target: VideoFeatures) -> bool:
    """Whether the files, or folders of images, that two videos come from have the same bytes.

    Compared from end to end where they are of one size; what cannot be read is the same as nothing.
    """
    from visil.video.images import list_images

    a, b = query.path, target.path
    if a is None or b is None:
        return False
    try:
        if os.path.samefile(a, b):
            return True
        if not (os.path.isdir(a) and os.path.isdir(b)):
            return os.path.isfile(a) and os.path.isfile(b) and filecmp.cmp(a, b, shallow=False)
        pairs = list(zip(list_images(a), list_images(b), strict=True))
        return all(filecmp.cmp(*pair, shallow=False) for pair in pairs)
    except (OSError, ValueError, VideoError):
        return False


def identical(match: Match, query: VideoFeatures, target: VideoFeatures) -> Match:
    """The answer about files with the same bytes: all of the one is all of the other."""
    whole = Segment((0.0, float(query.ends[-1])), (0.0, float(target.ends[-1])), 1.0)
    return replace(
        match,
        confidence=1.0,
        verdict="copy",
        evidence=CERTAIN,
        segments=[whole],
        note=SAME_BYTES,
    )


def too_little(**videos: VideoFeatures) -> str:
    """Why nothing can be said of some videos, by what they are called; nothing where they show enough."""
    said: list[str] = []
    for name, video in videos.items():
        blank = 0 if video.blank is None else int(video.blank.sum())
        if len(video) - blank < LEAST_SHOWN * len(video):
            verb = "" if said else " frames are nearly blank"
            said.append(f"{blank} of {len(video)}{verb} in the {name}")
    return f"too little to judge: {', '.join(said)}" if said else ""


def blank_of(video: VideoFeatures) -> NDArray[np.bool_] | None:
    """Which frames are blank, where that is known."""
    return None if video.blank is None else video.blank.numpy()
