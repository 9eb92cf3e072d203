"""``duplicates`` on made files, and what it says to keep."""

from __future__ import annotations

import csv
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import visil
from visil.errors import UsageError
from visil.index import Group, Video
from visil.index.duplicates import worth_keeping
from visil.model import ViSiL

from .conftest import Command


def names(group: Group) -> list[str]:
    return [Path(video.path).name for video in group.videos]


def test_groups_and_what_to_keep(index: visil.Index) -> None:
    copies, inside = index.duplicates()
    assert names(copies)[0] == "cat.mp4", "the largest of the complete ones"
    assert set(names(copies)) == {"cat.mp4", "cat small.mkv", "cut.mp4"}
    assert copies.keep == copies.videos[0].id
    assert copies.reason == "largest picture"
    assert names(inside) == ["long.mp4", "coffee.mp4"]
    assert inside.reason == "complete"
    (pair,) = inside.pairs
    assert {pair.query, pair.target} == {video.id for video in inside.videos}
    assert pair.confidence > 0.5


def test_pairs_say_where(index: visil.Index) -> None:
    (copies, _) = index.duplicates()
    paths = {video.id: Path(video.path).name for video in copies.videos}
    for pair in copies.pairs:
        ends = {paths[pair.query]: "query", paths[pair.target]: "target"}
        if set(ends) == {"cat.mp4", "cut.mp4"}:
            (segment,) = pair.segments
            assert getattr(segment, ends["cat.mp4"]) == pytest.approx((1, 6), abs=1)
            assert getattr(segment, ends["cut.mp4"]) == pytest.approx((0, 5), abs=1)
            break
    else:
        pytest.fail("cat.mp4 and cut.mp4 are no pair")


def test_confidence_is_a_limit(index: visil.Index) -> None:
    found = index.find_duplicates(0.0)
    confidences = sorted(pair.confidence for group in index.duplicates() for pair in group.pairs)
    limit = (confidences[0] + confidences[-1]) / 2
    kept = [pair.confidence for group in index.duplicates(limit) for pair in group.pairs]
    assert sorted(kept) == [value for value in confidences if value >= limit]
    assert len(found.groups) >= 2
    with pytest.raises(UsageError, match="min_confidence"):
        index.duplicates(1.5)


def test_progress_goes_up_to_the_end(index: visil.Index) -> None:
    told: list[tuple[int, int, int]] = []
    index.duplicates(progress=lambda *state: told.append(state))
    assert all(a[0] <= b[0] and a[2] <= b[2] for a, b in pairwise(told))
    assert told[-1][:2] == (8, 8)


def test_new_files_against_reference_folders_only(
    videos: Path, tmp_path: Path, model: ViSiL, run: Command
) -> None:
    folder = tmp_path / "i"
    run("add", folder, videos / "copies" / "cat.mp4", "--reference")
    run("add", folder, videos)
    (group,) = run("duplicates", folder, "--references", "--json").json["groups"]
    found = {Path(video["path"]).name for video in group["videos"]}
    assert found == {"cat.mp4", "cat small.mkv", "cut.mp4"}
    ids = {Path(video["path"]).name: video["id"] for video in group["videos"]}
    assert {frozenset((pair["query"], pair["target"])) for pair in group["pairs"]} == {
        frozenset((ids["cat.mp4"], ids["cut.mp4"])),
        frozenset((ids["cat.mp4"], ids["cat small.mkv"])),
    }, "copies of each other are not compared"


def test_json_as_promised(index: visil.Index, run: Command) -> None:
    done = run("duplicates", index.folder, "--json")
    assert (done.status, done.err) == (0, "")
    assert len(done.json["groups"]) == 2
    for group in done.json["groups"]:
        assert {"videos", "pairs"} <= set(group)
        for video in group["videos"]:
            assert {"id", "path"} <= set(video)
        ids = {video["id"] for video in group["videos"]}
        for pair in group["pairs"]:
            assert {"query", "target", "score", "confidence", "segments"} <= set(pair)
            assert {pair["query"], pair["target"]} <= ids
            assert -1 <= pair["score"] <= 1
            assert 0 <= pair["confidence"] <= 1
            for segment in pair["segments"]:
                assert set(segment) >= {"query", "target", "score"}
                assert segment["query"][0] < segment["query"][1]


def test_a_table(index: visil.Index, run: Command, tmp_path: Path) -> None:
    table = tmp_path / "pairs.csv"
    done = run("duplicates", index.folder, "--csv", table)
    assert done.status == 0
    assert done.out.startswith("2 groups of videos that share footage\n")
    assert f"written: {table}" in done.out
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    groups = index.duplicates()
    assert len(rows) == sum(len(pair.segments) for group in groups for pair in group.pairs)
    assert {row["group"] for row in rows} == {"1", "2"}
    assert {Path(row["keep"]).name for row in rows} == {"cat.mp4", "long.mp4"}
    for row in rows:
        assert float(row["query_start"]) < float(row["query_end"])
        assert float(row["target_start"]) < float(row["target_end"])
        assert 0.5 <= float(row["confidence"]) <= 1


def test_a_table_that_cannot_be_written(index: visil.Index, run: Command, tmp_path: Path) -> None:
    assert "nowhere" in run("duplicates", index.folder, "--csv", tmp_path / "nowhere" / "pairs.csv").line


# ---------------------------------------------------------------------- what to keep

PLAIN = Video(1, "1", "a.mp4", 60, 60.0, 640, 480, "h264", 1000, 10, 0, False)


@pytest.mark.parametrize(
    ("better", "worse", "reason"),
    [
        ({"damaged": 0, "width": 320}, {"damaged": 2}, "undamaged"),
        ({"duration": 60.0, "width": 320}, {"duration": 30.0}, "complete"),
        ({"width": 1280, "duration": 58.0}, {"width": 640}, "largest picture"),
        ({"duration": 60.0}, {"duration": 59.0, "bit_rate": 9000}, "longest"),
        ({"bit_rate": 2000}, {"bit_rate": None}, "highest bit rate"),
    ],
)
def test_what_to_keep(better: dict[str, float], worse: dict[str, float], reason: str) -> None:
    good, bad = replace(PLAIN, id="a", **better), replace(PLAIN, id="b", **worse)  # type: ignore[arg-type]
    assert worth_keeping([good, bad]) == ("a", reason)
    assert worth_keeping([bad, good]) == ("a", reason)


def test_what_to_keep_of_equals_does_not_depend_on_the_order() -> None:
    equal = [replace(PLAIN, id=name) for name in "abc"]
    assert worth_keeping(equal) == worth_keeping(equal[::-1]) == ("c", "all alike")
