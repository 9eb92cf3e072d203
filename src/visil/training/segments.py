"""Annotated segment pairs: which stretch of one video shows the footage of which stretch of another.

Four ways to write them down are read: a CSV of one's own, VCDB's text files, the ``label_file.json`` of TransVCL (VCDB,
VCSL), and ActivityNet's ``activity_net.v1-3.min.json``, whose stretches show the same action.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, Generic, TypeVar

from visil.errors import FileError, UsageError, os_reason
from visil.video import VIDEO_SUFFIXES

MIN_OVERLAP = 5.0
"""Seconds that two videos must share to be a positive pair (Sec. 4.5)."""

COLUMNS = ("query", "query_start", "query_end", "target", "target_start", "target_end")
"""Header of a CSV of segment pairs; times in seconds or as [hh:]mm:ss."""

AnyPath = str | os.PathLike[str]
Span = tuple[float, float]

PARTNERS = 5
"""Stretches of the same action that each stretch is paired with: all pairs would be hundreds of thousands."""

Video = TypeVar("Video", str, int)
_Stretch = tuple[str | None, object, object]

_CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class SegmentPair(Generic[Video]):
    """Two stretches, in seconds, that show the same footage; videos by name or by number."""

    query: Video
    query_span: Span
    target: Video
    target_span: Span

    @property
    def overlap(self) -> float:
        """Seconds that the two share: the length of the shorter stretch."""
        return min(self.query_span[1] - self.query_span[0], self.target_span[1] - self.target_span[0])


def positives(
    pairs: Iterable[SegmentPair[Video]], min_overlap: float = MIN_OVERLAP
) -> list[SegmentPair[Video]]:
    """The pairs that can be an anchor and its positive: two different videos that share enough."""
    return [pair for pair in pairs if pair.query != pair.target and pair.overlap >= min_overlap]


def within(
    pair: SegmentPair[Video], query_duration: float, target_duration: float
) -> SegmentPair[Video] | None:
    """The pair cut to what two videos of these lengths have of it, on both sides alike; None where that is nothing."""
    sides = ((pair.query_span, query_duration), (pair.target_span, target_duration))
    share = min((duration - start) / (end - start) for (start, end), duration in sides)
    if share >= 1:
        return pair
    if share <= 0:
        return None
    (q_start, q_end), (t_start, t_end) = pair.query_span, pair.target_span
    return replace(
        pair,
        query_span=(q_start, q_start + share * (q_end - q_start)),
        target_span=(t_start, t_start + share * (t_end - t_start)),
    )


def located(
    pairs: Iterable[SegmentPair[str]], names: Sequence[str], copies: Iterable[tuple[str, str]] = ()
) -> tuple[list[SegmentPair[int]], list[str]]:
    """The pairs with each video's number in ``names``, and the names that are not there.

    A name stands for the path it ends: ``b.mp4`` or ``a/b.mp4`` for ``/videos/a/b.mp4``; without a suffix, ``b`` too,
    and where no file is called ``b.flv``, that as well, since videos are often converted after they were annotated.
    ``copies`` are further paths, each with the one in ``names`` that holds the same. A pair with a video that is not
    there is left out; a name that several videos' paths end with is an error.
    """
    known = {name: number for number, name in enumerate(names)}
    known |= {copy: known[name] for copy, name in copies if name in known}
    numbers: dict[str, set[int]] = {}
    for name, number in known.items():
        for ending in _endings(name):
            numbers.setdefault(ending, set()).add(number)
    missing: dict[str, None] = {}

    def number_of(name: str) -> int | None:
        found: set[int] = next((numbers[one] for one in _spellings(name) if one in numbers), set())
        if len(found) > 1:
            first, second = sorted(found)[:2]
            raise UsageError(f"{name!r} could be {names[first]} or {names[second]}: name more of the path")
        if not found:
            missing[name] = None
        return next(iter(found), None)

    kept = []
    for pair in pairs:
        query, target = number_of(pair.query), number_of(pair.target)
        if query is not None and target is not None:
            kept.append(SegmentPair(query, pair.query_span, target, pair.target_span))
    return kept, list(missing)


def _spellings(name: str) -> Iterator[str]:
    """A name as it is written, with plain slashes, and without the suffix of a video."""
    path = PurePath(name)
    yield name
    yield "/".join(path.parts)
    if path.suffix.lower() in VIDEO_SUFFIXES:
        yield "/".join(path.with_suffix("").parts)


def _endings(name: str) -> Iterator[str]:
    path = PurePath(name)
    yield name
    for parts in (path.parts, path.with_suffix("").parts if path.suffix else path.parts):
        for start in range(len(parts)):
            yield "/".join(parts[start:])
    if path.stem.startswith("v_"):  # files of ActivityNet are called so
        yield path.stem.removeprefix("v_")


# ---------------------------------------------------------------------- reading


def read_segments(path: AnyPath) -> list[SegmentPair[str]]:
    """Segment pairs by the name of the file: ``.csv``, ``.json`` (TransVCL, ActivityNet), ``.txt`` or a folder of
    those (VCDB).
    """
    file = Path(path)
    if file.is_dir() or file.suffix.lower() == ".txt":
        return read_vcdb(file)
    match file.suffix.lower():
        case ".csv":
            return read_csv(file)
        case ".json":
            return read_json(file)
    raise FileError(path, "segment pairs are read from .csv, .json or .txt, or a folder of .txt")


def read_segments_of(path: AnyPath, videos: Iterable[AnyPath]) -> list[SegmentPair[str]]:
    """The pairs of a file that is to be about these videos; said to be of others before any of them is decoded."""
    pairs = read_segments(path)
    known = {ending for video in videos for ending in _endings(os.fspath(video))}
    for pair in pairs:
        if all(any(one in known for one in _spellings(name)) for name in (pair.query, pair.target)):
            return pairs
    such = f": it names {pairs[0].query} and {pairs[0].target}" if pairs else ""
    raise FileError(path, f"has no pair of the videos to learn from{such}")


def read_csv(path: AnyPath) -> list[SegmentPair[str]]:
    """One's own pairs: a header with :data:`COLUMNS`, in any order, among others; then one pair a line."""
    rows = csv.DictReader(io.StringIO(_text(path), newline=""), skipinitialspace=True)
    missing = [column for column in COLUMNS if column not in (rows.fieldnames or ())]
    if missing:
        raise FileError(
            path, f"line 1: has no column {missing[0]!r}; the header must name {','.join(COLUMNS)}"
        )
    pairs = []
    try:
        for row in rows:
            query, target = ((row[v], row[f"{v}_start"], row[f"{v}_end"]) for v in ("query", "target"))
            pairs.append(_pair(path, f"line {rows.line_num}", query, target))
    except csv.Error as error:
        raise FileError(path, f"line {rows.line_num}: {error}") from error
    return pairs


