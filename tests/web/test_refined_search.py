"""``refine``: likely hits are looked at four times a second, so that stretches begin and end between seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

import visil
from visil.web.jobs import lane_of
from visil.web.shapes_search import SearchQuery
from visil.web.state import Job

from .conftest import NEAR, Running, is_problem


def in_cat(found: Any) -> tuple[Any, Any]:
    """The hit that is the cat, and its only stretch."""
    (hit,) = [hit for hit in found["hits"] if hit["video"]["name"] == "cat.mp4"]
    (segment,) = hit["segments"]
    return hit, segment


def test_every_way_to_search_looks_closely(films_server: Running, films: Path) -> None:
    url, clip = f"{films_server.url}/api/v1/search?wait=120", films / "clip.mp4"
    plain = httpx.post(url, json={"path": str(clip)}).json()
    seen, rough = in_cat(plain)
    assert not plain["refined"]
    assert abs(rough["target"][0] - 1.5) > 2 * NEAR  # nothing was seen between 1 and 2 s
    part = films_server.id("part.mkv")
    for answer in (
        httpx.post(url, json={"path": str(clip), "refine": True}),
        httpx.post(f"{url}&refine=true", json={"path": str(clip)}),
        httpx.post(f"{url}&refine=1", content=clip.read_bytes(), headers={"Content-Type": "video/mp4"}),
        httpx.post(url, files={"file": ("clip.mp4", clip.read_bytes())}, data={"refine": "true"}),
        httpx.post(url, json={"video": part, "refine": True}),
    ):
        found = answer.json()
        assert (answer.status_code, found["refined"]) == (200, True)
        hit, segment = in_cat(found)
        assert segment["query"] == pytest.approx([0, 4.5], abs=NEAR)
        assert segment["target"] == pytest.approx([1.5, 6], abs=NEAR)
        assert hit["confidence"] > seen["confidence"]
        assert found["query"]["id"] not in [hit["video"]["id"] for hit in found["hits"]]
    is_problem(httpx.post(f"{url}&refine=perhaps", json={"path": str(clip)}), 422, "refine")
    is_problem(httpx.post(url, json={"path": str(clip), "refine": "true"}), 422, "refine")


def test_the_answer_is_that_of_the_index_and_hits_are_chosen_by_it(
    films_server: Running, films: Path
) -> None:
    clip = films / "clip.mp4"
    with visil.Index(films_server.folder, create=False) as index:
        plain, truth = index.search(clip, 20), index.search(clip, 20, refine=True)
    found = films_server.client.search(file=clip, refine=True)
    assert [hit["video"]["id"] for hit in found["hits"]] == [hit.id for hit in truth]
    for hit, expected in zip(found["hits"], truth, strict=True):
        assert hit["confidence"] == pytest.approx(expected.confidence, abs=0.01)
        assert hit["verdict"] == expected.verdict
    least = (min(hit.confidence for hit in truth[:2]) + max(hit.confidence for hit in plain[:2])) / 2
    assert len(films_server.client.search(file=clip, refine=True, min_confidence=least)["hits"]) == 2
    assert not films_server.client.search(file=clip, min_confidence=least)["hits"]
    copies = {
        refine: films_server.client.search(file=clip, refine=refine, verdict=["copy"])
        for refine in (False, True)
    }
    names = {refine: {hit["video"]["name"] for hit in found["hits"]} for refine, found in copies.items()}
    assert names == {False: {"part.mkv"}, True: {"part.mkv", "cat.mp4"}}
    (many,) = films_server.client.batch([{"path": str(clip)}], refine=True, k=2)
    assert in_cat(many)[1]["target"] == pytest.approx([1.5, 6], abs=NEAR)
    assert many["refined"]


def test_what_must_be_decoded_waits_among_files() -> None:
    def lane(refine: bool) -> str:
        asked = SearchQuery(refine=refine).asked()
        request = {"do": "search", "query": {"kind": "video", "id": "v", "name": "v"}, **asked}
        return lane_of(Job("j", "search", "waiting", "Search", request, {}, 0.0))

    assert (lane(False), lane(True)) == ("videos", "files")
