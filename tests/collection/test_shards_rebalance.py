"""Shards added and rebalanced: killed at any step nothing is lost or counts twice, and the next run finishes it."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import visil
from visil.collection import entries
from visil.collection.connection import LocalConnection
from visil.collection.duplicates import Duplicates
from visil.collection.feature_writer import FeatureCopy
from visil.collection.shards import manifest as manifests
from visil.collection.shards.create import add_shard, create
from visil.collection.shards.manifest import home
from visil.collection.shards.rebalance import rebalance
from visil.errors import IndexFolderError

from .inside import shards
from .random_collection import Made, random_videos, same_duplicates, same_hits, small_model, write

MODEL = small_model()
VIDEOS = random_videos(11, 7)
JUDGED = (1, 4, 6)
"""Each is judged with the first: what was said of the last two goes to the third shard, from the other two."""


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shards with seven videos, three judgements and a failure, a third that is empty; and the original."""
    folder = tmp_path_factory.mktemp("grown")
    write(folder / "one", VIDEOS, MODEL)
    with visil.Index(folder / "one", model=MODEL) as one:
        for other in JUDGED:
            one.judge(VIDEOS[0].id, VIDEOS[other].id, "different")
        one.catalogue.fail("/videos/broken.mp4", "no frame", visil.collection.identity.Stamp(1, 1))
    create(folder / "many", 2, source=folder / "one")
    assert add_shard(folder / "many", os.fspath(folder / "many" / "new.visil")) == "shard-002"
    return folder


@pytest.fixture
def many(grown: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(grown / "many", tmp_path / "many"))


