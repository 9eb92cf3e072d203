"""What is fetched from a store: by range, kept within bounds, whole or not at all."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from collection.inside import part, remote
from collection.stored import features, fill, identity, put
from visil.collection.background import middle_frame
from visil.collection.index import Index
from visil.collection.remote.cache import LocalCache, cache_limit
from visil.collection.remote.features import RemoteFeatures
from visil.collection.remote.ranged import RangedFeatures
from visil.collection.store import FeatureStore
from visil.compare.visil import ViSiL
from visil.errors import IndexFolderError, UsageError
from visil.model.codes import Codes
from visil.model.features import VideoFeatures

fsspec = pytest.importorskip("fsspec", reason="needs the extra visil[store]")

URL = "memory://bucket/all.visil"


def write(cache: LocalCache, name: str, size: int, age: float = 0.0) -> None:
    with cache.filling(name) as part:
        part.write_bytes(bytes(size))
    os.utime(cache.path(name), (1e9 - age, 1e9 - age))


def held(cache: LocalCache) -> set[str]:
    return {path.name for path in cache.folder.rglob("*") if path.is_file() and path.name != ".lock"}


def test_the_longest_unused_go_first(tmp_path: Path) -> None:
    cache = LocalCache(tmp_path, limit=1000)
    for age, name in enumerate("abcd"):
        write(cache, name, 240, age=100 - age)
    assert cache.has("a")  # used now
    write(cache, "e", 240)
    assert held(cache) == {"a", "c", "d", "e"}
    assert not cache.has("b")


def test_a_file_larger_than_the_cache_is_kept_while_it_is_the_newest(tmp_path: Path) -> None:
    cache = LocalCache(tmp_path, limit=1000)
    write(cache, "small", 100, age=5)
    with cache.filling("large") as part:
        part.write_bytes(bytes(5000))
    assert held(cache) == {"large"}


def test_whoever_has_a_file_open_keeps_it(tmp_path: Path) -> None:
    cache = LocalCache(tmp_path, limit=100)
    write(cache, "a", 90, age=9)
    with cache.path("a").open("rb") as opened:
        write(cache, "b", 90)
        assert held(cache) == {"b"}
        assert opened.read() == bytes(90)


def test_what_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    cache = LocalCache(tmp_path, limit=1000)

    def interrupted() -> None:
        with cache.filling("a") as part:
            part.write_bytes(b"half")
            assert not cache.has("a")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert held(cache) == set()
    full = OSError(28, "No space left on device")
    with (
        pytest.raises(IndexFolderError, match="the disk is full; VISIL_CACHE names another"),
        cache.filling("a"),
    ):
        raise full


def test_settings_that_are_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIL_CACHE_GB", "much")
    with pytest.raises(UsageError, match="VISIL_CACHE_GB must be a number of gigabytes, not 'much'"):
        cache_limit()
    monkeypatch.setenv("VISIL_CACHE_GB", "0.5")
    assert cache_limit() == 500_000_000


COUNT = itertools.count()
FRAME_BYTES = {"fp16": 14 * 256 * 2, "int8": 14 * (256 + 2), "binary": 14 * (256 // 8 + 2)}


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.sampled_from(["fp16", "int8", "binary"]))
@settings(max_examples=40, deadline=None)
def test_the_middle_frame_by_range_is_that_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, blank: list[bool], codes: Codes
) -> None:
    store = FeatureStore(tmp_path_factory.getbasetemp() / f"ranged-{next(COUNT)}", codes)
    video = features(3, len(blank))
    writer = store.writer(identity("a"))
    writer.append(video.vectors, video.timestamps.numpy(), torch.tensor(blank))
    writer.finish(1.0)
    data = store.path(identity("a")).read_bytes()
    asked: list[int] = []

    def read(start: int, stop: int) -> bytes:
        asked.append(stop - start)
        return data[start:stop]

    expected = middle_frame(store.read(identity("a")))
    got = RangedFeatures(read).middle()
    if expected is None:
        assert got is None
    else:
        assert isinstance(got, VideoFeatures)
        assert torch.equal(got.vectors[0], expected)
        assert sum(asked) == 1032 + len(blank) + FRAME_BYTES[codes]  # header, which are blank, one frame


def test_what_is_no_feature_file_by_range() -> None:
    for data in (b"", b"x" * 3000, (10**9).to_bytes(8, "little") + b" " * 3000):
        with pytest.raises((ValueError, KeyError, TypeError)):
            RangedFeatures(lambda start, stop, data=data: data[start:stop]).middle()  # type: ignore[misc]


def cache_of(index: Index) -> LocalCache:
    """What this machine keeps of a collection on a store."""
    assert isinstance(index.store, RemoteFeatures)
    return index.store.cache


def placed_name(index: Index, video: str) -> str:
    """The object that holds a video's features."""
    placed = remote(index).database.placed(video)
    assert placed is not None
    return placed.name


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: ViSiL) -> Iterator[Index]:
    """Forty videos at a URL, opened on a machine that has nothing of them."""
    fsspec.filesystem("memory").store.clear()
    monkeypatch.setenv("VISIL_CACHE", str(tmp_path / "here"))
    with Index(URL, model=model) as writer:
        fill(writer, [f"video {i}" for i in range(40)])
        part(writer).keep()
        writer.refresh()
    monkeypatch.setenv("VISIL_CACHE", str(tmp_path / "there"))
    with Index(URL, model=model, create=False) as opened:
        yield opened


