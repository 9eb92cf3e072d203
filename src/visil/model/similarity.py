"""Similarity between frames and between videos: Sec. 3, 4.2 and 4.3 of the paper, as written there.

Plain and readable, one function per equation, any float dtype. Nothing here is tuned: every fast path
(:mod:`visil.kernels`) is tested against this file.

Shapes: a video is ``[T, R, C]``: T frames, R region vectors a frame, C channels.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Reduction = Literal["max", "mean", "top2", "top3", "top4", "top5"]
"""How many become one: the best, the mean of all, or the mean of the best few (all, where there are fewer)."""


MP_AP: tuple[Reduction, Reduction] = ("max", "mean")
"""Chamfer similarity: the best, then the mean."""


def best_few(how: Reduction) -> int | None:
    """The k of a "topk" reduction; None for the others."""
    return int(how[3:]) if how.startswith("top") else None


def tensor_dot(query: Tensor, target: Tensor) -> Tensor:
    """TD of Eq. 1, contracted over channels: every region of every frame against every other.

    ``query`` is [X, R, C], ``target`` is [Y, S, C]; returns [X, R, S, Y].
    """
    return torch.einsum("xrc,ysc->xrsy", query, target)


def chamfer(similarity: Tensor) -> Tensor:
    """CS(x, y) of Eq. 2: each item of x meets its best match in y; their mean.

    ``similarity`` is [..., N, M]; returns [...].
    """
    return similarity.amax(dim=-1).mean(dim=-1)


def symmetric_chamfer(similarity: Tensor) -> Tensor:
    """SCS(x, y) = (CS(x, y) + CS(y, x)) / 2 (Sec. 3)."""
    return (chamfer(similarity) + chamfer(similarity.transpose(-1, -2))) / 2


def pool(
    similarity: Tensor, inner: Reduction = "max", outer: Reduction = "mean", symmetric: bool = False
) -> Tensor:
    """The supplementary's Table 9: reduce [..., N, M] over M by ``inner``, then over N by ``outer``.

    ``("max", "mean")`` is MP-AP, which is Chamfer similarity; ``("mean", "mean")`` is AP-AP. Beyond the paper,
    ``("max", "top3")`` listens to the three best-matched items only: a small picture inside another frame.
    """
    if symmetric:
        forward = pool(similarity, inner, outer)
        return (forward + pool(similarity.transpose(-1, -2), inner, outer)) / 2
    return reduced(reduced(similarity, inner), outer)


def frame_similarity(query_frame: Tensor, target_frame: Tensor) -> Tensor:
    """CS_f(d, b) of Eq. 4 for two frames, [R, C] and [S, C]: a scalar."""
    return chamfer(query_frame @ target_frame.T)


def frame_matrix(
    query: Tensor,
    target: Tensor,
    *,
    symmetric: bool = False,
    inner: Reduction = "max",
    outer: Reduction = "mean",
) -> Tensor:
    """S_f of Eq. 5: Eq. 4 for every pair of frames of two videos. Returns [X, Y].

    ``symmetric`` uses SCS between the regions of the two frames, as ViSiL_sym does.
    """
    regions = tensor_dot(query, target).permute(0, 3, 1, 2)  # [X, Y, R, S]
    return pool(regions, inner, outer, symmetric)


def video_similarity(
    output_matrix: Tensor,
    *,
    symmetric: bool = False,
    inner: Reduction = "max",
    outer: Reduction = "mean",
) -> Tensor:
    """CS_v of Eq. 6, from S_v after hard tanh (or from S_f where there is no network): [..., X', Y'] to [...]."""
    return pool(output_matrix, inner, outer, symmetric)


def reduced(values: Tensor, how: Reduction, dim: int = -1) -> Tensor:
    """``values`` with one dimension gone: its largest, its mean, or the mean of its largest few."""
    few = best_few(how)
    if few is not None:
        return values.topk(min(few, values.shape[dim]), dim=dim).values.mean(dim=dim)
    return values.amax(dim=dim) if how == "max" else values.mean(dim=dim)
