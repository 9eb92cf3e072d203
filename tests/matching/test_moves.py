"""What moves in step, on vectors whose likeness is their inner product."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from visil.matching.moves import STILL, moves

Vectors = NDArray[np.float64]


def wandering(frames: int, seed: int, place: int = 0, moved: float = 0.3) -> Vectors:
    """Unit vectors around one place, which change from frame to frame."""
    where = np.random.default_rng(place).normal(size=64)
    steps = np.random.default_rng([seed, 1]).normal(size=(frames, 64))
    vectors = where / np.linalg.norm(where) + moved * steps / np.sqrt(64)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float64)


def noisy(vectors: Vectors, seed: int = 9, spread: float = 0.02) -> Vectors:
    return vectors + np.random.default_rng(seed).normal(0, spread, vectors.shape)


def compared(a: Vectors, b: Vectors, apart: int = 1) -> tuple[float, float, float]:
    found = moves(a @ b.T, a @ a.T, b @ b.T, apart)
    return found.agreement, found.in_step, found.weight


def test_a_copy_moves_in_step() -> None:
    original = wandering(20, 1)
    agreement, in_step, weight = compared(original, noisy(original))
    assert agreement > 0.8
    assert in_step > 5
    assert 0.5 < weight < 20 / 26


def test_another_moment_at_the_same_place_does_not() -> None:
    a, b = wandering(20, 1), wandering(20, 2)
    assert (a @ b.T).diagonal().mean() > 0.8  # as alike as many a copy
    agreement, in_step, _ = compared(a, b)
    assert abs(agreement) < 0.2
    assert in_step < 2.5


def test_the_mean_of_both_sides_does_not_matter() -> None:
    a, b = wandering(12, 3), noisy(wandering(12, 3))
    shifted = moves(a @ b.T - 0.3 - np.arange(12)[:, None], a @ a.T + 0.3, b @ b.T - 0.1)
    assert shifted.agreement == pytest.approx(compared(a, b)[0])


@pytest.mark.parametrize("frames", [1, 2, 3])
def test_too_few_frames_say_nothing(frames: int) -> None:
    assert compared(wandering(frames, 1), noisy(wandering(frames, 1)))[2] == 0


@pytest.mark.parametrize(("frames", "in_step"), [(4, 0.5 / 0.1134), (24, 6.0)])
def test_few_shifts_that_agree_by_accident_are_no_measure_of_chance(frames: int, in_step: float) -> None:
    """Of four frames there are three shifts: where these vary by nothing, four usual ones of 0.15 leave 0.1134."""
    own = np.eye(frames)
    half = 0.5 * own + 0.5 / frames  # every shift agrees as little as every other
    found = moves(half, own, own)
    assert found.agreement == pytest.approx(0.5)
    assert found.in_step == pytest.approx(in_step, rel=1e-3)


def test_shifts_closer_than_told_do_not_count() -> None:
    """Frames that are each shown four times agree with themselves shifted by less."""
    slow = wandering(6, 5).repeat(4, axis=0)
    near, far = (moves(slow @ noisy(slow).T, slow @ slow.T, slow @ slow.T, apart).chance for apart in (1, 4))
    assert far < near


@pytest.mark.parametrize(("pictures", "proven"), [(2, 0.5), (3, 0.75), (5, 0.875)])
def test_one_cut_on_another_proves_half_as_much(pictures: int, proven: float) -> None:
    """Any two cuts lie on a line. Pictures that have nothing in common change in one direction less than they are."""
    shown = np.eye(pictures).repeat(8, axis=0)
    kernel = shown @ shown.T
    found = moves(kernel, kernel, kernel + 1e-9, 4)
    assert found.proven == pytest.approx(1.0)  # the very same frames
    found = moves(0.9 * kernel, kernel, kernel, 4)
    assert found.agreement == pytest.approx(0.9)
    assert found.proven == pytest.approx(proven)


def test_changes_are_not_counted_at_a_frame_a_second() -> None:
    shown = noisy(wandering(8, 1))
    assert moves(0.9 * shown @ shown.T, shown @ shown.T, shown @ shown.T).proven == 1.0


def test_a_still_shot() -> None:
    assert STILL.in_step == 0
    assert STILL.weight == 0
    still = np.full((8, 8), 0.9)
    assert moves(still, still, still).weight == pytest.approx(0, abs=1e-6)


def test_the_very_same_frames_need_no_movement() -> None:
    same = np.ones((3, 3))
    assert moves(same, same, same).agreement == 1
    assert moves(same, same, same).weight > 0.9
