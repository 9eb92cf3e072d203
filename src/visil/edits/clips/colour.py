"""Colour changes as affine mixing of the three channels, so that a chain of them is one product.

An amount is one number for each clip. ``brightness`` multiplies all channels, ``contrast`` the distance from the
clip's mean grey, ``saturation`` the distance from the pixel's own grey: 1 changes nothing. ``hue`` turns colours about
the grey axis by degrees (120 makes red green, green blue and blue red), ``grayscale`` goes towards grey: 0 changes
nothing. ``mixing`` [B, 3, 3] has rows that are the new red, green and blue.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor

LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in a grey value (ITU-R BT.601)."""


def adjust(
    clips: Tensor,
    *,
    mixing: Tensor | None = None,
    brightness: Tensor | None = None,
    saturation: Tensor | None = None,
    hue: Tensor | None = None,
    contrast: Tensor | None = None,
    grayscale: Tensor | None = None,
) -> Tensor:
    """The adjustments given, in this order, in one product; the result is cut to [0, 1] once, at the end."""
    matrix = torch.eye(3, device=clips.device, dtype=clips.dtype).expand(len(clips), 3, 3)
    offset = clips.new_zeros(len(clips), 3)
    if mixing is not None:
        matrix = mixing.to(clips)
    if brightness is not None:
        matrix = brightness.to(clips)[:, None, None] * matrix
    if saturation is not None:
        matrix = _towards_grey(1 - saturation.to(clips)) @ matrix
    if hue is not None:
        matrix = _hue_rotation(hue.to(clips)) @ matrix
    if contrast is not None:
        amount = contrast.to(clips)[:, None]
        mean = torch.einsum("bij,bj->bi", matrix, clips.mean(dim=(1, 3, 4)))
        matrix = amount[:, :, None] * matrix
        offset = (1 - amount) * (mean @ clips.new_tensor(LUMA))[:, None]
    if grayscale is not None:
        step = _towards_grey(grayscale.to(clips))
        matrix = step @ matrix
        offset = torch.einsum("bij,bj->bi", step, offset)
    mixed = torch.einsum("bij,btjhw->btihw", matrix, clips)
    return (mixed + offset[:, None, :, None, None]).clamp(0, 1)


def gamma(clips: Tensor, exponents: Tensor) -> Tensor:
    """Every value to a power: below 1 lightens the shadows, above 1 darkens them."""
    return clips.clamp(0, 1) ** exponents.to(clips)[:, None, None, None, None]


def negative(clips: Tensor) -> Tensor:
    """Light becomes dark, and each colour its opposite."""
    return 1 - clips


def _towards_grey(amounts: Tensor) -> Tensor:
    """[B] → [B, 3, 3]: identity at 0, the grey value in every channel at 1."""
    identity = torch.eye(3, device=amounts.device, dtype=amounts.dtype)
    grey = amounts.new_tensor(LUMA).expand(3, 3)
    return identity + amounts[:, None, None] * (grey - identity)


def _hue_rotation(degrees: Tensor) -> Tensor:
    """[B] → [B, 3, 3]: Rodrigues' rotation about (1, 1, 1)."""
    angle = degrees.deg2rad()[:, None, None]
    identity = torch.eye(3, device=degrees.device, dtype=degrees.dtype)
    across = degrees.new_tensor([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / sqrt(3)
    along = degrees.new_full((3, 3), 1 / 3)
    return angle.cos() * identity + angle.sin() * across + (1 - angle.cos()) * along
