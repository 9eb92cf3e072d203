"""Matches as files for other programs; the ending of a file's name says which kind."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from visil.errors import UsageError, printable
from visil.files import replacing
from visil.report.relations import Relation, by_query
from visil.report.timelines import edl, srt, timelines

COLUMNS = (
    *("query", "target", "verdict", "confidence", "score"),
    *("query_start", "query_end", "target_start", "target_end", "segment_score"),
)


def check_export(path: str | os.PathLike[str], queries: int = 1) -> None:
    """Find out before the work, not after it, that a file about so many queries cannot be written."""
    ending = Path(path).suffix.lower()
    if ending not in FORMATS:
        raise UsageError(f"{_shown(path)}: an export ends in {', '.join(FORMATS)}")
    if ending == ".otio" and importlib.util.find_spec("opentimelineio") is None:
        raise UsageError(
            f"{_shown(path)}: that needs OpenTimelineIO, not installed here: pip install 'visil[otio]'"
        )
    if queries > 1 and ending in (".edl", ".srt"):
        raise UsageError(
            f"{_shown(path)}: an {ending} file is about one query, not {queries}: use .otio, .csv or .jsonl"
        )
    if not Path(path).parent.is_dir():
        raise UsageError(f"{_shown(path)}: cannot be written: its folder does not exist")


def export(relations: Sequence[Relation], path: str | os.PathLike[str]) -> None:
    """Write relations: all of each as JSON Lines, its shared stretches in other formats."""
    check_export(path, len(by_query(relations)))
    text = FORMATS[Path(path).suffix.lower()](relations)
    with replacing(path) as fresh:
        fresh.write_bytes(text.encode("utf-8", "surrogateescape"))


def _json_lines(relations: Iterable[Relation]) -> str:
    return "".join(f"{json.dumps(relation.to_dict())}\n" for relation in relations)


def _csv(relations: Iterable[Relation]) -> str:
    """A row for every stretch; names in the bytes that they have on disk."""
    text = io.StringIO(newline="")
    rows = csv.writer(text)
    rows.writerow(COLUMNS)
    for one in relations:
        known = (one.query, one.target, one.verdict, one.confidence, one.score)
        rows.writerows((*known, *stretch.query, *stretch.target, stretch.score) for stretch in one.shared)
    return text.getvalue()


def _of_one_query(
    write: Callable[[Sequence[Relation]], Iterable[str]],
) -> Callable[[Sequence[Relation]], str]:
    """Lines that are one query's timeline; none where it shares nothing."""

    def text(relations: Sequence[Relation]) -> str:
        return "".join(f"{line}\n" for some in by_query(relations).values() for line in write(some))

    return text


def _shown(path: str | os.PathLike[str]) -> str:
    return printable(os.fspath(path))


FORMATS: dict[str, Callable[[Sequence[Relation]], str]] = {
    ".jsonl": _json_lines,
    ".csv": _csv,
    ".edl": _of_one_query(edl),
    ".otio": timelines,
    ".srt": _of_one_query(srt),
}
