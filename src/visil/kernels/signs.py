"""Similarities of vectors that were kept as signs (binary codes), brought back to those of the vectors they stand for.

A vector kept as signs has ±s in every channel. What its products say about the angle between the vectors themselves,
when those have no preferred direction:

- with a vector kept whole: √(2/π) of the cosine, in the mean, so the product is multiplied by √(π/2);
- with another kept as signs: 1 - 2 · angle / π, so the cosine is the sine of π/2 times the product.

Frames are as alike as the best of their regions, and of noisy similarities the best is too good: unrelated frames come
out more alike by :func:`excess`, which is taken off again, from nothing for a frame and itself.

Without this, thresholds and calibration, which know the similarities of whole vectors, are wrong about binary codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import pi, sqrt

import torch
import torch.nn.functional as F
from torch import Tensor

from visil.model.codes import decode, encode
from visil.model.formula import Formula

FEWEST_CHANNELS = 16
"""Of fewer, equal magnitudes may be chance."""

UNRELATED = 48
"""Frames of random vectors among which the excess is measured."""

EVEN = 0.98
"""Where regions have norms of their own (attention), some products count for less than others, and the excess is not
known: from here on they are of one size."""


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


def straighten(
    matrix: Tensor,
    query: Tensor,
    targets: Sequence[tuple[Tensor, tuple[int, int]]],
    formula: Formula,
    *,
    cosines: bool = False,
) -> None:
    """Rewrite the columns of S_f that signs are behind; ``targets`` are videos and their columns.

    ``cosines``: they are cosines already, and only what is too much of them is to be taken off.
    """
    query_signs, *others = which_signs([query, *(target for target, _ in targets)])
    pools = Formula(formula.frame_pool, symmetric=formula.symmetric)
    for (target, (start, stop)), target_signs in zip(targets, others, strict=True):
        if not (query_signs or target_signs):
            continue
        part, both = matrix[:, start:stop], query_signs and target_signs
        (least, most), (other_least, other_most) = _norms(query), _norms(target)
        size = most * other_most
        if size > 0 and not cosines:
            straightened(part, size, both=both)
        if least * other_least > EVEN * size:
            share = excess(pools, (query.shape[1], target.shape[1]), query.shape[2], both=both)
            part.sub_(share * size).div_(1 - share)


@lru_cache
@torch.no_grad()
def excess(formula: Formula, regions: tuple[int, int], channels: int, *, both: bool) -> float:
    """By which share of the way to 1 unrelated frames are more alike as signs; ``both``: query and target are signs.

    Measured on random vectors: they have no preferred direction, as whitened ones.
    """
    generator = torch.Generator().manual_seed(0)
    query, target = (
        F.normalize(torch.randn(UNRELATED, count, channels, generator=generator), dim=-1) for count in regions
    )
    coded = decode(encode(target, "binary")).float()
    whole = float(formula.frame_matrix(query, target).mean())
    seen = decode(encode(query, "binary")).float() if both else query
    found = straightened(formula.frame_matrix(seen, coded), 1.0, both=both)
    return max(0.0, (float(found.mean()) - whole) / (1 - whole))


def _norms(vectors: Tensor) -> tuple[float, float]:
    """The least and the largest norm of a video's first vectors."""
    norms = torch.linalg.vector_norm(vectors[:4].float(), dim=-1)
    return float(norms.amin()), float(norms.amax())
