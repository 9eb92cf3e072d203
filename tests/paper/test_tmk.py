"""TMK against the double sum of its kernel in float64, and against shifts that are known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from visil.errors import UsageError
from visil.model.features import VideoFeatures
from visil.paper.baselines.tmk import PERIODS, TMK, von_mises


def smooth(frames: int, seed: int, channels: int = 24) -> Tensor:
    steps = torch.randn(frames + 4, channels, generator=torch.Generator().manual_seed(seed))
    return F.normalize(steps.unfold(0, 5, 1).mean(dim=2), dim=1)


def features(vectors: Tensor, start: float = 0.0) -> VideoFeatures:
    return VideoFeatures(vectors[:, None], start + torch.arange(len(vectors), dtype=torch.float64))


@pytest.mark.parametrize("beta", [0.5, 4.0, 32.0])
def test_the_coefficients_are_bessels(beta: float) -> None:
    # I_n(β) = 1/π ∫ exp(β cos θ) cos nθ dθ, by the trapezoidal rule; a_0 and a_n as the paper has them.
    angles = np.linspace(0, np.pi, 20_001)

    def bessel(n: int) -> float:
        values = np.exp(beta * np.cos(angles)) * np.cos(n * angles)
        return float((values[:-1] + values[1:]).sum() / 2 * (angles[1] - angles[0]) / np.pi)

    expected = [(bessel(0) - np.exp(-beta)) / (2 * np.sinh(beta))]
    expected += [bessel(n) / np.sinh(beta) for n in range(1, 12)]
    np.testing.assert_allclose(von_mises(beta, 12), expected, atol=1e-12)


def test_the_coefficients_sum_to_von_mises_kernel() -> None:
    theta = np.linspace(-np.pi, np.pi, 50)
    series = sum(a * np.cos(n * theta) for n, a in enumerate(von_mises(32.0, 60)))
    kernel = (np.exp(32 * np.cos(theta)) - np.exp(-32)) / (2 * np.sinh(32))
    np.testing.assert_allclose(series, kernel, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    x=st.integers(1, 7),
    y=st.integers(1, 7),
    seed=st.integers(0, 1000),
    shift=st.floats(-50, 50),
    periods=st.sampled_from([(30.0,), (13.0, 47.5), PERIODS]),
)
def test_the_double_sum(x: int, y: int, seed: int, shift: float, periods: tuple[float, ...]) -> None:
    rng = np.random.default_rng(seed)
    (a, s), (b, t) = (
        (rng.normal(size=(frames, 6)), np.cumsum(rng.uniform(0.1, 3, frames))) for frames in (x, y)
    )
    system = TMK(periods, frequencies=9, beta=5.0)
    coefficients = von_mises(5.0, 9)
    expected = 0.0
    for i in range(x):
        for j in range(y):
            for period in periods:
                phases = 2 * np.pi * np.arange(9) * (t[j] - s[i] - shift) / period
                expected += float(a[i] @ b[j]) * float(coefficients @ np.cos(phases))
    first, second = (
        system.describe(VideoFeatures(torch.from_numpy(vectors)[:, None], torch.from_numpy(times)))
        for vectors, times in ((a, s), (b, t))
    )
    found = system.kernel(first, second, torch.tensor([shift], dtype=torch.float64))
    assert found.dtype == torch.float64
    assert float(found[0]) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(shift=st.integers(-40, 40), seed=st.integers(0, 5))
def test_a_copy_on_another_clock_is_found_at_its_shift(shift: int, seed: int) -> None:
    system = TMK()
    vectors = smooth(50, seed)
    query, target = system.describe(features(vectors, 60)), system.describe(features(vectors, 60 + shift))
    found, score = system.align(query, target)
    assert found == shift
    assert score == pytest.approx(1, abs=1e-5)


@settings(max_examples=30, deadline=None)
@given(start=st.integers(0, 60), length=st.integers(30, 60), seed=st.integers(0, 5))
def test_a_part_is_found_near_its_place(start: int, length: int, seed: int) -> None:
    whole = smooth(120, seed, 64)
    # A kernel of a short period is a narrow one: it is right to the second.
    system = TMK((250.0,), frequencies=64, beta=500.0)
    query, target = system.describe(features(whole[start : start + length])), system.describe(features(whole))
    assert system.align(query, target)[0] == pytest.approx(start, abs=1)
    assert system.align(target, query)[0] == pytest.approx(-start, abs=1)


def test_a_video_is_most_like_itself_among_ragged_ones() -> None:
    system = TMK()
    described = [
        system.describe(features(smooth(frames, seed), start=seed / 3))
        for seed, frames in enumerate((1, 2, 17, 40, 90, 200))
    ]
    for number, query in enumerate(described):
        scores = system.scores(query, described)
        assert scores.dtype == np.float64
        assert np.isfinite(scores).all()
        assert (scores <= 1 + 1e-5).all()
        assert scores.argmax() == number
        assert scores[number] == pytest.approx(1, abs=1e-5)
        # The score of a pair is its own, whatever it is compared along with.
        alone = [float(system.scores(query, [target])[0]) for target in described]
        np.testing.assert_allclose(scores, alone, atol=1e-6)
    assert len(system.scores(described[0], [])) == 0


def test_order_counts() -> None:
    system = TMK((60.0,), beta=60.0)
    vectors = smooth(30, 0)
    forward, backward = system.describe(features(vectors)), system.describe(features(vectors.flip(0)))
    assert system.scores(forward, [backward])[0] < 0.8


def test_the_mean_meets_at_the_best_shift() -> None:
    system = TMK()
    vectors = smooth(40, 2)
    query, later = system.describe(features(vectors)), system.describe(features(2 * vectors, 13))
    mean = system.mean(query, [later])
    scores = system.scores(mean, [query, later])
    assert scores == pytest.approx([1, 1], abs=1e-5)
    assert system.align(mean, later)[0] == 13


def test_odd_inputs() -> None:
    system = TMK()
    zeros = system.describe(features(torch.zeros(4, 24)))
    half = system.describe(features(smooth(9, 0).half()))
    scores = system.scores(zeros, [zeros, half])
    assert scores.tolist() == [0, 0]
    assert np.isfinite(system.scores(half, [zeros, half])).all()
    with pytest.raises(UsageError, match="cannot be compared"):
        system.scores(half, [system.describe(features(smooth(9, 0, 8)))])
    with pytest.raises(UsageError, match="above 0"):
        TMK(())
    with pytest.raises(UsageError, match="above 0"):
        TMK(frequencies=0)