def read_vcdb(path: AnyPath) -> list[SegmentPair[str]]:
    """VCDB's own annotation, a file or the folder of them: ``a.flv,b.flv,start,end,start,end`` with hh:mm:ss."""
    folder = Path(path)
    if folder.is_dir():
        files = sorted(folder.glob("*.txt"))
        if not files:
            raise FileError(path, "holds no .txt file")
        return [pair for file in files for pair in read_vcdb(file)]
    pairs = []
    for number, line in enumerate(_text(path).split("\n"), 1):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != len(COLUMNS):
            raise FileError(path, f"line {number}: has {len(fields)} fields, not {len(COLUMNS)}")
        query = (fields[0], fields[2], fields[3])
        target = (fields[1], fields[4], fields[5])
        pairs.append(_pair(path, f"line {number}", query, target))
    return pairs


def read_json(path: AnyPath) -> list[SegmentPair[str]]:
    """TransVCL's labels, or ActivityNet's annotation, told apart by the file's content."""
    try:
        content = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise FileError(path, f"is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise FileError(
            path, 'must be an object of "a-b": [[start in a, start in b, end in a, end in b], ...]'
        )
    if isinstance(content.get("database"), dict):
        return _same_action(path, content["database"])
    return _labelled(path, content)


def _same_action(path: AnyPath, database: dict[str, Any]) -> list[SegmentPair[str]]:
    """ActivityNet: ``{"database": {video: {"annotations": [{"segment": [start, end], "label": action}, …]}}}``.

    Each stretch is paired with the next :data:`PARTNERS` of its action, in the order of the file, in other videos.
    """
    actions: dict[str, list[tuple[str, Span]]] = {}
    for video, facts in database.items():
        place = f"video {video!r}"
        try:
            stretches = [
                (one["label"], *map(one["segment"].__getitem__, (0, 1))) for one in facts["annotations"]
            ]
        except (TypeError, KeyError, IndexError, AttributeError) as error:
            raise FileError(path, f"{place}: needs annotations of a segment and a label each") from error
        for label, start, end in stretches:
            span = (_seconds(path, place, start), _seconds(path, place, end))
            if span[0] < span[1]:
                actions.setdefault(str(label), []).append((video, span))
    pairs = []
    for same in actions.values():
        for number, (video, span) in enumerate(same):
            following = [*same[number + 1 :], *same[:number]]
            others = [(other, its) for other, its in following if other != video][:PARTNERS]
            pairs += [SegmentPair(video, span, other, its) for other, its in others]
    return pairs


