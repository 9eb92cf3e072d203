"""Reviewing duplicates on a real server: page, tables and script tell one plan, decided file by file."""

from __future__ import annotations

import csv
import io
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import visil
from visil.web.state import Job, JobStore

from .conftest import Running, is_problem, running


@pytest.fixture(scope="module")
def collection(root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder of videos with an exact copy of the cat, and the collection of it in which duplicates were found."""
    videos = Path(shutil.copytree(root / "videos", tmp_path_factory.mktemp("review") / "videos"))
    shutil.copy(videos / "cat.mp4", videos / "cat again.mp4")
    folder = videos.parent / "all.visil"
    with visil.Index(folder) as index:
        index.add(videos, workers=1)
        found = index.find_duplicates(0.5, workers=1)
    (folder / "serve" / "results").mkdir(parents=True)
    store = JobStore(folder / "serve" / "jobs.sqlite", folder / "serve" / "results", 10)
    now = time.time() + 1
    store.put(Job("d1", "duplicates", "done", "Find duplicates", {}, {}, now, now))
    store.keep_result("d1", {**found.to_dict(), "min_confidence": 0.5})
    store.close()
    return folder, videos


@pytest.fixture
def server(collection: tuple[Path, Path], tmp_path: Path) -> Iterator[Running]:
    folder = Path(shutil.copytree(collection[0], tmp_path / "all.visil"))
    with running(folder, collection[1]) as one:
        yield one


def review(server: Running, **settings: Any) -> dict[str, Any]:
    answer = server.http.get("/api/review", params=settings)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def exported(server: Running, form: str, **settings: Any) -> str:
    answer = server.http.get("/api/duplicates/export", params={"format": form, **settings})
    assert answer.status_code == 200, answer.text
    return answer.text


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def the_same_everywhere(server: Running) -> dict[str, str]:
    """{name: action} as the page has it; every export says the same."""
    groups = review(server)["groups"]
    assert groups == server.http.get("/api/duplicates").json()["groups"]
    shown = {file["path"]: file["action"] for group in groups for file in group["files"]}
    assert {row["path"]: row["action"] for row in rows(exported(server, "plan"))} == shown
    plan = json.loads(exported(server, "plan-json"))["files"]
    assert {row["path"]: row["action"] for row in plan} == shown
    told = json.loads(exported(server, "json"))["groups"]
    assert {file["path"]: file["action"] for one in told for file in one["files"]} == shown
    assert exported(server, "script").count("\nmove ") == sum(one == "drop" for one in shown.values())
    for row in rows(exported(server, "csv")):
        for side in ("query", "target"):
            assert row[f"{side}_action"] == shown[row[side]]
    return {Path(path).name: action for path, action in shown.items()}


def test_a_review_from_the_suggestion_to_the_plan(server: Running, collection: tuple[Path, Path]) -> None:
    found = review(server)
    (group,) = found["groups"]
    names = {file["name"]: file for file in group["files"]}
    assert set(names) == {"cat.mp4", "cat again.mp4", "part of it.mkv"}
    suggested = the_same_everywhere(server)
    assert sorted(suggested.values()) == ["drop", "drop", "keep"]
    progress = found["progress"]
    assert (progress["groups"], progress["reviewed"], progress["drop"], progress["exact"]) == (1, 0, 2, 1)
    assert progress["drop_bytes"] == sum(f["bytes"] for f in group["files"] if f["action"] == "drop")
    assert found["newer"] == {"added": 0, "gone": 0}

    # Pictures of the same moment: the part begins at the second second of the cat.
    times = {video["name"]: video for video in group["videos"]}
    assert all(video["same_moment"] for video in group["videos"])
    cat = times.get("cat.mp4") or times["cat again.mp4"]
    for one, other in zip(cat["times"], times["part of it.mkv"]["times"], strict=True):
        assert one - other == pytest.approx(1, abs=0.6)

    accepted = server.http.post("/api/review/accept", json={"only": "exact"}).json()
    assert accepted["files"] == 2  # the copy, and the one that stays for it
    assert review(server)["progress"]["decided_drop"] == 1
    assert json.loads(exported(server, "plan-json", reviewed=True))["files"] == []

    part = names["part of it.mkv"]["file"]
    said = server.http.put("/api/review/decisions", json={"files": [{"file": part, "action": "keep"}]}).json()
    assert said["progress"]["reviewed"] == 1
    assert said["groups"][0]["reviewed"]
    assert the_same_everywhere(server)["part of it.mkv"] == "keep"
    assert "part of it.mkv" in exported(server, "plan", reviewed=True)
    assert (review(server, show="open")["total"], review(server, show="done")["total"]) == (0, 1)

    kept = next(
        f for f in said["groups"][0]["files"] if f["action"] == "keep" and f["name"] != "part of it.mkv"
    )
    is_problem(
        server.http.put(
            "/api/review/decisions",
            json={"files": [{"file": name, "action": "drop"} for name in (part, kept["file"])]},
        ),
        409,
        "Keep at least one",
    )
    is_problem(
        server.http.put("/api/review/decisions", json={"files": [{"file": "0" * 16, "action": "drop"}]}), 404
    )

    undone = server.http.post("/api/review/undo").json()
    assert undone["title"] == "Keep part of it.mkv"
    assert the_same_everywhere(server) == suggested
    server.http.post("/api/review/undo")
    assert review(server)["progress"]["decided_drop"] == 0
    is_problem(server.http.post("/api/review/undo"), 409, "nothing to undo")


def test_decisions_outlive_the_server_and_a_verdict_changes_page_and_exports_alike(
    collection: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(collection[0], tmp_path / "all.visil"))
    with running(folder, collection[1]) as server:
        server.http.post("/api/review/accept", json={})
        before = the_same_everywhere(server)
        assert review(server)["progress"]["reviewed"] == 1
        assert review(server)["undo"] == "Accept suggestions for 3 files"
    with running(folder, collection[1]) as server:
        assert the_same_everywhere(server) == before
        assert review(server)["progress"]["reviewed"] == 1
        (pair,) = review(server)["groups"][0]["pairs"]
        server.client.judge(pair["query"], pair["target"], "different")
        found = review(server)
        assert len(found["different"]) == 1
        assert "part of it.mkv" not in the_same_everywhere(server)  # the copies remain a group
        server.http.delete(f"/api/videos/{server.id('part of it')}")
        assert review(server)["newer"]["gone"] == 1
