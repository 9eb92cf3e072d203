"""A decoder that hangs, eats memory or crashes costs the one file it was given, whatever the file was for."""

from __future__ import annotations

import json
import os
import queue
import shutil
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import visil
from visil.client import ServerError
from visil.web.engine import Engine, Teller
from visil.web.settings import MIB, Limits
from visil.web.tasks import Tasks

from . import hostile
from .conftest import Running, is_problem, running

REASONS = {"hangs": "takes too long to decode", "eats": "more memory than it may have", "crashes": "gave up"}
ENDS = {"result", "error", "cancelled"}
LIMITS = Limits(decode_idle_s=1.2, decode_memory=1024 * MIB)


@pytest.fixture(scope="module")
def videos(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``good.mp4``, a hostile file of each kind, and for each one that turns hostile once it is in the collection."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "turned").mkdir()
    cut, cat = root / "cut.mp4", root / "videos" / "cat.mp4"
    hostile.marked(cut, folder / "good.mp4", hostile.WELL)
    for number, (kind, marker) in enumerate(hostile.KINDS.items()):
        hostile.marked(cut, folder / f"{kind}.mp4", marker)
        hostile.marked(cat, folder / "turned" / f"{kind}.mp4", bytes([number]) + hostile.WELL[1:])
    return folder


@pytest.fixture(scope="module")
def server(videos: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Over the files that turn hostile; its decoders, and its alone, do what markers say."""
    folder = tmp_path_factory.mktemp("served")
    with visil.Index(folder / "i.visil") as index:
        index.add(videos / "turned", workers=1)
    for kind, marker in hostile.KINDS.items():
        hostile.turn(videos / "turned" / f"{kind}.mp4", marker)
    with pytest.MonkeyPatch.context() as patch:
        before = os.environ.get("PYTHONPATH")
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(hostile.install(folder)), before])))
        with running(folder / "i.visil", videos, limits=LIMITS) as server:
            yield server


def upload(server: Running, file: Path) -> str:
    return server.client.upload(file)


def failure(server: Running, kind: str, request: dict[str, Any]) -> str:
    with pytest.raises(ServerError) as refused:
        server.client.wait(server.client.start(kind, request)["id"])
    return str(refused.value)


def test_adding(server: Running, videos: Path) -> None:
    paths = {name: str(videos / f"{name}.mp4") for name in (*REASONS, "good")}
    found = server.client.wait(server.client.start("add", {"path": str(videos)})["id"])
    assert (found["added"], found["unchanged"]) == (1, 3)
    reasons = {one["path"]: one["reason"] for one in found["failed"]}
    assert reasons.keys() == {paths[kind] for kind in REASONS}
    for kind, words in REASONS.items():
        assert words in reasons[paths[kind]]
    failed = server.client.videos(state="failed")["videos"]
    assert {video["path"]: video["reason"] for video in failed} == reasons
    ready = {video["path"] for video in server.client.videos(state="ready")["videos"]}
    assert paths["good"] in ready
    assert len(ready) == 4


@pytest.mark.parametrize("kind", REASONS)
def test_searching_and_comparing(server: Running, videos: Path, kind: str) -> None:
    sent = upload(server, videos / f"{kind}.mp4")
    said = failure(server, "search", {"upload": sent})
    assert said.startswith(f"{kind}.mp4: ")
    assert REASONS[kind] in said
    other = server.id("turned/eats")
    assert REASONS[kind] in failure(
        server, "compare", {"query": {"video": other}, "target": {"upload": sent}}
    )
    is_problem(server.http.get(f"/api/uploads/{sent}/thumbnail"), 404, REASONS[kind])
    well = upload(server, videos / "good.mp4")  # the same engine goes on
    assert server.client.search({"upload": well})["hits"]


def keeps_nobody_waiting_and_is_stopped_at_once(
    server: Running, request: dict[str, Any], known: str, begun: str | None = None
) -> None:
    """What hangs in a request, from when it tells how far it is in some unit, holds up no search and can be ended."""
    said: queue.Queue[dict[str, Any]] = queue.Queue()
    patient = asdict(replace(LIMITS, decode_idle_s=60.0))
    engine = Engine(lambda: Tasks(server.folder, server.folder / "serve", patient), said.put)

    def hear() -> dict[str, Any]:
        """What comes next; the request does not end, and how far it is may be told."""
        heard = said.get(timeout=60)
        assert heard["key"] == "known" or ENDS.isdisjoint(heard)
        return heard

    engine.hear({"key": "hangs", **request})
    while begun and ((heard := hear()).get("unit") != begun or (begun == "videos" and not heard["total"])):
        pass
    other = {"kind": "video", "id": server.id(f"turned/{known}"), "name": f"{known}.mp4"}
    engine.hear({"key": "known", "do": "search", "k": 5, "query": other})
    while (heard := hear())["key"] != "known" or ENDS.isdisjoint(heard):
        pass
    assert len(heard["result"]["hits"]) >= 2
    engine.hear({"key": "hangs", "do": "cancel"})
    while ENDS.isdisjoint(heard := said.get(timeout=20)):
        pass
    assert heard == {"key": "hangs", "cancelled": True}


def test_a_hanging_search_keeps_nobody_waiting_and_is_stopped_at_once(server: Running, videos: Path) -> None:
    sent = {"kind": "upload", "id": "u", "name": "mine.mp4", "path": str(videos / "hangs.mp4")}
    keeps_nobody_waiting_and_is_stopped_at_once(server, {"do": "search", "k": 5, "query": sent}, "eats")


def test_a_hit_that_harms_its_decoder_stays_as_it_was(server: Running, videos: Path) -> None:
    sent = upload(server, videos / "good.mp4")
    plain, refined = (
        server.client.search({"upload": sent}, refine=refine)["hits"] for refine in (False, True)
    )
    turned = {server.id(f"turned/{kind}") for kind in REASONS}
    before, after = ([hit for hit in hits if hit["video"]["id"] in turned] for hits in (plain, refined))
    assert len(before) == 3
    assert before == after
    assert all(hit["segments"] for hit in before)
    with visil.Index(server.folder, create=False) as index:  # whose own decoder is not harmed
        closely = [hit for hit in index.search(videos / "good.mp4", 20, refine=True) if hit.id in turned]
    assert all(hit.confidence != before[0]["confidence"] for hit in closely)


def test_a_closer_look_that_hangs_keeps_nobody_waiting_and_is_stopped_at_once(
    server: Running, videos: Path
) -> None:
    sent = {"kind": "upload", "id": "u", "name": "mine.mp4", "path": str(videos / "good.mp4")}
    asked = {"do": "search", "k": 5, "query": sent, "filters": {"refine": True}}
    keeps_nobody_waiting_and_is_stopped_at_once(server, asked, "hangs", begun="videos")


def test_a_comparison_with_a_file_that_harms_its_decoder_is_made_without_it(
    server: Running, videos: Path
) -> None:
    sent = upload(server, videos / "good.mp4")
    with visil.Index(server.folder, create=False) as index:
        for kind in REASONS:
            video = server.id(f"turned/{kind}")
            found = server.client.compare({"upload": sent}, {"video": video})
            clip, known = index.model.embed(videos / "good.mp4"), index.store.read(video)
            truth = index.model.compare(clip, known, refine=False)
            assert not found["refined"]
            assert found["confidence"] == pytest.approx(truth.confidence, abs=2e-3)
            assert [one["target"] for one in found["segments"]] == [
                list(one.target) for one in truth.segments
            ]


def test_a_comparison_that_hangs_keeps_nobody_waiting_and_is_stopped_at_once(server: Running) -> None:
    query, target = (
        {"kind": "video", "id": server.id(f"turned/{kind}"), "name": kind} for kind in ("hangs", "eats")
    )
    asked = {"do": "compare", "query": query, "target": target, "comparison": "hangs1"}
    keeps_nobody_waiting_and_is_stopped_at_once(server, asked, "hangs", begun="frames")


def test_stopping_an_addition_blames_no_file(server: Running, videos: Path, tmp_path: Path) -> None:
    said: queue.Queue[dict[str, Any]] = queue.Queue()
    patient = asdict(replace(LIMITS, decode_idle_s=60.0))
    engine = Engine(lambda: Tasks(tmp_path / "new.visil", tmp_path, patient), said.put)
    (tmp_path / "in").mkdir()
    for name in ("good.mp4", "hangs.mp4"):
        shutil.copy(videos / name, tmp_path / "in" / name)
    engine.hear({"key": "a", "do": "add", "path": str(tmp_path / "in"), "roots": [str(tmp_path)]})
    while said.get(timeout=60).get("done") != 1:
        pass  # good.mp4 is in
    engine.hear({"key": "a", "do": "cancel"})
    while "cancelled" not in said.get(timeout=20):
        pass
    with visil.Index(tmp_path / "new.visil") as index:
        assert [Path(video.path).name for video in index.catalogue.videos()] == ["good.mp4"]
        assert index.catalogue.failures() == []


@pytest.mark.parametrize("kind", REASONS)
def test_pictures(server: Running, videos: Path, kind: str) -> None:
    video = server.id(f"turned/{kind}")
    is_problem(server.http.get(f"/api/videos/{video}/thumbnail"), 404, f"{kind}.mp4", REASONS[kind])
    good = upload(server, videos / "good.mp4")
    assert server.http.get(f"/api/uploads/{good}/thumbnail").status_code == 200


def test_export(server: Running, tmp_path: Path) -> None:
    work = Tasks(server.folder, tmp_path, asdict(LIMITS))
    tell = Teller(lambda _: None)
    found = work.do({"do": "duplicates", "min_confidence": 0.5}, tell)
    named = {
        server.client.video(video["id"])["name"] for group in found["groups"] for video in group["videos"]
    }
    assert named >= {f"{kind}.mp4" for kind in REASONS}
    (tmp_path / "found.json").write_text(json.dumps(found))
    paths = {"result": str(tmp_path / "found.json"), "file": str(tmp_path / "report.html")}
    work.do({"do": "export", "format": "html", **paths}, tell)
    report = (tmp_path / "report.html").read_text("utf-8")
    for words in REASONS.values():
        assert words in report
