"""Files of ids: patterns, several parts, endings, and names with special characters."""

from __future__ import annotations

from pathlib import Path

import pytest

from visil.errors import FileError, UsageError
from visil.evaluation.videos import find_videos, videos_by_name


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        *(
            "abc.mp4",
            "abc.json",
            "abcd.mkv",
            "-x_1.webm",
            "a[b]*.avi",
            "a.b.mp4",
            "v_q.mp4",
            "only.txt",
            "bare",
        ),
        *("one/video.mp4", "one/video.info.json", "1/1_1_Y.flv", "1/1_10_Y.flv", "twice.mp4", "twice.avi"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "pattern", "file"),
    [
        ("abc", "{id}.*", "abc.mp4"),
        ("abcd", "{id}.*", "abcd.mkv"),
        ("ab", "{id}.*", None),
        ("-x_1", "{id}.*", "-x_1.webm"),
        ("a[b]*", "{id}.*", "a[b]*.avi"),
        ("a", "{id}.*", "a.b.mp4"),
        ("a.b", "{id}.*", "a.b.mp4"),
        ("abc.mp4", "{id}.*", "abc.mp4"),
        ("abc.mp4", "{id}", "abc.mp4"),
        ("q", "v_{id}.*", "v_q.mp4"),
        ("q", "*_{id}.mp4", "v_q.mp4"),
        ("one", "{id}/video.*", "one/video.mp4"),
        ("1/1_1_Y", "{id}.*", "1/1_1_Y.flv"),
        ("1_1_Y", "*/{id}.*", "1/1_1_Y.flv"),
        ("only", "{id}.*", None),
        ("only", "{id}.txt", "only.txt"),
        ("bare", "{id}", "bare"),
        ("twice", "{id}.*", "twice.avi"),
        ("../abc", "{id}.*", None),
    ],
)
def test_patterns(folder: Path, name: str, pattern: str, file: str | None) -> None:
    found = find_videos(folder, [name], pattern)
    assert found == ({} if file is None else {name: folder / file})


@pytest.mark.parametrize("pattern", ["*.mp4", "/{id}.*", "../{id}.*"])
def test_patterns_that_make_no_sense(folder: Path, pattern: str) -> None:
    with pytest.raises(UsageError, match="pattern"):
        find_videos(folder, ["abc"], pattern)


def test_no_folder(folder: Path) -> None:
    with pytest.raises(FileError, match="no folder"):
        find_videos(folder / "abc.mp4", ["abc"])


def test_videos_of_a_collection_by_name() -> None:
    paths = {"X": ["/v/abc.mp4", "/v/copy.mp4"], "Y": ["/v/1/1_1_Y.flv"], "Z": ["/w/abc.d.mkv"]}
    found = videos_by_name(["abc", "copy", "1/1_1_Y", "2/1_1_Y", "abc.d", "abc.mp4", "none"], paths)
    assert found == {"abc": "X", "copy": "X", "1/1_1_Y": "Y", "abc.d": "Z", "abc.mp4": "X"}
    with pytest.raises(UsageError, match=r"could be /a/abc\.mp4 or /v/abc\.mp4"):
        videos_by_name(["abc"], paths | {"W": ["/a/abc.mp4"]})
