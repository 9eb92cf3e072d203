"""LAMV overfits a tiny set on which TMK fails, and its loss is the one it states."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from visil.errors import UsageError
from visil.model.features import VideoFeatures
from visil.paper.baselines.lamv import LAMV, LamvTraining
from visil.paper.baselines.tmk import TMK, KernelDescription

TINY = LamvTraining(triplets=24, steps=60, rate=0.2, margin=0.2, noise=0.3)


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


def test_it_overfits_a_tiny_set() -> None:
    videos = alike(4)
    system, before = LAMV((60.0,), training=TINY), TMK((60.0,))
    system.learn(videos, seed=1)
    assert system.losses_[-1] < 0.5 * system.losses_[0]
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
    assert sum(margins(system)) > sum(margins(before)) + 0.2
    query, target = system.describe(clip(videos[2], 8, 28)), system.describe(videos[2])
    assert system.align(query, target)[0] == pytest.approx(8, abs=TINY.tolerance)


def test_the_loss_is_that_of_the_docstring() -> None:
    videos = alike(3, frames=12)
    setting = LamvTraining(triplets=5, steps=1, margin=0.3, tolerance=2.0)
    system = LAMV((20.0, 33.0), frequencies=5, beta=4.0, step=1.0, training=setting)
    drawn: list[tuple[KernelDescription, float]] = []
    part = system._part

    def noted(video: VideoFeatures, rng: np.random.Generator) -> tuple[KernelDescription, float]:
        drawn.append(part(video, rng))
        return drawn[-1]

    system._part = noted  # type: ignore[method-assign]
    system.learn(videos, seed=4)
    assert len(drawn) == 10
    plain = TMK((20.0, 33.0), frequencies=5, beta=4.0, step=1.0)
    wholes = [plain.describe(video) for video in videos]

    def kernels(whole: KernelDescription, other: KernelDescription) -> tuple[list[float], list[float]]:
        shifts = np.arange(other.start - whole.end, other.end - whole.start + 0.5)
        values = plain.kernel(whole, other, torch.from_numpy(shifts))
        norm = 1.0
        for description in (whole, other):
            norm *= float(plain.kernel(description, description, torch.zeros(1))[0]) ** 0.5
        return shifts.tolist(), (values / norm).tolist()

    # Which video a part was drawn from: that which it resembles at its shift.
    total = 0.0
    rng = np.random.default_rng(4)
    for (mine, began), (strange, _) in zip(drawn[::2], drawn[1::2], strict=True):
        anchor = int(rng.choice(3, 2, replace=False)[0])
        for _ in range(2):  # what the two parts draw from the same generator
            length = max(1, min(12, round(12 * rng.uniform(*setting.part))))
            rng.integers(12 - length + 1)
            rng.normal(size=(length, 16))
        shifts, values = kernels(wholes[anchor], mine)
        right = values[shifts.index(-began)]
        wrong = max(v for s, v in zip(shifts, values, strict=True) if abs(s + began) > 2)
        mistaken = max(kernels(wholes[anchor], strange)[1])
        total += max(0.0, 0.3 + mistaken - right) + max(0.0, 0.3 + wrong - right)
    assert system.losses_ == [pytest.approx(total / 5, abs=1e-6)]


def test_unlearned_it_is_tmk_and_learning_is_repeatable() -> None:
    videos = alike(3, frames=15)
    system, plain = LAMV(), TMK()
    first, second = system.describe(videos[0]), system.describe(videos[1])
    assert system.scores(first, [first, second]).tolist() == plain.scores(first, [first, second]).tolist()
    learned = []
    for seed in (1, 1, 2):
        system = LAMV(training=LamvTraining(triplets=6, steps=5, margin=0.5))
        system.learn(videos, seed=seed)
        system.learn(videos, seed=seed)  # from the beginning again, not on top
        learned.append(system.coefficients)
    assert torch.equal(learned[0], learned[1])
    assert not torch.equal(learned[0], learned[2])
    assert not any(coefficients.requires_grad for coefficients in learned)


def test_odd_inputs() -> None:
    with pytest.raises(UsageError, match="two videos"):
        LAMV().learn(alike(1))
    ragged = [
        VideoFeatures(torch.ones(frames, 1, 4) / 2, torch.arange(frames, dtype=torch.float64))
        for frames in (1, 2, 30)
    ]
    ragged.append(VideoFeatures(torch.zeros(3, 1, 4), torch.arange(3, dtype=torch.float64)))
    system = LAMV(training=LamvTraining(triplets=8, steps=4))
    with torch.inference_mode():  # evaluations run in it
        system.learn(ragged)
    assert bool(torch.isfinite(system.coefficients).all())
    described = [system.describe(video) for video in ragged]
    for query in described:
        assert np.isfinite(system.scores(query, described)).all()
