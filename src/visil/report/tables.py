"""Duplicates as a table: one row for every stretch that a pair shares."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator

from visil.collection.duplicates import Duplicates, Pair
from visil.collection.index import Index
from visil.files import replacing

COLUMNS = (
    *("group", "keep", "query", "target", "query_start", "query_end", "target_start", "target_end"),
    *("segment_score", "score", "confidence", "segment_confidence", "reversed"),
    *("query_action", "target_action"),
)


def write_csv(index: Index, found: Duplicates, path: str | os.PathLike[str]) -> None:
    """Every pair as CSV, videos by path, in the bytes that their names have on disk.

    Pairs that share only common footage have no group and none to keep; videos that stand in a group only because
    someone said so have a row with nothing measured. Files with the same bytes are a row each, whole and certain.
    ``keep`` is the file worth most, of several that may have to be kept: what to do with each file of a row stands in
    its last columns, as in the plan (:mod:`visil.collection.plan_file`).
    """
    with (
        replacing(path) as fresh,
        fresh.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file,
    ):
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        for number, group in enumerate(found.groups, 1):
            actions = {file.path: file.action for video in group.videos for file in group.plan(video)}
            paths = {video.id: group.paths(video)[0] for video in group.videos}
            keep = "" if group.keep is None else paths[group.keep]
            told = {video for pair in group.pairs for video in (pair.query, pair.target)}
            lines = [
                line for pair in group.pairs if pair.query != pair.target for line in _stretches(pair, paths)
            ]
            for video in group.videos:
                if video.id not in told and video.id != group.keep:
                    lines.append((keep, paths[video.id], *[""] * 9))
                first, *copies = group.paths(video)
                whole = (0.0, video.duration)
                lines += [(first, copy, *whole, *whole, 1.0, 1.0, 1.0, 1.0, False) for copy in copies]
            for line in lines:
                rows.writerow((number, keep, *line, *(actions.get(str(path), "") for path in line[:2])))
        for pair in found.common:
            both = (index.catalogue.video(video) for video in (pair.query, pair.target))
            paths = {video.id: video.path for video in both if video is not None}
            if len(paths) == 2:
                rows.writerows(("", "", *row, "", "") for row in _stretches(pair, paths))


def _stretches(pair: Pair, paths: dict[str, str]) -> Iterator[tuple[object, ...]]:
    for segment in pair.segments:
        times = (*segment.query, *segment.target)
        measured = segment.score, pair.score, pair.confidence, segment.confidence, segment.reversed
        yield paths[pair.query], paths[pair.target], *times, *measured
