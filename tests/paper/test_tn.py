"""TN against paths that are known, and against all chains of nodes, one by one."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_matrices import Floats, drawn, path_of, video
from visil.errors import UsageError
from visil.paper.baselines.tn import TN


def heaviest_by_hand(matrix: Floats, threshold: float, top: int, window: int) -> float:
    nodes = [
        (i, int(j))
        for i, row in enumerate(matrix)
        for j in np.argsort(-row)[:top]
        if row[j] > threshold
    ]  # fmt: skip

    @cache
    def ending(node: tuple[int, int]) -> float:
        i, j = node
        earlier = [
            ending(other)
            for other in nodes
            if 1 <= i - other[0] <= window and 1 <= j - other[1] <= window
        ]  # fmt: skip
        return float(matrix[node]) + max(earlier, default=0.0)

    return max((ending(node) for node in nodes), default=float(matrix.max()) - threshold)


@settings(max_examples=100, deadline=None)
@given(
    height=st.integers(1, 9),
    width=st.integers(1, 9),
    seed=st.integers(0, 10_000),
    top=st.integers(1, 4),
    window=st.integers(1, 4),
    threshold=st.sampled_from([0.0, 0.5, 0.9]),
)
def test_the_heaviest_chain(
    height: int, width: int, seed: int, top: int, window: int, threshold: float
) -> None:
    # Whole hundredths, all different: no ties in the choice of nodes.
    values = np.random.default_rng(seed).permutation(100)[: height * width] / 100
    matrix = values.reshape(height, width)
    found = TN(threshold, top=top, window=window).path(matrix)
    expected = heaviest_by_hand(matrix, threshold, top, window)
    if (matrix > threshold).any():
        assert found.score == pytest.approx(expected / min(height, width))
        assert sum(matrix[cell] for cell in path_of(found)) == pytest.approx(expected)
        steps = np.diff(found.cells, axis=0)
        assert ((steps >= 1) & (steps <= window)).all()
    else:
        assert found.segment is None
        assert found.score == pytest.approx(expected)


def test_a_diagonal_a_speed_change_and_a_gap() -> None:
    straight = [(3 + k, 7 + k) for k in range(6)]
    found = TN(0.5).path(drawn((12, 20), straight))
    assert path_of(found) == straight
    assert found.segment == ((3, 8), (7, 12))
    assert found.score == pytest.approx(6 * 0.9 / 12)
    fast = [(k, 3 * k) for k in range(7)]
    assert path_of(TN(0.5).path(drawn((7, 21), fast))) == fast
    slow = [(j, i) for i, j in fast]
    assert path_of(TN(0.5).path(drawn((21, 7), slow))) == slow
    gap = straight[:3] + [(i + 4, j + 4) for i, j in straight[3:]]
    assert path_of(TN(0.5).path(drawn((16, 20), gap))) == gap
    assert path_of(TN(0.5, window=4).path(drawn((16, 20), gap))) == gap[:3]


def test_the_better_of_two_candidates() -> None:
    weak, strong = [(k, k) for k in range(8)], [(k, 20 + k) for k in range(7)]
    matrix = drawn((8, 40), weak, 0.6) + drawn((8, 40), strong, 0.9) - 0.1
    assert path_of(TN(0.5).path(matrix)) == strong


def test_backwards_is_no_path() -> None:
    reverse = [(k, 9 - k) for k in range(10)]
    assert len(TN(0.5).path(drawn((10, 10), reverse)).cells) == 1


def test_all_equal_is_followed_from_end_to_end() -> None:
    for shape in ((30, 30), (10, 25), (25, 10)):
        found = TN(0.5).path(np.ones(shape))
        assert found.score == pytest.approx(1)
        assert len(found.cells) == min(shape)
    nothing = TN(0.5).path(np.full((4, 6), 0.2))
    assert len(nothing.cells) == 0
    assert nothing.score == pytest.approx(-0.3)


def test_one_frame() -> None:
    assert TN(0.5).path(np.array([[0.75]])).score == pytest.approx(0.75)
    assert path_of(TN(0.5).path(np.array([[0.1, 0.2, 0.9, 0.6]]))) == [(0, 2)]
    assert path_of(TN(0.5).path(np.array([[0.1], [0.2], [0.9], [0.6]]))) == [(2, 0)]


def test_a_video_is_most_like_itself_and_a_part_is_found() -> None:
    system = TN()
    described = [system.describe(video(frames, seed)) for seed, frames in enumerate((1, 4, 17, 40))]
    for number, query in enumerate(described):
        scores = system.scores(query, described)
        assert np.isfinite(scores).all()
        assert scores.argmax() == number
        assert scores[number] == pytest.approx(1, abs=1e-5)
    whole = described[3]
    found = system.align(whole[12:30], whole)
    assert path_of(found) == [(k, 12 + k) for k in range(18)]
    zeros = torch.zeros(3, 2, 16)
    assert np.isfinite(system.scores(zeros, [zeros, whole, -whole])).all()


def test_what_cannot_be_meant() -> None:
    with pytest.raises(UsageError, match="top"):
        TN(top=0)
    with pytest.raises(UsageError, match="window"):
        TN(window=0)
