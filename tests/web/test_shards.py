"""A collection in two shards, served as if it were whole."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import visil
from visil.collection.shards.create import create
from visil.errors import UsageError
from visil.web.settings import settle

from .conftest import is_problem, running


def test_library_search_duplicates_add_and_verdicts_over_two_shards(
    built: Path, root: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "two"
    assert create(folder, 2, source=built) == 3
    held = [len(visil.Index(place, create=False)) for place in sorted(folder.glob("*.visil"))]
    assert len(held) == 2
    assert sum(held) == 3
    with running(folder, root) as server:
        listed = server.client.videos()["videos"]
        assert [video["name"] for video in listed] == [
            "broken.mp4",
            "cat.mp4",
            "coffee.mp4",
            "part of it.mkv",
        ]
        assert server.client.session()["index"]["videos"] == 3
        assert server.client.session()["index"]["model"] == visil.load().config.name
        cat, part = server.id("cat.mp4"), server.id("part of it")
        assert server.http.get(f"/api/videos/{cat}/thumbnail").status_code == 200
        found = server.client.search(file=root / "cut.mp4")
        with visil.Index(built, create=False) as whole:
            truth = whole.search(root / "cut.mp4", 20)
        assert [hit["video"]["id"] for hit in found["hits"]] == [hit.id for hit in truth]
        closely = server.client.search(file=root / "cut.mp4", refine=True)
        with visil.Index(built, create=False) as whole:
            truth = whole.search(root / "cut.mp4", 20, refine=True)
        assert [hit["confidence"] for hit in closely["hits"]] == pytest.approx(
            [hit.confidence for hit in truth], abs=0.01
        )
        match = server.client.compare({"video": part}, {"video": cat})
        assert match["in_words"] == "shares 5 s, from 0:01"
        adding = server.client.start("add", {"path": str(root / "more")})["id"]
        looking = server.client.start("duplicates", {"min_confidence": 0.5})["id"]
        assert server.client.wait(adding)["added"] == 1
        assert server.video("rocket")["state"] == "ready"
        (group,) = server.client.wait(looking)["groups"]
        assert {video["id"] for video in group["videos"]} == {cat, part}
        server.client.judge(cat, part, "different")
        assert [one["verdict"] for one in server.http.get("/api/judgements").json()["judgements"]] == [
            "different"
        ]
        assert b'"groups": []' in server.client.export("json")
        server.client.remove(cat)
        is_problem(server.http.get(f"/api/videos/{cat}"), 404)
    shutil.rmtree(folder)


def test_a_collection_elsewhere_is_refused() -> None:
    with pytest.raises(UsageError, match="needs a collection in a folder"):
        settle(Path("s3://bucket/name"))
