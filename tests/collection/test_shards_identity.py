"""A sharded collection answers what one index with the same videos answers."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import visil
from visil.collection.candidates import CandidateIndex, Probes
from visil.collection.connection import LocalConnection
from visil.collection.parts import SinglePart
from visil.collection.shards.create import create
from visil.collection.shards.parts import ShardedParts
from visil.collection.votes import Nearest
from visil.compare.visil import ViSiL

from .random_collection import DIM, query, random_videos, same_duplicates, same_hits, small_model, write

MODEL = small_model()


class Pickled:
    """As if the shards were elsewhere: all that passes is pickled, from several threads at a time."""

    at_once = 3
    parts = None

    def __init__(self, locations: Sequence[str]) -> None:
        self.locations = locations
        self._local = LocalConnection.to(locations)
        self._local.use(MODEL)

    def call(self, place: int, method: str, /, *arguments: Any) -> Any:
        sent = pickle.loads(pickle.dumps(arguments))
        return pickle.loads(pickle.dumps(self._local.call(place, method, *sent)))

    def each(self, method: str, /, *arguments: Any) -> list[Any]:
        return [self.call(place, method, *arguments) for place in range(len(self.locations))]

    def some(self, method: str, arguments: dict[int, tuple[Any, ...]], /) -> dict[int, Any]:
        return {place: self.call(place, method, *those) for place, those in arguments.items()}

    def use(self, model: ViSiL) -> None:
        pass

    def close(self, *, keep: bool = True) -> None:
        self._local.close(keep=keep)


@pytest.mark.parametrize(
    ("shards", "few", "references"), [(1, 3, False), (2, 18, False), (3, 3, True), (5, 3, False)]
)
@settings(max_examples=1, deadline=None, phases=[Phase.generate])
@given(seed=st.integers(0, 2**32 - 1))
def test_any_split_gives_the_same_answers(shards: int, seed: int, few: int, references: bool) -> None:
    """``few`` candidates, so that the last place among them is fought over, and tied for."""
    videos = random_videos(seed, 16)
    with (
        tempfile.TemporaryDirectory() as name,
        patch("visil.collection.queries.CANDIDATES", few),
        patch("visil.collection.pairs.CANDIDATES", few),
    ):
        write(Path(name, "one"), videos, MODEL, references=7)
        assert create(Path(name, "many"), shards, source=Path(name, "one")) == len(videos)
        with (
            visil.Index(Path(name, "one"), model=MODEL) as one,
            visil.Index(Path(name, "many"), model=MODEL) as many,
        ):
            assert len(many.parts.connection.locations) == shards
            a, b, c = (videos[i].id for i in (0, 1, 2))
            for index in (one, many):
                index.judge(a, b, "same")
                index.judge(a, c, "different")
            for asked in videos[::8]:
                same_hits(one.search(query(asked), 1), many.search(query(asked), 1))
                same_hits(one.search(asked.id, 8), many.search(asked.id, 8))
            same_hits(
                one.search(videos[3].id, 5, exhaustive=True), many.search(videos[3].id, 5, exhaustive=True)
            )
            found = one.find_duplicates(0.3, new_against_references=references)
            same_duplicates(found, many.find_duplicates(0.3, new_against_references=references))
            if not references:
                assert found.groups


def test_only_plain_data_passes_and_threads_change_nothing(tmp_path: Path) -> None:
    videos = random_videos(7, 12)
    write(tmp_path / "one", videos, MODEL)
    create(tmp_path / "many", 3, source=tmp_path / "one")
    with (
        visil.Index(tmp_path / "many", model=MODEL) as local,
        visil.Index(tmp_path / "many", model=MODEL, connect=Pickled) as far,
    ):
        same_hits(local.search(query(videos[5])), far.search(query(videos[5])))
        same_duplicates(local.find_duplicates(), far.find_duplicates())
        assert far.info() == local.info()
        assert far.verify() == local.verify() == []


def test_the_answer_does_not_hang_on_what_was_removed_or_when_it_came(tmp_path: Path) -> None:
    """An index that never knew a video, and shards that lost it, choose the same candidates."""
    videos = random_videos(3, 18)
    write(tmp_path / "all", videos, MODEL)
    write(tmp_path / "fewer", [v for i, v in enumerate(videos) if i % 6], MODEL)
    create(tmp_path / "many", 3, source=tmp_path / "all")
    with (
        visil.Index(tmp_path / "fewer", model=MODEL) as one,
        visil.Index(tmp_path / "many", model=MODEL) as many,
    ):
        many.refresh()
        assert many.remove([video.id for video in videos[::6]]) == 3
        assert [video.id for video in many.catalogue.videos()] == [v.id for v in one.catalogue.videos()]
        for asked in videos[::6]:
            probes = Probes.of(query(asked))
            assert voted(one, probes) == voted(many, probes)
        same_duplicates(one.find_duplicates(), many.find_duplicates())


def voted(index: visil.Index, probes: Probes) -> list[tuple[str, float]]:
    (votes,) = index.parts.vote([probes], 7)
    return [(index.catalogue.numbered([vote.number])[vote.number].id, vote.votes) for vote in votes]


# ---------------------------------------------------------------------- the vote itself


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.integers(2, 4))
def test_nearest_frames_against_all_products(seed: int, neighbours: int, values: int) -> None:
    """Few different values, so that most products tie: all that tie for the last place are in, none that is gone."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        index = CandidateIndex(Path(name), DIM)
        frames: list[tuple[int, np.ndarray[Any, np.dtype[np.float32]]]] = []
        for number in range(1, 12):
            vectors = rng.integers(-values, values, (int(rng.integers(0, 6)), DIM)).astype(np.float32)
            index.add(number, vectors)
            frames += [(number, vector) for vector in vectors]
        index.gone = set(rng.choice(np.arange(1, 12), 3, replace=False).tolist())
        probes = rng.integers(-values, values, (5, DIM)).astype(np.float32)
        with patch("visil.collection.exact_neighbours.CELLS", 20):  # several blocks
            several = index.nearest([probes[:2], probes[2:2], probes[2:]], neighbours)
    expected = []
    for row, probe in enumerate(probes):
        near = [(float(probe @ vector), number) for number, vector in frames if number not in index.gone]
        near = sorted((one for one in near if one[0] > 0), reverse=True)
        last = near[min(neighbours, len(near)) - 1][0] if near else 0
        expected += [(row, product, number) for product, number in near if product >= last]
    rows = [
        (probe + first, similarity, video)
        for first, found in zip((0, 2, 2), several, strict=True)
        for probe, similarity, video in zip(found.probes, found.similarity, found.videos, strict=True)
    ]
    assert sorted(rows) == sorted(expected)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 4))
