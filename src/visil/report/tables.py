"""Duplicates as a table: one row for every stretch that a pair shares."""

from __future__ import annotations

import csv
import os

from visil.files import replacing
from visil.index.duplicates import Duplicates

COLUMNS = (
    *("group", "keep", "query", "target", "query_start", "query_end", "target_start", "target_end"),
    *("segment_score", "score", "confidence"),
)


def write_csv(found: Duplicates, path: str | os.PathLike[str]) -> None:
    """Groups as CSV; videos by path."""
    with (
        replacing(path) as fresh,
        fresh.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file,
    ):
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        for number, group in enumerate(found.groups, 1):
            paths = {video.id: video.path for video in group.videos}
            for pair in group.pairs:
                for segment in pair.segments:
                    rows.writerow(
                        (
                            *(number, paths[group.keep], paths[pair.query], paths[pair.target]),
                            *(*segment.query, *segment.target),
                            *(segment.score, pair.score, pair.confidence),
                        )
                    )
