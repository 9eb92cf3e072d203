"""Region vectors in fewer bytes: float16 as they are, eight bits a channel, or one bit a channel.

Vectors are [..., C]. ``int8`` and ``binary`` keep one float16 a vector beside the codes, because attention gives
regions norms of their own:

- ``int8``: its largest magnitude p, and each channel as the nearest of the 255 steps from -p to p.
- ``binary``: its root mean square s = norm / √C, and the sign of each channel; decoded to ±s, which has the same norm.

There is no rotation before the signs are taken. One would spread the variance evenly over the channels, and that is
what whitening has done. Without whitening most channels of a vector have the same sign, and binary codes say little.

What is kept is decoded to float16, and encoding that again gives the same codes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from visil.errors import UsageError
from visil.model.code_kinds import KINDS, Codes, checked

__all__ = ["KINDS", "Coded", "Codes", "checked", "decode", "encode"]

STEPS = 127
"""Of int8 on each side of zero."""


@dataclass(frozen=True, eq=False)
class Coded:
    """Vectors [..., C] as they are stored."""

    kind: Codes
    values: Tensor
    """float16 [..., C], int8 [..., C], or uint8 [..., ⌈C / 8⌉]: the first channel is the lowest bit of the first."""
    scales: Tensor | None
    """float16 [...]: one a vector; None for fp16."""
    channels: int


def encode(vectors: Tensor, kind: Codes) -> Coded:
    """Vectors [..., C] of any float type as ``kind``; values that are not finite in 16 bits are refused."""
    if vectors.ndim == 0 or vectors.shape[-1] == 0 or not vectors.is_floating_point():
        raise UsageError(
            f"codes are made of floats [..., channels], not {vectors.dtype} {list(vectors.shape)}"
        )
    halves = vectors.to(torch.float16)
    if not torch.isfinite(halves).all():
        raise UsageError("features hold NaN, infinity or numbers beyond 16 bits: they cannot be stored")
    channels = int(vectors.shape[-1])
    if checked(kind) == "fp16":
        return Coded(kind, halves, None, channels)
    exact = halves.float()
    if kind == "int8":
        peaks = exact.abs().amax(dim=-1, keepdim=True)
        steps = (exact * (STEPS / peaks)).round_().masked_fill_(peaks == 0, 0)
        return Coded(kind, steps.to(torch.int8), peaks[..., 0].half(), channels)
    sizes = exact.square().mean(dim=-1, keepdim=True).sqrt().half()
    positive = (exact >= 0) | (sizes == 0)  # a vector of no size decodes to zeros, whose signs are positive
    return Coded(kind, _packed(positive), sizes[..., 0], channels)


def decode(coded: Coded) -> Tensor:
    """The vectors that codes stand for: float16 [..., C]."""
    values, scales, kind = coded.values, coded.scales, coded.kind
    dtype, width = {
        "fp16": (torch.float16, coded.channels),
        "int8": (torch.int8, coded.channels),
        "binary": (torch.uint8, -(-coded.channels // 8)),
    }[kind]
    if values.ndim == 0 or values.dtype != dtype or values.shape[-1] != width:
        raise UsageError(
            f"{kind} codes of {coded.channels} channels are not {values.dtype} {list(values.shape)}"
        )
    if kind == "fp16":
        return values
    if scales is None or scales.dtype != torch.float16 or scales.shape != values.shape[:-1]:
        raise UsageError(f"{kind} codes {list(values.shape)} need one float16 scale a vector")
    if kind == "int8":
        return (values * (scales.float() / STEPS)[..., None]).half()
    return _signs(values)[..., : coded.channels] * scales[..., None]


def _packed(bits: Tensor) -> Tensor:
    """Bool [..., C] as uint8 [..., ⌈C / 8⌉]."""
    padded = F.pad(bits, (0, -bits.shape[-1] % 8)).unflatten(-1, (-1, 8))
    places = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=bits.device)
    return (padded * places).sum(dim=-1, dtype=torch.uint8)


def _signs(packed: Tensor) -> Tensor:
    """uint8 [..., W] as float16 1 and -1, [..., 8 W]."""
    numbers = torch.arange(256, device=packed.device)[:, None]
    table = (((numbers >> torch.arange(8, device=packed.device)) & 1) * 2 - 1).half()
    return F.embedding(packed.int(), table).flatten(-2)
