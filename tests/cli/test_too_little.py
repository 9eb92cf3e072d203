"""Files with the same bytes, and files that show next to nothing: what is said of them, and by which exit status."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from synthetic import write_video
from visil.demo import photograph, render_scene
from visil.video import Image

from .conftest import Here

NOTE = "too little to judge: 9 of 10 frames are nearly blank in the query"


def scene(name: str, seconds: float) -> list[Image]:
    return list(render_scene(photograph(name), seconds, 5, (160, 120)))


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``dark`` shows something for a second of ten; ``again`` has its bytes, ``black`` shows nothing."""
    folder = tmp_path_factory.mktemp("films")
    black = [np.zeros((120, 160, 3), np.uint8)] * 45
    write_video(folder / "dark.mp4", [*scene("chelsea", 1), *black], fps=5)
    (folder / "again.mp4").write_bytes((folder / "dark.mp4").read_bytes())
    write_video(folder / "black.mp4", black, fps=5)
    write_video(folder / "scene.mp4", scene("coffee", 8), fps=5)
    return folder


@pytest.mark.parametrize("other", ["dark.mp4", "again.mp4"])
def test_the_same_bytes_are_a_copy_whatever_they_show(films: Path, other: str, here: Here) -> None:
    done = here("compare", films / "dark.mp4", films / other, "--json", "--exit-code")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["verdict"], answer["confidence"]) == (0, "copy", 1.0)
    assert [(one["query"], one["target"]) for one in answer["segments"]] == [([0.0, 10.0], [0.0, 10.0])]
    told = here("compare", films / "dark.mp4", films / other).stdout
    assert told.startswith(
        "copy: the same bytes, 10 s shared, from 0:00 in the query and 0:00 in the target\n"
    )


def test_too_little_to_see_is_not_unrelated(films: Path, here: Here) -> None:
    done = here("compare", films / "dark.mp4", films / "scene.mp4", "--exit-code")
    assert (done.returncode, done.stdout) == (6, f"{NOTE}\n")
    both = json.loads(here("compare", films / "dark.mp4", films / "black.mp4", "--json").stdout)
    assert (both["verdict"], both["segments"]) == ("unclear", [])
    assert both["note"] == f"{NOTE}, 9 of 9 in the target"


def test_a_report_says_so_too(films: Path, tmp_path: Path, here: Here) -> None:
    done = here("report", films / "dark.mp4", films / "scene.mp4", "--out", tmp_path / "match.html")
    assert done.stdout == f"{NOTE}\nwritten: {tmp_path / 'match.html'}\n"


def test_exit_statuses_tell_the_verdict(films: Path, tmp_path: Path, here: Here) -> None:
    write_video(tmp_path / "stranger.mp4", scene("astronaut", 8), fps=5)
    assert here("compare", films / "scene.mp4", tmp_path / "stranger.mp4").returncode == 0
    assert here("compare", films / "scene.mp4", tmp_path / "stranger.mp4", "--exit-code").returncode == 5
    assert here("compare", films / "scene.mp4", tmp_path / "none.mp4", "--exit-code").returncode == 1
    told = here("compare", films, films, "--exit-code")
    assert told.returncode == 0
    assert "again.mp4 and " in told.stdout
    assert told.stdout.splitlines()[-1] == "2 of 12 pairs share footage, 10 show too little to judge"


def test_a_collection_knows_the_same_bytes(films: Path, tmp_path: Path, here: Here) -> None:
    index = tmp_path / "films.visil"
    assert here("add", index, films / "dark.mp4", films / "scene.mp4").returncode == 0
    other = tmp_path / "other name.mp4"
    other.write_bytes((films / "dark.mp4").read_bytes())
    for options in ((), ("--exhaustive",), ("--first-look", "1"), ("-k", "1")):
        first, *others = json.loads(here("search", index, other, "--json", *options).stdout)["hits"]
        assert (first["path"], first["verdict"], first["note"]) == (
            str(films / "dark.mp4"),
            "copy",
            "the same bytes",
        )
        assert [(one["query"], one["target"]) for one in first["segments"]] == [([0.0, 10.0], [0.0, 10.0])]
        assert {one["verdict"] for one in others} <= {"unclear"}
    told = here("search", index, other, films / "black.mp4").stdout.splitlines()
    assert told[0].endswith(f"share footage; {NOTE}")
    assert told[1] == f"  1.000  copy     {films / 'dark.mp4'}  (the same bytes)"
    nothing = (
        "0 of the 0 nearest share footage; too little to judge: 9 of 9 frames are nearly blank in the query"
    )
    assert told[-1] == f"{films / 'black.mp4'}: {nothing}"
    (answer,) = (json.loads(here("search", index, films / "black.mp4", "--json", "-k", "1").stdout),)
    assert answer["note"].startswith("too little to judge")
