"""Hough voting against offsets that are known, and against votes counted one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_matrices import Floats, drawn, path_of, video
from visil.errors import UsageError
from visil.paper.baselines.hough import Hough


def votes_by_hand(matrix: Floats, offset: int, threshold: float, tolerance: int) -> float:
    """The smaller of the rows' votes and the columns'."""
    by_row: dict[int, float] = {}
    by_column: dict[int, float] = {}
    for (i, j), value in np.ndenumerate(matrix):
        if value > threshold and abs(j - i - offset) <= tolerance:
            by_row[i] = max(by_row.get(i, 0.0), value)
            by_column[j] = max(by_column.get(j, 0.0), value)
    return min(sum(by_row.values()), sum(by_column.values()))


@settings(max_examples=100, deadline=None)
@given(
    height=st.integers(1, 8),
    width=st.integers(1, 8),
    seed=st.integers(0, 10_000),
    tolerance=st.integers(0, 3),
    threshold=st.sampled_from([0.0, 0.5, 0.95]),
)
def test_votes_are_those_counted_by_hand(
    height: int, width: int, seed: int, tolerance: int, threshold: float
) -> None:
    matrix = np.random.default_rng(seed).uniform(-0.5, 1, (height, width))
    system = Hough(threshold, tolerance=tolerance)
    found = system.path(matrix)
    assert system.best(matrix) == found.score
    if not (matrix > threshold).any():
        assert found.segment is None
        assert found.score == pytest.approx(matrix.max() - threshold)
        return
    counts = [votes_by_hand(matrix, offset, threshold, tolerance) for offset in range(1 - height, width)]
    assert found.score == pytest.approx(max(counts) / min(height, width))
    assert sum(matrix[cell] for cell in path_of(found)) == pytest.approx(max(counts))
    offsets = found.cells[:, 1] - found.cells[:, 0]
    assert offsets.max() - offsets.min() <= 2 * tolerance
    assert (np.diff(found.cells[:, 0]) >= 0).all()


@settings(max_examples=40, deadline=None)
@given(offset=st.integers(-12, 22), length=st.integers(4, 8))
def test_the_offset_of_a_diagonal(offset: int, length: int) -> None:
    cells = [(k, k + offset) for k in range(20) if 0 <= k + offset < 30][:length]
    found = Hough(0.5, tolerance=0).path(drawn((20, 30), cells))
    assert path_of(found) == cells
    assert found.score == pytest.approx(0.9 * len(cells) / 20)


def test_a_gap_does_not_matter_and_a_bend_within_the_tolerance_neither() -> None:
    gap = [(k, k + 5) for k in (*range(4), *range(15, 19))]
    assert path_of(Hough(0.5).path(drawn((20, 30), gap))) == gap
    bent = [(k, k + 5 + k // 4) for k in range(12)]
    assert path_of(Hough(0.5).path(drawn((20, 30), bent))) == bent


def test_another_speed_is_found_as_far_as_the_tolerance_goes() -> None:
    fast = [(k, 2 * k) for k in range(20)]
    found = Hough(0.5, tolerance=2).path(drawn((20, 40), fast))
    assert len(found.cells) == 5
    assert set(path_of(found)) <= set(fast)
    assert found.score == pytest.approx(5 * 0.9 / 20)


def test_the_better_of_two_candidates() -> None:
    weak, strong = [(k, k) for k in range(8)], [(k, 20 + k) for k in range(7)]
    matrix = drawn((8, 40), weak, 0.6) + drawn((8, 40), strong, 0.9) - 0.1
    found = Hough(0.5).path(matrix)
    assert path_of(found) == strong
    assert found.segment == ((0, 6), (20, 26))


def test_all_equal_and_one_frame() -> None:
    for shape in ((6, 6), (4, 9), (9, 4), (1, 5), (5, 1), (1, 1)):
        found = Hough(0.5).path(np.ones(shape))
        assert found.score == pytest.approx(1)
        assert len(found.cells) == min(shape)
    assert path_of(Hough(0.5).path(np.ones((5, 5)))) == [(k, k) for k in range(5)]
    assert path_of(Hough(0.5).path(np.array([[0.1, 0.2, 0.9]]))) == [(0, 2)]


def test_a_video_is_most_like_itself_and_a_part_is_found() -> None:
    system = Hough()
    described = [system.describe(video(frames, seed)) for seed, frames in enumerate((1, 4, 17, 40))]
    for number, query in enumerate(described):
        scores = system.scores(query, described)
        assert np.isfinite(scores).all()
        assert scores.argmax() == number
        assert scores[number] == pytest.approx(1, abs=1e-5)
    whole = described[3]
    assert path_of(system.align(whole[12:30], whole)) == [(k, 12 + k) for k in range(18)]
    zeros = torch.zeros(3, 2, 16)
    assert np.isfinite(system.scores(zeros, [zeros, whole, -whole])).all()


def test_what_cannot_be_meant() -> None:
    with pytest.raises(UsageError, match="tolerance"):
        Hough(tolerance=-1)