def _labelled(path: AnyPath, labels: dict[str, Any]) -> list[SegmentPair[str]]:
    """TransVCL's labels: ``{"a-b": [[start in a, start in b, end in a, end in b], ...], ...}``, in seconds.

    Segments that end before they begin are passed over: the published labels of VCSL have some.
    """
    pairs = []
    for key, segments in labels.items():
        place = f"entry {key!r}"
        videos = key.split("-")
        if len(videos) != 2:
            raise FileError(path, f"{place}: must be two video names joined by one '-'")
        if not isinstance(segments, list):
            raise FileError(path, f"{place}: must be a list of segments")
        for segment in segments:
            if not isinstance(segment, list) or len(segment) != 4:
                raise FileError(path, f"{place}: a segment has four times, not {segment!r}")
            starts, ends = ([_seconds(path, place, time) for time in segment[i : i + 2]] for i in (0, 2))
            if starts[0] < ends[0] and starts[1] < ends[1]:
                pairs.append(SegmentPair(videos[0], (starts[0], ends[0]), videos[1], (starts[1], ends[1])))
    return pairs


def _pair(path: AnyPath, place: str, query: _Stretch, target: _Stretch) -> SegmentPair[str]:
    """A pair from two (name, start, end) as they are written, checked; ``place`` is where in the file."""
    names, spans = [], []
    for name, *times in (query, target):
        if not name or not name.strip():
            raise FileError(path, f"{place}: names no video")
        names.append(name.strip())
        start, end = (_seconds(path, place, time) for time in times)
        if not start < end:
            raise FileError(path, f"{place}: a segment from {times[0]} to {times[1]} has no length")
        spans.append((start, end))
    return SegmentPair(names[0], spans[0], names[1], spans[1])


def _seconds(path: AnyPath, place: str, value: object) -> float:
    """Seconds from a number, or from a string of seconds or [hh:]mm:ss."""
    seconds = math.nan
    with suppress(ValueError, OverflowError):
        clock = _CLOCK.fullmatch(value.strip()) if isinstance(value, str) else None
        if clock:
            hours, minutes, rest = clock.groups()
            seconds = int(hours or 0) * 3600 + int(minutes) * 60 + float(rest)
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            seconds = float(value)
    if not (math.isfinite(seconds) and seconds >= 0):
        raise FileError(path, f"{place}: {value!r} is no time; write seconds or hh:mm:ss")
    return seconds


def _text(path: AnyPath) -> str:
    try:
        return Path(path).read_text("utf-8-sig")
    except OSError as error:
        raise FileError(path, f"cannot be read: {os_reason(error)}") from error
    except UnicodeDecodeError as error:
        raise FileError(path, "is not UTF-8 text") from error