def test_cut_after_merging_is_cut_of_all(seed: int, neighbours: int, parts: int) -> None:
    """What each part keeps of its own is enough to know what all together would keep."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(0, 60))
    every = Nearest(
        rng.integers(0, 4, size), rng.integers(1, 9, size).astype(np.float32), rng.integers(1, 9, size)
    )
    which = rng.integers(0, parts, size)
    cuts = [
        Nearest(every.probes[which == i], every.similarity[which == i], every.videos[which == i]).cut(
            neighbours
        )
        for i in range(parts)
    ]
    merged = Nearest(
        *(np.concatenate([getattr(one, name) for one in cuts]) for name in ("probes", "similarity", "videos"))
    ).cut(neighbours)
    assert _listed(merged) == _listed(every.cut(neighbours))


def _listed(nearest: Nearest) -> list[tuple[float, ...]]:
    columns = (nearest.probes.tolist(), nearest.similarity.tolist(), nearest.videos.tolist())
    return sorted(zip(*columns, strict=True))


def test_one_door_to_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder, shards and a URL are opened by the same call, and answer the same."""
    pytest.importorskip("fsspec")
    monkeypatch.setenv("VISIL_CACHE", str(tmp_path / "cache"))
    videos = random_videos(1, 8)
    url = f"memory://{tmp_path.name}/one.visil"
    write(tmp_path / "one", videos, MODEL)
    write(url, videos, MODEL)
    create(tmp_path / "two", 2, source=tmp_path / "one")
    with visil.Index(tmp_path / "one", model=MODEL, create=False) as one:
        kinds = []
        for location in (tmp_path / "two", url, (tmp_path / "one").as_uri()):
            with visil.Index(location, model=MODEL, create=False) as other:
                kinds.append(type(other.parts))
                assert len(other) == len(one) == 8
                assert [video.id for video in other.catalogue.videos()] == [video.id for video in videos]
                for asked in videos[::5]:
                    same_hits(one.search(asked.id, 5), other.search(asked.id, 5))
                    same_hits(one.search(query(asked), 4), other.search(query(asked), 4))
                    same_hits(
                        one.search(asked.id, 5, exhaustive=True), other.search(asked.id, 5, exhaustive=True)
                    )
                same_duplicates(one.find_duplicates(), other.find_duplicates())
                assert other.verify() == []
        assert kinds == [ShardedParts, SinglePart, SinglePart]


@pytest.mark.parametrize("shards", [2, 4])
def test_an_empty_collection_answers(tmp_path: Path, shards: int) -> None:
    create(tmp_path / "many", shards)
    with visil.Index(tmp_path / "many", model=MODEL) as many:
        assert many.search(query(random_videos(1, 1)[0])) == []
        assert many.find_duplicates().groups == []
        assert many.info().videos == 0
        assert many.verify() == []
