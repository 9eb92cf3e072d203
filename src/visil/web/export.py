"""Duplicates as a file to take away: what was found, with what people said since."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visil.collection.catalogue import Video
from visil.collection.duplicates import Duplicates, Pair, group
from visil.collection.index import Index
from visil.errors import UsageError, VideoError
from visil.files import replacing
from visil.matching.localize import Segment
from visil.web.sandbox import Decoder, Image

if TYPE_CHECKING:
    from visil.report.footage import FramesAt


class OnceFailed:
    """Frames of videos for a report; a file that cannot be decoded is not tried for every picture of it."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self._reasons: dict[str, str] = {}

    def __call__(self, path: str, times: list[float], height: int) -> list[Image]:
        """As :func:`visil.video.frames_at`."""
        if path in self._reasons:
            raise VideoError(path, self._reasons[path])
        try:
            return self.decoder.frames_at(path, times, height)
        except VideoError as error:
            self._reasons[path] = error.reason
            raise


def export(index: Index, result: Path, file: Path, form: str, frames_at: FramesAt) -> None:
    """Write a kept result as csv, json or html. Pairs judged "different" are out, those judged "same" are linked.

    ``frames_at`` decodes the pictures of an HTML report.
    """
    kept = json.loads(result.read_text("utf-8"))
    found = as_judged(index, kept)
    if form == "csv":
        from visil.report.tables import write_csv

        write_csv(index, found, file)
    elif form == "html":
        from visil.report.html import write_report

        write_report(index, found, file, min_confidence=kept["min_confidence"], frames_at=frames_at)
    elif form == "json":
        with replacing(file) as fresh:
            fresh.write_text(json.dumps(found.to_dict()), "utf-8")
    else:
        raise UsageError(f"duplicates are exported as csv, json or html, not {form}")


def as_judged(index: Index, kept: dict[str, Any]) -> Duplicates:
    """Group the pairs of a kept result again, without comparing anything again."""
    said = index.catalogue.verdicts()
    videos = {video.number: video for video in index.catalogue.videos()}
    numbers = {video.id: video.number for video in videos.values()}
    pairs: dict[tuple[int, int], Pair] = {}
    for raw in [*(pair for one in kept["groups"] for pair in one["pairs"]), *kept["common"]]:
        a, b = raw["query"], raw["target"]
        if a == b or a not in numbers or b not in numbers or said.get(_key(a, b)) == "different":
            continue
        pairs[numbers[a], numbers[b]] = _pair(raw)
    same = {key for key, verdict in said.items() if verdict == "same"}
    return group(videos, pairs, same, _copies(index, videos))


def _pair(raw: dict[str, Any]) -> Pair:
    segments = [
        Segment(
            (s["query"][0], s["query"][1]),
            (s["target"][0], s["target"][1]),
            s["score"],
            s.get("confidence", raw["confidence"]),
            s.get("reversed", False),
        )
        for s in raw["segments"]
    ]
    return Pair(
        *(raw["query"], raw["target"], raw["score"], raw["confidence"], segments, raw["verdict"]),
        common=False,
    )


def _copies(index: Index, videos: dict[int, Video]) -> dict[str, list[str]]:
    """Files with the same bytes that are still there."""
    ids = {video.id for video in videos.values()}
    there = {
        video: [path for path, _ in files if os.path.lexists(path)]
        for video, files in index.catalogue.copies().items()
        if video in ids
    }
    return {video: paths for video, paths in there.items() if len(paths) > 1}


def _key(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a < b else (b, a)
