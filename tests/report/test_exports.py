"""Matches as files for other programs, read back with other programs' readers."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from synthetic import moving_scene, write_video
from visil.errors import UsageError
from visil.matching.localize import Segment
from visil.report.exports import COLUMNS, check_export, export
from visil.report.relations import Relation
from visil.report.timelines import stamp, timecode


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve seconds at 30 frames a second, and twenty at 25."""
    folder = tmp_path_factory.mktemp("films")
    write_video(folder / "query.mp4", moving_scene(1, 12, 30, (32, 48)), 30)
    write_video(folder / "target.mp4", moving_scene(2, 20, 25, (32, 48)), 25)
    return folder


@pytest.fixture
def found(films: Path) -> list[Relation]:
    """One target with a stretch as it is and one sped up, one that overlaps it, one unrelated, and itself."""
    query = str(films / "query.mp4")
    stretches = [Segment((1.0, 5.0), (10.0, 14.0), 0.9), Segment((6.0, 10.0), (0.0, 6.0), 0.8)]
    return [
        Relation(query, query, 1.0, 1.0, "copy", [Segment((0.0, 12.0), (0.0, 12.0), 1.0)]),
        Relation(query, str(films / "target.mp4"), 0.7, 0.998, "copy", stretches),
        Relation(query, str(films / "gone.mkv"), 0.3, 0.6, "related", [Segment((0.5, 2.0), (3.0, 4.5), 0.5)]),
        Relation(
            query, str(films / "other.mp4"), 0.1, 0.01, "unrelated", [Segment((0.0, 1.0), (0.0, 1.0), 0.1)]
        ),
    ]


