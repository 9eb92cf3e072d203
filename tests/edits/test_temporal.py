"""Lists of positions, by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from visil.edits import temporal
from visil.errors import UsageError


def test_fast_forward() -> None:
    assert temporal.fast_forward(10, 2) == [0, 2, 4, 6, 8]
    assert temporal.fast_forward(9, 2) == [0, 2, 4, 6, 8]
    assert temporal.fast_forward(10, 2.5) == [0, 2, 5, 7]
    assert temporal.fast_forward(4, 1) == [0, 1, 2, 3]
    assert temporal.fast_forward(1, 3) == [0]


def test_slow_motion() -> None:
    assert temporal.slow_motion(3, 2) == [0, 0, 1, 1, 2, 2]
    assert temporal.slow_motion(4, 1.5) == [0, 0, 1, 2, 2, 3]
    assert temporal.slow_motion(4, 1) == [0, 1, 2, 3]


def test_reversion_pause_and_insertion() -> None:
    assert temporal.reversion(4) == [3, 2, 1, 0]
    assert temporal.pause(4, 1, 2) == [0, 1, 1, 1, 2, 3]
    assert temporal.pause(2, 1, 1) == [0, 1, 1]
    assert temporal.insertion(4, 2, 3) == [0, 1, -1, -1, -1, 2, 3]
    assert temporal.insertion(2, 0, 1) == [-1, 0, 1]
    assert temporal.insertion(2, 2, 1) == [0, 1, -1]


def test_speeds_below_one_are_refused() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        temporal.fast_forward(5, 0.5)
    with pytest.raises(UsageError, match="at least 1"):
        temporal.slow_motion(0, 2)


@given(frames=st.integers(1, 80), seed=st.integers(0, 10_000))
def test_draws_stay_within_the_source_and_in_their_order(frames: int, seed: int) -> None:
    name, positions = temporal.draw(frames, np.random.default_rng(seed))
    assert positions
    assert (name, positions) == temporal.draw(frames, np.random.default_rng(seed))
    own = [position for position in positions if position != temporal.FOREIGN]
    assert all(0 <= position < frames for position in own)
    if name == "reversion":
        assert own == sorted(own, reverse=True)
    else:
        assert own == sorted(own)
    if name != "fast forward":
        assert set(own) == set(range(frames))
    assert (len(own) < len(positions)) == (name == "insertion")
    low, high = temporal.FACTORS
    if name == "slow motion":
        assert frames * low <= len(positions) <= frames * high + 1
    if name == "fast forward":
        assert frames / high <= len(positions) <= frames / low + 1


def test_every_transform_is_drawn_about_as_often() -> None:
    rng = np.random.default_rng(0)
    names = Counter(temporal.draw(10, rng)[0] for _ in range(1000))
    assert set(names) == set(temporal.NAMES)
    assert min(names.values()) > 150
