"""The losses of training: Eq. 7 to 9 of the paper, and beyond it the contrastive terms of its successors.

Similarities of videos are CS_v in [-1, 1], as :mod:`visil.training.batch_similarity` gives them; the losses of the
frame stage take similarities of frames. Every loss is a mean over the batch, so its size does not depend on how many
items a batch holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from visil.errors import UsageError

EPSILON = 1e-6
"""Keeps the logarithms of 0 finite."""


def triplet_loss(positive: Tensor, negative: Tensor, margin: float = 0.5) -> Tensor:
    """L_tr of Eq. 7 from CS_v(v, v⁺) and CS_v(v, v⁻) of every triplet: max{0, negative - positive + γ}, its mean."""
    return F.relu(negative - positive + margin).mean()


def similarity_regularisation(output: Tensor) -> Tensor:
    """L_reg of Eq. 8 for each S_v [..., X', Y'] before hard tanh: how far its cells lie outside [-1, 1], summed."""
    return (F.relu(output - 1) + F.relu(-1 - output)).sum(dim=(-2, -1))


def total(loss: Tensor, regularisation: Tensor, weight: float = 0.1) -> Tensor:
    """L of Eq. 9: the loss plus r times L_reg."""
    return loss + weight * regularisation


@dataclass(frozen=True)
class Pairs:
    """Which pairs of a batch are what, bool [N, M]; a pair in neither mask counts for nothing."""

    positive: Tensor
    negative: Tensor
    itself: Tensor
    """Pairs of a video with itself."""

    def __post_init__(self) -> None:
        shapes = {tuple(mask.shape) for mask in (self.positive, self.negative, self.itself)}
        if len(shapes) != 1 or (self.positive & self.negative).any():
            raise UsageError("the masks of a batch must have one shape and share no pair")

    def of_targets(self, count: int) -> Pairs:
        """The same with the first ``count`` targets alone."""
        return Pairs(self.positive[:, :count], self.negative[:, :count], self.itself[:, :count])


def info_nce(similarity: Tensor, pairs: Pairs, temperature: float = 0.03) -> Tensor:
    """InfoNCE: each positive pair against all negatives of the same query (row), mean over positive pairs.

    -log(e^(s⁺/τ) / (e^(s⁺/τ) + Σ e^(s⁻/τ))), with s = CS_v / 2 + 0.5 in [0, 1].
    """
    logits = rescaled(similarity) / temperature
    against = torch.logsumexp(logits.masked_fill(~pairs.negative, -torch.inf), dim=1, keepdim=True)
    per_pair = torch.logaddexp(logits, against) - logits
    return _mean_where(per_pair, pairs.positive)


def hard_negative(similarity: Tensor, pairs: Pairs) -> Tensor:
    """-log(1 - s) of each query's most similar negative, mean over queries that have one."""
    hardest = rescaled(similarity).masked_fill(~pairs.negative, -torch.inf).amax(dim=1)
    found = pairs.negative.any(dim=1)
    return _mean_where(_minus_log(1 - hardest.masked_fill(~found, 0.0)), found)


def self_similarity(similarity: Tensor, pairs: Pairs) -> Tensor:
    """-log s of each video with itself: a video is most like itself."""
    return _mean_where(_minus_log(rescaled(similarity)), pairs.itself)


def s2vs_loss(similarity: Tensor, pairs: Pairs, temperature: float = 0.03, weight: float = 3.0) -> Tensor:
    """The loss of S2VS: InfoNCE, and ``weight`` (λ) times the terms of hardest negatives and of self-similarity."""
    extra = hard_negative(similarity, pairs) + self_similarity(similarity, pairs)
    return info_nce(similarity, pairs, temperature) + weight * extra


def distillation_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """The loss of DnS: mean |student - teacher| over the similarities of the same pairs."""
    return (student - teacher.to(student)).abs().mean()


def rescaled(similarity: Tensor) -> Tensor:
    """CS_v in [-1, 1] to [0, 1]."""
    return similarity / 2 + 0.5


# ---------------------------------------------------------------------- the frame stage


def frame_info_nce(similarity: Tensor, neither: Tensor, temperature: float) -> Tensor:
    """InfoNCE in both directions over frame similarities [B, B] whose diagonal is the positives.

    ``neither`` (bool [B, B]) names the pairs that are neither positive nor negative.
    """
    logits = (similarity / temperature).masked_fill(neither, -torch.inf)
    truth = torch.arange(len(logits), device=logits.device)
    return (F.cross_entropy(logits, truth) + F.cross_entropy(logits.T, truth)) / 2


def frame_triplet_loss(similarity: Tensor, neither: Tensor, margin: float) -> Tensor:
    """Eq. 7 over frames, in both directions: each against the most similar negative of the batch; [B, B] as above."""
    own = similarity.diagonal()
    itself = torch.eye(len(own), dtype=torch.bool, device=own.device)
    negatives = similarity.masked_fill(neither | itself, -torch.inf)
    hardest = torch.stack([negatives.amax(dim=1), negatives.amax(dim=0)])
    return (hardest - own + margin).clamp(min=0).mean()


def spread_loss(vectors: Tensor) -> Tensor:
    """-log of each region's distance to its nearest region in another frame; [B, R, C], unit length."""
    batch, regions, _ = vectors.shape
    flat = F.normalize(vectors.flatten(0, 1), dim=-1)
    frame = torch.arange(batch, device=vectors.device).repeat_interleave(regions)
    with torch.no_grad():
        products = (flat @ flat.T).masked_fill(frame[:, None] == frame[None], -2.0)
        nearest = products.argmax(dim=1)
    distance = (flat - flat[nearest]).norm(dim=1)
    return -(distance + EPSILON).log().mean()


# ---------------------------------------------------------------------- shared


def _minus_log(share: Tensor) -> Tensor:
    """-log, from 0 at 1 to a large finite number at 0."""
    return -torch.log((share.clamp(min=0) + EPSILON) / (1 + EPSILON))


def _mean_where(values: Tensor, mask: Tensor) -> Tensor:
    """The mean over the cells a mask names; 0, still differentiable, where it names none."""
    return values.masked_fill(~mask, 0.0).sum() / mask.sum().clamp(min=1)
