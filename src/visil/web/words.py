"""Results in words: what two videos share, and how that was found out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visil.matching.localize import Segment
from visil.plots.times import clock, duration, shared_seconds
from visil.report.pair import percent

if TYPE_CHECKING:
    from visil.matching.calibration import Verdict
    from visil.matching.match import Match
    from visil.model.config import ViSiLConfig


def in_words(verdict: Verdict, segments: Sequence[Segment]) -> str:
    """As in "shares 12 s, from 0:33": how much of the query is in the target, and where the longest stretch begins."""
    if not segments:
        return "no shared footage found" if verdict == "unrelated" else "alike, but no stretch stands out"
    parts = f" in {len(segments)} stretches" if len(segments) > 1 else ""
    doubt = "perhaps " if verdict == "unrelated" else ""
    longest = max(segments, key=lambda segment: (segment.query[1] - segment.query[0], segment.score))
    shared = duration(shared_seconds(list(segments)))
    return f"{doubt}shares {shared}{parts}, from {clock(longest.target[0])}"


def how_it_came_about(config: ViSiLConfig, match: Match, common: NDArray[np.float32] | None) -> list[str]:
    """The steps from two videos to score, confidence and verdict, a sentence each."""
    rows, columns = len(match.query_times), len(match.target_times)
    rate = "one a second" if config.sampling.fps == 1 else f"{config.sampling.fps:g} a second"
    said = [
        f"{_frames(rows)} of the query and {_frames(columns)} of the target were looked at, {rate}, "
        "each cut into regions.",
        f"Every frame of the one was held against every frame of the other: {rows * columns:,} similarities, "
        "the frame-to-frame matrix.",
    ]
    if config.comparator is not None:
        said.append(
            "A network read that matrix and kept what looks like footage that runs on in both: its output."
        )
    best = "each frame's best match in the other video counts, in both directions; the score is their mean"
    one_way = "each frame of the query counts with its best match in the target; the score is their mean"
    said.append(f"Score {match.score:.2f}: {best if config.symmetric else one_way}.")
    if common is not None and float(common.max(initial=0.0)) > 0.005:
        said.append(
            "Some frames look like much of this collection. They say less about where footage comes from, so up to "
            f"{float(common.max()):.2f} was taken off their similarities before stretches were looked for."
        )
    if match.segments:
        count = len(match.segments)
        stretches = "1 stretch runs" if count == 1 else f"{count} stretches run"
        shared = in_words(match.verdict, match.segments)
        said.append(f"{stretches} on alike in both: the query {shared} in the target.")
    else:
        said.append("No stretch runs on alike in both.")
    if match.calibrated:
        said.append(
            f"Confidence {percent(match.confidence)}: of pairs that look like this one, so many share footage. "
            f"That makes the verdict “{match.verdict}”."
        )
    else:
        said.append("The confidence is only the score: it was not calibrated for this model.")
    return said


def _frames(count: int) -> str:
    return "1 frame" if count == 1 else f"{count:,} frames"
