"""Loss of quality: blur, mosaic, lower resolution, noise, and compression as JPEG does it.

Blur, mosaic and resolution are linear filters along rows and columns, one matrix [B, n, n] for each clip and axis that
makes n new pixels from n old ones. Every clip can so have a filter of its own width in one batched product.
"""

from __future__ import annotations

from functools import cache
from math import pi

import torch
from torch import Tensor
from torch.nn import functional as F

NARROWEST = 1e-3
"""A Gaussian this narrow is the identity."""

LUMINANCE = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
CHROMINANCE = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
    *((99,) * 8,) * 4,
)
"""Quantisation at quality 50, of the JPEG standard (ITU-T T.81, annex K)."""

TO_YCC = (
    (0.299, 0.587, 0.114),
    (-0.168735892, -0.331264108, 0.5),
    (0.5, -0.418687589, -0.081312411),
)
"""From red, green, blue to luma and the two colour differences, these about zero (JFIF)."""


def blur(clips: Tensor, sigmas: Tensor) -> Tensor:
    """Gaussian blur of sigma pixels."""
    height, width = clips.shape[-2:]
    sigmas = sigmas.to(clips)
    return filtered(clips, gaussian(height, sigmas), gaussian(width, sigmas))


def pixelate(clips: Tensor, sides: Tensor) -> Tensor:
    """A mosaic: every block of so many pixels a side shows its mean."""
    height, width = clips.shape[-2:]
    sides = sides.to(clips.device)
    return filtered(clips, blocks(height, sides), blocks(width, sides))


def lower_resolution(clips: Tensor, shares: Tensor) -> Tensor:
    """Shrunk to a share of height and width, then grown again."""
    height, width = clips.shape[-2:]
    shares = shares.to(clips.device)
    rows = shrunk_and_grown(height, (shares * height).round())
    return filtered(clips, rows, shrunk_and_grown(width, (shares * width).round()))


def noise(clips: Tensor, sigmas: Tensor, keys: Tensor) -> Tensor:
    """Gaussian noise, new in every frame; ``keys`` (int64 [B]) decide it.

    Counted and hashed rather than drawn: one batched sum, and the same for a clip in any batch and on any device.
    """
    count = clips[0].numel()
    counter = torch.arange(count, device=clips.device) + (keys.to(clips.device)[:, None] << 32)
    bits = _scrambled((counter & 0xFFFFFFFF) ^ _scrambled(counter >> 32))
    radius = (-2 * (((bits >> 16) + 0.5) / 65536).log()).sqrt()
    normal = radius * (2 * pi / 65536 * (bits & 0xFFFF)).cos()
    return (clips + sigmas.to(clips)[:, None, None, None, None] * normal.view_as(clips).to(clips)).clamp(0, 1)


def recompress(clips: Tensor, quality: Tensor, halve_chroma: bool = False) -> Tensor:
    """Clips after JPEG at a quality of 1 to 100 for each, in whole 255ths; ``halve_chroma`` is 4:2:0."""
    batch, frames, _, height, width = clips.shape
    side = 16 if halve_chroma else 8
    flat = clips.reshape(batch, frames * 3, height, width)
    flat = F.pad(flat, (0, -width % side, 0, -height % side), mode="replicate")
    to_ycc = clips.new_tensor(TO_YCC)
    padded = flat.view(batch, frames, 3, *flat.shape[-2:])
    ycc = torch.einsum("ij,btjhw->btihw", to_ycc, (padded * 255).round()).round()
    luma, chroma = ycc[:, :, :1] - 128, ycc[:, :, 1:]
    luma = _quantised(luma, _table(LUMINANCE, quality, clips))
    table = _table(CHROMINANCE, quality, clips)
    if halve_chroma:
        half = F.avg_pool2d(chroma.flatten(0, 1), 2).view(
            batch, frames, 2, *(n // 2 for n in chroma.shape[-2:])
        )
        grown = F.interpolate(_quantised(half, table).flatten(0, 1), scale_factor=2.0, mode="bilinear")
        chroma = grown.view_as(chroma)
    else:
        chroma = _quantised(chroma, table)
    ycc = torch.cat([luma.round().clamp(-128, 127) + 128, chroma.round().clamp(-128, 127)], dim=2)
    back = torch.einsum("ij,btjhw->btihw", torch.linalg.inv(torch.tensor(TO_YCC)).to(clips), ycc)
    return (back.round() / 255)[..., :height, :width].clamp(0, 1)


# ---------------------------------------------------------------------- filters


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


# ---------------------------------------------------------------------- JPEG and noise


def _table(at_fifty: tuple[tuple[int, ...], ...], quality: Tensor, clips: Tensor) -> Tensor:
    """Quantisation steps [B, 8, 8] of a quality, as libjpeg scales them."""
    quality = quality.to(clips).round().clamp(1, 100)
    percent = torch.where(quality < 50, (5000 / quality).floor(), 200 - 2 * quality)[:, None, None]
    return ((clips.new_tensor(at_fifty) * percent + 50) / 100).floor().clamp(1, 255)


def _quantised(planes: Tensor, steps: Tensor) -> Tensor:
    """Planes [B, T, C, H, W] after the cosine transform of 8×8 blocks was rounded to steps [B, 8, 8]."""
    batch, frames, channels, height, width = planes.shape
    cosines = _cosines(planes.device, planes.dtype)
    tiles = planes.reshape(batch, frames * channels, height // 8, 8, width // 8, 8).transpose(3, 4)
    steps = steps[:, None, None, None]
    rounded = (cosines @ tiles @ cosines.T / steps).round() * steps
    return (cosines.T @ rounded @ cosines).transpose(3, 4).reshape(planes.shape)


@cache
def _cosines(device: torch.device, dtype: torch.dtype) -> Tensor:
    """The orthonormal cosine transform of eight values, [frequency, place]."""
    at = torch.arange(8, dtype=torch.float64)
    waves = torch.cos((2 * at[None, :] + 1) * at[:, None] * (pi / 16)) / 2
    waves[0] /= 2**0.5
    return waves.to(device, dtype)


def _scrambled(bits: Tensor) -> Tensor:
    """A 32-bit integer hash, in int64: shifts and odd multipliers until neighbours have nothing in common."""
    bits = bits & 0xFFFFFFFF
    for multiplier in (0x9E3779B1, 0x85EBCA77):
        bits = ((bits ^ (bits >> 16)) * multiplier) & 0xFFFFFFFF
    return bits ^ (bits >> 15)
