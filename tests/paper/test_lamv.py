"""LAMV overfits a tiny set on which TMK fails, and its loss is the one it states."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from drawn_triplets import PartsOfVideos
from visil.errors import UsageError
from visil.model.features import VideoFeatures
from visil.paper.baselines.lamv import LAMV, LamvTraining
from visil.paper.baselines.tmk import TMK, Normalisation

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


@pytest.mark.parametrize("normalisation", get_args(Normalisation))
def test_the_loss_is_that_of_the_docstring(normalisation: Normalisation) -> None:
    """By the descriptions of TMK, which has tests of its own, shift by shift."""
    videos = alike(3, frames=12)
    setting = LamvTraining(margin=0.3, tolerance=2.0)
    options: dict[str, Any] = {"frequencies": 5, "beta": 4.0, "step": 1.0, "normalisation": normalisation}
    system, plain = LAMV((20.0, 33.0), training=setting, **options), TMK((20.0, 33.0), **options)
    source = PartsOfVideos(videos)
    drawn = [source.draw() for _ in range(5)]
    drawn[2] = replace(drawn[2], shift=None)

    def kernels(first: Tensor, second: Tensor) -> tuple[list[float], list[float]]:
        a, b = (
            plain.describe(VideoFeatures(v, torch.arange(len(v), dtype=torch.float64)))
            for v in (first, second)
        )
        shifts = np.arange(b.start - a.end, b.end - a.start + 0.5)
        norm = [float(plain.kernel(x, x, torch.zeros(1))[0]) ** 0.5 for x in (a, b)]
        return shifts.tolist(), (plain.kernel(a, b, torch.from_numpy(shifts)) / (norm[0] * norm[1])).tolist()

    total = 0.0
    for one in drawn:
        shifts, values = kernels(one.anchor, one.positive)
        mistaken = max(kernels(one.anchor, one.negative)[1])
        right = max(values)
        if one.shift is not None:
            right = values[shifts.index(one.shift)]
            wrong = max(v for s, v in zip(shifts, values, strict=True) if abs(s - one.shift) > 2)
            total += max(0.0, 0.3 + wrong - right)
        total += max(0.0, 0.3 + mistaken - right)
    assert float(system.loss(drawn)) == pytest.approx(total / 5, abs=1e-5)


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
