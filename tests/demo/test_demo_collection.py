"""The demo's collection, end to end: rendered, added, and what its videos share found again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import visil
from visil.collection.duplicates import Duplicates
from visil.collection.index import Index
from visil.demo import DemoCollection, make_collection
from visil.demo.collection import CLIPS
from visil.errors import UsageError
from visil.report.html import write_report
from visil.report.tables import COLUMNS, write_csv
from visil.video import probe

NEAR = 2.0
"""Seconds that a found stretch may be off at its ends: there is one frame a second."""


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> DemoCollection:
    """The real one at a sixth of its frame rate: an index looks at one frame a second, and those are all there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("visil.demo.collection.FPS", 2)
        return make_collection(tmp_path_factory.mktemp("demo") / "collection")


@pytest.fixture(scope="module")
def index(collection: DemoCollection) -> Iterator[Index]:
    with Index(collection.folder.parent / "collection.visil") as opened:
        report = opened.add([collection.folder], workers=2)
        assert (report.added, report.failed) == (len(CLIPS), [])
        yield opened


@pytest.fixture(scope="module")
def found(index: Index) -> Duplicates:
    return index.find_duplicates()


def test_the_clips_are_as_long_as_they_say(collection: DemoCollection) -> None:
    assert len(collection.videos) == 12
    for clip, path in zip(CLIPS, collection.videos, strict=True):
        assert probe(path).duration == pytest.approx(sum(part.seconds for part in clip.parts), abs=0.1)


def test_the_truth_lies_inside_the_clips(collection: DemoCollection) -> None:
    lengths = {
        path: sum(p.seconds for p in c.parts) for c, path in zip(CLIPS, collection.videos, strict=True)
    }
    assert len(collection.truth) == 10
    for shared in collection.truth:
        for path, (start, end) in ((shared.query, shared.query_span), (shared.target, shared.target_span)):
            assert 0 <= start < end <= lengths[path] + 1e-6
    assert sorted(len(group) for group in collection.groups) == [2, 3, 4]


def test_a_clip_inside_a_longer_one_is_where_it_was_put(collection: DemoCollection) -> None:
    inside = [
        s for s in collection.truth if (s.query.name, s.target.name) == ("launch.mp4", "compilation.mp4")
    ]
    assert [(s.query_span, s.target_span) for s in inside] == [((4.0, 14.0), (15.0, 25.0))]


def test_files_that_are_there_stay(collection: DemoCollection) -> None:
    before = [path.stat().st_mtime_ns for path in collection.videos]
    again = make_collection(collection.folder)
    assert again == collection
    assert [path.stat().st_mtime_ns for path in again.videos] == before


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file"):
        make_collection(tmp_path / "file" / "collection")


def test_the_groups_are_those_it_was_made_with(found: Duplicates, collection: DemoCollection) -> None:
    groups = [{os.path.basename(video.path) for video in group.videos} for group in found.groups]
    assert sorted(groups, key=len) == sorted(collection.groups, key=len)


def test_every_shared_stretch_is_found_where_it_is(
    found: Duplicates, index: Index, collection: DemoCollection
) -> None:
    names = {video.id: os.path.basename(video.path) for video in index.catalogue.videos()}
    pairs = {
        frozenset((names[pair.query], names[pair.target])): pair
        for group in found.groups
        for pair in group.pairs
    }
    assert set(pairs) == {frozenset((s.query.name, s.target.name)) for s in collection.truth}
    for shared in collection.truth:
        pair = pairs[frozenset((shared.query.name, shared.target.name))]
        straight = names[pair.query] == shared.query.name
        wanted = (shared.query_span, shared.target_span)
        a, b = wanted if straight else wanted[::-1]
        whole = any(_near(segment.query, a) and _near(segment.target, b) for segment in pair.segments)
        # At another speed a frame a second may show a stretch in pieces.
        pieces = [(segment.query, segment.target) for segment in pair.segments]
        ends = [(min(s[0] for s in side), max(s[1] for s in side)) for side in zip(*pieces, strict=True)]
        faster = abs((a[1] - a[0]) - (b[1] - b[0])) > 1
        assert whole or (faster and _near(ends[0], a) and _near(ends[1], b)), (
            f"{shared} not in {pair.segments}"
        )


def test_a_closer_look_keeps_the_end_of_footage_that_comes_to_rest(collection: DemoCollection) -> None:
    """The camera's last seconds over a photograph hardly change: they are as alike as the rest, and belong to it."""
    videos = {path.name: path for path in collection.videos}
    match = visil.load().compare(videos["ride.mp4"], videos["ride, in a frame.mp4"])
    (stretch,) = match.segments
    assert _near(stretch.query, (0.0, 10.0), 1.25)
    assert _near(stretch.target, (0.0, 10.0), 1.25)


def test_the_original_is_kept(found: Duplicates) -> None:
    kept = {
        os.path.basename(video.path) for group in found.groups for video in group.videos if group.kept(video)
    }
    assert {"at home.mp4", "ride.mp4"} <= kept


def test_the_report_names_every_video_of_every_group(found: Duplicates, index: Index, tmp_path: Path) -> None:
    write_report(index, found, tmp_path / "report.html", min_confidence=0.5)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<section") == 3
    assert page.count('<details class="match"') == 10
    assert all(video.path in page for group in found.groups for video in group.videos)
    assert len(page) < 2_000_000


def test_the_table_has_a_row_for_every_stretch(found: Duplicates, index: Index, tmp_path: Path) -> None:
    import csv

    write_csv(index, found, tmp_path / "pairs.csv")
    with (tmp_path / "pairs.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert tuple(header) == COLUMNS
    assert len(rows) == sum(len(pair.segments) for group in found.groups for pair in group.pairs)
    assert {row[0] for row in rows} == {"1", "2", "3"}


def _near(span: tuple[float, float], wanted: tuple[float, float], apart: float = NEAR) -> bool:
    return abs(span[0] - wanted[0]) <= apart and abs(span[1] - wanted[1]) <= apart
