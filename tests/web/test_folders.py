"""Clicking through folders: what is shown lies inside the roots, and nothing else does."""

from __future__ import annotations

import io
import os
from pathlib import Path

import httpx
import pytest
from PIL import Image

from visil.errors import UsageError
from visil.web.problems import Problem
from visil.web.roots import Roots
from visil.web.routes.session import contents

from .conftest import Running, is_problem


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """``open/`` may be read: folders, videos, a text, something hidden, links out and in; ``closed/`` may not."""
    inside, outside = tmp_path / "open", tmp_path / "closed"
    for folder in (inside / "B", inside / "a", inside / ".git", outside):
        folder.mkdir(parents=True)
    for file in (inside / "two.MKV", inside / "One.mp4", inside / "notes.txt", outside / "secret.mp4"):
        file.touch()
    (inside / "out").symlink_to(outside)
    (inside / "out.mp4").symlink_to(outside / "secret.mp4")
    (inside / "in.mp4").symlink_to(inside / "One.mp4")
    os.mkdir(os.fsencode(inside) + b"/\xff")
    return tmp_path.resolve()


def test_a_folder_shows_what_may_be_read(tree: Path) -> None:
    roots = Roots([tree / "open"])
    top = contents(roots, "")
    assert (top["path"], [one["path"] for one in top["folders"]]) == (None, [str(tree / "open")])
    found = contents(roots, str(tree / "open"))
    assert [one["name"] for one in found["folders"]] == ["a", "B"]
    assert [one["name"] for one in found["videos"]] == ["in.mp4", "One.mp4", "two.MKV"]
    assert (found["above"], found["more"]) == (None, False)
    below = contents(roots, str(tree / "open" / "a"))
    assert (below["above"], below["folders"], below["videos"]) == (str(tree / "open"), [], [])


@pytest.mark.parametrize("path", ["closed", "open/../closed", "open/out", "", "open/nothing"])
def test_no_other_folder_is_shown(tree: Path, path: str) -> None:
    with pytest.raises(UsageError, match="no such file or folder that this server may read"):
        contents(Roots([tree / "open"]), str(tree / path))


def test_a_file_is_no_folder(tree: Path) -> None:
    with pytest.raises(Problem, match="is a file"):
        contents(Roots([tree / "open"]), str(tree / "open" / "One.mp4"))


def test_over_http(shared: Running, root: Path) -> None:
    found = shared.http.get("/api/folders", params={"path": str(root)}).json()
    assert [one["name"] for one in found["folders"]] == ["more", "videos"]
    assert [one["name"] for one in found["videos"]] == ["cut.mp4"]
    is_problem(shared.http.get("/api/folders", params={"path": "/etc"}), 422, "may read")


def test_a_video_is_watched_where_it_lies(shared: Running, root: Path, tmp_path: Path) -> None:
    cut = root / "cut.mp4"

    def ask(what: str, path: Path, **headers: str) -> httpx.Response:
        return shared.http.get(f"/api/files/{what}", params={"path": str(path)}, headers=headers)

    part = ask("stream", cut, Range="bytes=5-20")
    assert (part.status_code, part.content) == (206, cut.read_bytes()[5:21])
    for _ in range(2):  # made, and kept
        assert Image.open(io.BytesIO(ask("thumbnail", cut).content)).size == (160, 120)
    link = root / "videos" / "link.mp4"
    (tmp_path / "secret.mp4").write_bytes(cut.read_bytes())
    link.symlink_to(tmp_path / "secret.mp4")
    try:
        for what in ("stream", "thumbnail"):
            is_problem(ask(what, root / "videos" / "broken.mp4"), 422, "not a video file")
            is_problem(ask(what, root), 422, "folder")
            is_problem(ask(what, tmp_path / "secret.mp4"), 422, "may read")
            is_problem(ask(what, link), 422, "may read")
    finally:
        link.unlink()
