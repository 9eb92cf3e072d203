"""Lists, pictures and streams of a real collection over HTTP."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path
from time import sleep

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import visil
from visil.errors import UsageError
from visil.video import frames_at
from visil.web import library
from visil.web.pictures import Pictures
from visil.web.ranges import wanted
from visil.web.settings import Limits
from visil.web.state import StateFolder

from .conftest import Running, Serve, is_problem


def test_session_tells_what_is_served(shared: Running, root: Path) -> None:
    said = shared.http.get("/api/session").json()
    assert said["authenticated"]
    assert not said["token_needed"]
    assert said["index"] == {
        "name": "all.visil",
        "videos": 3,
        "model": "visil-lite0-frames",
        "writable": True,
    }
    assert said["roots"] == [str(root.resolve())]
    assert said["limits"]["upload_bytes"] > 0


def test_list_sorted_filtered_and_paged(shared: Running) -> None:
    def names(**asked: object) -> list[str]:
        answer = shared.http.get("/api/videos", params={k: str(v) for k, v in asked.items()})
        assert answer.status_code == 200
        return [video["name"] for video in answer.json()["videos"]]

    assert names() == ["broken.mp4", "cat.mp4", "coffee.mp4", "part of it.mkv"]
    assert names(sort="-duration", state="ready") == ["cat.mp4", "part of it.mkv", "coffee.mp4"]
    assert names(sort="-name", limit=2, offset=1) == ["coffee.mp4", "cat.mp4"]
    assert names(q="COFF") == ["coffee.mp4"]
    assert names(state="failed") == ["broken.mp4"]
    assert names(state="working") == []
    assert names(offset=100) == []
    assert shared.http.get("/api/videos?limit=1").json()["total"] == 4


def test_failures_are_tried_again_or_removed_and_a_clip_comes_in(serve: Serve, root: Path) -> None:
    server = serve()
    broken = server.video("broken")
    is_problem(server.http.post("/api/videos/retry", json={"files": ["0" * 16]}), 404)
    again = server.http.post("/api/videos/retry", json={"files": [broken["file"]]})
    assert again.status_code == 202
    with (root / "cut.mp4").open("rb") as data:
        sent = server.http.post("/api/uploads", params={"name": "../my cut.mp4"}, content=data).json()
    clip = server.http.post(f"/api/uploads/{sent['upload']}/add").json()["job"]["id"]
    result = server.client.wait(again.json()["job"]["id"])
    assert [one["path"] for one in result["failed"]] == [broken["path"]]
    assert server.client.wait(clip)["added"] == 1
    assert server.video("my cut")["path"] == str(server.folder / "clips" / "my cut.mp4")
    gone = {"files": [server.video("broken")["file"]], "videos": [server.id("coffee")]}
    assert server.http.post("/api/videos/remove", json=gone).status_code == 204
    left = server.http.get("/api/videos").json()["videos"]
    assert [one["name"] for one in left] == ["cat.mp4", "my cut.mp4", "part of it.mkv"]
    is_problem(server.http.post("/api/videos/remove", json=gone), 404)


def test_a_large_library_answers_while_it_is_read_again(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "LARGE", 0)
    monkeypatch.setattr(library, "OFTEN_S", 0.0)
    monkeypatch.setattr(library, "SHARE", 0)
    with visil.Index(shutil.copytree(built, tmp_path / "all.visil")) as index:
        lists = library.Library(index)

        def names() -> list[str]:
            return [entry.name for entry in lists.page(0, 10, state="ready")[1]]

        assert names() == ["cat.mp4", "coffee.mp4", "part of it.mkv"]
        gone = next(entry.id for entry in lists.page(0, 1, text="coffee")[1])
        assert gone is not None
        index.remove([gone])
        lists.left([gone])
        assert names() == ["cat.mp4", "part of it.mkv"]  # what this server took out, at once
        index.remove([next(str(entry.id) for entry in lists.page(0, 1, text="part")[1])])
        while names() != ["cat.mp4"]:  # what others took out, once it is read
            sleep(0.01)
        lists.close()


def test_a_video_says_what_is_known_of_it(shared: Running, root: Path) -> None:
    cat, file = shared.video("cat.mp4"), root / "videos" / "cat.mp4"
    assert cat["path"] == str(file)
    assert (cat["width"], cat["height"], cat["frames"]) == (*SIZE_SHOWN, 7)
    assert cat["duration"] == pytest.approx(7, abs=0.2)
    assert (cat["bytes"], cat["state"], cat["playable"]) == (file.stat().st_size, "ready", True)
    assert cat["added"].endswith("Z")
    assert shared.http.get(f"/api/videos/{cat['id']}").json() == cat
    broken = shared.video("broken.mp4")
    assert broken["id"] is None
    assert broken["reason"] == "not a video file: it holds text"
    is_problem(shared.http.get("/api/videos/" + "0" * 32), 404, "no such video")
    is_problem(shared.http.get(f"/api/videos/{cat['id'][:10]}"), 404)


SIZE_SHOWN = (160, 120)


def test_thumbnail_shows_the_frame_at_that_time(shared: Running, root: Path) -> None:
    cat = shared.id("cat.mp4")
    for at in (0.5, 5.5):
        answer = shared.http.get(f"/api/videos/{cat}/thumbnail", params={"at": at, "width": 160})
        assert answer.headers["content-type"] == "image/jpeg"
        shown = np.asarray(Image.open(io.BytesIO(answer.content)), np.float64)
        (truth,) = frames_at(root / "videos" / "cat.mp4", [at], 120)
        assert shown.shape == (120, 160, 3)
        assert np.abs(shown - truth).mean() < 6
    tag = answer.headers["etag"]
    again = shared.http.get(
        f"/api/videos/{cat}/thumbnail", params={"at": at, "width": 160}, headers={"If-None-Match": tag}
    )
    assert (again.status_code, again.content) == (304, b"")
    is_problem(shared.http.get(f"/api/videos/{'1' * 32}/thumbnail"), 404)
    is_problem(shared.http.get(f"/api/videos/{cat}/thumbnail?at=nan"), 422)
    is_problem(shared.http.get(f"/api/videos/{cat}/thumbnail?width=100000"), 422)


def test_frames_side_by_side(shared: Running, root: Path) -> None:
    cat = shared.id("cat.mp4")
    answer = shared.http.get(f"/api/videos/{cat}/frames.jpg", params={"times": "1,3.5,6", "width": 80})
    strip = np.asarray(Image.open(io.BytesIO(answer.content)), np.float64)
    assert strip.shape == (60, 240, 3)
    for place, truth in enumerate(frames_at(root / "videos" / "cat.mp4", [1, 3.5, 6], 60)):
        assert np.abs(strip[:, 80 * place : 80 * (place + 1)] - truth).mean() < 8
    for times in ("", "a", "1,,2", "-1", "inf", ",".join("1" * 61)):
        is_problem(shared.http.get(f"/api/videos/{cat}/frames.jpg", params={"times": times}), 422)


def test_stream_whole_and_in_parts(shared: Running, root: Path) -> None:
    cat = shared.id("cat.mp4")
    data = (root / "videos" / "cat.mp4").read_bytes()
    address = f"/api/videos/{cat}/stream"
    whole = shared.http.get(address)
    assert (whole.status_code, whole.content, whole.headers["content-type"]) == (200, data, "video/mp4")
    assert whole.headers["accept-ranges"] == "bytes"
    part = shared.http.get(address, headers={"Range": "bytes=100-299"})
    assert (part.status_code, part.content) == (206, data[100:300])
    assert part.headers["content-range"] == f"bytes 100-299/{len(data)}"
    assert shared.http.get(address, headers={"Range": "bytes=-50"}).content == data[-50:]
    assert shared.http.get(address, headers={"Range": f"bytes={len(data) - 5}-"}).content == data[-5:]
    beyond = shared.http.get(address, headers={"Range": f"bytes={len(data)}-"})
    is_problem(beyond, 416)
    assert beyond.headers["content-range"] == f"bytes */{len(data)}"
    same = {"Range": "bytes=0-9", "If-Range": whole.headers["etag"]}
    assert shared.http.get(address, headers=same).status_code == 206
    assert shared.http.get(address, headers=same | {"If-Range": '"old"'}).content == data
    head = shared.http.head(address)
    assert (head.status_code, int(head.headers["content-length"]), head.content) == (200, len(data), b"")
    other = shared.http.get(f"/api/videos/{shared.id('part of it')}/stream")
    assert other.headers["content-type"] == "video/x-matroska"


@given(st.integers(0, 50), st.integers(0, 60), st.integers(0, 60))
def test_ranges_are_slices(size: int, first: int, last: int) -> None:
    data = bytes(range(size))
    for header, truth in (
        (f"bytes={first}-{last}", data[first : last + 1]),
        (f"bytes={first}-", data[first:]),
        (f"bytes=-{last}", data[-last:] if last else b""),
    ):
        try:
            part = wanted(header, size)
        except ValueError:
            assert truth == b""
            continue
        if part is None:
            assert header == f"bytes={first}-{last}"
            assert last < first
        else:
            assert data[part[0] : part[1] + 1] == truth != b""


@pytest.mark.parametrize("header", [None, "", "items=0-1", "bytes=0-1,3-4", "bytes=a-b", "bytes=-"])
def test_what_is_no_range_is_everything(header: str | None) -> None:
    assert wanted(header, 10) is None


def test_removal_keeps_the_file_and_verdicts_are_taken_back(serve: Serve, root: Path) -> None:
    server = serve()
    _judge_and_undo(server)
    coffee = server.id("coffee.mp4")
    is_problem(server.http.delete(f"/api/videos/{coffee}", headers={"X-Visil": ""}), 403, "X-Visil")
    assert server.http.delete(f"/api/videos/{coffee}").status_code == 204
    is_problem(server.http.delete(f"/api/videos/{coffee}"), 404)
    is_problem(server.http.get(f"/api/videos/{coffee}/stream"), 404)
    assert server.http.get("/api/videos?state=ready").json()["total"] == 2
    assert (root / "videos" / "coffee.mp4").is_file()


def _judge_and_undo(server: Running) -> None:
    a, b = server.id("cat.mp4"), server.id("coffee.mp4")
    for verdict, previous in (("different", None), ("same", "different"), (None, "same"), (None, None)):
        said = server.http.put("/api/judgements", json={"a": b, "b": a, "verdict": verdict})
        assert said.json() == {"a": b, "b": a, "verdict": verdict, "previous": previous}
        on_record = server.http.get("/api/judgements").json()["judgements"]
        assert on_record == ([{"a": min(a, b), "b": max(a, b), "verdict": verdict}] if verdict else [])
    is_problem(server.http.put("/api/judgements", json={"a": a, "b": a, "verdict": "same"}), 422, "itself")
    is_problem(server.http.put("/api/judgements", json={"a": a, "b": "0" * 32, "verdict": "same"}), 404)
    is_problem(server.http.put("/api/judgements", json={"a": a, "b": b, "verdict": "maybe"}), 422)
    assert server.client.judge(a, b, "same") is None
    assert server.client.judge(a, b, None) == "same"


def test_a_collection_that_cannot_be_written_to_keeps_jobs_in_the_cache(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("visil.web.state.can_write", lambda _: False)
    state = StateFolder(built)
    assert tmp_path in state.jobs.parents
    assert not (built / "serve").exists()
    with pytest.raises(UsageError, match="another"):
        StateFolder(built)
    state.close()
    StateFolder(built).close()


def test_pictures_make_way_for_newer_ones(tmp_path: Path, root: Path) -> None:
    pictures = Pictures(tmp_path, Limits(pictures_bytes=20_000))
    file = root / "videos" / "cat.mp4"
    keys = [pictures.key("cat", [time], 160) for time in (0.0, 1.0, 2.0, 3.0, 4.0)]
    for age, (time, key) in enumerate(zip((0.0, 1.0, 2.0, 3.0, 4.0), keys, strict=True)):
        made = pictures.make(key, file, [time], (160, 120))
        os.utime(tmp_path / key[:2] / f"{key}.jpg", (age, age))
        assert pictures.kept(key) == made
        os.utime(tmp_path / key[:2] / f"{key}.jpg", (age, age))
    assert sum(path.stat().st_size for path in tmp_path.glob("??/*.jpg")) <= 20_000
    assert pictures.kept(keys[0]) is None
    assert pictures.kept(keys[-1]) is not None
    pictures.close()
