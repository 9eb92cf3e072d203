"""A match as evidence on a real server: it outlives the clip that was sent, and goes into reports and editors."""

from __future__ import annotations

import csv
import io
import itertools
from pathlib import Path

import av
import pytest
from PIL import Image

from visil.video import probe
from visil.web.evidence import small_copy
from visil.web.settings import Limits

from .conftest import Running, is_problem


def test_a_match_outlives_the_clip_and_goes_into_a_report_and_an_editor(shared: Running, root: Path) -> None:
    with (root / "cut.mp4").open("rb") as data:
        sent = shared.http.post("/api/uploads", params={"name": "my cut.mp4"}, content=data).json()["upload"]
    both = {"query": {"upload": sent}, "target": {"video": shared.id("cat.mp4")}}
    job = shared.http.post("/api/compare", json=both).json()["job"]["id"]
    comparison = shared.client.wait(job)["comparison"]
    folder = f"/api/comparisons/{comparison}"
    found = shared.http.get(folder).json()["result"]
    assert found["verdict"] in ("copy", "related")
    assert not found["saved"]
    assert found["sources"] == {"query": "original", "target": "original"}

    edl = shared.http.get(f"{folder}/stretches.edl").text
    assert "TITLE: my cut.mp4" in edl
    assert "* FROM CLIP NAME: cat.mp4" in edl
    rows = list(csv.DictReader(io.StringIO(shared.http.get(f"{folder}/stretches.csv").text)))
    assert [float(row["query_start"]) for row in rows] == [one["query"][0] for one in found["segments"]]
    assert shared.http.get(f"{folder}/stretches.otio").json()["OTIO_SCHEMA"].startswith("Timeline")
    is_problem(shared.http.get(f"{folder}/stretches.exe"), 422)
    is_problem(shared.http.get(f"{folder}/query.mp4"), 404, "No copy")

    assert shared.http.put(f"{folder}/keep").status_code == 204
    shared.http.delete(f"/api/uploads/{sent}")
    kept = shared.http.get(folder).json()["result"]
    assert (kept["saved"], kept["sources"]["query"]) == (True, "copy")
    small = shared.http.get(f"{folder}/query.mp4")
    assert small.headers["content-type"] == "video/mp4"
    picture = shared.http.get(f"{folder}/thumbnail?side=query&at=1&width=80")
    assert Image.open(io.BytesIO(picture.content)).size == (80, 60)
    report = shared.http.get(f"{folder}/report.html")
    assert "my cut.mp4" in report.text
    assert "serve/uploads" not in report.text
    assert "sandbox" in report.headers["content-security-policy"]
    assert shared.http.delete(f"{folder}/keep").status_code == 204
    assert shared.http.get(folder).json()["result"]["saved"] is False


def test_a_small_copy_shows_every_moment_when_it_was(root: Path, tmp_path: Path) -> None:
    small_copy(Limits(), root / "videos" / "part of it.mkv", tmp_path / "small.mp4")
    before, after = probe(root / "videos" / "part of it.mkv"), probe(tmp_path / "small.mp4")
    assert after.codec == "h264"
    assert after.duration == pytest.approx(before.duration or 0, abs=0.3)
    assert (after.width, after.height) == (340, 256)
    with av.open(str(tmp_path / "small.mp4")) as file:
        keys = [frame.time for frame in file.decode(video=0) if frame.key_frame]
    assert max(b - a for a, b in itertools.pairwise(keys)) <= 1.01  # a player jumps anywhere quickly
