"""Times as people write them, and how much of a video is shared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Stretch(Protocol):
    """The parts of a matching stretch that are drawn: :class:`visil.Segment` is one."""

    @property
    def query(self) -> tuple[float, float]:
        """Where it begins and ends in the query, seconds."""

    @property
    def target(self) -> tuple[float, float]:
        """And in the target."""

    @property
    def score(self) -> float:
        """How alike the two are."""


def clock(seconds: float, *, tenths: bool = False) -> str:
    """A time as on a player: 0:07, 12:30, 1:02:05; with ``tenths`` 0:07.5."""
    whole = round(seconds * 10 if tenths else seconds)
    whole, tenth = divmod(whole, 10) if tenths else (whole, 0)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
    return f"{text}.{tenth}" if tenths else text


def span(stretch: tuple[float, float], *, tenths: bool = False) -> str:
    """A stretch of time, 0:12–0:24."""
    return f"{clock(stretch[0], tenths=tenths)}–{clock(stretch[1], tenths=tenths)}"


def duration(seconds: float) -> str:
    """A length of time in words: 0.5 s, 24 s, 3 min 20 s, 1 h 5 min."""
    if seconds < 10 and abs(seconds - round(seconds)) >= 0.05:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(whole / 60), 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def shared_seconds(segments: Iterable[Stretch]) -> float:
    """How much of the query is found in the target, counting no moment twice."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(segment.query for segment in segments):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
