"""S_f with a gradient against autograd through the plain formula in float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from visil.kernels.triton_training import frame_matrices
from visil.model.similarity import frame_matrix

TOLERANCE = 5e-3
"""Of the largest gradient: operands have eleven bits."""


def batch(pairs: int, frames: int, regions: int, channels: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(pairs, frames, regions, channels, generator=generator), dim=-1).half()


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("shape", [(2, 7, 70, 3, 4, 64), (1, 1, 5, 2, 2, 96), (3, 20, 1, 1, 3, 300)])
def test_values_and_gradients(
    device: torch.device, shape: tuple[int, int, int, int, int, int], symmetric: bool
) -> None:
    pairs, x, y, regions, others, channels = shape
    query, target = batch(pairs, x, regions, channels, 1), batch(pairs, y, others, channels, 2)
    weight = torch.randn(pairs, x, y, generator=torch.Generator().manual_seed(3))
    fast = [video.clone().to(device).requires_grad_() for video in (query, target)]
    found = frame_matrices(fast[0], fast[1], symmetric=symmetric)
    (found * weight.to(device)).sum().backward()
    exact = [video.detach().double().requires_grad_() for video in (query, target)]
    expected = torch.stack([frame_matrix(q, t, symmetric=symmetric) for q, t in zip(*exact, strict=True)])
    (expected * weight).sum().backward()
    assert (found.cpu() - expected).abs().max() < 1e-5
    for ours, truth in zip(fast, exact, strict=True):
        assert ours.grad is not None
        assert truth.grad is not None
        assert (ours.grad.cpu() - truth.grad).abs().max() < TOLERANCE * truth.grad.abs().max()


def test_only_what_learns_gets_a_gradient(device: torch.device) -> None:
    query, target = batch(1, 4, 2, 64, 1).to(device).requires_grad_(), batch(1, 4, 2, 64, 2).to(device)
    frame_matrices(query, target).sum().backward()
    assert query.grad is not None
    assert target.grad is None
