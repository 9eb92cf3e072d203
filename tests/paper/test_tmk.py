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
from visil.paper.baselines.tmk import PERIODS, TMK, Normalisation, von_mises


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
    system = TMK(periods, frequencies=9, beta=5.0, normalisation="matrix")
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


@pytest.mark.parametrize("normalisation", ["freq", "feat", "feat_freq"])
def test_the_published_normalisations(normalisation: Normalisation) -> None:
    """The released code's steps on rows of sines and cosines, in float64; it scores d, m or 512 where we score 1."""
    rng = np.random.default_rng(3)
    periods, m, d, beta = (30.0, 47.5), 6, 5, 5.0
    a = np.tile(von_mises(beta, m), (2, 1))
    times, shifts = [np.arange(7.0), 0.5 + np.arange(9.0)], np.array([-3.0, 0.0, 2.5])
    videos = [rng.normal(size=(len(t), d)) for t in times]

    def rows(x: np.ndarray, t: np.ndarray) -> np.ndarray:
        """[periods, sines then cosines, d], each frequency weighted by the root of its coefficient, normalised."""
        found = np.empty((2, 2 * m, d))
        for p, period in enumerate(periods):
            for n in range(m):
                found[p, n] = (np.sin(2 * np.pi * n * t / period)[:, None] * x).sum(axis=0)
                found[p, m + n] = (np.cos(2 * np.pi * n * t / period)[:, None] * x).sum(axis=0)
        if "feat" in normalisation:
            found /= np.sqrt((found**2).sum(axis=2, keepdims=True) + 1e-8)
        found *= np.sqrt(np.concatenate([a, a], axis=1))[:, :, None]
        if "freq" in normalisation:
            found /= np.sqrt((found**2).sum(axis=1, keepdims=True) / m + 1e-8)
        return found

    def kernel(x: np.ndarray, y: np.ndarray, shift: float) -> float:
        total = 0.0
        for p, period in enumerate(periods):
            for n in range(m):
                sin, cos = np.sin(2 * np.pi * n * shift / period), np.cos(2 * np.pi * n * shift / period)
                (xs, xc), (ys, yc) = ((z[p, n], z[p, m + n]) for z in (x, y))
                total += (xs @ ys + xc @ yc) * cos + (xc @ ys - xs @ yc) * sin
        return total

    first, second = (rows(x, t) for x, t in zip(videos, times, strict=True))
    own = [kernel(x, x, 0.0) for x in (first, second)]
    expected = [kernel(first, second, shift) / np.sqrt(own[0] * own[1]) for shift in shifts]
    system = TMK(periods, frequencies=m, beta=beta, normalisation=normalisation)
    described = [
        system.describe(VideoFeatures(torch.from_numpy(x)[:, None], torch.from_numpy(t)))
        for x, t in zip(videos, times, strict=True)
    ]
    found = system.kernel(described[0], described[1], torch.from_numpy(shifts))
    norms = [float(system.kernel(x, x, torch.zeros(1))[0]) ** 0.5 for x in described]
    np.testing.assert_allclose((found / (norms[0] * norms[1])).numpy(), expected, atol=1e-6)
    if normalisation != "feat":
        # What a video has with itself is the same for all: the constant that the released code divides by.
        assert norms[0] == pytest.approx(norms[1], rel=1e-6)
        assert norms[0] ** 2 == pytest.approx(2 * d, rel=1e-6)


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
    with pytest.raises(UsageError, match="unknown normalisation"):
        TMK(normalisation="none")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="above 0"):
        TMK(())
    with pytest.raises(UsageError, match="above 0"):
        TMK(frequencies=0)
