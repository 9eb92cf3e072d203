"""The background: region vectors of training footage that are common everywhere, kept in a model (beyond the paper).

A white ground, a dark edge, a blurred wall: every collection has them, and two videos that share no more than those
share nothing. How much a frame looks like the background is its commonness; a similarity that is not above it says
little. Two files compared alone are so judged as soberly as in a collection.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from visil.model.similarity import Reduction, reduced

NEAREST = 4
"""FixedBackground vectors whose mean similarity tells how common a region is."""


class FixedBackground(nn.Module):
    """``count`` region vectors of ``dim`` channels, and what similarities of strangers are like under the model."""

    regions: Tensor
    """[count, dim]"""
    mean: Tensor
    spread: Tensor
    """Of the similarity S_f of two frames that have nothing to do with each other: mean and standard deviation."""

    def __init__(self, count: int, dim: int) -> None:
        super().__init__()
        self.register_buffer("regions", torch.zeros(count, dim))
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("spread", torch.ones(()))

    def commonness(self, vectors: Tensor, outer: Reduction) -> Tensor:
        """How much each frame of [T, R, C] looks like the background, [T], on the scale of S_f.

        Each region meets its nearest background vectors; regions become a frame as they do in S_f, by ``outer``.
        """
        products = vectors.to(self.regions) @ self.regions.T
        nearest = products.topk(min(NEAREST, products.shape[-1]), dim=-1).values.mean(dim=-1)
        return reduced(nearest, outer)


def central(vectors: Tensor, count: int, seed: int = 0) -> Tensor:
    """``count`` of the vectors [N, C] that stand for all: centres of k-means, each replaced by its nearest vector."""
    points = vectors.float()
    count = min(count, len(points))
    generator = torch.Generator().manual_seed(seed)
    centres = points[torch.randperm(len(points), generator=generator)[:count].to(points.device)]
    for _ in range(ROUNDS):
        own = _nearest(points, centres)
        sums = torch.zeros_like(centres).index_add_(0, own, points)
        size = torch.zeros(count, device=points.device).index_add_(0, own, torch.ones_like(own).float())
        # A centre without points stays where it is.
        centres = torch.where(size[:, None] > 0, sums / size.clamp(min=1)[:, None], centres)
    return points[_nearest(centres, points)]


ROUNDS = 8
"""Of k-means."""


def _nearest(points: Tensor, centres: Tensor) -> Tensor:
    """Number of the centre nearest to each point: [N]."""
    half = centres.square().sum(dim=1) / 2
    return torch.cat([(part @ centres.T - half).argmax(dim=1) for part in points.split(8192)])
