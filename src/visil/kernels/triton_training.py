"""S_f with a gradient, for training on a GPU: the forward kernel remembers each region's best partner, and two products
per partner bring the gradient back. Nothing of size R·S·X·Y is written in either direction.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from visil.kernels.triton_frames import frame_products, prepared

FRAMES = 64
"""Frames of a tile on both axes."""


@triton.jit
def _gradient_kernel(
    gradient,
    which,
    other,
    out,
    own_count,
    other_count,
    gradient_pair,
    gradient_own,
    gradient_other,
    which_pair,
    which_region,
    which_own,
    which_other,
    scale,
    OWN: tl.constexpr,
    OTHERS: tl.constexpr,
    C: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    OF_QUERY: tl.constexpr,
):
    # The gradient of one region of some frames: the partners it chose (a query's), or those that chose it (a target's).
    frames = tl.program_id(0) * N + tl.arange(0, N)
    region = tl.program_id(1) % OWN
    channels = (tl.program_id(1) // OWN) * K + tl.arange(0, K)
    pair = tl.program_id(2).to(tl.int64)
    there = frames < own_count
    total = tl.zeros((N, K), tl.float32)
    left = 0
    while left < other_count:
        others = left + tl.arange(0, N)
        inside = there[:, None] & (others < other_count)[None, :]
        g = tl.load(
            gradient
            + pair * gradient_pair
            + frames[:, None] * gradient_own
            + others[None, :] * gradient_other,
            mask=inside,
            other=0.0,
        )
        at = (
            which
            + pair * which_pair
            + frames[:, None].to(tl.int64) * which_own
            + others[None, :] * which_other
        )
        vectors = other + ((pair * other_count + others) * OTHERS)[:, None] * C + channels[None, :]
        if OF_QUERY:
            mine = tl.load(at + region * which_region, mask=inside, other=255)
        for j in range(OTHERS):
            if OF_QUERY:
                weight = tl.where(mine == j, g, 0.0)
            else:
                weight = tl.where(tl.load(at + j * which_region, mask=inside, other=255) == region, g, 0.0)
            v = tl.load(
                vectors + j * C, mask=(others < other_count)[:, None] & (channels < C)[None, :], other=0.0
            )
            total = tl.dot(weight.to(v.dtype), v, total)
        left += N
    places = out + ((pair * own_count + frames) * OWN + region)[:, None] * C + channels[None, :]
    tl.store(places, (total * scale).to(out.dtype.element_ty), mask=there[:, None] & (channels < C)[None, :])


def _gradient(
    gradient: Tensor, which: Tensor, other: Tensor, own: Tensor, scale: float, *, of_query: bool
) -> Tensor:
    """For ``own`` [B, T, R, C], from ``gradient`` [B, own frames, other frames] and the other video of each pair."""
    pairs, count, regions, channels = own.shape
    out = torch.empty_like(own)
    step = min(256, triton.next_power_of_2(channels))
    grid = (triton.cdiv(count, FRAMES), regions * triton.cdiv(channels, step), pairs)
    w = which.stride()
    _gradient_kernel[grid](
        gradient,
        which,
        other,
        out,
        count,
        other.shape[1],
        *gradient.stride(),
        w[0],
        w[1],
        w[2] if of_query else w[3],
        w[3] if of_query else w[2],
        scale,
        OWN=regions,
        OTHERS=other.shape[2],
        C=channels,
        N=FRAMES,
        K=step,
        OF_QUERY=of_query,
        num_warps=8,
        num_stages=2,
    )
    return out


class FrameProducts(torch.autograd.Function):
    """S_f of Eq. 5 for pairs [B, X, R, C] and [B, Y, S, C] in half precision: float32 [B, X, Y]."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, target: Tensor) -> Tensor:
        """Chamfer similarity: the best partner of each region, their mean."""
        q, t = (prepared(video.detach(), video.dtype) for video in (query, target))
        pairs, x, regions, _ = q.shape
        out = torch.empty(pairs, x, t.shape[1], device=q.device)
        learns = query.requires_grad or target.requires_grad
        which = (
            torch.empty(pairs, regions, x, t.shape[1], dtype=torch.uint8, device=q.device) if learns else None
        )
        frame_products(q, t, out, which=which)
        if which is not None:
            ctx.save_for_backward(q, t, which)
            ctx.channels = query.shape[3]
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Through the maximum to the partners that were chosen."""
        (gradient,) = gradients
        q, t, which = ctx.saved_tensors
        scale = 1.0 / q.shape[2]
        of_query = of_target = None
        if ctx.needs_input_grad[0]:
            of_query = _gradient(gradient, which, t, q, scale, of_query=True)[..., : ctx.channels]
        if ctx.needs_input_grad[1]:
            turned = gradient.transpose(1, 2)
            of_target = _gradient(turned, which, q, t, scale, of_query=False)[..., : ctx.channels]
        return of_query, of_target


def frame_matrices(query: Tensor, target: Tensor, *, symmetric: bool = False) -> Tensor:
    """S_f of many pairs of equal lengths, with gradients: half-precision [B, X, R, C] and [B, Y, S, C] to [B, X, Y]."""
    forward: Tensor = FrameProducts.apply(query, target)  # type: ignore[no-untyped-call]
    if not symmetric:
        return forward
    backward: Tensor = FrameProducts.apply(target, query)  # type: ignore[no-untyped-call]
    return (forward + backward.transpose(1, 2)) / 2
