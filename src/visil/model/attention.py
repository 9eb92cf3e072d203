"""How much each region counts: the attention of Sec. 4.1 (Eq. 3), the students' variant with a hidden layer, and what
their binary student has in its place: the signs of a rotated vector.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ContextAttention(nn.Module):
    """Eq. 3: α = uᵀr with a unit context vector u; r' = (α/2 + 0.5)·r.

    A region keeps its direction and changes its norm, so an empty region stops outvoting the subject. The weights
    are not normalised over regions. ``forward`` uses u as it stands, as the authors' code does; training keeps it
    at unit norm with :meth:`constrain_`.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.context_vector = nn.Linear(dim, 1, bias=False)
        self.constrain_()

    def weights(self, regions: Tensor) -> Tensor:
        """α/2 + 0.5 for region vectors [..., C]: [..., 1], in [0, 1] for unit vectors."""
        return self.context_vector(regions) / 2 + 0.5

    def forward(self, regions: Tensor) -> Tensor:
        """r' for region vectors [..., C]."""
        return self.weights(regions) * regions

    @torch.no_grad()
    def constrain_(self) -> None:
        """Restore ‖u‖ = 1 after an optimiser step."""
        weight = self.context_vector.weight
        weight.copy_(F.normalize(weight, dim=1))


class HiddenAttention(nn.Module):
    """The attention of the DnS and S2VS students: sigmoid(c · tanh(W r + b)) · r."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.transform = nn.Linear(dim, dim)
        self.context_vector = nn.Linear(dim, 1, bias=False)

    def weights(self, regions: Tensor) -> Tensor:
        """Weights in (0, 1) for region vectors [..., C]: [..., 1]."""
        return torch.sigmoid(self.context_vector(torch.tanh(self.transform(regions))))

    def forward(self, regions: Tensor) -> Tensor:
        """Weighted region vectors."""
        return self.weights(regions) * regions

    def constrain_(self) -> None:
        """Nothing to hold: this variant has no norm constraint."""


class BinaryCode(nn.Module):
    """In place of attention, of DnS's binary student: sign(r R) / √bits, r of unit length.

    All vectors have unit length, so that their dot product is the share of equal bits less that of unequal ones, as
    in the authors' code. Where R learns, erf(x / √(2 σ)) stands for the sign, which has no gradient.
    """

    SIGMA = 1e-6
    """σ of the authors' code."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.rotation = nn.Parameter(nn.init.orthogonal_(torch.empty(dim, dim)))

    def forward(self, regions: Tensor) -> Tensor:
        """Codes of region vectors [..., C], as vectors."""
        rotated = F.normalize(regions, dim=-1) @ self.rotation
        if self.rotation.requires_grad and torch.is_grad_enabled():
            codes = torch.erf(rotated / math.sqrt(2 * self.SIGMA))
        else:
            codes = torch.sign(rotated)
        return codes / math.sqrt(codes.shape[-1])

    def constrain_(self) -> None:
        """Nothing to hold: what begins as a rotation may become any matrix."""
