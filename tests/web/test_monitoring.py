"""Health, figures, the log of requests, and the page's own files: compressed, kept, and the API's page among them."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from visil.errors import UsageError
from visil.web.assets import Assets
from visil.web.monitoring import open_log

from .conftest import Running, is_problem, running


@pytest.fixture(scope="module")
def server(built: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = Path(shutil.copytree(built, tmp_path_factory.mktemp("watched") / "all.visil"))
    with running(folder, root, access_log=str(folder.parent / "requests.log")) as server:
        yield server


def figures(server: Running) -> dict[tuple[str, ...], float]:
    """By name, and what labels say in the order of their names."""
    said = text_string_to_metric_families(server.http.get("/metrics").text)
    return {
        (one.name, *(one.labels[label] for label in sorted(one.labels))): one.value
        for family in said
        for one in family.samples
    }


def test_health_and_figures(server: Running) -> None:
    assert server.http.get("/healthz").json()["status"] == "ok"
    assert server.http.get("/readyz").json()["status"] == "ready"
    before = figures(server)
    for _ in range(3):
        server.http.get(f"/api/v1/videos/{server.id('cat.mp4')}")
    server.http.get("/api/v1/videos/nothing")
    after = figures(server)
    call = ("visil_requests_total", "/api/videos/{video}", "GET")
    assert after[*call, "200"] - before.get((*call, "200"), 0) == 3
    assert after[*call, "404"] - before.get((*call, "404"), 0) == 1
    assert after[("visil_videos",)] == 3
    assert after["visil_jobs", "files", "waiting"] == 0
    assert after[("visil_connections",)] >= 1
    assert after[("process_resident_memory_bytes",)] > 0


def test_every_request_is_a_line_of_json(server: Running) -> None:
    answer = server.http.get("/api/v1/videos?q=secret", headers={"User-Agent": 'a"b\n'.strip()})
    name = answer.headers["x-request-id"]
    found: list[dict[str, Any]] = []
    while not found:  # it is written once the answer is sent
        lines = (server.folder.parent / "requests.log").read_text().splitlines()
        found = [one for one in map(json.loads, lines) if one["request"] == name]
    (entry,) = found
    assert (entry["method"], entry["path"], entry["status"]) == ("GET", "/api/v1/videos", 200)
    assert (entry["caller"], entry["address"]) == ("local", "127.0.0.1")
    assert entry["bytes"] == len(answer.content)
    assert "secret" not in json.dumps(entry)
    with pytest.raises(UsageError, match="cannot be logged"):
        open_log("/nowhere/at/all")


def test_files_of_the_page_are_compressed_and_kept(server: Running) -> None:
    page = server.http.get("/")
    assert page.headers["content-encoding"] == "gzip"
    assert page.headers["cache-control"] == "no-cache"
    again = server.http.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    (script,) = re.findall(r'src="(static/[0-9a-f]{16}/js/app\.js)"', page.text)
    found = server.http.get(f"/{script}")
    assert "immutable" in found.headers["cache-control"]
    assert found.headers["content-type"].startswith("text/javascript")
    plain = httpx.get(f"{server.url}/static/js/app.js", headers={"Accept-Encoding": "identity"})
    assert (plain.text, plain.headers["cache-control"]) == (found.text, "no-cache")
    assert "content-encoding" not in plain.headers
    is_problem(server.http.get(f"/static/{'0' * 16}/js/app.js"), 404)
    is_problem(server.http.get("/static/"), 404)


def test_every_file_that_a_page_names_is_there() -> None:
    assets = Assets()
    for name in ("index.html", "docs.html"):
        page = gzip.decompress(assets.get(name).packed).decode()
        named = re.findall(rf'"static/{assets.version}/([^"]+)"', page)
        assert len(named) >= 4
        for file in named:
            assert assets.get(file).data


def test_the_page_of_the_api(server: Running) -> None:
    page = server.http.get("/docs")
    assert "docs.js" in page.text
    assert "unsafe" not in page.headers["content-security-policy"]
