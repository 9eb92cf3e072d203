"""Search, compare, duplicates and add as jobs of a real server, against what ``visil`` itself says."""

from __future__ import annotations

import csv
import io
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

import visil
from visil.client import Client, Found, Hit, Job, Segment, ServerError
from visil.errors import UsageError

from .conftest import PATIENT, Running, is_problem, running


@pytest.fixture(scope="module")
def server(built: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """For tests that change the collection, one after another."""
    folder = Path(shutil.copytree(built, tmp_path_factory.mktemp("jobs") / "all.visil"))
    with running(folder, root, limits=PATIENT) as server:
        yield server


def done(server: Running, answer: httpx.Response) -> dict[str, Any]:
    """The result of the job that an answer speaks of."""
    assert answer.status_code == 202, answer.text
    return server.client.wait(answer.json()["job"]["id"])


def upload(server: Running, file: Path, name: str | None = None) -> str:
    with file.open("rb") as data:
        answer = server.http.post("/api/uploads", params={"name": name or file.name}, content=data)
    assert answer.status_code == 201, answer.text
    said = answer.json()
    assert (said["bytes"], said["name"]) == (file.stat().st_size, name or file.name)
    assert 0 < said["expires"] <= 3600
    return str(said["upload"])


def test_search_by_upload_video_and_path(shared: Running, root: Path) -> None:
    with visil.Index(shared.folder, create=False) as index:
        truth = index.search(root / "cut.mp4", 20)
    sent = upload(shared, root / "cut.mp4")
    for ref in ({"upload": sent}, {"path": str(root / "cut.mp4")}):
        found = done(shared, shared.http.post("/api/search", json=ref))
        (kind,) = ref
        assert (found["query"]["kind"], found["query"]["name"]) == (kind, "cut.mp4")
        assert found["query"]["duration"] == pytest.approx(3, abs=0.2)
        assert [hit["video"]["id"] for hit in found["hits"]] == [hit.id for hit in truth]
        for hit, expected in zip(found["hits"], truth, strict=True):
            assert hit["score"] == pytest.approx(expected.score, abs=2e-3)
            assert hit["verdict"] == expected.verdict
        best = found["hits"][0]
        start = {"cat.mp4": 2.0, "part of it.mkv": 1.0}[best["video"]["name"]]
        assert best["moment"][1] - best["moment"][0] == pytest.approx(start, abs=0.01)
        assert best["verdict"] in ("copy", "related")
        assert best["in_words"].startswith("shares 3")
        assert set(found) == set(Found.__annotations__)
        assert set(best) == set(Hit.__annotations__)
        assert set(best["segments"][0]) == set(Segment.__annotations__) - {"line"}
    own = shared.id("cat.mp4")
    found = done(shared, shared.http.post("/api/search", json={"video": own, "k": 1}))
    assert [hit["video"]["name"] for hit in found["hits"]] == ["part of it.mkv"]
    by_path = done(shared, shared.http.post("/api/search", json={"path": str(root / "videos" / "cat.mp4")}))
    assert (by_path["query"]["kind"], by_path["query"]["id"]) == ("video", own)


def test_an_upload_can_be_watched_and_deleted(shared: Running, root: Path) -> None:
    sent = upload(shared, root / "cut.mp4", ["../../ünï", "cut.mp4"][-1])
    data = (root / "cut.mp4").read_bytes()
    part = shared.http.get(f"/api/uploads/{sent}/stream", headers={"Range": "bytes=5-20"})
    assert (part.status_code, part.content, part.headers["content-type"]) == (206, data[5:21], "video/mp4")
    picture = shared.http.get(f"/api/uploads/{sent}/thumbnail?at=1&width=80")
    assert Image.open(io.BytesIO(picture.content)).size == (80, 60)
    assert shared.http.delete(f"/api/uploads/{sent}").status_code == 204
    is_problem(shared.http.get(f"/api/uploads/{sent}/stream"), 404, "Send it again")
    is_problem(shared.http.post("/api/search", json={"upload": sent}), 404)
    assert not list((shared.folder / "serve" / "uploads").glob(f"{sent}*"))


def test_compare_with_matrices(shared: Running, root: Path) -> None:
    cat, part = shared.id("cat.mp4"), shared.id("part of it")
    found = done(
        shared, shared.http.post("/api/compare", json={"query": {"video": part}, "target": {"video": cat}})
    )
    with visil.Index(shared.folder, create=False) as index:
        files = ((part, "part of it.mkv"), (cat, "cat.mp4"))
        both = [index.store.read(video, path=str(root / "videos" / name)) for video, name in files]
        truth = index.model.compare(*both)
    assert found["score"] == pytest.approx(truth.score, abs=1e-4)
    assert found["confidence"] == pytest.approx(truth.confidence, abs=1e-4)
    assert found["verdict"] == "copy"
    assert found["in_words"] == "shares 5 s, from 0:01"
    assert found["query_times"] == truth.query_times.tolist()
    assert found["attention"] is False
    assert all(sentence.endswith(".") for sentence in found["how"])
    assert set(found["segments"][0]) == set(Segment.__annotations__)
    for name, matrix in (("frame_matrix", truth.frame_matrix), ("output_matrix", truth.output_matrix)):
        rows, columns, values = shared.client.matrix(found[name]["url_bin"])
        assert (rows, columns) == matrix.shape == (found[name]["rows"], found[name]["columns"])
        np.testing.assert_allclose(np.frombuffer(values, "<f4").reshape(rows, columns), matrix, atol=1e-5)
        picture = Image.open(io.BytesIO(shared.http.get(found[name]["url_png"]).content))
        assert picture.size == (columns, rows)
    folder = f"/api/comparisons/{found['comparison']}"
    is_problem(shared.http.get(f"{folder}/attention.png?side=query&frame=0"), 404, "no attention")
    is_problem(shared.http.get(f"{folder}/meta.json"), 404)
    is_problem(shared.http.get(f"/api/comparisons/{'0' * 32}/frame_matrix.png"), 404, "Compare")
    mixed = {"query": {"path": str(root / "cut.mp4")}, "target": {"video": cat}}
    found = done(shared, shared.http.post("/api/compare", json=mixed))
    assert found["in_words"].startswith("shares 3 s")
    assert found["in_words"].endswith("from 0:02")


def test_duplicates_judged_and_exported(server: Running, root: Path) -> None:
    is_problem(server.http.get("/api/duplicates"), 404, "yet")
    is_problem(server.http.get("/api/duplicates/export?format=csv"), 404)
    found = done(server, server.http.post("/api/duplicates", json={"min_confidence": 0.5}))
    (group,) = found["groups"]
    assert {video["name"] for video in group["videos"]} == {"cat.mp4", "part of it.mkv"}
    assert [video["name"] for video in group["videos"] if video["keep"]] == ["cat.mp4"]
    assert all(video["why"] and video["playable"] for video in group["videos"])
    (pair,) = group["pairs"]
    assert pair["verdict"] == "copy"
    assert pair["judgement"] is None
    seconds = dict(zip((pair["query"], pair["target"]), pair["moment"], strict=True))
    names = {video["id"]: video["name"] for video in group["videos"]}
    shown = {names[video]: second for video, second in seconds.items()}
    assert shown["cat.mp4"] - shown["part of it.mkv"] == pytest.approx(1, abs=0.3)
    last = server.http.get("/api/duplicates").json()
    assert last.pop("made").endswith("Z")
    assert last == found

    rows = list(csv.DictReader(io.StringIO(server.http.get("/api/duplicates/export?format=csv").text)))
    assert {row["keep"] for row in rows} == {str(root / "videos" / "cat.mp4")}
    page = server.http.get("/api/duplicates/export?format=html")
    assert "attachment" in page.headers["content-disposition"]
    assert "part of it.mkv" in page.text
    is_problem(server.http.get("/api/duplicates/export?format=exe"), 422)

    plan = list(csv.DictReader(io.StringIO(server.http.get("/api/duplicates/export?format=plan").text)))
    assert [(row["action"], row["path"]) for row in plan] == [
        (file["action"], file["path"]) for file in group["files"]
    ]
    assert {row["footage_in"] for row in plan if row["action"] == "drop"} == {
        str(root / "videos" / "cat.mp4")
    }

    server.client.judge(pair["query"], pair["target"], "different")
    judged = server.http.get("/api/duplicates").json()
    assert (
        judged["groups"]
        == json.loads(server.http.get("/api/duplicates/export?format=json").text)["groups"]
        == []
    )
    assert [one["judgement"] for one in judged["different"]] == ["different"], "so that it can be taken back"
    assert not list((server.folder / "serve" / "results").glob("*.csv"))


def test_add_a_folder_with_live_progress(server: Running, root: Path) -> None:
    job = server.http.post("/api/add", json={"path": str(root / "more")}).json()["job"]
    assert (job["kind"], job["state"], job["progress"]["unit"]) == ("add", "waiting", "files")
    heard: list[Job] = []
    with server.http.stream("GET", f"/api/jobs/{job['id']}/events") as events:
        assert events.headers["content-type"].startswith("text/event-stream")
        for line in events.iter_lines():
            if line.startswith("data: "):
                heard.append(json.loads(line.removeprefix("data: ")))
    assert [one["state"] for one in heard if one["state"] != "running"][-1] == "done"
    assert heard[-1]["progress"]["done"] == heard[-1]["progress"]["total"] == 1
    whole = server.http.get(f"/api/jobs/{job['id']}").json()
    assert whole["result"] == {"added": 1, "unchanged": 0, "failed": [], "outside": 0}
    rocket = server.video("rocket")
    assert (rocket["state"], rocket["playable"]) == ("ready", True)
    assert server.http.get("/api/jobs").json()["jobs"][0]["id"] == job["id"]
    stream = server.http.get(f"/api/videos/{rocket['id']}/stream")
    assert stream.headers["content-type"] == "video/webm"


def test_cancel_what_runs_and_what_waits(server: Running) -> None:
    for _ in range(20):  # a job may be quicker than whoever cancels it
        first, second = (server.client.start("duplicates", {"min_confidence": 0.0})["id"] for _ in range(2))
        waited = server.client.cancel(second)["state"] == "cancelled"
        while server.client.job(first)["state"] == "waiting":
            time.sleep(0.01)
        server.client.cancel(first)
        for job in (first, second):
            with suppress(ServerError):
                server.client.wait(job)
        if waited and server.client.job(first)["state"] == "cancelled":
            break
    assert waited
    with pytest.raises(ServerError, match="cancelled"):
        server.client.wait(first)
    assert server.client.cancel(first)["state"] == "cancelled"
    is_problem(server.http.delete("/api/jobs/nothing"), 404)
    is_problem(server.http.get("/api/jobs/nothing/events"), 404)


def test_client(shared: Running, root: Path, tmp_path: Path) -> None:
    client = shared.client
    assert client.session()["index"]["videos"] == 3
    assert [video["name"] for video in client.all_videos(state="ready", sort="-name")] == [
        *("part of it.mkv", "coffee.mp4", "cat.mp4")
    ]
    told: list[str] = []
    found = client.search(file=root / "cut.mp4", k=1, progress=lambda job: told.append(job["state"]))
    assert next(hit["video"]["name"] for hit in found["hits"]) in ("cat.mp4", "part of it.mkv")
    assert told[-1] == "done"
    assert client.video(shared.id("cat.mp4"))["frames"] == 7
    assert client.thumbnail(shared.id("cat.mp4"), at=1)[:2] == b"\xff\xd8"
    with pytest.raises(ServerError, match="no such video") as refused:
        client.video("0" * 32)
    assert refused.value.status == 404
    with pytest.raises(UsageError, match="cannot be read"):
        client.upload(tmp_path / "nothing.mp4")
    with pytest.raises(UsageError):
        client.search()
    with pytest.raises(ServerError, match="cannot be reached"):
        Client("http://127.0.0.1:9", timeout=2).session()
    with pytest.raises(UsageError, match="http://"):
        Client("file:///etc/passwd")