@pytest.fixture
def read(index: Index, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What is read from the store from here on: (name, bytes)."""
    seen: list[tuple[str, int]] = []
    plain = remote(index).objects.read

    def counted(name: str, *span: int) -> bytes:
        data = plain(name, *span)
        seen.append((name, len(data)))
        return data

    monkeypatch.setattr(remote(index).objects, "read", counted)
    return seen


def test_a_search_reads_its_candidates_and_glimpses_at_the_rest(
    index: Index, read: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visil.collection.queries.CANDIDATES", 4)
    monkeypatch.setattr("visil.collection.remote.features.SMALL", 0)
    query = features(int(identity("video 7")[:6], 16))
    assert index.search(query, 1)[0].id == identity("video 7")
    whole = 1032 + 5 * (7168 + 9)
    features_read = [size for name, size in read if name.startswith("features/")]
    # One header, five marks of blank frames and one frame of each of forty; four candidates whole.
    assert sum(features_read) <= 40 * (1032 + 5 + 7168) + 4 * (whole + 8)
    assert sum(name.endswith(".faiss") for name, _ in read) == 1  # made by another machine
    read.clear()
    index.search(query, 1)
    assert read == []


def test_a_cache_that_is_too_small_costs_time_and_nothing_else(
    index: Index, read: list[tuple[str, int]]
) -> None:
    expected = [hit.id for hit in index.search(identity("video 3"), 5, exhaustive=True)]
    cache_of(index).limit = 100_000  # three of forty
    cache_of(index).evict()
    read.clear()
    assert [hit.id for hit in index.search(identity("video 3"), 5, exhaustive=True)] == expected
    assert len({name for name, _ in read if name.startswith("features/")}) > 30
    cache_of(index).evict()
    files = [path for path in cache_of(index).folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 100_000


def test_many_threads_fetch_the_same(index: Index) -> None:
    videos = list(index.catalogue.videos())[:5]
    wrong: list[Any] = []

    def fetch() -> None:
        for video in videos:
            if len(index.store.read(video.id)) != 5:
                wrong.append(video)

    threads = [threading.Thread(target=fetch) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert not list(cache_of(index).folder.rglob("*.fetching"))


def test_damage_on_the_way_is_noticed(
    index: Index, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    placed = remote(index).database.placed(identity("video 3"))
    assert placed is not None
    plain = remote(index).objects.read

    def flipped(name: str, *span: int) -> bytes:
        data = plain(name, *span)
        return data[:-1] + bytes([data[-1] ^ 1]) if name == placed.name else data

    monkeypatch.setattr(remote(index).objects, "read", flipped)
    found = {hit.id for hit in index.search(identity("video 1"), 40, exhaustive=True)}
    assert found == {identity(f"video {i}") for i in range(40) if i != 3}
    assert f"video 3.mp4 is left out: {URL}/{placed.name}: is damaged" in caplog.text
    assert not cache_of(index).has(placed.name)
    assert [problem.what for problem in index.verify()] == ["/videos/video 3.mp4"]


def test_a_missing_object_costs_one_video(index: Index, caplog: pytest.LogCaptureFixture) -> None:
    placed = remote(index).database.placed(identity("video 3"))
    assert placed is not None
    remote(index).objects.delete([placed.name])
    found = {hit.id for hit in index.search(identity("video 1"), 40, exhaustive=True)}
    assert found == {identity(f"video {i}") for i in range(40) if i != 3}
    assert f"{placed.name}: is missing; `visil verify --repair` takes it out, adding mends it" in caplog.text
    assert [(p.what, p.reason.partition(") ")[2]) for p in index.verify()] == [
        ("/videos/video 3.mp4", "are missing")
    ]
    index.verify(repair=True)
    assert index.verify() == []
    assert len(index) == 39
    put(index, "video 3", features(5))
    assert index.search(features(5), 1)[0].id == identity("video 3")


def test_what_nothing_names_is_swept_when_it_is_old(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    remote(index).objects.create("features/ab/abcd-0000.safetensors", b"left over")
    assert index.verify() == []  # somebody may be about to name it
    monkeypatch.setattr("visil.collection.remote.storage.GRACE_S", -1.0)
    assert [p.what for p in index.verify(repair=True)] == ["features/ab/abcd-0000.safetensors"]
    assert index.verify() == []


def test_features_cleared_away_between_two_steps_are_fetched_again(
    index: Index, read: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    video = identity("video 3")
    expected, name = index.store.read(video).vectors, placed_name(index, video)
    cache, has = cache_of(index), LocalCache.has

    def seen_and_gone(self: LocalCache, asked: str) -> bool:
        there = has(self, asked)
        self.drop(asked)
        return there

    monkeypatch.setattr(LocalCache, "has", seen_and_gone)
    read.clear()
    assert torch.equal(index.store.read(video).vectors, expected)
    assert read, "from the store again"
    # Another thread's file pushes it out the moment that it is in its place.
    monkeypatch.setattr(LocalCache, "make_room", lambda self, _: self.drop(name))
    for _ in range(3):
        assert torch.equal(index.store.read(video).vectors, expected)
        assert not cache.path(name).exists()
