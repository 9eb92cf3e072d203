"""Many questions on several cores: the same answers as one after another, whatever becomes of a worker."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import visil
from forked import fork
from toy_questions import killed, process, refused
from visil.collection import queries as queries_asked
from visil.collection import spread
from visil.collection.index import Index
from visil.collection.spread import Spread
from visil.compare.visil import ViSiL
from visil.errors import UsageError, VisilError
from visil.machine.processes import available

from .stored import features, fill, identity, put

workers_needed = pytest.mark.skipif(not available(), reason="worker processes are for Linux")

NAMES = [f"video {i}{' copy' if i % 3 == 0 else ''}" for i in range(15)]


@pytest.fixture(scope="module")
def plain() -> ViSiL:
    """The default model, which can be sent to other processes."""
    return visil.load()


@pytest.fixture
def index(plain: ViSiL, tmp_path: Path) -> Iterator[Index]:
    with Index(tmp_path / "many.visil", model=plain) as opened:
        fill(opened, NAMES)
        opened.refresh()
        yield opened


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are started with the first question."""
    monkeypatch.setattr(spread, "PATIENCE_S", -1.0)
    monkeypatch.setattr(spread, "WORTH_S", -1.0)
    here = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(here))


def until_workers_answer(asked: Spread, most: int = 200) -> list[tuple[int, int]]:
    """So many questions that workers have taken over before the last."""
    return list(asked.map(process, [(item, os.getpid()) for item in range(most)], most))


