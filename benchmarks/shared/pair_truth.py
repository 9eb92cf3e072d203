"""What two videos share, in seconds, and how an answer compares with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from visil.matching.localize import Segment

Span = tuple[float, float]

TOLERANCE = 0.5
"""Seconds that an end may be off."""
BESIDE = 1.0
"""Seconds that a found stretch may lie beside a true one and still be of it, only inexact."""


@dataclass(frozen=True)
class TrueStretch:
    """Seconds that two videos share."""

    query: Span
    target: Span
    reversed: bool = False


def true_stretches(case: Mapping[str, Any]) -> list[TrueStretch]:
    """Those of a case in truth.json."""
    return [TrueStretch(tuple(s["query"]), tuple(s["target"]), s["reversed"]) for s in case["stretches"]]


def judged(case: Mapping[str, Any], verdict: str, segments: Sequence[Segment]) -> dict[str, Any]:
    """One answer against the truth."""
    truth = true_stretches(case)
    left = list(segments)
    exact = 0
    for stretch in truth:
        hit = next((s for s in left if agrees(s, stretch)), None)
        if hit is not None:
            left.remove(hit)
            exact += 1
    off = [
        abs(union([getattr(s, side) for s in segments]) - union([getattr(s, side) for s in truth]))
        for side in ("query", "target")
    ]
    return {
        "verdict": verdict,
        "right": verdict in case["verdicts"],
        "stretches": len(truth),
        "exact": exact,
        "not there": sum(not any(lies_on(s, stretch) for stretch in truth) for s in segments),
        "too many": max(0, len(segments) - len(truth)),
        "shared seconds off": round(max(off), 2),
    }


def agrees(found: Segment, true: TrueStretch) -> bool:
    """Whether all four ends are within half a second, and the direction is right."""
    spans = zip((*found.query, *found.target), (*true.query, *true.target), strict=True)
    same_way = getattr(found, "reversed", False) == true.reversed
    return same_way and all(abs(a - b) <= TOLERANCE + 1e-6 for a, b in spans)


def lies_on(found: Segment, true: TrueStretch) -> bool:
    """Whether half of what was found, or more, is of a true stretch: both its ends near that line, inside it."""
    shared = min(found.query[1], true.query[1]) - max(found.query[0], true.query[0])
    if shared < 0.5 * (found.query[1] - found.query[0]):
        return False
    middle = (max(found.query[0], true.query[0]) + min(found.query[1], true.query[1])) / 2
    return abs(_there(found, middle) - _there(true, middle)) <= BESIDE


def _there(stretch: Segment | TrueStretch, time: float) -> float:
    """The target's moment for one of the query."""
    (a, b), (c, d) = stretch.query, stretch.target
    share = (time - a) / max(b - a, 1e-6)
    return d - share * (d - c) if getattr(stretch, "reversed", False) else c + share * (d - c)


def union(spans: Sequence[tuple[float, float]]) -> float:
    """Seconds that spans cover together."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
