"""Linear filters along rows and columns, as one matrix for each clip and axis: blur, mosaic, loss of resolution.

A matrix [B, n, n] makes n new pixels from n old ones. Every clip can so have a filter of its own width in one
batched product.
"""

from __future__ import annotations

import torch
from torch import Tensor

NARROWEST = 1e-3
"""A Gaussian this narrow is the identity."""


def filtered(clips: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Clips [B, T, 3, H, W] with [B, H, H] along the height and [B, W, W] along the width."""
    along_width = torch.einsum("bvw,btchw->btchv", columns.to(clips), clips)
    return torch.einsum("bgh,btchw->btcgw", rows.to(clips), along_width).clamp(0, 1)


def gaussian(size: int, sigmas: Tensor) -> Tensor:
    """Gaussian of sigma pixels, [B] → [B, size, size]; at the edges only what is inside counts."""
    at = torch.arange(size, device=sigmas.device, dtype=sigmas.dtype)
    distance = (at[:, None] - at[None, :]) / sigmas.clamp(min=NARROWEST)[:, None, None]
    return _normalised((-0.5 * distance**2).exp())


def blocks(size: int, sides: Tensor) -> Tensor:
    """Mean over blocks of ``sides`` pixels, counted from the first, [B] → [B, size, size]."""
    at = torch.arange(size, device=sides.device)
    block = at[None, :] // sides.long().clamp(min=1)[:, None]
    return _normalised((block[:, :, None] == block[:, None, :]).float())


def shrunk_and_grown(size: int, counts: Tensor) -> Tensor:
    """Resampled to ``counts`` pixels (a triangle wide enough not to alias) and back (linear): [B, size, size]."""
    counts = counts.clamp(1, size).double()[:, None, None]
    step = size / counts
    at = torch.arange(size, device=counts.device, dtype=counts.dtype)
    few = at[None, :, None]
    distance = ((at[None, None, :] + 0.5) - (few + 0.5) * step) / step
    shrink = _normalised((1 - distance.abs()).clamp(min=0) * (few < counts))
    source = ((at[None, :, None] + 0.5) / step - 0.5).clamp(min=0)
    source = torch.minimum(source, counts - 1)
    grow = (1 - (source - at[None, None, :]).abs()).clamp(min=0)
    return grow @ shrink


def _normalised(weights: Tensor) -> Tensor:
    """Rows that sum to one; empty rows stay empty."""
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-12)
