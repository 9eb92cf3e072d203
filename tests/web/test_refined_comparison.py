"""Two videos compared over HTTP: the answer of ``visil compare``, which looks four times a second."""

from __future__ import annotations

import csv
import io
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import visil
from synthetic import write_video
from visil.collection.local_engine import decode_keyframes
from visil.web.jobs import lane_of
from visil.web.state import Job

from .conftest import FPS, NEAR, Running, footage, running

SHARED = {"query": [0, 4.5], "target": [1.5, 6]}
"""What ``clip.mp4`` is of ``cat.mp4``."""


def logit(confidence: float) -> float:
    return math.log(confidence / (1 - confidence))


def told(segment: Any) -> dict[str, Any]:
    return {side: segment[side] for side in ("query", "target")}


def test_the_answer_is_that_of_the_command_and_of_a_refined_search(
    films_server: Running, films: Path
) -> None:
    clip, cat = films / "clip.mp4", films / "in" / "cat.mp4"
    model = visil.load()
    truth, rough = (model.compare(clip, cat, refine=refine) for refine in (True, False))
    found = films_server.client.compare({"path": str(clip)}, {"video": films_server.id("cat.mp4")})
    assert found["refined"]
    assert found["verdict"] == truth.verdict
    assert found["confidence"] == pytest.approx(truth.confidence, abs=0.01)
    quick = films_server.client.compare(
        {"path": str(clip)}, {"video": films_server.id("cat.mp4")}, refine=False
    )
    assert not quick["refined"]
    assert quick["confidence"] == pytest.approx(rough.confidence, abs=2e-3)
    assert abs(found["confidence"] - quick["confidence"]) > 0.02
    (segment,), (expected,) = found["segments"], truth.segments
    for side, seconds in SHARED.items():
        assert segment[side] == pytest.approx(seconds, abs=NEAR)
        assert segment[side] == pytest.approx(getattr(expected, side), abs=0.01)
        assert segment["line"][side] == segment[side]  # nothing of a frame a second is surer
    hits = films_server.client.search(file=clip, refine=True)["hits"]
    (hit,) = [hit for hit in hits if hit["video"]["name"] == "cat.mp4"]
    assert told(hit["segments"][0]) == told(segment)
    assert (hit["verdict"], hit["in_words"]) == (found["verdict"], found["in_words"])
    assert hit["confidence"] == pytest.approx(found["confidence"], abs=0.01)
    assert found["score"] == pytest.approx(rough.score, abs=2e-3)
    rows, columns, values = films_server.client.matrix(found["frame_matrix"]["url_bin"])
    assert (rows, columns) == rough.frame_matrix.shape  # of a frame a second
    kept = np.frombuffer(values, "<f4").reshape(rows, columns)
    np.testing.assert_allclose(kept, rough.frame_matrix, atol=5e-3)


def test_how_it_was_decided_and_what_is_taken_away_say_the_same(films_server: Running, films: Path) -> None:
    found = films_server.client.compare(
        {"path": str(films / "clip.mp4")}, {"video": films_server.id("cat.mp4")}
    )
    how = " ".join(found["how"])
    assert "looked at again, 4 frames a second" in how
    assert f"“{found['verdict']}”" in how
    assert found["in_words"] in how
    folder = f"/api/comparisons/{found['comparison']}"
    (row,) = csv.DictReader(io.StringIO(films_server.http.get(f"{folder}/stretches.csv").text))
    assert float(row["target_start"]) == found["segments"][0]["target"][0]
    report = films_server.http.get(f"{folder}/report.html").text
    assert f"<dd>{found['verdict']}</dd>" in report
    assert "00:00:01:03 – " in report  # of six frames a second


def test_what_is_gone_or_has_the_same_bytes_is_not_looked_at(films_server: Running, films: Path) -> None:
    cat, coffee = films_server.id("cat.mp4"), films_server.id("coffee.mp4")
    found = films_server.client.compare({"path": str(films / "same.mp4")}, {"video": cat})
    assert (found["verdict"], found["confidence"], found["refined"]) == ("copy", 1.0, False)
    there, away = films / "in" / "cat.mp4", films / "cat away.mp4"
    clip = {"path": str(films / "clip.mp4")}
    with visil.Index(films_server.folder, create=False) as index:
        truth = index.model.compare(films / "clip.mp4", index.store.read(cat), refine=False)
    try:
        there.rename(away)
        gone = films_server.client.compare(clip, {"video": cat})
        shutil.copy(films / "in" / "coffee.mp4", there)  # where the cat was, there is something else now
        changed = films_server.client.compare(clip, {"video": cat})
    finally:
        away.replace(there)
    for found in (gone, changed):
        assert not found["refined"]
        assert "looked at again" not in " ".join(found["how"])
        assert [told(one) for one in found["segments"]] == [
            {"query": list(one.query), "target": list(one.target)} for one in truth.segments
        ]
        assert found["confidence"] == pytest.approx(truth.confidence, abs=2e-3)
    other = films_server.client.compare(clip, {"video": coffee})
    assert other["verdict"] == visil.load().compare(films / "clip.mp4", films / "in" / "coffee.mp4").verdict


def test_where_key_frames_are_kept_it_is_as_a_refined_search_says(tmp_path: Path) -> None:
    cat, keys = footage("chelsea", 9), {"g": str(3 * FPS), "keyint_min": str(3 * FPS), "sc_threshold": "0"}
    film, clip = tmp_path / "film.mp4", tmp_path / "clip.mp4"
    write_video(film, [*footage("rocket", 6), *cat], FPS, options=keys)
    write_video(clip, cat, FPS)
    with visil.Index(tmp_path / "i.visil") as index:
        assert index.add(film, decode=decode_keyframes).added == 1
        kept = index.features(film)
        rough = index.model.compare(clip, kept, refine=False)
        without = index.model.compare(clip, kept)
    with running(tmp_path / "i.visil", tmp_path) as server:
        found = server.client.compare({"path": str(clip)}, {"video": server.id("film.mp4")})
        (hit,) = server.client.search(file=clip, refine=True)["hits"]
    assert [told(one) for one in found["segments"]] == [told(one) for one in hit["segments"]]
    sure = logit(found["confidence"])
    assert sure == pytest.approx(logit(hit["confidence"]), abs=0.1)
    assert sure > logit(rough.confidence) + 1
    assert sure > logit(without.confidence) + 0.3  # frames between the key frames were looked at


def test_neither_a_search_nor_a_file_that_is_sent_waits_for_a_comparison() -> None:
    def lane(kind: str, refine: bool = True, **refs: str) -> str:
        asked = {side: {"kind": one, "id": "v", "name": "v"} for side, one in refs.items()}
        return lane_of(Job("j", kind, "waiting", kind, asked | {"refine": refine}, {}, 0.0))

    assert lane("search", query="video") == "videos"
    assert lane("compare", query="video", target="video") == "pairs"
    assert lane("compare", refine=False, query="video", target="video") == "videos"
    assert lane("compare", query="upload", target="video") == "files"
