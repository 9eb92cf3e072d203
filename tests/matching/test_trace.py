"""A path's cells against brute force, and its jumps."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from visil.matching.localize import STEPS
from visil.matching.trace import inner, split_at_jumps, traced


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(1, 9), columns=st.integers(1, 9), seed=st.integers(0, 1000))
def test_the_best_way_from_corner_to_corner(rows: int, columns: int, seed: int) -> None:
    block = np.random.default_rng(seed).uniform(0, 1, (rows, columns))

    @cache
    def best(row: int, column: int) -> float:
        here = block[row, column] - 0.5
        if (row, column) == (0, 0):
            return here
        ways = [
            best(row - down, column - right) - (0 if down == right else 0.1)
            for down, right in STEPS
            if row >= down and column >= right
        ]
        return here + max(ways, default=-np.inf)

    cells = traced(block, 0.5, 0.1)
    assert tuple(cells[0]) == (0, 0)
    assert cells[-1, 0] == rows - 1
    if np.isfinite(best(rows - 1, columns - 1)):
        steps = [(int(a), int(b)) for a, b in np.diff(cells, axis=0)]
        assert set(steps) <= set(STEPS)
        gain = (block[cells[:, 0], cells[:, 1]] - 0.5).sum() - 0.1 * sum(a != b for a, b in steps)
        assert gain == pytest.approx(best(rows - 1, columns - 1), abs=1e-4)


def straight(
    frames: int, top: int = 0, left: int = 0, speed: float = 1.0
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    steps = np.arange(frames)
    return np.stack([top + steps, left + (steps * speed).astype(int)], axis=1).astype(np.int64)


@pytest.mark.parametrize("jump", [2, 3])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_jump_splits(jump: int, axis: int) -> None:
    first, second = straight(8), straight(8, 8, 8)
    second[:, axis] += jump
    pieces = split_at_jumps(np.concatenate([first, second]))
    assert [len(piece) for piece in pieces] == [8, 8]


@pytest.mark.parametrize("speed", [0.5, 0.75, 1.0, 1.5, 2.0])
def test_one_speed_is_one_piece(speed: float) -> None:
    assert len(split_at_jumps(straight(20, speed=speed))) == 1


def test_a_change_of_speed_is_no_jump() -> None:
    first = straight(12)
    second = straight(10, 12, 13, 2.0)
    assert len(split_at_jumps(np.concatenate([first, second]))) == 1


@settings(max_examples=40, deadline=None)
@given(values=st.lists(st.integers(-5, 5), min_size=1, max_size=12))
def test_the_run_that_is_worth_most(values: list[int]) -> None:
    first, last = inner(np.array(values, float), 0.0)
    best = max(sum(values[i : j + 1]) for i in range(len(values)) for j in range(i, len(values)))
    assert sum(values[first : last + 1]) == best
