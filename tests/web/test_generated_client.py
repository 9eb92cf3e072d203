"""A client that a public generator makes of the description: it sends a clip, and reads what was found, with types."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from .conftest import Running

CONFIG = {
    "content_type_overrides": dict.fromkeys(
        ("video/*", "image/png", "image/jpeg", "text/csv"), "application/octet-stream"
    ),
    "post_hooks": [],
}


@pytest.fixture(scope="module")
def generated(shared: Running, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The package, made from what a server says of itself."""
    pytest.importorskip("openapi_python_client")
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_text(shared.http.get("/api/v1/openapi.json").text)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json"),
            *("--config", "config.json", "--meta", "none", "--output-path", "made_client"),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout, done.stdout
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        return importlib.import_module("made_client")


def call(generated: ModuleType, name: str) -> Any:
    return importlib.import_module(f"made_client.api.{name}")


def test_a_clip_is_sent_and_found(generated: ModuleType, shared: Running, root: Path) -> None:
    models = importlib.import_module("made_client.models")
    types = importlib.import_module("made_client.types")
    client = generated.Client(base_url=shared.url, headers={"X-Visil": "1"}, timeout=60)
    with (root / "cut.mp4").open("rb") as clip:
        form = models.SearchForm(file=types.File(payload=clip, file_name="cut.mp4"))
        found = call(generated, "work.post_search").sync(client=client, body=form, wait=60.0, k=2)
    assert isinstance(found, models.Found)
    assert {hit.video.name for hit in found.hits} == {"cat.mp4", "part of it.mkv"}
    assert found.hits[0].segments[0].query[1] > found.hits[0].segments[0].query[0]
    assert found.query.name == "cut.mp4"

    job = call(generated, "jobs.get_jobs_job").sync(found.job, client=client)
    assert isinstance(job.result, models.Found)
    assert job.result.hits[0].video.id == found.hits[0].video.id

    started = call(generated, "work.post_search").sync(
        client=client, body=models.SearchRequest(video=found.hits[0].video.id), idempotency_key="made"
    )
    assert isinstance(started, models.Started)
    assert started.job.state in ("waiting", "running", "done")

    refused = call(generated, "work.post_search").sync_detailed(
        client=client, body=models.SearchRequest(path="/etc/passwd")
    )
    assert (refused.status_code, type(refused.parsed)) == (422, models.Problem)
    page = call(generated, "videos.get_videos").sync(client=client, q="coffee", limit=1)
    assert (page.total, page.videos[0].name) == (1, "coffee.mp4")
    picture = call(generated, "videos.get_videos_video_thumbnail").sync_detailed(
        page.videos[0].id, client=client
    )
    assert picture.parsed.payload.read(2) == b"\xff\xd8"
