"""Pools: which positives can be drawn, and how often each is."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from visil.errors import UsageError
from visil.training.pools import AnnotatedPool, ArtificialPool, drawn
from visil.training.segments import SegmentPair

PAIR = SegmentPair(0, (0.0, 6.0), 1, (0.0, 6.0))
OTHER = SegmentPair(1, (0.0, 6.0), 2, (0.0, 6.0))


def alone(count: int) -> list[frozenset[int]]:
    return [frozenset((video,)) for video in range(count)]


def test_positives_without_negatives_are_left_out() -> None:
    pool = AnnotatedPool([PAIR, OTHER], [(), (0, 3)]).usable(alone(4))
    assert (pool.pairs, pool.negatives) == ([OTHER], [[0, 3]])
    made = ArtificialPool([0, 1, 2], [(1,), (), (3,)]).usable(alone(4))
    assert (made.videos, made.negatives) == ([0, 2], [[1], [3]])


def test_negatives_that_may_show_the_footage_are_taken_out() -> None:
    related = [frozenset(some) for some in ({0}, {1, 3}, {2}, {1, 3}, {4})]
    pool = AnnotatedPool([PAIR], [(2, 3, 4)]).usable(related)
    assert pool.negatives == [[2, 4]]
    assert len(ArtificialPool([1], [(3,)]).usable(related)) == 0


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(UsageError, match="1 positives were given negatives for 2"):
        ArtificialPool([0], [(1,), (2,)])
    with pytest.raises(UsageError, match="video 0 is among its own negatives"):
        ArtificialPool([0], [(0, 1)])
    with pytest.raises(UsageError, match="among its own negatives"):
        AnnotatedPool([PAIR], [(1, 2)])
    with pytest.raises(UsageError, match="its own annotated positive"):
        AnnotatedPool([SegmentPair(0, (0.0, 6.0), 0, (7.0, 13.0))], [(2,)])


@given(count=st.integers(1, 60), items=st.integers(1, 20), seed=st.integers(0, 99))
def test_all_are_drawn_equally_often_or_once_more(count: int, items: int, seed: int) -> None:
    numbers = drawn(count, items, np.random.default_rng(seed))
    assert len(numbers) == count
    times = Counter(numbers)
    assert set(times) <= set(range(items))
    assert {times[item] for item in range(items)} <= {count // items, -(-count // items)}
