"""Searching by one call, many at once, once for each key, among banks, and with word to a webhook."""

from __future__ import annotations

import hashlib
import hmac
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from visil.web import webhooks
from visil.web.banks import Bank, Banks, NoBank, Reference
from visil.web.problems import Problem
from visil.web.settings import MIB
from visil.web.state import JobStore
from visil.web.webhooks import SECRET, Webhooks

from .conftest import Running, is_problem, running


class Receiver(HTTPServer):
    """Takes messages; the first one it refuses."""

    heard: list[tuple[dict[str, Any], str | None]]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert isinstance(self.server, Receiver)
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.server.heard.append((json.loads(body), self.headers["X-Visil-Signature"]))
            want = hmac.new(b"shared word", body, hashlib.sha256).hexdigest()
            assert self.headers["X-Visil-Signature"] == f"sha256={want}"
            self.send_response(503 if len(self.server.heard) == 1 else 204)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver(("127.0.0.1", 0), Receiver.Handler) as made:
        made.heard = []
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()


@pytest.fixture(scope="module")
def server(
    built: Path, root: Path, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    folder = shutil.copytree(built, tmp_path_factory.mktemp("api") / "all.visil")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SECRET, "shared word")
        patch.setattr(webhooks, "PAUSES_S", (0.0, 0.05))
        hosts = [f"127.0.0.1:{receiver.server_port}"]
        with running(Path(folder), root, webhook_hosts=hosts) as server:
            yield server


def names(found: dict[str, Any]) -> list[str]:
    return [hit["video"]["name"] for hit in found["hits"]]


def test_one_call_by_form_raw_bytes_path_and_video(server: Running, root: Path) -> None:
    clip = root / "cut.mp4"
    url = f"{server.url}/api/v1/search"
    if shutil.which("curl"):
        curl = ["curl", "-s", "-F", f"file=@{clip}", f"{url}?wait=60&k=2"]
        found = json.loads(subprocess.run(curl, capture_output=True, check=True).stdout)
    else:
        found = httpx.post(
            url, params={"wait": 60, "k": 2}, files={"file": ("cut.mp4", clip.read_bytes())}
        ).json()
    assert sorted(names(found)) == ["cat.mp4", "part of it.mkv"]
    assert (found["query"]["kind"], found["query"]["name"]) == ("upload", "cut.mp4")
    assert found["hits"][0]["confidence"] > 0.5
    raw = httpx.post(
        url,
        params={"wait": 60, "k": 2, "name": "a.mp4"},
        content=clip.read_bytes(),
        headers={"Content-Type": "video/mp4"},
    )
    assert (raw.status_code, names(raw.json())) == (200, names(found))
    form = httpx.post(
        f"{url}?wait=60",
        files={"file": ("b.mp4", clip.read_bytes())},
        data={"k": "1", "verdict": "copy,related"},
    )
    assert (names(form.json()), form.json()["query"]["name"]) == (names(found)[:1], "b.mp4")
    by_path = httpx.post(f"{url}?wait=60&k=1", json={"path": str(clip), "k": 2})
    assert names(by_path.json()) == names(found)
    video = server.id("cat.mp4")
    later = httpx.post(url, json={"video": video})
    assert later.status_code == 202
    assert server.client.wait(later.json()["job"]["id"])["query"]["id"] == video
    page = server.http.get(f"/api/v1/jobs/{found['job']}/results?limit=1&offset=1").json()
    assert (page["total"], [hit["video"]["name"] for hit in page["items"]]) == (2, names(found)[1:])


def test_what_is_wrong_with_a_search_is_said(server: Running, root: Path) -> None:
    url = f"{server.url}/api/v1/search"
    is_problem(httpx.post(url, json={"video": "x", "path": "y"}), 422, "name one of")
    is_problem(httpx.post(url, content=b"{", headers={"Content-Type": "application/json"}), 422)
    is_problem(httpx.post(f"{url}?wait=-1", json={"video": "x"}), 422, "wait")
    is_problem(httpx.post(f"{url}?waiting=1", json={"video": "x"}), 422, "waiting")
    is_problem(httpx.post(url, json={"video": "x" * MIB}), 413)
    is_problem(httpx.post(url, json={"video": "x", "added_since": 5}), 422, "2026-01-31T12:00:00Z")
    is_problem(httpx.post(url, files={"other": b"x"}), 422, "field “file”")
    is_problem(httpx.post(url, files=[("file", b"x"), ("file", b"y")]), 422)
    is_problem(
        httpx.post(url, files={"file": (root / "cut.mp4").read_bytes()}, data={"nonsense": "1"}),
        422,
        "nonsense",
    )
    is_problem(httpx.post(url, files={"file": b"no video"}), 422)
    is_problem(
        httpx.post(url, content=b"x", headers={"Content-Type": "multipart/form-data"}), 422, "boundary"
    )
    half = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.mp4"\r\n\r\n' + b"x" * 500
    is_problem(
        httpx.post(url, content=half, headers={"Content-Type": "multipart/form-data; boundary=b"}),
        400,
        "whole",
    )
    broken = root / "videos" / "broken.mp4"
    is_problem(httpx.post(f"{url}?wait=60", json={"path": str(broken)}), 422, "broken.mp4")
    is_problem(httpx.post(url, json={"video": "x"}, headers={"Origin": "http://evil.example"}), 403)
    is_problem(
        httpx.post(url, json={"video": "x"}, headers={"Sec-Fetch-Site": "same-origin"}), 403, "X-Visil"
    )
    assert not list((server.folder / "serve" / "uploads").glob("*.other"))