def test_json_lines_hold_all_that_was_found(found: list[Relation], tmp_path: Path) -> None:
    export(found, tmp_path / "all.jsonl")
    lines = (tmp_path / "all.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [one.to_dict() for one in found]
    assert json.loads(lines[1])["segments"][1]["target"] == [0.0, 6.0]


def test_csv_has_a_row_for_every_shared_stretch(found: list[Relation], tmp_path: Path) -> None:
    export(found, tmp_path / "all.csv")
    with (tmp_path / "all.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert tuple(header) == COLUMNS
    assert [(Path(row[1]).name, *map(float, row[5:9])) for row in rows] == [
        ("query.mp4", 0, 12, 0, 12),
        ("target.mp4", 1, 5, 10, 14),
        ("target.mp4", 6, 10, 0, 6),
        ("gone.mkv", 0.5, 2, 3, 4.5),
    ]
    assert rows[1][2:5] == ["copy", "0.998", "0.7"]


def test_an_edl_is_the_querys_timeline(found: list[Relation], films: Path, tmp_path: Path) -> None:
    export(found, tmp_path / "all.edl")
    assert (tmp_path / "all.edl").read_text("utf-8").splitlines() == [
        "TITLE: query.mp4",
        "FCM: NON-DROP FRAME",
        "",
        "001  AX       V     C        00:00:03:00 00:00:04:15 00:00:00:15 00:00:02:00",
        "* FROM CLIP NAME: gone.mkv",
        f"* SOURCE FILE: {films / 'gone.mkv'}",
        "* RELATED CONFIDENCE 0.600 SCORE 0.500",
        "",
        "002  AX       V     C        00:00:10:00 00:00:14:00 00:00:01:00 00:00:05:00",
        "* FROM CLIP NAME: target.mp4",
        f"* SOURCE FILE: {films / 'target.mp4'}",
        "* COPY CONFIDENCE 0.998 SCORE 0.900",
        "",
        "003  AX       V     C        00:00:00:00 00:00:06:00 00:00:06:00 00:00:10:00",
        "M2   AX       045.0                00:00:00:00",
        "* FROM CLIP NAME: target.mp4",
        f"* SOURCE FILE: {films / 'target.mp4'}",
        "* COPY CONFIDENCE 0.998 SCORE 0.800",
    ]


def test_the_edl_is_read_by_another_program(found: list[Relation], tmp_path: Path) -> None:
    otio: Any = pytest.importorskip("opentimelineio")
    pytest.importorskip("otio_cmx3600_adapter")
    export([found[1]], tmp_path / "all.edl")
    read = otio.adapters.read_from_file(str(tmp_path / "all.edl"), rate=30)
    clips = list(read.find_clips())
    assert [clip.name for clip in clips] == ["target.mp4", "target.mp4"]
    assert [clip.source_range.start_time.to_seconds() for clip in clips] == [10, 0]
    assert [effect.time_scalar for clip in clips for effect in clip.effects] == [1.5]


def test_otio_has_a_track_for_each_target(found: list[Relation], films: Path, tmp_path: Path) -> None:
    otio: Any = pytest.importorskip("opentimelineio")
    export(found, tmp_path / "all.otio")
    timeline = otio.adapters.read_from_file(str(tmp_path / "all.otio"))
    own, target, gone = timeline.tracks
    assert [track.name for track in timeline.tracks] == ["query", "target.mp4", "gone.mkv"]
    (whole,) = own
    assert whole.media_reference.target_url == (films / "query.mp4").as_uri()
    assert whole.source_range.duration.to_seconds() == pytest.approx(12)
    gap, first, between, second = target
    assert [type(item).__name__ for item in target] == ["Gap", "Clip", "Gap", "Clip"]
    assert (gap.duration().to_seconds(), between.duration().to_seconds()) == (1, 1)
    assert (first.source_range.start_time.value, first.source_range.start_time.rate) == (250, 25)
    assert first.range_in_parent().start_time.to_seconds() == 1
    assert first.metadata["visil"]["confidence"] == 0.998
    assert [effect.time_scalar for effect in second.effects] == [1.5]
    assert second.duration().to_seconds() == 4
    assert gone[1].media_reference.available_range is None


def test_stretches_of_one_target_that_overlap_get_tracks_of_their_own(films: Path, tmp_path: Path) -> None:
    otio: Any = pytest.importorskip("opentimelineio")
    twice = [Segment((0.0, 4.0), (0.0, 4.0), 0.9), Segment((2.0, 6.0), (10.0, 14.0), 0.9)]
    pairs = [
        Relation(str(films / "query.mp4"), str(films / "target.mp4"), 0.7, 0.9, "copy", twice),
        Relation(str(films / "target.mp4"), str(films / "query.mp4"), 0.7, 0.9, "copy", twice[:1]),
    ]
    export(pairs, tmp_path / "all.otio")
    first, second = otio.adapters.read_from_file(str(tmp_path / "all.otio"))
    assert [len(first.tracks), len(second.tracks)] == [3, 2]


def test_subtitles_say_what_is_seen(found: list[Relation], tmp_path: Path) -> None:
    export(found[1:2], tmp_path / "all.srt")
    assert (tmp_path / "all.srt").read_text("utf-8").split("\n\n") == [
        "1\n00:00:01,000 --> 00:00:05,000\ntarget.mp4 0:10.0 – 0:14.0\ncopy, 99.8%",
        "2\n00:00:06,000 --> 00:00:10,000\ntarget.mp4 0:00.0 – 0:06.0\ncopy, 99.8%",
        "",
    ]


@pytest.mark.parametrize("ending", ["edl", "srt"])
def test_a_timeline_is_about_one_query(
    found: list[Relation], films: Path, tmp_path: Path, ending: str
) -> None:
    other = Relation(str(films / "target.mp4"), str(films / "query.mp4"), 0.7, 0.9, "copy", found[1].segments)
    with pytest.raises(UsageError, match=rf"an \.{ending} file is about one query, not 2"):
        export([*found, other], tmp_path / f"all.{ending}")
    assert list(tmp_path.iterdir()) == []
    export(found[3:], tmp_path / f"none.{ending}")
    assert (tmp_path / f"none.{ending}").read_bytes() == b""


def test_names_that_are_no_text_are_kept(tmp_path: Path) -> None:
    name = "odd\udcff\nname.mp4"
    pair = Relation(name, "b.mp4", 0.5, 0.9, "copy", [Segment((0.0, 1.0), (0.0, 1.0), 0.5)])
    export([pair], tmp_path / "a.csv")
    assert b"odd\xff\nname.mp4" in (tmp_path / "a.csv").read_bytes()
    export([pair], tmp_path / "a.edl")
    assert (tmp_path / "a.edl").read_text("utf-8").startswith("TITLE: odd\\udcff\\nname.mp4\n")
    pytest.importorskip("opentimelineio")
    export([pair], tmp_path / "a.otio")


def test_what_cannot_be_written_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"a\.xml: an export ends in \.jsonl, \.csv, \.edl, \.otio, \.srt"):
        check_export("a.xml")
    with pytest.raises(UsageError, match="its folder does not exist"):
        check_export(tmp_path / "no" / "a.csv")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'visil\[otio\]'"):
        check_export(tmp_path / "a.otio")


@pytest.mark.parametrize(
    ("seconds", "rate", "told"),
    [
        (0, 25, "00:00:00:00"),
        (3725.48, 25, "01:02:05:12"),
        (10, 30000 / 1001, "00:00:10:00"),
        (0.99, 24, "00:00:01:00"),
    ],
)
def test_timecodes(seconds: float, rate: float, told: str) -> None:
    assert timecode(seconds, rate) == told


def test_times_of_subtitles() -> None:
    assert stamp(3725.4567) == "01:02:05,457"
    assert stamp(59.9996) == "00:01:00,000"
