"""DML: its vectors and its loss against numbers by hand, and a small set that it must learn by heart."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from visil.errors import UsageError
from visil.model.features import VideoFeatures
from visil.paper.baselines.dml import DML, hardest, triplet_loss, video_vector
from visil.paper.baselines.triplets import Edits, FeatureTriplets, hard_negatives


def video(vectors: Tensor) -> VideoFeatures:
    return VideoFeatures(vectors, torch.arange(len(vectors), dtype=torch.float64))


def look_alikes(count: int = 8, frames: int = 12, channels: int = 16) -> list[VideoFeatures]:
    """Videos that are mostly strong noise, new in every frame; what tells them apart is small and lies elsewhere."""
    generator = torch.Generator().manual_seed(0)
    own = torch.randn(count, 1, 1, channels // 2, generator=generator) * 0.3
    loud = torch.randn(count, frames, 1, channels // 2, generator=generator)
    vectors = torch.cat([own.expand(-1, frames, -1, -1), loud], dim=-1)
    return [video(F.normalize(v, dim=-1)) for v in vectors]


# ---------------------------------------------------------------- the method


def test_video_vector_by_hand() -> None:
    frames = torch.tensor([[[1.0, 3.0, 2.0]], [[5.0, 5.0, 2.0]]])
    # Less their means: (-1, 1, 0) and (1, 1, -2); of unit length; their mean; already of zero mean.
    first = np.array([-1, 1, 0]) / np.sqrt(2)
    second = np.array([1, 1, -2]) / np.sqrt(6)
    mean = (first + second) / 2
    assert video_vector(frames).numpy() == pytest.approx(mean / np.linalg.norm(mean), abs=1e-6)


def test_triplet_loss_by_hand() -> None:
    anchor = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    positive = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    negative = torch.tensor([[-1.0, 0.0], [1.0, 0.0]])
    # First: 2 - 4 + 1 < 0, none; second: 0 - 2 + 1 < 0, none; with margin 3: 1 and 1.
    assert float(triplet_loss(anchor, positive, negative)) == 0
    assert float(triplet_loss(anchor, positive, negative, margin=3)) == pytest.approx(1)
    # The two the wrong way round: 4 - 2 + 1 and 2 - 0 + 1.
    assert float(triplet_loss(anchor, negative, positive)) == pytest.approx(3)


def test_hardest_negative() -> None:
    anchors = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    positives = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8]])
    negatives = torch.tensor([[0.9, 0.1], [0.0, -1.0], [0.0, -1.0]])
    numbers = torch.tensor([4, 4, 7])
    # The first two are of one video: they are no negatives of each other, however near.
    expected = torch.stack([negatives[0], positives[2], positives[1]])
    torch.testing.assert_close(hardest(anchors, positives, negatives, numbers), expected)


def test_learns_a_small_set_by_heart() -> None:
    videos = look_alikes()
    # Copies that the training never draws: the quiet half as it is, the loud half of quite other frames.
    copies = []
    for number, original in enumerate(videos):
        loud = torch.randn(12, 1, 8, generator=torch.Generator().manual_seed(100 + number))
        quiet = original.vectors[..., :8] / original.vectors[..., 8:].norm(dim=-1, keepdim=True)
        copies.append(
            video(F.normalize(torch.cat([quiet, loud / loud.norm(dim=-1, keepdim=True)], -1), dim=-1))
        )
    system = DML(layers=(32, 24, 16), steps=150, batch=32, learning_rate=3e-3)
    system.learn(videos, seed=3)
    described = [system.describe(v) for v in videos]
    assert described[0].shape == (16,)
    assert float(described[0].norm()) == pytest.approx(1, abs=1e-5)
    scores = np.stack([system.scores(system.describe(copy), described) for copy in copies])
    assert scores.dtype == np.float64
    own = np.diag(scores)
    others = scores[~np.eye(len(videos), dtype=bool)].reshape(len(videos), -1).max(axis=1)
    assert (own > others).all()
    # What was learned, not what was there: the raw vectors tell the videos apart by less.
    raw = (
        torch.stack([video_vector(v.vectors) for v in copies])
        @ torch.stack([video_vector(v.vectors) for v in videos]).T
    )
    raw_others = (raw - 2 * torch.eye(len(videos))).amax(dim=1)
    assert np.mean(own - others) > 1.5 * float((raw.diagonal() - raw_others).mean())


def test_the_same_seed_learns_the_same() -> None:
    videos = look_alikes(4)
    found = []
    for seed in (1, 1, 2):
        system = DML(layers=(8, 4), steps=3, batch=4)
        system.learn(videos, seed=seed)
        found.append(system.describe(videos[0]))
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)
    assert not torch.allclose(found[0], found[2])


def test_usage() -> None:
    videos = look_alikes(3)
    with pytest.raises(UsageError, match="call learn"):
        DML().describe(videos[0])
    with pytest.raises(UsageError, match="at least 2 videos"):
        DML().learn(videos[:1])
    with pytest.raises(UsageError, match="same regions and channels"):
        DML().learn([videos[0], video(torch.ones(3, 2, 16))])
    system = DML(layers=(4,), steps=1, batch=2)
    system.learn(videos)
    with pytest.raises(UsageError, match="takes 16 channels, got 5"):
        system.describe(video(torch.ones(3, 1, 5)))
    assert system.scores(system.describe(videos[0]), []).shape == (0,)


# ---------------------------------------------------------------- triplets


def test_hard_negatives_are_the_nearest_but_for_copies() -> None:
    angles = [0.0, 0.1, 1.2, 2.0, 3.6, 5.0]  # the first two are copies of each other
    videos = [torch.tensor([[[np.cos(a), np.sin(a)]]], dtype=torch.float32) for a in angles]
    centred = torch.cat([v[0] for v in videos])
    centred = F.normalize(centred - centred.mean(dim=0), dim=1).double()
    found = hard_negatives(videos, few=2)
    for number, row in enumerate((centred @ centred.T).tolist()):
        allowed = [i for i in sorted(range(6), key=lambda i: -row[i]) if i != number and row[i] <= 0.8]
        assert found[number] == allowed[:2]
    assert 1 not in found[0]
    assert hard_negatives([torch.ones(1, 1, 2), torch.tensor([[[1.0, 0.0]]])]) == [[1], [0]]


def test_triplets_are_of_the_videos_they_say() -> None:
    videos = [torch.zeros(n, 1, 4) for n in (1, 3, 20)]
    for number, v in enumerate(videos):
        v[..., number] = 1
    nothing = Edits(shift=0, noise=0, mix=0)
    source = FeatureTriplets(videos, seed=5, longest=8, edits=nothing)
    seen = set()
    for _ in range(50):
        drawn = source.draw()
        seen.add(drawn.video)
        assert drawn.video != drawn.other
        for part, number in (
            (drawn.anchor, drawn.video),
            (drawn.positive, drawn.video),
            (drawn.negative, drawn.other),
        ):
            assert 1 <= len(part) <= 8
            torch.testing.assert_close(part, videos[number][:1].expand(len(part), -1, -1))
    assert seen == {0, 1, 2}


def test_edits_keep_lengths_and_disturb() -> None:
    videos = [torch.randn(10, 2, 64, generator=torch.Generator().manual_seed(i)) for i in range(2)]
    source = FeatureTriplets(videos, seed=0, edits=Edits(fast=1.0))
    edited = source.edited(videos[0][:1], videos[1])
    torch.testing.assert_close(edited.norm(dim=-1), videos[0][:1].norm(dim=-1))
    alike = F.cosine_similarity(edited, videos[0][:1], dim=-1)
    assert (alike < 0.999).all()
    assert (alike > 0.5).all()
