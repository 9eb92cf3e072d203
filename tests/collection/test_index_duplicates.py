"""``duplicates`` on made files, and what it says to keep."""

from __future__ import annotations

import csv
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import pytest
import torch

import visil
from visil.collection.duplicates import Group
from visil.collection.recent_features import RecentFeatures
from visil.compare.visil import ViSiL
from visil.errors import UsageError

from .conftest import Command


def names(group: Group) -> list[str]:
    return [Path(video.path).name for video in group.videos]


def test_groups_and_what_to_keep(index: visil.Index) -> None:
    copies, inside = index.duplicates()
    assert names(copies)[0] == "cat.mp4", "the largest of the complete ones"
    assert set(names(copies)) == {"cat.mp4", "cat small.mkv", "cut.mp4"}
    assert copies.keep == copies.videos[0].id
    assert copies.reason == "complete, more detail"
    assert {file.action for file in copies.files if not file.path.endswith("cat.mp4")} == {"drop"}
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


# ---------------------------------------------------------------------- files with the same bytes


@pytest.fixture
def twins(index: visil.Index, videos: Path, tmp_path: Path) -> dict[str, list[str]]:
    """{name: its two files} of a video that shares nothing with others, and of one that does."""
    found = {}
    for name in ("alone/retina.mp4", "copies/cat.mp4"):
        copy = Path(shutil.copy(videos / name, tmp_path / f"again {Path(name).name}"))
        assert index.add(copy).unchanged == 1
        found[name] = sorted([str(copy), str(videos / name)])
    return found


def test_identical_files_are_a_group(index: visil.Index, twins: dict[str, list[str]], run: Command) -> None:
    groups = run("duplicates", index.folder, "--json").json["groups"]
    assert len(groups) == 3
    (video,) = groups[2]["videos"]
    assert video["paths"] == twins["alone/retina.mp4"]
    assert video["path"] in video["paths"]
    assert (groups[2]["keep"], groups[2]["reason"]) == (video["id"], "identical files")
    (pair,) = groups[2]["pairs"]
    whole = [0.0, index.video(video["id"]).duration]
    assert pair == {
        "query": video["id"],
        "target": video["id"],
        "score": 1.0,
        "confidence": 1.0,
        "verdict": "copy",
        "segments": [{"query": whole, "target": whole, "score": 1.0, "confidence": 1.0, "reversed": False}],
    }
    paths = [paths for video in groups[0]["videos"] if len(paths := video["paths"]) > 1]
    assert paths == [twins["copies/cat.mp4"]], "all of them inside a larger group as well"
    assert len(index.duplicates(1.0)) >= 1, "however sure it has to be"


def test_identical_files_are_told_and_tabled(
    index: visil.Index, twins: dict[str, list[str]], run: Command, tmp_path: Path
) -> None:
    table, page = tmp_path / "pairs.csv", tmp_path / "page.html"
    told = run("duplicates", index.folder, "--csv", table, "--html", page).out
    assert "3. 1 video in 2 files" in told
    assert "1. 3 videos in 4 files" in told
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    html = page.read_text(encoding="utf-8")
    for files in twins.values():
        assert all(path in told and path in html for path in files)
        (row,) = (row for row in rows if [row["query"], row["target"]] == files)
        assert (row["query_start"], row["confidence"], row["score"]) == ("0.0", "1.0", "1.0")
    assert {row["group"] for row in rows} == {"1", "2", "3"}


def test_a_copy_that_was_deleted_makes_no_group(index: visil.Index, twins: dict[str, list[str]]) -> None:
    for files in twins.values():
        Path(next(path for path in files if "again" in path)).unlink()
    assert [len(group.videos) for group in index.duplicates()] == [3, 2]
    assert all(group.copies == {} for group in index.duplicates())


def test_identical_files_against_references(
    index: visil.Index, twins: dict[str, list[str]], videos: Path
) -> None:
    assert index.duplicates(new_against_references=True) == []
    index.add(videos / "alone", reference=True)
    (group,) = index.duplicates(new_against_references=True)
    assert group.copies == {group.keep: twins["alone/retina.mp4"]}


class _OnDevice(torch.Tensor):
    """A tensor as on a GPU: NumPy sees it only once it was brought back; whatever is made of it is there too."""

    def numpy(self, *, force: bool = False) -> NoReturn:  # noqa: ARG002
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def cpu(self) -> torch.Tensor:  # type: ignore[override]
        return self.as_subclass(torch.Tensor)


def test_features_kept_on_a_gpu_are_brought_back_for_numpy(
    index: visil.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = index.find_duplicates(0.0)
    keep = RecentFeatures._keep

    def kept(self: RecentFeatures, video: str, features: visil.VideoFeatures) -> visil.VideoFeatures:
        features = replace(features, vectors=features.vectors.as_subclass(_OnDevice))
        return keep(self, video, features)

    monkeypatch.setattr(RecentFeatures, "_keep", kept)
    assert index.find_duplicates(0.0) == expected
