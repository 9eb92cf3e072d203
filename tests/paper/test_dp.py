"""DP against a path that is known, and against every path there is, one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_matrices import Floats, drawn, path_of, video
from visil.errors import UsageError
from visil.model.features import VideoFeatures
from visil.model.similarity import frame_matrix
from visil.paper.baselines.alignment import Alignment
from visil.paper.baselines.dp import DP


def best_by_hand(matrix: Floats, threshold: float, slack: int, bend: float) -> float:
    """The largest gain of any path: all are walked, from every cell, with no table of what is known."""
    height, width = matrix.shape

    def onward(i: int, j: int) -> float:
        """Best that can follow after standing on (i, j)."""
        best = 0.0
        for direction in ((0, 1), (1, 0)):
            cost = 0.0
            for moved in range(slack + 1):
                at = (i + moved * direction[0], j + moved * direction[1])
                if at[0] >= height or at[1] >= width:
                    break
                if moved:
                    cost += bend - min(0.0, matrix[at] - threshold)
                landing = (at[0] + 1, at[1] + 1)
                if landing[0] < height and landing[1] < width:
                    best = max(best, matrix[landing] - threshold - cost + onward(*landing))
        return best

    return max(matrix[i, j] - threshold + onward(i, j) for i in range(height) for j in range(width))


@settings(max_examples=80, deadline=None)
@given(
    height=st.integers(1, 5),
    width=st.integers(1, 6),
    seed=st.integers(0, 10_000),
    slack=st.integers(0, 3),
    bend=st.sampled_from([0.0, 0.1]),
)
def test_the_best_of_all_paths(height: int, width: int, seed: int, slack: int, bend: float) -> None:
    matrix = np.random.default_rng(seed).uniform(-0.5, 1, (height, width))
    expected = best_by_hand(matrix, 0.4, slack, bend) / (0.6 * min(height, width))
    system = DP(0.4, slack=slack, bend=bend)
    found = system.path(matrix)
    assert found.score == pytest.approx(expected)
    assert system.best(matrix) == found.score
    assert (len(found.cells) > 0) == (expected > 0)
    assert (np.diff(found.cells, axis=0) >= 1).all()


def test_a_diagonal_away_from_the_corner() -> None:
    cells = [(3 + k, 7 + k) for k in range(6)]
    found = DP(0.5).path(drawn((12, 20), cells))
    assert path_of(found) == cells
    assert found.segment == ((3, 8), (7, 12))
    assert found.score == pytest.approx(6 * 0.4 / (0.5 * 12))


def test_double_speed_and_half_speed() -> None:
    cells = [(k, 2 * k) for k in range(8)]
    # Each row has two alike cells; the second repeats the frame and costs the bend. Only from (0, 1) to (1, 2) is the
    # way straight, so 6 of the 7 steps bend.
    matrix = drawn((8, 16), [*cells, *((i, j + 1) for i, j in cells)])
    found = DP(0.5, bend=0.05).path(matrix)
    assert len(found.cells) == 8
    assert found.score == pytest.approx((8 * 0.4 - 6 * 0.05) / (0.5 * 8))
    turned = DP(0.5, bend=0.05).path(matrix.T)
    assert turned.score == pytest.approx(found.score)
    rigid = DP(0.5, slack=0).path(matrix)
    assert rigid.score == pytest.approx(2 * 0.4 / (0.5 * 8))


def test_a_gap_is_crossed_where_it_pays() -> None:
    before, after = [(k, k) for k in range(5)], [(k, k) for k in range(7, 12)]
    found = DP(0.3).path(drawn((12, 12), before + after))
    assert path_of(found) == [(k, k) for k in range(12)]
    assert found.score == pytest.approx((10 * 0.6 - 2 * 0.2) / (0.7 * 12))
    wide = [(k, k) for k in range(3)] + [(k, k) for k in range(20, 25)]
    found = DP(0.3).path(drawn((25, 25), wide))  # 17 frames at a loss of 0.2 are more than three can pay
    assert path_of(found) == wide[3:]


def test_the_better_of_two_candidates() -> None:
    weak, strong = [(k, k) for k in range(8)], [(10 + k, 20 + k) for k in range(7)]
    matrix = drawn((20, 30), weak, 0.6) + drawn((20, 30), strong, 0.9) - 0.1
    assert path_of(DP(0.5).path(matrix)) == strong


def test_all_equal_is_one_diagonal() -> None:
    for shape in ((6, 6), (4, 9), (9, 4)):
        found = DP(0.5).path(np.ones(shape))
        assert found.score == pytest.approx(1)
        assert len(found.cells) == min(shape)
    nothing = DP(0.5).path(np.full((4, 6), 0.2))
    assert nothing.segment is None
    assert nothing.score == pytest.approx(-0.3 / (0.5 * 4))


def test_one_frame() -> None:
    assert DP(0.5).path(np.array([[0.75]])).score == pytest.approx(0.5)
    found = DP(0.5).path(np.array([[0.1, 0.2, 0.9, 0.1]]))
    assert path_of(found) == [(0, 2)]


def test_a_video_is_most_like_itself() -> None:
    system = DP()
    lengths = (1, 3, 17, 40)
    described = [system.describe(video(frames, seed)) for seed, frames in enumerate(lengths)]
    for number, query in enumerate(described):
        scores = system.scores(query, described)
        assert scores.dtype == np.float64
        assert np.isfinite(scores).all()
        assert scores.argmax() == number
        assert scores[number] == pytest.approx(1, abs=1e-5)
    assert len(system.scores(described[0], [])) == 0


def test_it_reads_s_f_and_finds_a_part() -> None:
    whole = video(40, 1)
    part = VideoFeatures(whole.vectors[12:30], whole.timestamps[12:30])
    system = DP(0.5)
    found = system.align(system.describe(part), system.describe(whole))
    assert path_of(found) == [(k, 12 + k) for k in range(18)]
    matrix = frame_matrix(part.vectors.double(), whole.vectors.double()).numpy()
    assert found.score == pytest.approx(best_gain(matrix, found, 0.5), abs=1e-5)


def best_gain(matrix: Floats, found: Alignment, threshold: float) -> float:
    gains = [matrix[i, j] - threshold for i, j in path_of(found)]
    return sum(gains) / ((1 - threshold) * min(matrix.shape))


def test_a_learned_threshold_lies_above_strangers_and_below_copies() -> None:
    system, fixed = DP(), DP(0.2)
    videos = [video(int(frames), 10 + seed) for seed, frames in enumerate((1, 5, 20, 30, 9))]
    system.learn(videos, seed=3)
    fixed.learn(videos)
    assert fixed.threshold == 0.2
    strange = frame_matrix(videos[2].vectors, videos[3].vectors).numpy()
    assert (strange > system.threshold).mean() < 0.02
    assert system.threshold < 0.9
    again = DP()
    again.learn(videos, seed=3)
    assert again.threshold == system.threshold


def test_what_cannot_be_meant() -> None:
    with pytest.raises(UsageError, match="threshold"):
        DP(1.0)
    with pytest.raises(UsageError, match="slack"):
        DP(slack=-1)
    with pytest.raises(UsageError, match="channels"):
        DP().align(torch.ones(2, 1, 3), torch.ones(2, 1, 4))
    broken = VideoFeatures(torch.full((2, 1, 3), torch.nan), torch.arange(2.0), path="a.mp4")
    with pytest.raises(UsageError, match=r"a\.mp4.*NaN"):
        DP().describe(broken)
    zeros = torch.zeros(3, 2, 4)
    assert np.isfinite(DP().scores(zeros, [zeros, -torch.ones(1, 2, 4)])).all()
