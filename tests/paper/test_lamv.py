"""LAMV overfits a tiny set on which TMK fails; its scores, loss and training are those of formulas written out here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from drawn_triplets import PartsOfVideos
from visil.errors import UsageError
from visil.model.features import VideoFeatures
from visil.paper.baselines.lamv import LAMV, LamvTraining
from visil.paper.baselines.tmk import TMK, Normalisation
from visil.paper.baselines.triplets import Drawn

Array = NDArray[np.float64]
Video = tuple[Array, Array]
"""Vectors [T, C] and times [T]."""

TINY = LamvTraining(steps=60, batch=16, rate=0.2, margin=0.2)


def alike(count: int, frames: int = 40, channels: int = 16) -> list[VideoFeatures]:
    """Videos that share nearly all of their look and differ in what happens when."""
    generator = torch.Generator().manual_seed(5)
    common = F.normalize(torch.randn(channels, generator=generator), dim=0)
    videos = []
    for _ in range(count):
        own = F.normalize(torch.randn(frames, channels, generator=generator), dim=1)
        vectors = F.normalize(common + 0.7 * own, dim=1)
        videos.append(VideoFeatures(vectors[:, None], torch.arange(frames, dtype=torch.float64)))
    return videos


def clip(video: VideoFeatures, start: int, stop: int) -> VideoFeatures:
    return VideoFeatures(video.vectors[start:stop], video.timestamps[start:stop] - video.timestamps[start])


@pytest.mark.parametrize("normalisation", ["matrix", "freq"])
def test_it_overfits_a_tiny_set(normalisation: Normalisation) -> None:
    videos = alike(4)
    system = LAMV((60.0,), normalisation=normalisation, training=TINY)
    before = TMK((60.0,), normalisation=normalisation)
    system.learn(videos, triplets=PartsOfVideos(videos, seed=1))
    assert np.mean(system.losses_[-10:]) < 0.6 * np.mean(system.losses_[:10])
    assert bool((system.coefficients > 0).all())
    # The share of what all videos have in common, frequency 0, is what has to go.
    assert system.coefficients[0, 0] / system.coefficients.sum() < (
        before.coefficients[0, 0] / before.coefficients.sum()
    )

    def margins(kernel: TMK) -> list[float]:
        wholes = [kernel.describe(video) for video in videos]
        found = []
        for number, video in enumerate(videos):
            scores = kernel.scores(kernel.describe(clip(video, 8, 28)), wholes)
            found.append(float(scores[number] - np.delete(scores, number).max()))
        return found

    assert min(margins(system)) > 0  # ranked right
    assert sum(margins(system)) > sum(margins(before))
    query, target = system.describe(clip(videos[2], 8, 28)), system.describe(videos[2])
    assert system.align(query, target)[0] == pytest.approx(8, abs=TINY.tolerance)


# The formulas of LAMV, frame by frame in float64, with nothing of ours: the score of its published layer, and the loss.
PERIODS = (17.0, 29.0)
M = 5
STEP = 0.5
MARGIN = 0.8
TOLERANCE = 2.0
SMALL = LamvTraining(steps=3, batch=4, rate=0.05, margin=MARGIN, tolerance=TOLERANCE)


def rows_by_hand(x: Array, times: Array, a: Array, how: Normalisation) -> Array:
    """[periods, sines then cosines, C] of the published layer: weighted by the roots of the coefficients."""
    found = np.zeros((len(PERIODS), 2 * M, x.shape[1]))
    for p, period in enumerate(PERIODS):
        for n in range(M):
            for vector, time in zip(x, times, strict=True):
                found[p, n] += vector * np.sin(2 * np.pi * n * time / period)
                found[p, M + n] += vector * np.cos(2 * np.pi * n * time / period)
    if how.startswith("feat"):
        found /= np.sqrt((found**2).sum(axis=2, keepdims=True) + 1e-8)
    found *= np.sqrt(np.concatenate([a, a], axis=1))[:, :, None]
    if how.endswith("freq"):
        found /= np.sqrt((found**2).sum(axis=1, keepdims=True) + 1e-8)
    return found


def kernel_by_hand(x: Array, y: Array, shift: float) -> float:
    """What is seen at a time of the first is sought that much later in the second."""
    total = 0.0
    for p, period in enumerate(PERIODS):
        for n in range(M):
            sine, cosine = np.sin(2 * np.pi * n * shift / period), np.cos(2 * np.pi * n * shift / period)
            total += float(x[p, n] @ (y[p, n] * cosine - y[p, M + n] * sine))
            total += float(x[p, M + n] @ (y[p, M + n] * cosine + y[p, n] * sine))
    return total


class PairByHand:
    """K̂ of two videos, each vectors and times, and the shifts at which they overlap."""

    def __init__(self, x: Video, y: Video, a: Array, how: Normalisation) -> None:
        self.x, self.y = rows_by_hand(*x, a, how), rows_by_hand(*y, a, how)
        self.norm = np.sqrt(kernel_by_hand(self.x, self.x, 0) * kernel_by_hand(self.y, self.y, 0))
        first = int(np.floor((y[1][0] - x[1][-1]) / STEP))
        last = int(np.ceil((y[1][-1] - x[1][0]) / STEP))
        self.shifts = [STEP * number for number in range(first, last + 1)]

    def __call__(self, shift: float) -> float:
        return kernel_by_hand(self.x, self.y, shift) / self.norm

    def best(self) -> float:
        return max(self(shift) for shift in self.shifts)


def loss_by_hand(drawn: Sequence[Drawn], a: Array, how: Normalisation) -> float:
    """A hinge on how alike the videos are, and one on whether the shift is right, where it is known."""
    total = 0.0
    for one in drawn:
        parts: list[Video] = [
            (part[:, 0].numpy(), one.step * np.arange(len(part), dtype=np.float64))
            for part in (one.anchor, one.positive, one.negative)
        ]
        anchor, positive, negative = parts
        pair = PairByHand(anchor, positive, a, how)
        right = pair.best() if one.shift is None else pair(one.shift)
        total += max(0.0, MARGIN + PairByHand(anchor, negative, a, how).best() - right)
        if one.shift is not None:
            wrong = [pair(shift) for shift in pair.shifts if abs(shift - one.shift) > TOLERANCE]
            total += max([0.0, *(MARGIN + value - right for value in wrong)])
    return total / len(drawn)


def slopes_by_hand(drawn: Sequence[Drawn], a: Array, how: Normalisation) -> Array:
    """Of the loss by each coefficient, as central differences."""
    found = np.empty_like(a)
    for place in np.ndindex(a.shape):
        by = np.zeros_like(a)
        by[place] = 1e-5 * a[place]
        found[place] = (loss_by_hand(drawn, a + by, how) - loss_by_hand(drawn, a - by, how)) / (2 * by[place])
    return found


def some_triplets(seed: int) -> list[Drawn]:
    """Shifts on the grid and off it, not known, and none that is wrong; frames a second and 0.7 seconds apart."""
    rng = np.random.default_rng(seed)

    def video(frames: int) -> Tensor:
        return torch.from_numpy(rng.normal(size=(frames, 1, 6)))

    drawn = []
    for shift, frames in ((-2.0, (7, 4, 5)), (None, (5, 6, 3)), (1.0, (1, 2, 4)), (-1.3, (6, 4, 5))):
        anchor, positive, negative = map(video, frames)
        start = round(-(shift or 0))
        shared = anchor[start : start + len(positive)] if start >= 0 else anchor
        positive[: len(shared)] = shared + 0.4 * positive[: len(shared)]
        drawn.append(Drawn(anchor, positive, negative, shift=shift, step=0.7 if shift == -1.3 else 1.0))
    return drawn


class Listed:
    """Triplets in the order of a list."""

    def __init__(self, drawn: Sequence[Drawn]) -> None:
        self._drawn = iter(drawn)

    def draw(self) -> Drawn:
        return next(self._drawn)


def some_coefficients(seed: int) -> Array:
    return np.random.default_rng(seed).uniform(0.05, 1, (len(PERIODS), M))


def small(how: Normalisation) -> LAMV:
    return LAMV(PERIODS, frequencies=M, beta=2.0, step=STEP, normalisation=how, training=SMALL)


@pytest.mark.parametrize("how", get_args(Normalisation))
def test_scores_are_those_of_the_formula(how: Normalisation) -> None:
    rng, a, system = np.random.default_rng(8), some_coefficients(8), small(how)
    system.restore({"coefficients": torch.from_numpy(a)})
    videos = [(rng.normal(size=(n, 6)), np.cumsum(rng.uniform(0.3, 2, n))) for n in (6, 1, 4, 9)]
    described = [
        system.describe(VideoFeatures(torch.from_numpy(x)[:, None], torch.from_numpy(t))) for x, t in videos
    ]
    for query, x in zip(described, videos, strict=True):
        pairs = [PairByHand(x, y, a, how) for y in videos]
        np.testing.assert_allclose(
            system.scores(query, described), [pair.best() for pair in pairs], rtol=1e-9
        )
        for target, pair in zip(described, pairs, strict=True):
            assert system.align(query, target)[0] == max(pair.shifts, key=pair)


@pytest.mark.parametrize("how", get_args(Normalisation))
def test_the_loss_is_that_of_the_formula(how: Normalisation) -> None:
    system = small(how)
    a = system.coefficients.numpy()
    found, expected = np.empty((20, 4)), np.empty((20, 4))
    for seed in range(20):
        for number, one in enumerate(some_triplets(seed)):
            found[seed, number], expected[seed, number] = system.loss([one]), loss_by_hand([one], a, how)
        assert float(system.loss(some_triplets(seed))) == pytest.approx(expected[seed].mean(), rel=1e-9)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert (expected > 0).mean() > 0.7
    assert (expected == 0).any()


@pytest.mark.parametrize("how", get_args(Normalisation))
def test_the_slopes_of_the_loss_are_those_of_the_formula(how: Normalisation) -> None:
    drawn, a, system = some_triplets(1), some_coefficients(1), small(how)
    system.coefficients = torch.from_numpy(a).requires_grad_()
    (slopes,) = torch.autograd.grad(system.loss(drawn), system.coefficients)
    expected = slopes_by_hand(drawn, a, how)
    assert np.abs(expected).min() > 1e-4
    np.testing.assert_allclose(slopes.numpy(), expected, rtol=1e-6)


def test_training_goes_where_the_slopes_of_the_formula_say() -> None:
    """Three steps of Adam on logarithms, by differences of the formula; only proportions count."""
    batches = [some_triplets(seed) for seed in (4, 5, 6)]
    system = small("feat_freq")
    first = system.coefficients.numpy().copy()
    logarithms, mean, square = np.log(first), np.zeros_like(first), np.zeros_like(first)
    losses = []
    for step, drawn in enumerate(batches, start=1):
        a = np.exp(logarithms)
        losses.append(loss_by_hand(drawn, a, "feat_freq"))
        slopes = a * slopes_by_hand(drawn, a, "feat_freq")
        mean, square = 0.9 * mean + 0.1 * slopes, 0.999 * square + 0.001 * slopes**2
        rate = SMALL.rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        logarithms -= rate * mean / np.sqrt(square)
    system.learn([], triplets=Listed([one for drawn in batches for one in drawn]))
    assert system.losses_ == pytest.approx(losses, rel=1e-6)
    learned = np.exp(logarithms)
    np.testing.assert_allclose(system.coefficients, learned * (len(PERIODS) / learned.sum()), rtol=1e-5)


def test_unlearned_it_is_tmk_and_learning_is_repeatable() -> None:
    videos = alike(3, frames=15)
    system, plain = LAMV(), TMK(normalisation="feat_freq")
    first, second = system.describe(videos[0]), system.describe(videos[1])
    assert system.scores(first, [first, second]).tolist() == plain.scores(first, [first, second]).tolist()
    learned = []
    for seed in (1, 1, 2):
        system = LAMV(training=LamvTraining(steps=3, batch=4, margin=0.5))
        system.learn(videos, triplets=PartsOfVideos(videos, seed=9))
        system.learn(
            videos, triplets=PartsOfVideos(videos, seed=seed)
        )  # from the beginning again, not on top
        learned.append(system.coefficients)
    assert torch.equal(learned[0], learned[1])
    assert not torch.equal(learned[0], learned[2])
    assert not any(coefficients.requires_grad for coefficients in learned)


def test_odd_inputs() -> None:
    with pytest.raises(UsageError, match="learns from triplets"):
        LAMV().learn(alike(2))
    ragged = [
        VideoFeatures(torch.ones(frames, 1, 4) / 2, torch.arange(frames, dtype=torch.float64))
        for frames in (1, 2, 30)
    ]
    ragged.append(VideoFeatures(torch.zeros(3, 1, 4), torch.arange(3, dtype=torch.float64)))
    system = LAMV(training=LamvTraining(steps=4, batch=8))
    with torch.inference_mode():  # evaluations run in it
        system.learn(ragged, triplets=PartsOfVideos(ragged))
    assert bool(torch.isfinite(system.coefficients).all())
    described = [system.describe(video) for video in ragged]
    for query in described:
        assert np.isfinite(system.scores(query, described)).all()
