"""Triplets out of made features, for systems that learn from triplets: parts of a video, and a part of another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from visil.model.features import VideoFeatures
from visil.paper.baselines.triplets import Drawn


class PartsOfVideos:
    """Anchors are whole videos, positives noisy parts of them whose clock starts anew, negatives parts of others."""

    def __init__(self, videos: Sequence[VideoFeatures], *, noise: float = 0.3, seed: int = 0) -> None:
        self.videos, self.noise = [video.vectors for video in videos], noise
        self.rng = np.random.default_rng(seed)
        self.seen: list[Drawn] = []

    def draw(self) -> Drawn:
        video, other = (int(i) for i in self.rng.choice(len(self.videos), 2, replace=False))
        positive, start = self._part(self.videos[video])
        negative, _ = self._part(self.videos[other])
        self.seen.append(Drawn(self.videos[video], positive, negative, shift=-float(start)))
        return self.seen[-1]

    def _part(self, vectors: Tensor) -> tuple[Tensor, int]:
        length = int(self.rng.integers((len(vectors) + 1) // 2, len(vectors) + 1))
        start = int(self.rng.integers(len(vectors) - length + 1))
        chosen = vectors[start : start + length]
        noise = torch.from_numpy(self.rng.normal(size=chosen.shape)).to(chosen) / chosen.shape[-1] ** 0.5
        lengths = chosen.norm(dim=-1, keepdim=True)
        return F.normalize(chosen + self.noise * lengths * noise, dim=-1) * lengths, start