def test_the_same_key_starts_one_job(server: Running) -> None:
    video, key = server.id("cat.mp4"), {"Idempotency-Key": "k-1"}
    first = server.http.post("/api/v1/search", json={"video": video}, headers=key).json()["job"]["id"]
    again = server.http.post("/api/v1/search", json={"video": video}, headers=key).json()["job"]
    assert (again if isinstance(again, str) else again["id"]) == first  # done meanwhile, or not yet
    other = server.http.post("/api/v1/search", json={"video": video, "k": 3}, headers=key)
    is_problem(other, 422, "Idempotency-Key")
    is_problem(server.http.post("/api/v1/add", json={"path": "/"}, headers=key), 422, "Idempotency-Key")


def test_hits_are_chosen(server: Running, root: Path) -> None:
    def found(**options: Any) -> list[str]:
        asked = {"path": str(root / "cut.mp4"), **options}
        return names(server.http.post("/api/v1/search?wait=60", json=asked).json())

    everything = server.http.post("/api/v1/search?wait=60", json={"path": str(root / "cut.mp4")}).json()
    assert sorted(names(everything)) == ["cat.mp4", "coffee.mp4", "part of it.mkv"]
    verdicts = {hit["video"]["name"]: hit["verdict"] for hit in everything["hits"]}
    assert len(set(verdicts.values())) > 1
    assert found(verdict=[verdicts["coffee.mp4"]]) == ["coffee.mp4"]
    assert found(min_confidence=0.5) == names(everything)[:2]
    assert found(reference=True) == []
    assert found(added_since="2001-01-01T00:00:00Z") == names(everything)
    assert found(added_since="2101-01-01T00:00:00Z") == []


def test_banks(server: Running, root: Path) -> None:
    http = server.http
    made = http.post(
        "/api/v1/banks", json={"name": "takedowns", "threshold": 0.5, "description": "To be found"}
    )
    assert (made.status_code, made.json()["references"]) == (201, 0)
    is_problem(http.post("/api/v1/banks", json={"name": "takedowns"}), 409, "already")
    is_problem(http.post("/api/v1/banks", json={"name": "../x", "owner": 1}), 422, "letters", "owner: is not")
    part, coffee = server.id("part of it.mkv"), server.id("coffee.mp4")
    references = [
        {"video": part, "external_id": "case-17", "labels": ["cat", "clip"]},
        {"video": coffee, "labels": ["cup"]},
    ]
    put = http.post("/api/v1/banks/takedowns/references", json={"references": references})
    assert put.json()["references"] == 2
    is_problem(http.post("/api/v1/banks/takedowns/references", json={"references": [{"video": "no"}]}), 404)
    listed = http.get("/api/v1/banks/takedowns/references", params={"label": "cat"}).json()
    assert (listed["total"], listed["references"][0]["external_id"]) == (1, "case-17")

    def hits(bank: str) -> list[tuple[str, Any]]:
        asked = {"path": str(root / "cut.mp4"), "bank": [bank]}
        found = http.post("/api/v1/search?wait=60", json=asked).json()
        return [(hit["video"]["name"], hit["references"]) for hit in found["hits"]]

    known = [{"bank": "takedowns", "external_id": "case-17", "labels": ["cat", "clip"]}]
    assert hits("takedowns") == [("part of it.mkv", known)]  # coffee is not so sure
    is_problem(http.post("/api/v1/search", json={"video": part, "bank": ["none"]}), 404, "no bank")
    http.patch(f"/api/v1/banks/takedowns/references/{part}", json={"enabled": False})
    assert hits("takedowns") == []
    http.patch(f"/api/v1/banks/takedowns/references/{part}", json={"enabled": True})
    assert http.patch("/api/v1/banks/takedowns", json={"enabled": False}).json()["threshold"] == 0.5
    assert hits("takedowns") == []
    assert http.delete(f"/api/v1/banks/takedowns/references/{coffee}").status_code == 204
    assert http.get("/api/v1/banks").json()["banks"][0]["references"] == 1
    assert http.delete("/api/v1/banks/takedowns").status_code == 204
    is_problem(http.get("/api/v1/banks/takedowns"), 404, "takedowns")


