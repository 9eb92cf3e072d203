"""DML (Kordopatis-Zilos et al. 2017): near-duplicate retrieval by a learned embedding of the whole video.

As published (paper, and the released MKLab-ITI/ndvr-dml): a frame's vector is its layers' maxima one after the other
(early fusion: iMAC); each frame vector is brought to zero mean and unit length, a video's vector is their mean, brought
to the same; three fully connected layers with tanh (2000, 1000 and 500 wide), ℓ2; triplet loss on squared Euclidean
distances with margin 1, batches of 1,000 triplets, weight decay 1e-5; Adam at 1e-5.

Chosen here: the triplets are ViSiL's (:mod:`visil.paper.baselines.triplets`), so that anchors, positives and negatives
are snippets; the training videos' mean vector is taken off first, which the first layer would learn, only slowly. The
score is the cosine, which orders as the distance does.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from visil.errors import UsageError
from visil.model.features import VideoFeatures
from visil.paper.baselines.system import ComparedSystem, ScoreArray, checked, needed
from visil.paper.baselines.triplets import TripletSource

LAYERS = (2000, 1000, 500)
MARGIN = 1.0
WEIGHT_DECAY = 1e-5


class DML(ComparedSystem[Tensor]):
    """One unit vector for a video, learned so that copies lie near each other."""

    learns = by_triplets = True

    def __init__(
        self,
        name: str = "DML",
        reads: str = "imac",
        *,
        layers: Sequence[int] = LAYERS,
        triplets: int = 20_000,
        epochs: int = 100,
        batch: int = 1000,
        learning_rate: float = 1e-5,
    ) -> None:
        if not layers or triplets < 1 or epochs < 1 or batch < 1:
            raise UsageError(
                f"DML needs layers, triplets, epochs and a batch, got {list(layers)}, {triplets}, {epochs} and {batch}"
            )
        self.name, self.reads, self.layers = name, reads, tuple(layers)
        self.triplets, self.epochs, self.batch = triplets, epochs, batch
        self.learning_rate = learning_rate
        self.network_: Embedding | None = None

    @torch.inference_mode(False)
    @torch.enable_grad()
    def learn(
        self, videos: Sequence[VideoFeatures], *, seed: int = 0, triplets: TripletSource | None = None
    ) -> None:
        """Train the embedding on video vectors of triplets, drawn once and shuffled every epoch, where these are."""
        source = needed(triplets, self.name)
        mean = torch.stack([video_vector(checked(video)) for video in videos]).mean(dim=0)
        drawn = torch.stack([_vectors(source) for _ in range(self.triplets)])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = Embedding(mean, self.layers).to(drawn.device)
        optimizer = torch.optim.Adam(
            network.parameters(), lr=self.learning_rate, weight_decay=WEIGHT_DECAY, foreach=True
        )
        shuffled = torch.Generator().manual_seed(seed)
        for _ in range(self.epochs):
            for some in torch.randperm(len(drawn), generator=shuffled).split(self.batch):
                anchor, positive, negative = (
                    network(drawn[some].flatten(0, 1)).unflatten(0, (-1, 3)).unbind(1)
                )
                loss = triplet_loss(anchor, positive, negative)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        self.network_ = network.to(mean.device).eval()

    def learned(self) -> dict[str, Tensor]:
        """The embedding's numbers."""
        return dict(self._network().state_dict())

    def restore(self, learned: dict[str, Tensor]) -> None:
        """See :class:`visil.paper.baselines.system.Keepable`."""
        self.network_ = Embedding(learned["mean"], self.layers).eval()
        self.network_.load_state_dict(learned)

    @torch.inference_mode()
    def describe(self, video: VideoFeatures) -> Tensor:
        """The video's embedding: float32, of unit length."""
        return self._network()(video_vector(checked(video))[None])[0]

    def scores(self, query: Tensor, targets: Sequence[Tensor]) -> ScoreArray:
        """Cosine with each target."""
        if not targets:
            return np.empty(0)
        found: ScoreArray = (torch.stack(list(targets)).double() @ query.double()).cpu().numpy()
        return found

    def _network(self) -> Embedding:
        if self.network_ is None:
            raise UsageError("DML has learned nothing yet: call learn with training videos first")
        return self.network_


class Embedding(nn.Module):
    """Fully connected layers with tanh, then ℓ2."""

    mean: Tensor

    def __init__(self, mean: Tensor, layers: Sequence[int]) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        widths = [len(mean), *layers]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))

    def forward(self, vectors: Tensor) -> Tensor:
        """Video vectors [B, C] to embeddings [B, D]."""
        if vectors.shape[1] != len(self.mean):
            raise UsageError(f"this embedding takes {len(self.mean)} channels, got {vectors.shape[1]}")
        x = F.normalize(vectors - self.mean, dim=1)
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return F.normalize(x, dim=1)


def video_vector(vectors: Tensor) -> Tensor:
    """[T, R, C] to [C]: frames to zero mean and unit length, their mean, the same again; regions count as frames."""
    return _normalised(_normalised(vectors.float().flatten(0, 1)).mean(dim=0))


def triplet_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = MARGIN) -> Tensor:
    """max{0, |a - p|² - |a - n|² + γ}, its mean over the batch; all [B, D]."""
    nearer = (anchor - positive).square().sum(dim=1)
    farther = (anchor - negative).square().sum(dim=1)
    return F.relu(nearer - farther + margin).mean()


def _vectors(source: TripletSource) -> Tensor:
    """The next triplet as three video vectors, [3, C]."""
    drawn = source.draw()
    return torch.stack([video_vector(part) for part in (drawn.anchor, drawn.positive, drawn.negative)])


def _normalised(vectors: Tensor) -> Tensor:
    return F.normalize(vectors - vectors.mean(dim=-1, keepdim=True), dim=-1)
