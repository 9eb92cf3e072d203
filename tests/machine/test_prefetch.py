"""A thread that runs ahead: in order, no further than allowed, and gone when it is closed."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from visil.machine.prefetch import prefetched

PATIENCE_S = 30
"""How long to wait for what must happen; a test that waits this long has failed."""


class Source:
    """Counts upwards, and lets a test watch and steer how far it has come."""

    def __init__(self, count: int, fail_at: int | None = None) -> None:
        self.count = count
        self.fail_at = fail_at
        self.made = 0
        self.finished = threading.Event()
        self._progress = threading.Condition()

    def __iter__(self) -> Iterator[int]:
        try:
            for i in range(self.count):
                if i == self.fail_at:
                    raise ValueError(f"broke at {i}")
                with self._progress:
                    self.made += 1
                    self._progress.notify_all()
                yield i
        finally:
            self.finished.set()

    def wait_until_made(self, count: int) -> bool:
        with self._progress:
            return self._progress.wait_for(lambda: self.made >= count, PATIENCE_S)


def threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "visil-prefetch"]


@pytest.mark.parametrize("ahead", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 7, 100])
def test_order(count: int, ahead: int) -> None:
    with prefetched(range(count), ahead) as items:
        assert list(items) == list(range(count))
    assert threads() == []


def test_none_is_an_item_like_any_other() -> None:
    with prefetched([None, 1, None]) as items:
        assert list(items) == [None, 1, None]


def test_exhausting_it_ends_the_thread_without_a_context() -> None:
    assert list(prefetched(range(5))) == list(range(5))
    assert threads() == []


def test_an_error_comes_after_the_items_before_it() -> None:
    source = Source(10, fail_at=4)
    got: list[int] = []
    with prefetched(source) as items, pytest.raises(ValueError, match="broke at 4"):
        got.extend(items)
    assert got == [0, 1, 2, 3]
    assert threads() == []


def test_an_error_before_the_first_item() -> None:
    with prefetched(Source(3, fail_at=0)) as items, pytest.raises(ValueError, match="broke at 0"):
        next(iter(items))
    assert threads() == []


def test_closing_early_ends_the_thread_and_the_source() -> None:
    source = Source(1_000_000)
    with prefetched(source, ahead=2) as items:
        assert next(iter(items)) == 0
    assert threads() == []
    assert source.finished.is_set()
    assert source.made < 100


def test_closing_before_anything_was_taken() -> None:
    source = Source(1_000_000)
    items = prefetched(source, ahead=1)
    assert source.wait_until_made(2)  # one in the queue, one waiting for room
    items.close()
    assert threads() == []
    items.close()  # twice does no harm


def test_an_error_in_the_body_closes_it() -> None:
    source = Source(1_000_000)

    def body() -> None:
        with prefetched(source) as items:
            next(iter(items))
            raise KeyError

    with pytest.raises(KeyError):
        body()
    assert threads() == []
    assert source.finished.is_set()


@pytest.mark.parametrize("ahead", [1, 3])
def test_it_runs_no_further_ahead_than_allowed(ahead: int) -> None:
    """``ahead`` wait, and one more is in the producer's hands; each item taken lets one more be made."""
    source = Source(1000)
    with prefetched(source, ahead) as items:
        iterator = iter(items)
        for taken in range(1, 6):
            next(iterator)
            assert source.wait_until_made(taken + ahead)
            assert source.made <= taken + ahead + 1


def test_it_does_run_ahead() -> None:
    source = Source(1000)
    with prefetched(source, ahead=3):
        assert source.wait_until_made(4)


def test_the_source_runs_in_another_thread() -> None:
    def where() -> Iterator[int]:
        yield threading.get_ident()

    with prefetched(where()) as items:
        assert list(items) != [threading.get_ident()]


def test_what_is_used_up_or_closed_stays_empty() -> None:
    """Asking again must not wait for a thread that has gone."""
    used = prefetched(range(3))
    assert list(used) == [0, 1, 2]
    closed = prefetched(range(3))
    closed.close()
    answers: list[list[int]] = []

    def ask() -> None:
        answers.extend([list(used), list(closed)])

    asker = threading.Thread(target=ask, daemon=True)
    asker.start()
    asker.join(5)
    assert answers == [[], []]
