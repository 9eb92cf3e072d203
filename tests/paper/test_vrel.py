"""VReL: matching, labels, loss and best segment by hand or brute force, and a small set that it must learn by heart."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from drawn_triplets import PartsOfVideos
from visil.errors import UsageError
from visil.model.features import VideoFeatures
from visil.paper.baselines.triplets import Drawn
from visil.paper.baselines.vrel import (
    RANK,
    MatchCell,
    Relocalizer,
    VReL,
    best_segment,
    hide,
    label,
    localisation_loss,
    thinned,
)


def video(vectors: Tensor) -> VideoFeatures:
    return VideoFeatures(vectors, torch.arange(len(vectors), dtype=torch.float64))


def themes(count: int = 4, frames: int = 6, channels: int = 12) -> list[VideoFeatures]:
    """Videos that each keep to a direction of their own, the directions at right angles."""
    generator = torch.Generator().manual_seed(0)
    square = torch.linalg.qr(torch.randn(channels, channels, generator=generator)).Q
    theme = 3 * square[:count, None, None]
    drawn = torch.randn(count, frames, 1, channels, generator=generator)
    return [video(F.normalize(theme[i] + 0.3 * drawn[i], dim=-1)) for i in range(count)]


@pytest.fixture
def cell() -> MatchCell:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return MatchCell(3).double()


def test_matching_by_hand(cell: MatchCell) -> None:
    """Two steps of the target against the published equations, written out in numpy."""
    generator = torch.Generator().manual_seed(1)
    query = torch.randn(1, 4, 3, generator=generator, dtype=torch.float64)
    target = torch.randn(1, 2, 3, generator=generator, dtype=torch.float64)
    w = {name: value.detach().numpy() for name, value in cell.named_parameters()}

    def sigmoid(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x))

    q = query[0].numpy()
    h, c = np.zeros(3), np.zeros(3)
    expected = []
    for r in target[0].numpy():
        e = np.array(
            [
                w["attend.weight"][0]
                @ np.tanh(
                    w["of_query.weight"] @ row
                    + w["of_target.weight"] @ r
                    + w["of_state.weight"] @ h
                    + w["of_target.bias"]
                )
                for row in q
            ]
        )
        alpha = np.exp(e) / np.exp(e).sum()
        bar = alpha @ q
        gated_q = bar * sigmoid(w["gate_query.weight"] @ r + w["gate_query.bias"])
        gated_r = r * sigmoid(w["gate_target.weight"] @ bar + w["gate_target.bias"])
        a = (w["factor.weight"] @ gated_r + w["factor.bias"]).reshape(3, RANK)
        b = (w["factor.weight"] @ gated_q + w["factor.bias"]).reshape(3, RANK)
        t = (a * b).sum(axis=1)
        gates = w["cell.weight_ih"] @ t + w["cell.bias_ih"] + w["cell.weight_hh"] @ h + w["cell.bias_hh"]
        i, f, g, o = np.split(gates, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        expected.append(h)
    found = cell(query, torch.ones(1, 4, dtype=torch.bool), target)[0]
    np.testing.assert_allclose(found.detach().numpy(), np.stack(expected), rtol=1e-10)


def test_pairs_of_a_batch_do_not_touch_each_other() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        network = Relocalizer(5, 6).double().eval()
        queries = [torch.randn(n, 5, dtype=torch.float64) for n in (2, 7, 1)]
        targets = [torch.randn(n, 5, dtype=torch.float64) for n in (6, 1, 3)]
    together = network.pairs(queries, targets)
    for query, target, found in zip(queries, targets, together, strict=True):
        assert found.shape == (len(target), 4)
        torch.testing.assert_close(found, network.pairs([query], [target])[0])


@settings(max_examples=30, deadline=None)
@given(length=st.integers(1, 9), seed=st.integers(0, 1000))
def test_best_segment_by_brute_force(length: int, seed: int) -> None:
    logs = torch.randn(length, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    logs = logs.log_softmax(dim=1)
    rows = logs.tolist()
    best = max(
        rows[s][0] + rows[e][1] + sum(rows[k][2] for k in range(s, e + 1)) / (e - s + 1)
        for s in range(length)
        for e in range(s, length)
    )
    assert float(best_segment(logs)) == pytest.approx(best, abs=1e-9)


def test_labels_and_loss_by_hand() -> None:
    wanted = label(4, (1, 2))
    expected = torch.tensor([[0, 0, 0, 1], [0.5, 0, 0.5, 0], [0, 0.5, 0.5, 0], [0, 0, 0, 1.0]])
    torch.testing.assert_close(wanted, expected)
    torch.testing.assert_close(label(2, (0, 0))[0], torch.tensor([1 / 3, 1 / 3, 1 / 3, 0]))
    torch.testing.assert_close(label(2, None), torch.tensor([[0, 0, 0, 1.0]] * 2))
    # Without an opinion every step costs log 4; the start and the end count tenfold.
    assert float(localisation_loss([torch.zeros(4, 4)], [wanted])) == pytest.approx(22 * math.log(4) / 4)


def test_hidden_part_lies_where_it_is_said_to() -> None:
    part, around = torch.ones(3, 1, 2), torch.zeros(4, 1, 2)
    drawn = Drawn(part, part, around)
    for seed in range(10):
        target, (first, last) = hide(drawn, np.random.default_rng(seed))
        assert target[:, 0, 0].tolist() == [0] * first + [1] * (last - first + 1) + [0] * (6 - last)


def test_learns_a_small_set_by_heart() -> None:
    videos = themes()
    system = VReL(width=24, steps=50, batch=12, learning_rate=1e-2)
    system.learn(videos, seed=1, triplets=PartsOfVideos(videos))
    described = [system.describe(v) for v in videos]
    scores = np.stack([system.scores(query, described) for query in described])
    assert scores.dtype == np.float64
    best_other = (scores - 1e6 * np.eye(len(videos))).max(axis=1)
    assert (np.diag(scores) > best_other + 3).all()  # twenty times as probable
    # A part of one video hidden among frames of another is found, though most of the target is foreign.
    target = system.describe(video(torch.cat([videos[3].vectors, videos[1].vectors[1:5]])))
    found = [system.scores(query, [target])[0] for query in described]
    assert set(np.argsort(found)[-2:]) == {1, 3}


def test_usage_and_long_videos() -> None:
    videos = themes(3)
    with pytest.raises(UsageError, match="call learn"):
        VReL().describe(videos[0])
    system = VReL(width=4, steps=1, batch=2)
    with pytest.raises(UsageError, match="learns from triplets"):
        system.learn(videos)
    system.learn(videos, triplets=PartsOfVideos(videos))
    long = video(videos[0].vectors.repeat(60, 1, 1))
    assert system.describe(long).shape == (300, 4)
    assert thinned(torch.arange(601.0)[:, None, None])[:3].flatten().tolist() == [0, 2, 4]
    with pytest.raises(UsageError, match="takes 12 channels, got 5"):
        system.describe(video(torch.ones(3, 1, 5)))
    assert system.scores(system.describe(videos[0]), []).shape == (0,)
