"""Output of commands: a JSON document, or results in words."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from visil.cli.verbosity import is_quiet
from visil.errors import printable

if TYPE_CHECKING:
    from visil.matching.calibration import Verdict
    from visil.matching.localize import Segment
    from visil.report.relations import Relation

SOME_FAILED = 3
"""Exit status of a command that did only a part of its work."""

MOST_FAILURES = 10
"""Files that could not be read which are named one by one."""


def say(line: str) -> None:
    """A report of work done, which is no answer."""
    if not is_quiet():
        typer.echo(line)


def note(line: str) -> None:
    """A line beside the answer, on standard error."""
    if not is_quiet():
        typer.echo(line, err=True)


def counted(count: int, thing: str) -> str:
    """As in "1 file", "2 files"."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def print_json(document: Any, *, indent: int | None = None) -> None:
    """The one JSON document that a command with ``--json`` writes to standard output."""
    json.dump(document, sys.stdout, indent=indent)
    sys.stdout.write("\n")


def check_exports(files: Sequence[Path] | None, queries: int = 1) -> None:
    """Find out before the work that results of so many queries cannot be written to one of ``files``."""
    if files:
        from visil.report.exports import check_export

        for file in files:
            check_export(file, queries)


def write_exports(relations: Sequence[Relation], files: Sequence[Path] | None) -> None:
    """Write the results, once into each of ``files``."""
    if files:
        from visil.report.exports import export

        for file in files:
            export(relations, file)


def say_written(files: Iterable[Path | None]) -> None:
    """Which files are there now."""
    for file in files:
        if file is not None:
            say(f"written: {file}")


def failures_as_json(failed: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Files that could not be read, as every JSON document lists them."""
    return [{"path": path, "reason": reason} for path, reason in failed]


def print_left_out(failed: Sequence[tuple[str, str]]) -> None:
    """Name on standard error the files that were left out."""
    for path, reason in failed:
        typer.echo(f"left out: {printable(path)}: {reason}", err=True)


def moment(seconds: float) -> str:
    """A time in a video, with tenths of a second where there are some: 0:12, 1:15.5, 1:02:05."""
    from visil.plots.times import clock

    return clock(seconds, tenths=round(seconds * 10) % 10 != 0)


def stretch(span: tuple[float, float]) -> str:
    """A stretch of a video: 0:12 – 0:24.5."""
    return f"{moment(span[0])} – {moment(span[1])}"


def relation(verdict: Verdict, segments: Sequence[Segment], note: str = "") -> str:
    """A verdict as a sentence: how much is shared, and from where; or why nothing can be told."""
    from visil.plots.times import shared_seconds

    if verdict == "unclear":
        return note
    if verdict == "unrelated" or not segments:
        return f"{verdict}: no shared footage found"
    first = segments[0]
    more = f", in {len(segments)} stretches" if len(segments) > 1 else ""
    where = f"from {moment(first.query[0])} in the query and {moment(first.target[0])} in the target"
    way = ", backwards" if all(segment.reversed for segment in segments) else ""
    told = f"{note}, " if note else ""
    return f"{verdict}: {told}{shared_seconds(segments):.0f} s shared{more}{way}, {where}"
