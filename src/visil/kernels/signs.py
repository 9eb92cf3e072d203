"""Similarities of vectors that were kept as signs (binary codes), brought back to those of the vectors they stand for.

A vector kept as signs has ±s in every channel. What its products say about the angle between the vectors themselves,
when those have no preferred direction:

- with a vector kept whole: √(2/π) of the cosine, in the mean, so the product is multiplied by √(π/2);
- with another kept as signs: 1 - 2 · angle / π, so the cosine is the sine of π/2 times the product.

Without this, thresholds and calibration, which know the similarities of whole vectors, ask too much of binary codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt

import torch
from torch import Tensor

FEWEST_CHANNELS = 16
"""Of fewer, equal magnitudes may be chance."""


def signs_only(vectors: Tensor) -> bool:
    """Whether a video [T, R, C] was kept as signs: in its first vectors, one magnitude each, and both signs."""
    if vectors.shape[-1] < FEWEST_CHANNELS:
        return False
    first = vectors[:2].flatten(0, 1)[:4]
    sizes = first.abs()
    return bool((sizes == sizes[:, :1]).all() and (first < 0).any() and (first > 0).any())


def which_signs(videos: Sequence[Tensor]) -> list[bool]:
    """:func:`signs_only` of each. A GPU is waited for once, where none of them is."""
    if all(video.device.type == "cpu" for video in videos) or len({video.shape[2] for video in videos}) > 1:
        return [signs_only(video) for video in videos]
    sizes = torch.stack([video[0, 0].to(videos[-1].device, torch.float32) for video in videos]).abs()
    alike = (sizes == sizes[:, :1]).all(dim=1).tolist()
    return [likely and signs_only(video) for likely, video in zip(alike, videos, strict=True)]


def straightened(matrix: Tensor, size: float, *, both: bool) -> Tensor:
    """``matrix`` rewritten: products of signs with signs (``both``) or with whole vectors as cosines times ``size``.

    ``size`` is the product of the two videos' norms; nothing becomes more alike than a vector and itself.
    """
    if both:
        return matrix.mul_(pi / 2 / size).clamp_(-pi / 2, pi / 2).sin_().mul_(size)
    return matrix.mul_(sqrt(pi / 2)).clamp_(-size, size)


def straighten(matrix: Tensor, query: Tensor, targets: Sequence[tuple[Tensor, tuple[int, int]]]) -> None:
    """Rewrite the columns of S_f that signs are behind; ``targets`` are videos and their columns."""
    query_signs, *others = which_signs([query, *(target for target, _ in targets)])
    for (target, (start, stop)), target_signs in zip(targets, others, strict=True):
        if query_signs or target_signs:
            size = _norm(query) * _norm(target)
            if size > 0:
                straightened(matrix[:, start:stop], size, both=query_signs and target_signs)


def _norm(vectors: Tensor) -> float:
    return float(torch.linalg.vector_norm(vectors[:4].float(), dim=-1).amax())
