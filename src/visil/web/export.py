"""Duplicates as people have judged and decided since they were found; the same for the page and for every export."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from visil.collection.catalogue import Video
from visil.collection.decided import Decisions, decided, must_stay
from visil.collection.duplicates import Duplicates, Group, Pair, group
from visil.collection.index import Index
from visil.collection.parts import AnyCatalogue
from visil.collection.presence import HeldFile, held_files
from visil.errors import VideoError
from visil.files import natural_order
from visil.footage.proof import Proof
from visil.matching.localize import Segment
from visil.web.sandbox import Image

if TYPE_CHECKING:
    from visil.report.footage import FramesAt

How = TypeVar("How")


class OnceFailed(Generic[How]):
    """Frames of videos at some times; a file that cannot be decoded is not tried again."""

    def __init__(self, decode: Callable[[str, Sequence[float], How], list[Image]]) -> None:
        self._decode = decode
        self._reasons: dict[str, str] = {}

    def __call__(self, path: str | os.PathLike[str], times: Sequence[float], how: How) -> list[Image]:
        """As the function that decodes."""
        name = os.fspath(path)
        if name in self._reasons:
            raise VideoError(name, self._reasons[name])
        try:
            return self._decode(name, times, how)
        except VideoError as error:
            self._reasons[name] = error.reason
            raise


def export_html(index: Index, result: Path, file: Path, decisions: Decisions, frames_at: FramesAt) -> None:
    """Write a kept result as a report to look at; ``frames_at`` decodes its pictures."""
    from visil.report.html import write_report

    kept = json.loads(result.read_text("utf-8"))
    found = as_judged(index.catalogue, kept).decided(decisions)
    write_report(index, found, file, min_confidence=kept["min_confidence"], frames_at=frames_at)


@dataclass(frozen=True)
class Judged:
    """The duplicates found, as people have judged pairs and files are now."""

    found: Duplicates
    files: Callable[[str], list[HeldFile]]
    """Of a video, by id."""

    def bound(self, group: Group) -> dict[str, str]:
        """{path: why} of the files of a group that must stay."""
        return {path: why for video in group.videos for path, why in must_stay(self.files(video.id)).items()}

    def decided(self, decisions: Decisions) -> Duplicates:
        """The same with people's decisions about files."""
        if not decisions:
            return self.found
        groups = [decided(group, decisions, self.bound(group)) for group in self.found.groups]
        return replace(self.found, groups=groups)


def as_judged(catalogue: AnyCatalogue, kept: dict[str, Any]) -> Judged:
    """Group the pairs of a kept result again, as people have judged and files are now; nothing is compared again."""
    said = catalogue.verdicts()
    videos = {video.number: video for video in catalogue.videos()}
    numbers = {video.id: video.number for video in videos.values()}
    pairs: dict[tuple[int, int], Pair] = {}
    for raw in pairs_in(kept):
        a, b = raw["query"], raw["target"]
        if a == b or a not in numbers or b not in numbers or said.get(key(a, b)) == "different":
            continue
        pairs[numbers[a], numbers[b]] = _pair(raw)
    same = {both for both, verdict in said.items() if verdict == "same"}
    files = cache(partial(held_files, catalogue))
    return Judged(group(videos, pairs, same, _copies(catalogue, videos), files), files)


def pairs_in(kept: dict[str, Any]) -> list[dict[str, Any]]:
    """All pairs of a kept result."""
    return [*(pair for one in kept["groups"] for pair in one["pairs"]), *kept["common"]]


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
        proof=Proof.from_dict(raw["proof"], "query", "target") if raw.get("proof") else None,
    )


def _copies(catalogue: AnyCatalogue, videos: dict[int, Video]) -> dict[str, list[str]]:
    """Files with the same bytes that are still there."""
    ids = {video.id for video in videos.values()}
    there = {
        video: sorted((path for path, _ in files if os.path.lexists(path)), key=natural_order)
        for video, files in catalogue.copies().items()
        if video in ids
    }
    return {video: paths for video, paths in there.items() if len(paths) > 1}


def key(a: str, b: str) -> tuple[str, str]:
    """How verdicts name a pair."""
    return (a, b) if a < b else (b, a)