def in_a_child(work: Callable[[], object]) -> int:
    """Exit status of a process that does some work; minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_at(owner: Any, method: str, nth: int, work: Callable[[], object]) -> bool:
    """Whether the process got as far as the n-th call of a method, which kills it before anything is done."""

    def child() -> None:
        real, calls = getattr(owner, method), 0

        def killing(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == nth:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        setattr(owner, method, killing)
        work()

    status = in_a_child(child)
    assert status in (0, -signal.SIGKILL)
    return status != 0


def each_once(folder: Path, videos: list[Made] = VIDEOS) -> None:
    """Every video in the shard that it belongs to and in no other, sound, with its file and what people said."""
    with visil.Index(folder, model=MODEL) as index:
        names = shards(index).manifest.names
        assert not shards(index).manifest.moving
        orders = shards(index).connection.each("order")
        for place, order in enumerate(orders):
            assert [home(video, names) for video in order.ids] == [place] * len(order.ids)
            assert sorted(shards(index).members.local(place).store.ids()) == sorted(order.ids)
            assert {
                home(row[0], names) for row in shards(index).connection.call(place, "transfers.verdicts")
            } <= {place}
        assert sorted(video for order in orders for video in order.ids) == sorted(
            video.id for video in videos
        )
        is_all_there(index, videos)
        index.refresh()
        assert index.verify() == []
        assert not list(folder.rglob(".*.part"))


def is_all_there(index: visil.Index, videos: list[Made] = VIDEOS) -> None:
    listed = list(index.catalogue.videos())
    assert [(video.id, video.path) for video in listed] == [(video.id, video.path) for video in videos]
    assert len(index) == index.info().videos == len(videos)
    assert index.info().frames == sum(len(video.vectors) for video in videos)
    assert len(index.catalogue.verdicts()) == 3
    assert [failure.path for failure in index.info().failed] == ["/videos/broken.mp4"]


def answers(index: visil.Index) -> Duplicates:
    return index.find_duplicates(0.3)


def test_a_new_shard_gets_its_part_and_nothing_else_moves(many: Path) -> None:
    with visil.Index(many, model=MODEL) as index:
        before = {
            video: place for place, o in enumerate(shards(index).connection.each("order")) for video in o.ids
        }
        names = shards(index).manifest.names
    moved = rebalance(many)
    assert moved == sum(home(video.id, names) == 2 for video in VIDEOS) > 0
    with visil.Index(many, model=MODEL) as index:
        after = {
            video: place for place, o in enumerate(shards(index).connection.each("order")) for video in o.ids
        }
    assert {video for video in after if after[video] != before[video]} == {v for v in after if after[v] == 2}
    assert rebalance(many) == 0
    each_once(many)


def test_killed_before_any_step_of_a_rebalance(grown: Path, tmp_path: Path) -> None:
    """At each call to a shard in turn, until none is left; a reader in between sees every video once."""
    with visil.Index(grown / "one", model=MODEL) as one:
        hits, groups = one.search(VIDEOS[0].id), answers(one)
    nth, doubled = 1, 0
    while True:
        many = Path(shutil.copytree(grown / "many", tmp_path / str(nth)))
        if not killed_at(LocalConnection, "call", nth, partial(rebalance, many)):
            break
        with visil.Index(many, model=MODEL) as index:
            is_all_there(index)
            held = sum(len(order.ids) for order in shards(index).connection.each("order"))
            doubled += held > len(VIDEOS)
            if held > len(VIDEOS):
                same_hits(hits, index.search(VIDEOS[0].id))
                same_duplicates(groups, answers(index))
        rebalance(many)
        each_once(many)
        shutil.rmtree(many)
        nth += 1 if nth < 9 else 3
    assert nth > 10
    assert doubled > 2
    each_once(many)


@pytest.mark.parametrize(
    ("owner", "method"), [(FeatureCopy, "place"), (entries, "put_verdicts"), (manifests, "write")]
)
@pytest.mark.parametrize("nth", [1, 2])
def test_killed_within_a_step(many: Path, owner: Any, method: str, nth: int) -> None:
    assert killed_at(owner, method, nth, lambda: rebalance(many))
    with visil.Index(many, model=MODEL) as index:
        is_all_there(index)
    rebalance(many)
    each_once(many)


@pytest.mark.parametrize("nth", [1, 3, 7])
def test_a_copy_into_shards_that_is_killed_goes_on(grown: Path, tmp_path: Path, nth: int) -> None:
    def make() -> int:
        return create(tmp_path / "many", 3, source=grown / "one")

    assert killed_at(FeatureCopy, "place", nth, make)
    assert not manifests.is_sharded(tmp_path / "many")
    assert make() == len(VIDEOS)
    each_once(tmp_path / "many")
    with visil.Index(grown / "one", model=MODEL) as one:
        is_all_there(one)


def test_who_moves_and_who_changes_do_not_meet(many: Path) -> None:
    with visil.Index(many, model=MODEL) as index:
        with manifests.held(many, alone=False), pytest.raises(IndexFolderError, match="another process"):
            rebalance(many)
        with manifests.held(many, alone=True):
            with pytest.raises(IndexFolderError, match="is being rebalanced"):
                index.remove([VIDEOS[0].id])
            with pytest.raises(IndexFolderError, match="is being rebalanced"):
                index.judge(VIDEOS[0].id, VIDEOS[1].id, "same")
        is_all_there(index)


def test_an_open_collection_follows(many: Path, tmp_path: Path) -> None:
    """Shards that were added, and videos that moved, since it was opened."""
    with visil.Index(many, model=MODEL) as index:
        before = index.search(VIDEOS[4].id)
        add_shard(many, os.fspath(tmp_path / "elsewhere.visil"))
        rebalance(many)
        same_hits(before, index.search(VIDEOS[4].id))
        assert len(shards(index).connection.locations) == 4
        assert shards(index).connection.locations[3] == os.fspath(tmp_path / "elsewhere.visil")
    each_once(many)


def test_the_whole_folder_can_be_moved(many: Path, tmp_path: Path) -> None:
    rebalance(many)
    each_once(many.rename(tmp_path / "elsewhere"))


def test_a_moved_entry_keeps_what_damaged_it(many: Path) -> None:
    """A feature file that is missing does not keep the others from moving, nor is the video lost with it."""
    with visil.Index(many, model=MODEL) as index:
        lost = next(video.id for video in VIDEOS if home(video.id, shards(index).manifest.names) == 2)
        index.store.path(lost).unlink()
    rebalance(many)
    with visil.Index(many, model=MODEL) as index:
        index.refresh()
        assert shards(index).members.where(lost) == 2
        (problem,) = index.verify()
        assert problem.reason.endswith("are missing (shard-002)")


def test_homes_are_even_and_few_move() -> None:
    ids = [f"{i:032x}" for i in range(4000)]
    names = [f"shard-{i:03}" for i in range(5)]
    four, five = ([home(video, names[:n]) for video in ids] for n in (4, 5))
    assert all(900 < four.count(place) < 1100 for place in range(4))
    moved = [(a, b) for a, b in zip(four, five, strict=True) if a != b]
    assert {b for _, b in moved} == {4}
    assert 700 < len(moved) < 900


def test_a_shard_may_be_on_a_store(grown: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copied to it, moved from it and to it, searched there, added to: as if it were a folder."""
    pytest.importorskip("fsspec")
    monkeypatch.setenv("VISIL_CACHE", os.fspath(tmp_path / "cache"))
    many, place = tmp_path / "many", f"memory://{tmp_path.name}"
    create(many, [f"{place}/a.visil", os.fspath(tmp_path / "b.visil")], source=grown / "one")
    with (
        visil.Index(grown / "one", model=MODEL) as one,
        visil.Index(many, model=MODEL) as index,
    ):
        assert 0 < shards(index).connection.call(0, "facts").videos < len(VIDEOS)
        same_hits(one.search(VIDEOS[2].id), index.search(VIDEOS[2].id))
        same_duplicates(answers(one), answers(index))
        add_shard(many, f"{place}/c.visil")
        assert rebalance(many) > 0
        same_hits(one.search(VIDEOS[2].id), index.search(VIDEOS[2].id))
        same_duplicates(answers(one), answers(index))
        assert shards(index).connection.call(2, "facts").videos > 0
        assert index.remove([VIDEOS[0].id]) == 1
    with visil.Index(many, model=MODEL) as index:
        assert [video.id for video in index.catalogue.videos()] == [video.id for video in VIDEOS[1:]]
        assert index.verify() == []