@workers_needed
@pytest.mark.usefixtures("impatient")
def test_duplicates_and_searches_are_the_same_on_two_cores(index: Index) -> None:
    alone = index.find_duplicates(workers=1)
    assert len(alone.groups) > 3
    assert index.find_duplicates(workers=2).to_dict() == alone.to_dict()
    queries = [identity(name) for name in NAMES[:6]]
    expected = [index.search(query, 5) for query in queries]
    assert list(index.search_many(queries, 5, workers=2)) == expected


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=workers_needed)])
@pytest.mark.usefixtures("impatient")
def test_several_questions_as_one_have_the_same_answers(
    index: Index, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """As a GPU is asked: it finds pairs that may share footage, and workers, where there are any, read them."""
    shaded = features(1, 8)
    shaded.blank[:3] = True  # type: ignore[index]
    put(index, "begins in the dark", shaded)
    queries = [
        identity("begins in the dark"),
        *(identity(name) for name in NAMES[:6]),
        "nobody knows this",
        *map(identity, NAMES[6:8]),
    ]
    groups = index.find_duplicates(workers=1).to_dict()
    alone = list(index.search_many(queries, 12, workers=1))
    monkeypatch.setattr(spread, "questions_at_once", lambda _: 5)
    monkeypatch.delattr(queries_asked, "_answer")  # which asks one by one
    assert index.find_duplicates(workers=workers).to_dict() == groups
    together = list(index.search_many(queries, 12, workers=workers))
    assert [repr(hits) for hits in together if isinstance(hits, VisilError)] == [repr(alone[7])]
    for one, other in zip(alone, together, strict=True):
        if not isinstance(one, VisilError) and not isinstance(other, VisilError):
            assert [(hit.id, hit.verdict, hit.segments, hit.note) for hit in other] == [
                (hit.id, hit.verdict, hit.segments, hit.note) for hit in one
            ]
            assert [hit.score for hit in other] == pytest.approx([hit.score for hit in one], abs=1e-5)
            assert [hit.evidence for hit in other] == pytest.approx([hit.evidence for hit in one], abs=1e-4)
    first = together[0]
    assert not isinstance(first, VisilError)
    assert any(hit.verdict == "unrelated" for hit in first)


@workers_needed
@pytest.mark.usefixtures("impatient")
def test_workers_take_over_and_answers_keep_their_order(index: Index) -> None:
    with Spread(index, 2) as asked:
        found = until_workers_answer(asked)
        assert asked._workers is not None
        forking = asked._workers.pid
        with pytest.raises(UsageError, match=r"many\.visil: not 3"):  # an error of theirs is raised here
            list(asked.map(refused, [3], 1))
    assert [item for item, _ in found] == list(range(200))
    assert len({answering for _, answering in found}) == 3, "this process at first, then two others"
    assert not Path(f"/proc/{forking}").exists(), "and they are gone with their work"


@workers_needed
def test_forks_of_a_command_open_what_it_has_open(
    plain: ViSiL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which SQLite does not, for what is open at the fork."""
    monkeypatch.setattr(spread, "WORTH_QUICK_S", -1.0)
    with Index(tmp_path / "many.visil", model=plain) as index:
        fill(index, NAMES)

    def command() -> None:
        with Index(tmp_path / "many.visil", model=plain) as index, Spread(index, 2) as asked:
            print(len({answering for _, answering in until_workers_answer(asked)}))
            print(index.catalogue.count()[0])

    said, complaints = fork(command, tmp_path).communicate(60)
    assert (said, complaints) == (f"3\n{len(NAMES)}\n", "")


@workers_needed
@pytest.mark.usefixtures("impatient")
def test_a_worker_that_is_killed_costs_nothing_but_time(index: Index) -> None:
    with Spread(index, 2) as asked:
        until_workers_answer(asked)
        assert list(asked.map(killed, [os.getpid()] * 5, 5)) == [len(NAMES)] * 5


@workers_needed
@pytest.mark.usefixtures("impatient")
def test_a_video_that_cannot_be_read_is_named_once(index: Index, caplog: pytest.LogCaptureFixture) -> None:
    index.store.path(identity(NAMES[2])).write_bytes(b"no features")
    with caplog.at_level(logging.WARNING):
        found = index.find_duplicates(workers=2)
    assert [record.message for record in caplog.records if "left out" in record.message] == [
        record.message for record in caplog.records
    ]
    assert len(caplog.records) == 1
    caplog.clear()
    assert found.to_dict() == index.find_duplicates(workers=1).to_dict()


def test_one_worker_is_this_process(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "Workers", lambda _: pytest.fail("none is needed"))
    assert len(list(Spread(index, 1).map(process, [(1, 0), (2, 0)], 2))) == 2
    with pytest.raises(UsageError, match="workers must be at least 1, not 0"):
        index.find_duplicates(workers=0)


def test_small_work_starts_no_workers(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "PATIENCE_S", 1e6)
    monkeypatch.setattr(spread, "Workers", lambda _: pytest.fail("none is worth it"))
    index.find_duplicates(workers=8)


@pytest.mark.usefixtures("impatient")
def test_what_cannot_be_sent_is_asked_here(
    index: Index, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = index.find_duplicates(workers=1).to_dict()
    monkeypatch.setattr(index.model, "features", lambda frames: frames)  # a model that cannot be pickled
    with Spread(index, 2) as asked:
        until_workers_answer(asked, 10)
    assert index.find_duplicates(workers=2).to_dict() == expected
    if available():
        assert "cannot be started here" in caplog.text


def test_what_is_wrong_with_a_query_is_its_answer(index: Index, tmp_path: Path) -> None:
    first, bad, last = index.search_many([identity(NAMES[0]), tmp_path / "none.mp4", identity(NAMES[4])], 3)
    assert isinstance(bad, VisilError)
    assert not isinstance(first, VisilError)
    assert not isinstance(last, VisilError)
    assert first[0].id == identity(NAMES[0])
    assert last[0].id == identity(NAMES[4])


def test_workers_beside_a_gpu_are_sent_the_same_model(plain: ViSiL, monkeypatch: pytest.MonkeyPatch) -> None:
    assert spread._on_processor(plain) is plain
    with monkeypatch.context() as patch:
        patch.setattr(ViSiL, "device", property(lambda _: torch.device("cuda")))
        sent = spread._on_processor(plain)
    assert sent.fingerprint() == plain.fingerprint()
    first = features(1, 8)
    other = features(2, 8, like=first)
    assert sent.compare(first, other).to_dict() == plain.compare(first, other).to_dict()


@workers_needed
@pytest.mark.usefixtures("impatient")
def test_workers_that_all_end_are_asked_no_more(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "MOST_LOST", 3)
    with Spread(index, 2) as asked:
        until_workers_answer(asked)
        assert list(asked.map(killed, [os.getpid()] * 40, 40)) == [len(NAMES)] * 40
        assert 3 <= asked._lost <= 4
