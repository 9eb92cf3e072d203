"""From a benchmark's ids to the videos at hand: files below a folder, or videos of a collection."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from glob import escape
from pathlib import Path, PurePosixPath

from visil.collection.index import Index
from visil.errors import FileError, UsageError
from visil.evaluation.benchmark import Benchmark
from visil.model.features import VideoFeatures
from visil.video.container import VIDEO_SUFFIXES, is_video_path

PATTERN = "{id}.*"

Listing = Callable[[Path], list[str]]
"""Names in a folder, sorted."""


@dataclass(frozen=True)
class KnownVideos:
    """A benchmark, and the videos of a collection that its ids stand for."""

    benchmark: Benchmark
    ids: Mapping[str, str]
    """{id of the benchmark: id of the video in the collection}"""

    @property
    def queries(self) -> list[str]:
        """The queries that the collection has."""
        return [query for query in self.benchmark.queries if query in self.ids]

    def candidates(self, query: str) -> list[str]:
        """The videos that count for a query and are in the collection."""
        return [target for target in self.benchmark.candidates(query) if target in self.ids]

    def reader(self, collection: Index) -> Callable[[str], VideoFeatures | None]:
        """Reads the features of an id; None where they cannot be read."""
        videos = {video.id: video for video in collection.catalogue.videos()}

        def read(name: str) -> VideoFeatures | None:
            video = videos.get(self.ids[name])
            return None if video is None else collection.store.try_read(video)

        return read


def ids_of(benchmark: Benchmark) -> list[str]:
    """Every id of a benchmark, queries and database, in order."""
    return sorted({*benchmark.queries, *benchmark.database})


def files_of(benchmark: Benchmark, folder: Path, pattern: str = PATTERN) -> dict[str, Path]:
    """The videos of a benchmark below a folder, as far as they are there; at least one query must be."""
    wanted = ids_of(benchmark)
    files = find_videos(folder, wanted, pattern)
    if not files:
        raise FileError(
            folder,
            f"holds none of the {len(wanted)} videos of {benchmark.name} as {pattern}: "
            "say with --pattern how their files are called",
        )
    if not any(query in files for query in benchmark.queries):
        raise FileError(folder, f"holds none of the {len(benchmark.queries)} queries of {benchmark.name}")
    return files


def find_videos(folder: Path, ids: Iterable[str], pattern: str = PATTERN) -> dict[str, Path]:
    """The file of each id that has one: ``pattern`` below ``folder``, with the id for ``{id}``; ``*`` is anything.

    Of several files the first by name that is named like a video; without ``*`` in the pattern any file will do. An id
    that itself ends like a video file is looked for without that ending too.
    """
    if "{id}" not in pattern or pattern.startswith("/") or ".." in PurePosixPath(pattern).parts:
        raise UsageError(f"the pattern must have {{id}} in it and stay inside the folder, not {pattern!r}")
    if not folder.is_dir():
        raise FileError(folder, "is no folder of videos")
    listing = lru_cache(maxsize=4096)(_names)
    found = {}
    for name in ids:
        for spelling in dict.fromkeys((name, bare(name))):
            file = _first(folder, pattern, spelling, listing)
            if file is not None:
                found[name] = file
                break
    return found


def videos_by_name(ids: Iterable[str], paths: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """The video of each id that a collection has, by the end of its path without the suffix: ``{id: video}``.

    ``paths`` are the files of each video. An id of several parts, such as ``1/1_1_Y``, is compared with as many.
    """
    wanted = {name: PurePosixPath(bare(name)).parts for name in ids}
    depths = {len(parts) for parts in wanted.values()}
    videos: dict[tuple[str, ...], dict[str, str]] = {}
    for video, files in paths.items():
        for file in files:
            parts = PurePosixPath(bare(Path(file).as_posix())).parts
            for depth in depths:
                videos.setdefault(parts[-depth:], {}).setdefault(video, file)
    found = {}
    for name, parts in wanted.items():
        here = videos.get(parts, {})
        if len(here) > 1:
            first, second = sorted(here.values())[:2]
            raise UsageError(
                f"the id {name} could be {first} or {second}: the collection must have one of them"
            )
        if here:
            found[name] = next(iter(here))
    return found


def bare(name: str) -> str:
    """A name without the ending of a video file."""
    suffix = PurePosixPath(name).suffix
    return name[: -len(suffix)] if suffix.lower() in VIDEO_SUFFIXES else name


def _first(folder: Path, pattern: str, name: str, listing: Listing) -> Path | None:
    *above, last = pattern.split("/")
    places = [folder]
    for part in above:
        places = [place / entry for place in places for entry in _matching(place, part, name, listing)]
    *inside, _ = name.split("/")
    if inside and "{id}" in last:  # an id of several parts names folders itself
        places = [place.joinpath(*inside) for place in places]
        name = name.split("/")[-1]
    files = [place / entry for place in places for entry in _matching(place, last, name, listing)]
    named = [file for file in files if is_video_path(file)] or ([] if "*" in last else files)
    return min((file for file in named if file.is_file()), default=None)


def _matching(place: Path, part: str, name: str, listing: Listing) -> Iterator[str]:
    """Entries of a folder that a part of the pattern names."""
    if "{id}" in part and "/" in name:
        yield part.replace("{id}", name)  # more than one level: as it stands
        return
    names = listing(place)
    wanted = _only_stars(part).replace("{id}", escape(name))
    start = part.split("{id}")[0].split("*")[0]
    prefix = start + name if part.startswith(start + "{id}") else start
    for at in range(bisect_left(names, prefix), len(names)):
        if not names[at].startswith(prefix):
            return
        if fnmatchcase(names[at], wanted):
            yield names[at]


def _only_stars(part: str) -> str:
    """Only ``*`` is special in a pattern; file names may have brackets and question marks."""
    return part.replace("[", "[[]").replace("?", "[?]")


def _names(place: Path) -> list[str]:
    try:
        return sorted(os.listdir(place))
    except OSError:
        return []
