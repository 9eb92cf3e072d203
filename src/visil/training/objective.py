"""The loss of a batch of triplets, from its snippets' vectors: Eq. 9, or InfoNCE over the whole batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from visil.compare.visil import ViSiL
from visil.training.batches import VideoBatch, compare_all, compare_pairs
from visil.training.config import LossConfig
from visil.training.losses import (
    Pairs,
    hard_negative,
    info_nce,
    self_similarity,
    total,
    triplet_loss,
)

if TYPE_CHECKING:
    from visil.training.pools import Related
    from visil.training.triplets import Snippet, Triplet


@dataclass(frozen=True)
class Objective:
    """A loss and what it is made of."""

    loss: Tensor
    """What is lowered: a scalar with a gradient."""
    main: Tensor
    """The triplet or contrastive part, without gradient."""
    regularisation: Tensor
    """L_reg, mean over the batch, without gradient."""
    positive: Tensor
    """Mean CS_v of positive pairs."""
    negative: Tensor
    """Mean CS_v of negative pairs."""


def objective(
    model: ViSiL,
    triplets: Sequence[Triplet],
    anchors: Sequence[Tensor],
    positives: Sequence[Tensor],
    negatives: Sequence[Tensor],
    config: LossConfig,
    related: Related | None = None,
) -> Objective:
    """The loss of these triplets, whose snippets' refined vectors [T, R, D] are given.

    ``related`` names for each video those that may show its footage, and so are no negatives of it in a batch.
    """
    if config.kind == "triplet":
        return _triplets(model, anchors, positives, negatives, config)
    query = VideoBatch.of([*anchors, *positives])
    target = VideoBatch.of([*anchors, *positives, *negatives])
    pairs = batch_pairs(triplets, query.vectors.device, related)
    return _contrastive(model, query, target, pairs, config)


def _triplets(
    model: ViSiL,
    anchors: Sequence[Tensor],
    positives: Sequence[Tensor],
    negatives: Sequence[Tensor],
    config: LossConfig,
) -> Objective:
    query, target = VideoBatch.of([*anchors, *anchors]), VideoBatch.of([*positives, *negatives])
    compared = compare_pairs(model, query, target)
    positive, negative = compared.similarity.chunk(2)
    main = triplet_loss(positive, negative, config.margin)
    regularisation = compared.excess.sum() / len(anchors)
    return _objective(main, regularisation, positive, negative, config)


def _contrastive(
    model: ViSiL, query: VideoBatch, target: VideoBatch, pairs: Pairs, config: LossConfig
) -> Objective:
    """Anchors and positives as queries against everything in the batch."""
    compared = compare_all(model, query, target)
    similarity = compared.similarity
    extra = hard_negative(similarity, pairs) + self_similarity(similarity, pairs)
    main = info_nce(similarity, pairs, config.temperature) + config.hard_negative * extra
    positive, negative = similarity[pairs.positive], similarity[pairs.negative]
    return _objective(main, compared.excess.mean(), positive, negative, config)


def batch_pairs(triplets: Sequence[Triplet], device: torch.device, related: Related | None = None) -> Pairs:
    """What is what among 2B queries (anchors, positives) and 3B targets (anchors, positives, negatives).

    An anchor and its positive are positive both ways. Two snippets with frames of one video, or of two videos that
    ``related`` or a triplet of the batch relates, are neither positive nor negative unless they are such a pair.
    """
    count = len(triplets)
    own = [_videos(t.anchor, related) | _videos(t.positive, related) for t in triplets]
    shows = [*own, *own, *(_videos(t.negative, related) for t in triplets)]
    itself = torch.eye(2 * count, 3 * count, dtype=torch.bool)
    positive = itself.roll(count, dims=0)
    apart = torch.tensor([[a.isdisjoint(b) for b in shows] for a in shows[: 2 * count]])
    negative = apart & ~positive & ~itself
    return Pairs(positive.to(device), negative.to(device), itself.to(device))


def _videos(snippet: Snippet, related: Related | None) -> set[int]:
    videos = {video for video, _ in snippet.frames}
    return videos.union(*(related[video] for video in videos)) if related is not None else videos


def _objective(
    main: Tensor, regularisation: Tensor, positive: Tensor, negative: Tensor, config: LossConfig
) -> Objective:
    loss = total(main, regularisation, config.regularisation)
    means = (values.detach().sum() / max(values.numel(), 1) for values in (positive, negative))
    return Objective(loss, main.detach(), regularisation.detach(), *means)
