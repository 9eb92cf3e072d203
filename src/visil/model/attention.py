"""How much each region counts: the attention of Sec. 4.1 (Eq. 3), and the students' variant with a hidden layer."""

from __future__ import annotations

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
