"""Which files ``add`` takes: patterns, sizes, lengths, links; and what it says of the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import visil
from synthetic import moving_scene, write_video
from visil.cli.file_selection import seconds_of, size_of
from visil.collection.discover import COLLECTION, LEAVES, discover
from visil.collection.selection import EVERYTHING, Selection
from visil.collection.shards.manifest import FILE
from visil.collection.storage import CATALOGUE
from visil.errors import UsageError

from .conftest import Command


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Empty files named like videos, in a few folders."""
    root = tmp_path / "tree"
    for name in (
        "a.mp4",
        "b.mkv",
        "a.tmp.mp4",
        "sub/c.mp4",
        "sub/previews/d.mp4",
        "previews/e.mp4",
        "notes.txt",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def taken(root: Path, selection: Selection) -> tuple[list[str], dict[str, str]]:
    """What is taken below a folder, and what is not and why."""
    passed: dict[str, str] = {}
    found = discover(
        [root],
        selection,
        passed_over=lambda path, why: passed.update({os.path.relpath(path, root): why}),
    )
    return [os.path.relpath(path, root) for path in found], passed


def test_excluded_files_and_folders_are_passed_over_with_their_pattern(tree: Path) -> None:
    found, passed = taken(tree, Selection(exclude=("*.tmp.mp4", "previews/")))
    assert found == ["a.mp4", "b.mkv", "sub/c.mp4"]
    assert passed == {
        "a.tmp.mp4": "excluded by *.tmp.mp4",
        "previews": "excluded by previews/",
        "sub/previews": "excluded by previews/",
    }


@pytest.mark.parametrize(
    ("include", "exclude", "found"),
    [
        (["*.mkv"], [], ["b.mkv"]),
        (["/*.mp4"], [], ["a.mp4", "a.tmp.mp4"]),
        (["sub/"], [], ["sub/c.mp4", "sub/previews/d.mp4"]),
        (["sub/"], ["previews"], ["sub/c.mp4"]),
        (["*.mp4", "!*.tmp.mp4"], ["sub", "previews"], ["a.mp4"]),
        ([], ["*", "!/*.mkv"], ["b.mkv"]),
        (["*.mp4"], ["*.mp4"], []),
    ],
)
def test_patterns_are_those_of_gitignore(
    tree: Path, include: list[str], exclude: list[str], found: list[str]
) -> None:
    assert taken(tree, Selection(include, exclude))[0] == found


def test_files_named_outright_are_judged_by_their_names(tree: Path) -> None:
    named = [tree / "a.mp4", tree / "a.tmp.mp4", tree / "nothing.mp4"]
    found = [path.name for path in discover(named, Selection(exclude=("*.tmp.*",)))]
    assert found == ["a.mp4", "nothing.mp4"]  # whether it is there is found out by who reads it


def test_small_files_are_passed_over(tree: Path) -> None:
    (tree / "b.mkv").write_bytes(bytes(1000))
    found, passed = taken(tree, Selection(min_size=1000))
    assert found == ["b.mkv"]
    assert passed["a.mp4"] == "smaller than 1,000 bytes"


def test_links_out_of_the_folder_are_not_followed(tree: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret.mp4").touch()
    (tree / "out").symlink_to(elsewhere)
    (tree / "out.mp4").symlink_to(elsewhere / "secret.mp4")
    (tree / "sub" / "up.mp4").symlink_to("../b.mkv")
    (tree / "treee").symlink_to(f"{tree}e")
    (tmp_path / "treee").mkdir()
    (tree / "nowhere.mp4").symlink_to("nothing")
    found, passed = taken(tree, Selection(include=("out", "up.mp4", "secret.mp4", "treee")))
    assert found == ["sub/up.mp4"]
    assert {name: why for name, why in passed.items() if why != "not included"} == {
        "out": LEAVES,
        "out.mp4": LEAVES,
        "treee": LEAVES,
    }
    everything = taken(tree, Selection(include=("secret.mp4", "out.mp4"), follow_links=True))[0]
    assert everything == ["out/secret.mp4", "out.mp4"]
    assert "out/secret.mp4" in taken(tree, EVERYTHING)[0]


def test_no_collection_is_entered(tmp_path: Path, empty: visil.Index) -> None:
    (empty.folder / "serve").mkdir()
    (empty.folder / "serve" / "upload.mp4").touch()
    (tmp_path / "a.mp4").touch()
    assert taken(tmp_path, Selection())[0] == ["a.mp4"]
    assert CATALOGUE in COLLECTION
    assert FILE in COLLECTION


def test_a_folder_that_is_a_link_may_be_named(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tree)
    assert taken(tmp_path / "link", Selection(include=("*.mkv",)))[0] == ["b.mkv"]


def test_a_folder_of_videos_does_not_become_one_of_images_when_all_are_excluded(tmp_path: Path) -> None:
    from PIL.Image import new

    new("RGB", (8, 8)).save(tmp_path / "cover.png")
    (tmp_path / "a.gif").touch()
    assert taken(tmp_path, Selection(exclude=("*.gif",)))[0] == []


@pytest.fixture
def lengths(tmp_path: Path) -> Path:
    """Videos of two, five and nine seconds; the last does not say how long it is."""
    folder = tmp_path / "lengths"
    folder.mkdir()
    for seconds, name in ((2, "two.mp4"), (5, "five.mp4"), (9, "nine.h264")):
        write_video(folder / name, moving_scene(seconds, seconds, 4, (96, 128)), 4)
    return folder


def test_videos_are_taken_by_length(lengths: Path, tmp_path: Path, empty: visil.Index) -> None:
    report = empty.add(lengths, selection=Selection(min_duration=3, max_duration=8))
    assert (report.added, report.failed) == (1, [])
    assert {os.path.basename(path): why for path, why in report.passed_over} == {
        "two.mp4": "shorter than 0:03",
        "nine.h264": "longer than 0:08",
    }
    assert [os.path.basename(video.path) for video in empty.catalogue.videos()] == ["five.mp4"]
    assert empty.verify() == []
    again = empty.add(lengths, selection=Selection(min_duration=20))
    assert (again.added, again.unchanged) == (0, 1)  # what is in the collection stays
    assert empty.add(lengths).added == 2


def test_a_file_that_cannot_be_read_fails_whatever_its_length(tmp_path: Path, empty: visil.Index) -> None:
    (tmp_path / "bad.mp4").write_bytes(b"not a film at all")
    report = empty.add(tmp_path / "bad.mp4", selection=Selection(min_duration=3))
    assert [path for path, _ in report.failed] == [str(tmp_path / "bad.mp4")]


def test_the_command_counts_and_lists_what_it_passes_over(
    lengths: Path, tmp_path: Path, run: Command
) -> None:
    (lengths / "readme.txt").touch()
    index = tmp_path / "i"
    options = ("--min-duration", "3s", "--exclude", "*.h264", "--min-size", "1B")
    done = run("add", index, lengths, *options)
    assert done.out.splitlines() == [
        "1 added, 0 unchanged, 0 failed",
        "2 passed over: 1 excluded by *.h264, 1 shorter than 0:03",
    ]
    told = run("add", index, lengths, *options, "--json").json
    assert (told["added"], told["unchanged"], told["failed"]) == (0, 1, [])
    assert {os.path.basename(one["path"]) for one in told["passed_over"]} == {"nine.h264", "two.mp4"}
    assert "passed_over" not in run("add", index, lengths / "five.mp4", "--json").json
    assert (
        f"visil: passed over: {lengths / 'readme.txt'}: not named like a video\n"
        in run("add", index, lengths, "-v").err
    )


def test_what_makes_no_sense_is_one_line(tmp_path: Path, run: Command) -> None:
    for options, said in (
        (["--exclude", "!"], "'!' is no pattern"),
        (["--min-size", "big"], "--min-size must be a size"),
        (["--min-duration", "soon"], "--min-duration must be a time"),
        (["--min-duration", "5m", "--max-duration", "10s"], "at least 300 s and at most 10 s"),
    ):
        assert said in run("add", tmp_path / "i", tmp_path, *options).line
    assert not (tmp_path / "i").exists()


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("500", 500), ("1.5kB", 1500), ("10MB", 10_000_000), ("2 g", 2_000_000_000), ("4KiB", 4096)],
)
def test_sizes_as_people_write_them(text: str, size: int) -> None:
    assert size_of("--min-size", text) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("0.5s", 0.5), ("1:30", 90), ("1:02:05", 3725), ("5m", 300), ("1h30m", 5400), ("2h", 7200)],
)
def test_times_as_people_write_them(text: str, seconds: float) -> None:
    assert seconds_of("--min-duration", text) == seconds
    for wrong in ("", "h", "1:2:3:4", "-5", "5 days"):
        with pytest.raises(UsageError):
            seconds_of("--min-duration", wrong)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="not a Linux system")
def test_what_the_system_makes_up_is_not_walked_through(tmp_path: Path) -> None:
    (tmp_path / "made up").symlink_to("/proc")
    (tmp_path / "one.mp4").touch()
    found = list(discover([tmp_path], Selection(follow_links=True)))
    assert found == [tmp_path / "one.mp4"]
    assert list(discover(["/proc"], Selection(follow_links=True))) == []
