"""DML: its vectors and its loss against numbers by hand, and a small set that it must learn by heart."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from drawn_triplets import PartsOfVideos
from visil.errors import UsageError
from visil.model.features import VideoFeatures
from visil.paper.baselines.dml import DML, Embedding, triplet_loss, video_vector
from visil.paper.baselines.triplets import Drawn


def video(vectors: Tensor) -> VideoFeatures:
    return VideoFeatures(vectors, torch.arange(len(vectors), dtype=torch.float64))


def look_alikes(count: int = 8, frames: int = 12, channels: int = 16) -> list[VideoFeatures]:
    """Videos that are mostly strong noise, new in every frame; what tells them apart is small and lies elsewhere."""
    generator = torch.Generator().manual_seed(0)
    own = torch.randn(count, 1, 1, channels // 2, generator=generator) * 0.3
    loud = torch.randn(count, frames, 1, channels // 2, generator=generator)
    vectors = torch.cat([own.expand(-1, frames, -1, -1), loud], dim=-1)
    return [video(F.normalize(v, dim=-1)) for v in vectors]


def as_loud(original: VideoFeatures, generator: torch.Generator) -> Tensor:
    """A video's quiet half as it is, its loud half of quite other frames."""
    loud = torch.randn(12, 1, 8, generator=generator)
    quiet = original.vectors[..., :8] / original.vectors[..., 8:].norm(dim=-1, keepdim=True)
    return F.normalize(torch.cat([quiet, loud / loud.norm(dim=-1, keepdim=True)], -1), dim=-1)


class LoudCopies:
    """A video, itself in other noise, another in other noise."""

    def __init__(self, videos: list[VideoFeatures]) -> None:
        self.videos, self.rng = videos, np.random.default_rng(0)
        self.generator = torch.Generator().manual_seed(1)

    def draw(self) -> Drawn:
        video, other = (self.videos[i] for i in self.rng.choice(len(self.videos), 2, replace=False))
        return Drawn(video.vectors, as_loud(video, self.generator), as_loud(other, self.generator))


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


def test_the_embedding_by_hand() -> None:
    """Layers with tanh, ℓ2, in numpy in float64; the mean of the training videos is taken off first."""
    rng = np.random.default_rng(0)
    mean, vectors = rng.normal(size=6), rng.normal(size=(3, 6))
    network = Embedding(torch.from_numpy(mean), (5, 4)).double()
    x = vectors - mean
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    for layer in network.layers:
        assert isinstance(layer, torch.nn.Linear)
        x = np.tanh(x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy())
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    np.testing.assert_allclose(network(torch.from_numpy(vectors)).detach().numpy(), x, atol=1e-12)


def test_learns_a_small_set_by_heart() -> None:
    videos = look_alikes()
    # Copies that the training never draws: the quiet half as it is, the loud half of quite other frames.
    copies = [
        video(as_loud(original, torch.Generator().manual_seed(100 + number)))
        for number, original in enumerate(videos)
    ]
    system = DML(layers=(32, 24, 16), triplets=400, epochs=20, batch=64, learning_rate=3e-3)
    system.learn(videos, seed=3, triplets=LoudCopies(videos))
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
        system = DML(layers=(8, 4), triplets=6, epochs=2, batch=4)
        system.learn(videos, seed=seed, triplets=PartsOfVideos(videos))
        found.append(system.describe(videos[0]))
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)
    assert not torch.allclose(found[0], found[2])


def test_usage() -> None:
    videos = look_alikes(3)
    with pytest.raises(UsageError, match="call learn"):
        DML().describe(videos[0])
    with pytest.raises(UsageError, match="learns from triplets"):
        DML().learn(videos)
    system = DML(layers=(4,), triplets=2, epochs=1, batch=2)
    system.learn(videos, triplets=PartsOfVideos(videos))
    with pytest.raises(UsageError, match="takes 16 channels, got 5"):
        system.describe(video(torch.ones(3, 1, 5)))
    assert system.scores(system.describe(videos[0]), []).shape == (0,)
