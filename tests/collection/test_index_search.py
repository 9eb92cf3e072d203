"""``search``, ``remove`` and ``judge`` on a collection of real files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

import visil
from visil.collection.search import Hit
from visil.compare.visil import ViSiL
from visil.errors import IndexFolderError, UsageError

from .conftest import Command


def names(hits: list[Hit]) -> list[str]:
    return [Path(hit.path).name for hit in hits]


def copies(hits: list[Hit]) -> set[str]:
    return {Path(hit.path).name for hit in hits if hit.verdict == "copy"}


def no_decoding(*_: object, **__: object) -> NoReturn:
    raise AssertionError("nothing was to be decoded")


# ---------------------------------------------------------------------- search


def test_a_clip_is_found_inside_a_longer_video(index: visil.Index, videos: Path, tmp_path: Path) -> None:
    clip = Path(shutil.copy(videos / "inside" / "coffee.mp4", tmp_path / "clip.mp4"))
    hits = index.search(clip)
    assert set(names(hits[:2])) == copies(hits) == {"coffee.mp4", "long.mp4"}
    (segment,) = next(hit for hit in hits if hit.path.endswith("long.mp4")).segments
    assert segment.query == pytest.approx((0, 5), abs=1)
    assert segment.target == pytest.approx((3, 8), abs=1)
    assert [hit.evidence for hit in hits] == sorted((hit.evidence for hit in hits), reverse=True)


def test_a_long_query_finds_the_clip(index: visil.Index, videos: Path) -> None:
    hits = index.search(videos / "inside" / "long.mp4")
    assert names(hits[:2]) == ["long.mp4", "coffee.mp4"]
    assert copies(hits) == {"coffee.mp4", "long.mp4"}


def test_a_video_finds_itself_surely_and_whole(index: visil.Index, videos: Path) -> None:
    (best, *_) = index.search(videos / "copies" / "cat.mp4")
    assert names([best]) == ["cat.mp4"]
    assert best.confidence >= 0.99
    assert best.verdict == "copy"
    (segment,) = best.segments
    assert segment.query == segment.target == pytest.approx((0, 8), abs=0.5)


def test_hits_may_be_chosen_by_verdict_and_confidence(index: visil.Index, videos: Path) -> None:
    query = videos / "inside" / "coffee.mp4"
    everything = index.search(query)
    assert set(names(index.search(query, verdicts=["copy"]))) == {"coffee.mp4", "long.mp4"}
    unrelated = [
        name for name, hit in zip(names(everything), everything, strict=True) if hit.verdict == "unrelated"
    ]
    assert names(index.search(query, verdicts={"unrelated"})) == unrelated
    # Others take the places of those left out.
    assert names(index.search(query, k=2, verdicts={"unrelated"})) == unrelated[:2]
    sure = [hit for hit in everything if hit.confidence >= 0.9]
    assert names(index.search(query, min_confidence=0.9)) == names(sure)
    assert index.search(query, min_confidence=0.9, verdicts=["unrelated"]) == []
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(UsageError, match="min_confidence must be from 0 to 1"):
            index.search(query, min_confidence=wrong)
    assert names(index.search(query, exhaustive=True, verdicts=["copy"])) == names(sure)


def test_hits_are_exported(folder: Path, videos: Path, tmp_path: Path, run: Command) -> None:
    table, lines, edl = (tmp_path / f"hits.{ending}" for ending in ("csv", "jsonl", "edl"))
    query = videos / "inside" / "coffee.mp4"
    done = run("search", folder, query, "--json", "--export", table, "--export", lines, "--export", edl)
    found = [json.loads(line) for line in lines.read_text("utf-8").splitlines()]
    hits = done.json["hits"]
    assert [(one["query"], one["target"]) for one in found] == [(str(query), hit["path"]) for hit in hits]
    stretches = sum(len(hit["segments"]) for hit in hits if hit["verdict"] != "unrelated")
    assert len(table.read_text("utf-8").splitlines()) == 1 + stretches
    assert "long.mp4" in edl.read_text("utf-8")
    by_id = next(hit["id"] for hit in hits if hit["path"] == str(query))
    run("search", folder, by_id, "--export", lines)
    assert json.loads(lines.read_text("utf-8").splitlines()[0])["query"] == str(query)
    both = run("search", folder, query, videos / "inside" / "long.mp4", "--export", edl)
    assert "an .edl file is about one query, not 2" in both.err
    assert both.out == "", "before the work"


def test_a_folder_of_videos_is_a_query_for_each(
    folder: Path, videos: Path, tmp_path: Path, run: Command
) -> None:
    clips = tmp_path / "clips"
    clips.mkdir()
    shutil.copy(videos / "inside" / "coffee.mp4", clips / "b.mp4")
    shutil.copy(videos / "alone" / "retina.mp4", clips / "a.mp4")
    told = run("search", folder, clips, "--verdict", "copy", "--json").json
    assert [(one["query"], {Path(hit["path"]).name for hit in one["hits"]}) for one in told] == [
        (str(clips / "a.mp4"), {"retina.mp4"}),
        (str(clips / "b.mp4"), {"coffee.mp4", "long.mp4"}),
    ]
    (clips / "a.mp4").unlink()
    assert len(run("search", folder, clips, "--json").json) == 1  # a list still: it was a folder
    lines = run("search", folder, clips, "--verdict", "unrelated", "--min-confidence", "0.99").out
    assert lines == f"{clips / 'b.mp4'}: 0 hits\n"
    assert run("search", folder, clips, "--verdict", "sure").status == 2


@pytest.mark.parametrize("query", ["copies/cut.mp4", "inside/coffee.mp4", "alone/retina.mp4"])
@pytest.mark.parametrize("k", [1, 3, 10])
def test_candidates_find_what_an_exhaustive_search_finds(
    index: visil.Index, videos: Path, query: str, k: int
) -> None:
    hits = index.search(videos / query, k)
    # Of strangers, those come into the choice that have a frame near one of the query's.
    every = index.search(videos / query, k, exhaustive=True)
    assert len(every) == min(k, 8)
    assert len(hits) >= min(k, 7)
    assert [hit for hit in hits if hit.verdict != "unrelated"] == [
        hit for hit in every if hit.verdict != "unrelated"
    ]
    assert {hit.id for hit in hits} <= {hit.id for hit in every}
    assert hits == index.search(videos / query, 10)[:k]


def test_what_is_in_the_collection_is_not_decoded_again(
    index: visil.Index, videos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = videos / "copies" / "cut.mp4"
    video = index.video(str(path))
    expected = index.search(path)
    features = index.features(path)
    monkeypatch.setattr(ViSiL, "embed", no_decoding)
    monkeypatch.chdir(path.parent)
    for query in (path, str(path), "cut.mp4", video.id, video.id[:8], features):
        assert index.search(query) == expected


def test_a_file_that_changed_since_is_decoded(empty: visil.Index, videos: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(videos / "alone" / "retina.mp4", tmp_path / "a.mp4"))
    empty.add([path, videos / "copies" / "cat.mp4"])
    shutil.copy(videos / "copies" / "cut.mp4", path)
    assert names(empty.search(path, k=1)) == ["cat.mp4"]


def test_a_file_that_is_gone_is_searched_by_what_is_known(
    empty: visil.Index, videos: Path, tmp_path: Path
) -> None:
    path = Path(shutil.copy(videos / "alone" / "retina.mp4", tmp_path / "a.mp4"))
    empty.add(path)
    path.unlink()
    assert names(empty.search(path)) == ["a.mp4"]


def test_an_empty_collection(empty: visil.Index, videos: Path) -> None:
    assert empty.search(videos / "alone" / "retina.mp4") == []
    assert empty.search(videos / "alone" / "retina.mp4", exhaustive=True) == []
    assert empty.duplicates() == []
    assert empty.verify() == []
    assert (len(empty), empty.info().videos, empty.info().hours) == (0, 0, 0)
    assert empty.add([]).added == 0


def test_a_query_that_is_nothing(index: visil.Index, tmp_path: Path) -> None:
    with pytest.raises(visil.VideoError, match="no such file"):
        index.search(tmp_path / "nothing.mp4")
    with pytest.raises(visil.VideoError, match="no such file"):
        index.search("ffffffff")
    with pytest.raises(UsageError, match="k must be"):
        index.search(tmp_path / "nothing.mp4", k=0)


def test_a_collection_is_open_to_two_at_once(index: visil.Index, videos: Path, model: ViSiL) -> None:
    """One who has it open sees what another adds and removes."""
    with visil.Index(index.folder, model=model) as other:
        query = videos / "copies" / "cut.mp4"
        assert len(index.search(query)) == 8
        other.remove([str(videos / "copies" / "cat.mp4")])
        assert len(index.search(query)) == 7
        other.add(videos)
        assert len(index.search(query)) == 8


# ---------------------------------------------------------------------- remove


def test_removal_by_id_beginning_and_path(index: visil.Index, videos: Path) -> None:
    paths = sorted(path for path in videos.rglob("*.m*") if path.is_file())
    before = {path: path.read_bytes() for path in paths}
    first, second, third = (index.video(str(path)) for path in paths[:3])
    assert index.remove([first.id, first.path]) == 1
    assert index.remove([second.id[:10], str(third.path)]) == 2
    assert len(index) == len(list(index.store.ids())) == 5
    assert not {first.id, second.id, third.id} & {hit.id for hit in index.search(str(paths[5]))}
    assert {path: path.read_bytes() for path in paths} == before, "files are never touched"
    with pytest.raises(IndexFolderError, match="holds no video"):
        index.remove([first.id])
    assert index.verify() == []
    assert index.add(videos).added == 3
    assert len(index.search(str(paths[0]))) == 8


def test_nothing_is_removed_where_one_is_unknown(index: visil.Index) -> None:
    known = next(iter(index.catalogue.videos())).id
    with pytest.raises(IndexFolderError, match="holds no video nonsense"):
        index.remove([known, "nonsense"])
    assert len(index) == 8


@pytest.mark.parametrize("name", ["", "f", "*", "????????", "[0-9a-f]*", "1234567"])
def test_what_is_no_name_of_a_video(index: visil.Index, name: str) -> None:
    with pytest.raises(IndexFolderError, match="holds no video"):
        index.video(name)


def test_numbers_are_never_used_again(index: visil.Index, videos: Path) -> None:
    """A reader with old candidates must not take a new video for a removed one."""
    last = max(index.catalogue.numbers())
    index.remove([index.catalogue.numbered([last])[last].id])
    index.add(videos)
    assert last not in index.catalogue.numbers()
    assert max(index.catalogue.numbers()) > last


# ---------------------------------------------------------------------- judge


def test_a_judgement_is_kept_through_renames(
    empty: visil.Index, videos: Path, tmp_path: Path, run: Command
) -> None:
    films = Path(shutil.copytree(videos / "copies", tmp_path / "films"))
    strange = Path(shutil.copy(videos / "alone" / "retina.mp4", films))
    empty.add(films)
    cat, small, cut = (films / name for name in ("cat.mp4", "cat small.mkv", "cut.mp4"))

    def groups() -> list[set[str]]:
        return [{Path(video.path).name for video in group.videos} for group in empty.duplicates()]

    assert groups() == [{"cat.mp4", "cat small.mkv", "cut.mp4"}]
    assert run("judge", empty.folder, cat, cut, "different").out == "recorded: different\n"
    assert run("judge", empty.folder, empty.video(str(cut)).id[:9], small, "different").status == 0
    assert groups() == [{"cat.mp4", "cat small.mkv"}]
    assert run("judge", empty.folder, strange, cut, "same").status == 0
    assert sorted(map(sorted, groups())) == [["cat small.mkv", "cat.mp4"], ["cut.mp4", "retina.mp4"]]

    moved = films.rename(tmp_path / "moved")
    (moved / "cut.mp4").rename(moved / "other name.mp4")
    empty.add(moved)
    assert sorted(map(sorted, groups())) == [["cat small.mkv", "cat.mp4"], ["other name.mp4", "retina.mp4"]]

    # A video that is taken out and comes back is still judged.
    empty.remove([str(moved / "other name.mp4")])
    assert groups() == [{"cat.mp4", "cat small.mkv"}]
    empty.add(moved)
    assert sorted(map(sorted, groups())) == [["cat small.mkv", "cat.mp4"], ["other name.mp4", "retina.mp4"]]

    for pair in (("cat.mp4", "other name.mp4"), ("cat small.mkv", "other name.mp4")):
        assert run("judge", empty.folder, *(moved / name for name in pair), "undo").status == 0
    run("judge", empty.folder, moved / "retina.mp4", moved / "other name.mp4", "undo")
    assert groups() == [{"cat.mp4", "cat small.mkv", "other name.mp4"}]


def test_judgements_that_cannot_be_meant(index: visil.Index, videos: Path, run: Command) -> None:
    cat, cut = videos / "copies" / "cat.mp4", videos / "copies" / "cut.mp4"
    assert "same as itself" in run("judge", index.folder, cat, cat, "same").line
    assert "not 'perhaps'" in run("judge", index.folder, cat, cut, "perhaps").line
    assert "holds no video" in run("judge", index.folder, cat, "ffffffff", "same").line


def test_a_search_may_look_among_some(
    index: visil.Index, videos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = next(index.catalogue.videos())
    everything = index.search(query.id, k=100)
    some = {hit.id for hit in everything[1::2]}
    assert [hit.id for hit in index.search(query.id, k=100, among=some)] == [
        hit.id for hit in everything if hit.id in some
    ]
    assert index.search(query.id, among=set()) == index.search(query.id, among={"nothing"}) == []
    monkeypatch.setattr("visil.collection.queries.CANDIDATES", 1)  # too many to compare them all
    best = index.search(query.id, k=1, among={*some, query.id, *(hit.id for hit in everything)})
    assert best[0].id == query.id
    with pytest.raises(visil.UsageError, match="among"):
        index.search(query.id, among=some, exhaustive=True)
