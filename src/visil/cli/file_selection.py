"""Options that say which files are taken, for every command that adds some."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from visil.errors import UsageError

if TYPE_CHECKING:
    from visil.collection.selection import Selection

Include = Annotated[
    list[str] | None,
    typer.Option(
        "--include",
        metavar="PATTERN",
        help="Take only files that a pattern names, as in .gitignore files; may be repeated.",
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        metavar="PATTERN",
        help="Take no files that a pattern names, as in .gitignore files, and enter no such folder; may be repeated.",
    ),
]
MinSize = Annotated[
    str | None,
    typer.Option("--min-size", metavar="SIZE", help="Take no smaller files: 500000, 500kB, 10MB, 2GB."),
]
MinDuration = Annotated[
    str | None,
    typer.Option("--min-duration", metavar="TIME", help="Take no shorter videos: 10, 10s, 1:30, 5m, 1h30m."),
]
MaxDuration = Annotated[
    str | None, typer.Option("--max-duration", metavar="TIME", help="Take no longer videos.")
]
FollowLinks = Annotated[
    bool, typer.Option("--follow-links", help="Follow links that lead out of the folders named, too.")
]

SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT]?i?)B?", re.IGNORECASE)
POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")
SPOKEN = re.compile(r"(?:(\d+(?:\.\d+)?)h)?\s*(?:(\d+(?:\.\d+)?)m)?\s*(?:(\d+(?:\.\d+)?)s?)?", re.IGNORECASE)


def selection_of(
    include: Sequence[str] | None,
    exclude: Sequence[str] | None,
    min_size: str | None,
    min_duration: str | None,
    max_duration: str | None,
    follow_links: bool,
) -> Selection:
    """The selection that the options make together."""
    from visil.collection.selection import Selection

    limits = {}
    if max_duration is not None:
        limits["max_duration"] = seconds_of("--max-duration", max_duration)
    return Selection(
        tuple(include or ()),
        tuple(exclude or ()),
        0 if min_size is None else size_of("--min-size", min_size),
        0.0 if min_duration is None else seconds_of("--min-duration", min_duration),
        follow_links=follow_links,
        **limits,
    )


def size_of(option: str, text: str) -> int:
    """A number of bytes as people write it: 500000, 500kB, 10MB, 4GiB."""
    found = SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{option} must be a size such as 500kB, 10MB or 2GB, not {text!r}")
    unit = found[2].lower()
    return round(float(found[1]) * (1024 if unit.endswith("i") else 1000) ** POWERS[unit.removesuffix("i")])


def seconds_of(option: str, text: str) -> float:
    """A length of time as people write it: 90, 90s, 1:30, 1:02:05, 5m, 1h30m."""
    found = CLOCK.fullmatch(text.strip()) or SPOKEN.fullmatch(text.strip())
    if found is None or not any(found.groups()):
        raise UsageError(f"{option} must be a time such as 10s, 1:30, 5m or 1h30m, not {text!r}")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


def passed_over_line(passed_over: Sequence[tuple[str, str]]) -> str:
    """How many files were passed over, by reason, the most frequent first."""
    counts = Counter(reason for _, reason in passed_over)
    reasons = ", ".join(f"{count} {reason}" for reason, count in counts.most_common())
    return f"{len(passed_over)} passed over: {reasons}"
