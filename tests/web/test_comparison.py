"""The line that two players run along, and the moment that a hit is shown at, where both are known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from visil.matching.localize import Segment
from visil.model.features import VideoFeatures
from visil.web.comparison import line_through, same_moment, same_moments


def matrix(rows: int, columns: int, start: float, ratio: float) -> np.ndarray:
    """Frames a second apart; the nearer the target's is to where the query's belongs, the more alike they are."""
    away = np.arange(columns)[None] - (start + ratio * np.arange(rows)[:, None])
    return np.exp(-(away**2) / 2).astype(np.float32)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(8, 40),
    st.floats(0, 20),
    st.floats(0.6, 2.0),
    st.floats(-2.5, 2.5),
    st.floats(-2.5, 2.5),
)
def test_ends_that_are_off_are_found_again(
    rows: int, start: float, ratio: float, early: float, late: float
) -> None:
    end = start + ratio * (rows - 1)
    columns = int(end) + 8
    given_ends = (max(0.0, start + early), max(start + early + 1.0, end + late))
    segment = Segment((0.0, float(rows - 1)), given_ends, 0.9)
    line = line_through(
        segment, matrix(rows, columns, start, ratio), np.arange(float(rows)), np.arange(float(columns))
    )
    assert line["query"] == [0.0, rows - 1]
    # Ends further off than they may move are not found. Between frames a second apart, likeness is a straight line,
    # so that lines are drawn towards them: ends come within a frame (the worst of 6,000: 0.75 s), the middle nearer.
    if abs(given_ends[0] - start) <= 3 and abs(given_ends[1] - end) <= 3:
        assert line["target"] == pytest.approx([start, end], abs=1.0)
        assert sum(line["target"]) / 2 == pytest.approx((start + end) / 2, abs=0.55)


def test_where_nothing_moves_or_nothing_is_known_the_ends_stay() -> None:
    times = np.arange(10.0)
    segment = Segment((1.0, 8.0), (2.0, 9.0), 0.9)
    for still in (np.full((10, 10), 0.9, np.float32), np.full((10, 10), np.nan, np.float32)):
        assert line_through(segment, still, times, times) == {"query": [1.0, 8.0], "target": [2.0, 9.0]}
    nearly = np.tile(0.9 - 0.006 * times.astype(np.float32), (10, 1))  # slowly growing lighter
    assert line_through(segment, nearly, times, times)["target"] == [2.0, 9.0]
    short = Segment((1.0, 2.0), (2.0, 3.0), 0.9)
    assert line_through(short, matrix(10, 10, 0, 1), times, times)["target"] == [2.0, 3.0]


class Alike:
    """Stands for a model: a frame has one number, and is alike to others as far as theirs are near."""

    def scorer(self) -> Any:
        def matrices(query: torch.Tensor, target: torch.Tensor) -> tuple[np.ndarray, None]:
            return torch.exp(-((query[:, None, 0, 0] - target[None, :, 0, 0]) ** 2)).numpy(), None

        return SimpleNamespace(matrices=matrices)


def shown(moments: np.ndarray) -> VideoFeatures:
    """A frame a second; each shows a moment of the original."""
    vectors = torch.from_numpy(moments.astype(np.float32))[:, None, None]
    return VideoFeatures(vectors, torch.arange(len(moments), dtype=torch.float64))


@pytest.mark.parametrize("backwards", [False, True])
def test_a_hit_is_shown_at_the_same_moment_though_its_stretch_is_rough(backwards: bool) -> None:
    query, faster = np.arange(19.0), 2 + 1.5 * np.arange(12)
    target = faster[::-1] if backwards else faster
    rough = Segment((0.0, 19.0), (0.0, 12.0), 0.9, reversed=backwards)
    short = Segment((3.0, 4.0), (9.0, 10.0), 0.9)
    model: Any = Alike()
    found = same_moment(model, shown(query), shown(np.ascontiguousarray(target)), [short, rough])
    assert found is not None
    at, there = found
    assert abs(at - target[int(there)]) <= 0.5
    assert 5 <= at <= 13  # about the middle
    assert same_moment(model, shown(query), shown(query), []) is None
    line = same_moments(model, shown(query), shown(np.ascontiguousarray(target)), [short, rough])
    assert line is not None
    if not backwards:  # of which the ends are left as they are
        assert line["target"] == pytest.approx([-2 / 1.5, 17 / 1.5], abs=0.6)
    still = same_moment(model, shown(query * 0), shown(query * 0), [Segment((0.0, 19.0), (0.0, 19.0), 0.9)])
    assert still in ([9.0, 9.0], [10.0, 10.0])
