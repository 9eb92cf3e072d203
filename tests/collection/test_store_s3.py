"""A real S3-compatible server on loopback, behind a proxy that is slow, hangs up and refuses."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from collection.conftest import Command
from collection.faulty_proxy import Fault, FaultyProxy
from collection.inside import part, remote
from collection.stored import features, fill, identity, put
from synthetic import write_video
from visil.collection.index import Index
from visil.collection.remote.objects import Objects, Patience, StoreError
from visil.compare.visil import ViSiL

URL = "s3://bucket/some/all.visil"
SECRET = "not-to-be-seen"
PATIENT = Patience(answer_s=10.0, total_s=100.0, first_pause_s=0.02)
BRISK = Patience(answer_s=1.0, total_s=100.0, first_pause_s=0.02)
SHORT = Patience(answer_s=1.0, total_s=2.0, first_pause_s=0.02)


@pytest.fixture(scope="module")
def whole_proxy(tmp_path_factory: pytest.TempPathFactory, model: ViSiL) -> Iterator[FaultyProxy]:
    """A server with six videos, behind a proxy."""
    pytest.importorskip("s3fs", reason="needs the extra visil[store]")
    server = pytest.importorskip("moto.server", reason="moto[server] is the S3 server of these tests")
    loaders = pytest.importorskip("botocore.loaders")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    proxy = FaultyProxy(moto.get_host_and_port()[1])
    with pytest.MonkeyPatch.context() as patch:
        # Every connection would read the description of the service anew.
        patch.setattr(
            loaders.JSONFileLoader, "load_file", staticmethod(cache(loaders.JSONFileLoader().load_file))
        )
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "somebody")
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("VISIL_CACHE", str(tmp_path_factory.mktemp("writer")))
        Objects("s3://bucket", PATIENT).fs.mkdir("bucket")
        with at(model) as index:
            fill(index, ["cat", "cat copy", "dog", "cow", "hen", "pig"])
        yield proxy
    proxy.close()
    moto.stop()


@pytest.fixture
def proxy(whole_proxy: FaultyProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FaultyProxy:
    """The same, behaving, asked from a machine that has nothing yet."""
    monkeypatch.setenv("VISIL_CACHE", str(tmp_path / "cache"))
    whole_proxy.first(0, Fault())
    return whole_proxy


def at(model: ViSiL, url: str = URL, patience: Patience = PATIENT, *, create: bool = True) -> Index:
    with patch.object(Patience, "usual", lambda: patience):
        return Index(url, model=model, create=create)


def found(model: ViSiL, patience: Patience) -> list[str]:
    with at(model, patience=patience, create=False) as index:
        return [hit.id for hit in index.search(identity("cat"), 2)]


BOTH = [identity("cat"), identity("cat copy")]


@pytest.mark.parametrize(
    ("fault", "part"),
    [
        (Fault(cut=0), ""),
        (Fault(cut=900), "features"),
        (Fault(cut=20), "catalogue"),
        (Fault(status=503), ""),
        (Fault(delay=2.0), "features"),
    ],
    ids=["hangs up", "cut in the middle", "catalogue cut", "busy", "slow"],
)
def test_trouble_that_passes_is_not_noticed(
    fault: Fault, part: str, proxy: FaultyProxy, model: ViSiL
) -> None:
    met = proxy.first(2, fault, part)
    assert found(model, BRISK if fault.delay else PATIENT) == BOTH
    assert len(met) == 2


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(cut=0), "no answer from the store in 2 s (the connection fails or is dropped); try again"),
        (Fault(delay=5), "no answer from the store in 2 s (slow answers); try again"),
        (Fault(status=503), "no answer from the store in 2 s (the store is busy); try again"),
        (Fault(status=403), "access was refused; check the store's credentials and rights"),
    ],
    ids=["hangs up", "slow", "busy", "refused"],
)
def test_trouble_that_stays_is_one_line(fault: Fault, words: str, proxy: FaultyProxy, model: ViSiL) -> None:
    index = at(model, create=False)
    remote(index).objects.patience = SHORT
    proxy.first(1000, fault, "features", "GET")
    with pytest.raises(StoreError) as failed:
        index.search(identity("cat"), 2)
    index.close()
    assert str(failed.value).startswith(f"{URL}/features/")
    assert str(failed.value).endswith(f".safetensors: {words}")
    assert SECRET not in repr(failed.value)


def test_an_object_that_is_not_there_costs_one_video(
    proxy: FaultyProxy, model: ViSiL, caplog: pytest.LogCaptureFixture
) -> None:
    with at(model, create=False) as index:
        placed = remote(index).database.placed(identity("cat copy"))
        assert placed is not None
        proxy.first(1000, Fault(status=404), placed.name)
        hits = [hit.id for hit in index.search(identity("cat"), 6)]
    assert hits[0] == identity("cat")
    assert sorted(hits) == sorted(identity(name) for name in ("cat", "dog", "cow", "hen", "pig"))
    assert f"cat copy.mp4 is left out: {URL}/{placed.name}: is missing" in caplog.text


def test_writing_through_trouble(proxy: FaultyProxy, model: ViSiL) -> None:
    """Every second write is cut off: half of them before the server has it, half after. Nothing is lost or doubled."""
    faults = iter([Fault(cut=0), None, Fault(deaf=0), None] * 50)
    proxy.choose = lambda method, _path: next(faults) if method == "PUT" else None
    with at(model, "s3://bucket/through.visil") as index:
        fill(index, ["cat", "cat copy", "dog"])
        part(index).keep()
        put(index, "hen", features(1))
    proxy.first(0, Fault())
    with at(model, "s3://bucket/through.visil", create=False) as index:
        assert index.verify() == []
        assert {video.id for video in index.catalogue.videos()} == {
            identity(name) for name in ("cat", "cat copy", "dog", "hen")
        }
        assert set(remote(index).objects.sizes("features")) == remote(index).database.objects()
        assert remote(index).database.generation == 2


def test_a_store_that_goes_away_keeps_what_was_published(proxy: FaultyProxy, model: ViSiL) -> None:
    index = at(model, "s3://bucket/away.visil")
    fill(index, ["cat"])
    part(index).keep()
    remote(index).objects.patience = SHORT
    proxy.first(1000, Fault(cut=0))
    put(index, "dog", features(1))
    with pytest.raises(StoreError, match="no answer from the store"):
        index.close()
    proxy.first(0, Fault())
    with at(model, "s3://bucket/away.visil", create=False) as again:
        assert again.verify() == []
        assert [video.id for video in again.catalogue.videos()] == [identity("cat")]


def test_the_commands(
    proxy: FaultyProxy, run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a person uses it: files in, questions, care, trouble."""
    url = "s3://bucket/commands.visil"
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        scene = rng.integers(0, 256, (12, 16, 3), np.uint8).repeat(8, 0).repeat(8, 1)
        write_video(tmp_path / f"{name}.mp4", [np.roll(scene, 3 * i, axis=1) for i in range(12)], 4)
    scene = scene[::2, ::2]
    write_video(tmp_path / "b again.mkv", [np.roll(scene, 2 * i, axis=1) for i in range(12)], 4)
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    assert run("info", url).line == f"visil: {url}: no collection here; `visil add` makes one"
    assert run("add", url, tmp_path, "--workers", "1").out.startswith("3 added, 0 unchanged, 1 failed\n")
    assert run("add", url, tmp_path, "--workers", "1", "--json").json["unchanged"] == 3
    state = run("info", url, "--json").json
    assert (state["folder"], state["videos"], len(state["failed"])) == (url, 3, 1)
    hits = run("search", url, tmp_path / "b again.mkv", "-k", "2", "--json").json["hits"]
    assert {hit["path"] for hit in hits} == {str(tmp_path / "b.mp4"), str(tmp_path / "b again.mkv")}
    groups = run("duplicates", url, "--min-confidence", "0.2", "--json").json["groups"]
    assert str(tmp_path / "b.mp4") in {video["path"] for group in groups for video in group["videos"]}
    assert run("verify", url).out == "sound\n"
    fs = Objects("s3://bucket", PATIENT).fs
    victim = next(name for name in fs.find("bucket/commands.visil/features") if hits[0]["id"] in name)
    fs.rm_file(victim)
    assert "are missing" in run("verify", url).out
    assert run("verify", url, "--repair").status == 0
    assert run("info", url, "--json").json["videos"] == 2
    assert run("remove", url, tmp_path / "a.mp4").out == "1 removed from the collection\n"
    monkeypatch.setenv("VISIL_STORE_TIMEOUT", "2")
    proxy.first(10_000, Fault(cut=0))
    assert run("info", url).line.startswith(f"visil: {url}/visil.json: no answer from the store in 2 s")
