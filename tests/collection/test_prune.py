"""Files that are gone: marked, never kept or held against others, and forgotten when asked."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import visil

from .conftest import Command


@pytest.fixture
def films(videos: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(videos, tmp_path / "films"))


@pytest.fixture
def index(empty: visil.Index, films: Path) -> visil.Index:
    assert empty.add(films).added == 8
    return empty


def test_search_marks_hits_whose_file_is_gone(
    index: visil.Index, films: Path, videos: Path, run: Command
) -> None:
    (films / "copies" / "cat.mp4").unlink()
    query = videos / "copies" / "cut.mp4"
    hits = {Path(hit.path).name: hit.missing for hit in index.search(query, 3)}
    assert hits == {"cat.mp4": True, "cat small.mkv": False, "cut.mp4": False}
    told = run("search", index.folder, query, "-k", "3", "--json").json["hits"]
    assert {Path(hit["path"]).name: hit["missing"] for hit in told} == hits
    assert "cat.mp4  (the file is gone)" in run("search", index.folder, query).out


def test_search_names_a_file_that_is_there(index: visil.Index, films: Path, videos: Path) -> None:
    copy = Path(shutil.copy(films / "copies" / "cat.mp4", films / "zebra.mp4"))
    index.add(copy)
    (films / "copies" / "cat.mp4").unlink()
    (hit,) = index.search(videos / "copies" / "cat.mp4", 1)
    assert (hit.path, hit.missing) == (str(copy), False)


def test_duplicates_never_keep_what_is_gone_nor_let_a_file_go_for_it(
    index: visil.Index, films: Path, run: Command, tmp_path: Path
) -> None:
    (films / "copies" / "cat.mp4").unlink()
    table, page, plan = (tmp_path / name for name in ("t.csv", "r.html", "p.csv"))
    done = run("duplicates", index.folder, "--csv", table, "--html", page, "--plan", plan)
    assert f"gone  160x120    8.0 s  {films / 'copies' / 'cat.mp4'}  (the file is gone)" in done.out
    group = run("duplicates", index.folder, "--json").json["groups"][0]
    videos = {Path(video["path"]).name: video for video in group["videos"]}
    assert (videos["cat.mp4"]["keep"], videos["cat.mp4"]["missing"]) == (False, True)
    assert group["keep"] == videos["cat small.mkv"]["id"]
    for file in group["files"]:
        assert file["footage_in"] != str(films / "copies" / "cat.mp4")
    assert ">gone<" in page.read_text()
    assert str(films / "copies" / "cat.mp4") not in {
        row.split(",")[1] for row in table.read_text().splitlines()[1:]
    }


def test_a_group_of_which_nothing_is_there(
    index: visil.Index, films: Path, run: Command, tmp_path: Path
) -> None:
    shutil.rmtree(films / "inside")
    group = run(
        "duplicates", index.folder, "--json", "--csv", tmp_path / "t.csv", "--html", tmp_path / "r.html"
    ).json["groups"][1]
    assert group["keep"] is None
    assert all(video["missing"] and not video["keep"] for video in group["videos"])
    assert {file["action"] for file in group["files"]} == {"missing"}


def test_prune_says_first_and_forgets_when_told_to(index: visil.Index, films: Path, run: Command) -> None:
    gone = films / "alone" / "retina.mp4"
    gone.unlink()
    assert run("prune", index.folder).out == (
        f"would be forgotten: {gone}\n1 file is gone; nothing was changed: add --yes to forget them\n"
    )
    assert len(index) == 8
    assert run("prune", index.folder, "--json", "--yes").json == {
        "done": True,
        "forgotten": [str(gone)],
        "folder_gone": [],
    }
    assert len(index) == 7
    assert run("verify", index.folder).out == "sound\n", "its features are gone as well"
    assert run("prune", index.folder, "--yes").out == "nothing to forget\n"


def test_a_disk_that_is_not_mounted_is_no_reason_to_forget(
    index: visil.Index, films: Path, run: Command
) -> None:
    films.rename(films.with_name("elsewhere"))
    done = run("prune", index.folder, "--yes")
    assert done.out.count("kept, as its whole folder is gone: ") == 8
    assert len(index) == 8
    films.with_name("elsewhere").rename(films)
    assert index.add(films).unchanged == 8
    shutil.rmtree(films / "alone")
    assert len(run("prune", index.folder, "--json").json["folder_gone"]) == 3
    run("prune", index.folder, "--gone-folders", "--yes")
    assert len(index) == 5


def test_a_copy_that_is_there_keeps_its_video(index: visil.Index, films: Path) -> None:
    copy = Path(shutil.copy(films / "copies" / "cat.mp4", films / "again.mp4"))
    index.add(copy)
    (films / "copies" / "cat.mp4").unlink()
    assert index.prune(dry_run=False).files == [str(films / "copies" / "cat.mp4")]
    assert len(index) == 8
    assert index.video(str(copy)).path == str(copy)


def test_a_file_that_could_not_be_read_is_forgotten_too(index: visil.Index, films: Path) -> None:
    bad = films / "bad.mp4"
    bad.write_text("no")
    index.add(films)
    assert [failure.path for failure in index.info().failed] == [str(bad)]
    bad.unlink()
    index.prune(dry_run=False)
    assert index.info().failed == []


def test_a_link_to_nowhere_is_gone(index: visil.Index, films: Path, tmp_path: Path) -> None:
    link = films / "link.mp4"
    os.symlink(films / "alone" / "retina.mp4", link)
    index.add(link)
    (films / "alone" / "retina.mp4").unlink()
    assert index.prune(dry_run=False).files == [str(films / "alone" / "retina.mp4"), str(link)]
    assert len(index) == 7


def test_add_prunes_below_what_it_is_given(index: visil.Index, films: Path, run: Command) -> None:
    (films / "alone" / "retina.mp4").unlink()
    (films / "copies" / "cut.mp4").unlink()
    told = run("add", index.folder, films / "alone", "--prune", "--json").json
    assert told["pruned"] == [str(films / "alone" / "retina.mp4")]
    assert len(index) == 7
    assert "1 file forgotten: gone from disk" in run("add", index.folder, films, "--prune").out
    shutil.rmtree(films / "inside")
    assert "2 whose folders are gone are kept" in run("add", index.folder, films, "--prune").out
    assert len(index) == 6


def test_prune_over_shards(index: visil.Index, films: Path, tmp_path: Path, run: Command) -> None:
    assert run("shards", "create", tmp_path / "many.visil", "--shards", "3").status == 0
    run("add", tmp_path / "many.visil", films)
    (films / "alone" / "retina.mp4").unlink()
    assert run("prune", tmp_path / "many.visil", "--yes").out.endswith("1 file is gone\n")
    assert run("info", tmp_path / "many.visil", "--json").json["videos"] == 7
    assert run("prune", tmp_path / "many.visil", "--json").json["forgotten"] == []