def test_many_at_once(server: Running, root: Path) -> None:
    queries = [
        {"path": str(root / "cut.mp4")},
        {"path": str(root / "videos" / "broken.mp4")},
        {"video": server.id("coffee.mp4")},
        {"path": "/etc/passwd"},
        {"upload": "gone"},
    ]
    answer = server.http.post(
        "/api/v1/batches?wait=120", json={"queries": queries, "k": 1, "added_since": "2001-01-01T00:00:00Z"}
    )
    many = {"queries": [{"path": f"/{'far away/' * 20}{n}.mp4"} for n in range(1000)]}
    is_problem(server.http.post("/api/v1/batches", json={**many, "k": 0}), 422, "k: ")  # not for its length
    first, second, third, *refused = answer.json()["results"]
    assert names(first)[0] in ("cat.mp4", "part of it.mkv")
    assert "broken.mp4" in second["error"]
    assert third["query"]["name"] == "coffee.mp4"
    assert [one["query"] for one in refused] == [
        {"kind": "path", "id": "/etc/passwd", "name": "/etc/passwd"},
        {"kind": "upload", "id": "gone", "name": "gone"},
    ]
    assert "may read" in refused[0]["error"]
    assert "Send it again" in refused[1]["error"]
    page = server.http.get(f"/api/v1/jobs/{answer.json()['job']}/results?offset=1&limit=1").json()
    assert (page["total"], page["items"][0]["error"]) == (5, second["error"])
    assert server.client.batch(queries[:1], k=1)[0]["hits"][0]["video"]["name"] == names(first)[0]


def test_a_webhook_hears_of_the_end(server: Running, receiver: Receiver) -> None:
    address = f"http://127.0.0.1:{receiver.server_port}/done?x=1"
    video = server.id("cat.mp4")
    started = server.http.post("/api/v1/search", params={"webhook": address}, json={"video": video}).json()[
        "job"
    ]
    server.client.wait(started["id"])
    store = server.server.service.jobs.store
    for _ in range(400):
        if store.webhook(started["id"]) is None:
            break
        threading.Event().wait(0.02)
    assert len(receiver.heard) == 2  # the first time it was refused
    message, _ = receiver.heard[1]
    assert (message["event"], message["job"]["id"]) == ("job.done", started["id"])
    assert server.http.get(message["result"]).json()["state"] == "done"
    for bad in (
        "http://127.0.0.1:1/",
        "http://169.254.169.254/",
        "file:///etc/passwd",
        "http://a@127.0.0.1/",
        "http://[",
    ):
        answer = server.http.post("/api/v1/search", params={"webhook": bad}, json={"video": video})
        is_problem(answer, 422)
    with pytest.raises(Problem, match="--webhook-host"):
        Webhooks([], store).check("https://example.org/")


def test_stores_survive(tmp_path: Path) -> None:
    banks = Banks(tmp_path / "banks.sqlite")
    assert banks.create(Bank("a", threshold=0.5))
    assert not banks.create(Bank("a"))
    assert banks.create(Bank("b", threshold=0.25))
    for bank in ("a", "b"):
        banks.put(bank, [Reference("v", "id", ("one",))])
    banks.close()
    banks = Banks(tmp_path / "banks.sqlite")
    assert banks.members(["a", "b"]) == {"v": 0.25}
    banks.delete("b")
    assert banks.members(["a"]) == {"v": 0.5}
    assert [known["bank"] for known in banks.known_as("v")] == ["a"]
    with pytest.raises(NoBank):
        banks.members(["b"])
    banks.close()
    store = JobStore(tmp_path / "jobs.sqlite", tmp_path, 3)
    store.keep_key("anna", "k", "print", "job")
    store.keep_webhook("job", "http://a/")
    store.close()
    store = JobStore(tmp_path / "jobs.sqlite", tmp_path, 3)
    assert store.job_of_key("anna", "k") == ("print", "job")
    assert store.job_of_key("bert", "k") is None
    assert store.webhooks() == [("job", "http://a/")]
    store.close()
