"""From feature maps to region vectors: L_N-iMAC (Sec. 4.1), and the global descriptors of Table 2 beside it.

Every function takes the chosen stages' feature maps, each [B, C_k, H_k, W_k], and returns [B, R, C].
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil

import torch
import torch.nn.functional as F
from torch import Tensor


def imac(maps: Sequence[Tensor], levels: Sequence[int] = (3,)) -> Tensor:
    """L_N-iMAC: max-pool every stage to N×N regions, ℓ2 each, concatenate over stages, ℓ2 again.

    ``levels=(3,)`` is the paper's L3-iMAC, nine regions in row-major order; ``(1,)`` is iMAC; several levels stack
    their regions, so ``(1, 2, 3)`` gives fourteen.
    """
    per_level = []
    for level in levels:
        pooled = [F.normalize(regional_max(stage, level), dim=1) for stage in maps]  # [B, C_k, N, N]
        per_level.append(F.normalize(torch.cat(pooled, dim=1), dim=1).flatten(2))  # [B, C, N²]
    return torch.cat(per_level, dim=2).transpose(1, 2).contiguous()


def regional_max(stage: Tensor, level: int) -> Tensor:
    """Maximum over each of level × level overlapping windows: [B, C, H, W] to [B, C, level, level]."""
    sizes = [int(size) for size in stage.shape[-2:]]  # constants to a tracer too
    (height, row_starts), (width, column_starts) = (region_windows(size, level) for size in sizes)
    rows, columns = _even_step(row_starts), _even_step(column_starts)
    if rows and columns:
        covered = stage[..., : row_starts[-1] + height, : column_starts[-1] + width]
        return F.max_pool2d(covered, (height, width), (rows, columns))
    strips = torch.stack([stage[..., s : s + height, :].amax(dim=-2) for s in row_starts], dim=-2)
    return torch.stack([strips[..., s : s + width].amax(dim=-1) for s in column_starts], dim=-1)


def region_windows(size: int, level: int) -> tuple[int, list[int]]:
    """Length and starts of ``level`` windows over ``size`` cells, each half over its neighbour.

    The longest window k for which steps of ceil(k/2) fit exactly ``level`` times: for ResNet-50 at 224 px and
    level 3 this is the authors' 28/14, 14/7, 6/3 and 3/2. Where no k fits that count (maps too small for the level),
    windows of 2/(level+1) of the size are spread evenly from edge to edge.
    """
    for length in range(size, 0, -1):
        step = ceil(length / 2)
        if (size - length) // step + 1 == level:
            return length, [i * step for i in range(level)]
    length = max(1, 2 * size // (level + 1))
    return length, [round(i * (size - length) / (level - 1)) for i in range(level)]


def mac(maps: Sequence[Tensor]) -> Tensor:
    """MAC (Tolias et al. 2016): the maximum of each channel of the last stage."""
    return F.normalize(maps[-1].amax(dim=(2, 3)), dim=1).unsqueeze(1)


def spoc(maps: Sequence[Tensor]) -> Tensor:
    """SPoC (Babenko and Lempitsky 2015): the sum of each channel of the last stage."""
    return F.normalize(maps[-1].sum(dim=(2, 3)), dim=1).unsqueeze(1)


def gem(maps: Sequence[Tensor], p: float = 3.0) -> Tensor:
    """GeM (Radenović et al. 2018): the p-norm mean of each channel of the last stage; p = 3 as in the paper."""
    powered = maps[-1].clamp(min=1e-6).pow(p)
    return F.normalize(powered.mean(dim=(2, 3)).pow(1 / p), dim=1).unsqueeze(1)


def rmac(maps: Sequence[Tensor], levels: int = 3) -> Tensor:
    """R-MAC (Tolias et al. 2016): ℓ2 maxima over square regions at several scales of the last stage, summed, ℓ2."""
    stage = maps[-1]
    total = torch.zeros_like(stage[..., 0, 0])
    for top, left, side in rmac_regions(stage.shape[-2], stage.shape[-1], levels):
        total = total + F.normalize(stage[..., top : top + side, left : left + side].amax(dim=(2, 3)), dim=1)
    return F.normalize(total, dim=1).unsqueeze(1)


def rmac_regions(height: int, width: int, levels: int = 3) -> list[tuple[int, int, int]]:
    """R-MAC's squares (top, left, side): at level l, side 2·min(H, W)/(l+1), l of them on the shorter axis.

    The longer axis gets m-1 more, m chosen so that neighbours overlap as near to 40 % as they can.
    """
    short, long = min(height, width), max(height, width)
    extra = 0
    if long > short:
        # With m squares of the short side along the long axis, neighbours overlap by 1 - (long - short)/(m-1)/short.
        extra = min(range(1, 7), key=lambda m: abs(1 - (long - short) / m / short - 0.4))
    regions = []
    for level in range(1, levels + 1):
        side = max(1, 2 * short // (level + 1))
        down = level + (extra if height > width else 0)
        across = level + (extra if width > height else 0)
        regions += [
            (t, left, side) for t in _spread(height, side, down) for left in _spread(width, side, across)
        ]
    return regions


def _spread(size: int, side: int, count: int) -> list[int]:
    if count == 1:
        return [(size - side) // 2]
    return [int(i * (size - side) / (count - 1)) for i in range(count)]


def _even_step(starts: Sequence[int]) -> int:
    """The common step of a grid, or 0 where it has none."""
    steps = {b - a for a, b in pairwise(starts)}
    if not steps:
        return 1
    return steps.pop() if len(steps) == 1 and 0 not in steps else 0
