"""Times and verdicts in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visil.matching.calibration import Verdict
    from visil.matching.localize import Segment


def clock(seconds: float) -> str:
    """12 → 0:12, 75.5 → 1:15.5, 3725 → 1:02:05."""
    tenths = round(seconds * 10)
    whole, tenth = divmod(tenths, 10)
    hours, rest = divmod(whole, 3600)
    minutes, second = divmod(rest, 60)
    text = f"{hours}:{minutes:02}:{second:02}" if hours else f"{minutes}:{second:02}"
    return f"{text}.{tenth}" if tenth else text


def relation(verdict: Verdict, segments: Sequence[Segment]) -> str:
    """A verdict as a sentence: what is shared, and from where."""
    if verdict == "unrelated":
        return "unrelated: no shared footage found"
    if not segments:
        return f"{verdict}: alike, but no stretch stands out"
    shared = covered([s.query for s in segments])
    first = segments[0]
    more = f", in {len(segments)} stretches" if len(segments) > 1 else ""
    where = f"from {clock(first.query[0])} in the query and {clock(first.target[0])} in the target"
    return f"{verdict}: {shared:.0f} s shared{more}, {where}"


def covered(spans: Sequence[tuple[float, float]]) -> float:
    """Seconds covered by spans that may overlap."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
