"""Two GPU kernels on feature maps, channels last: depthwise convolution with its bias and ReLU6, and regional maxima.

Torch's own read and write each map several times, or one number at a time; these read it once, whole lines of channels
at a time.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

CHANNELS = 64
"""Of one program: with 16-bit numbers, a line of 128 bytes."""


@triton.jit
def _tap(weight, number, channel, channels):
    return tl.load(weight + number * channels + channel, mask=channel < channels, other=0.0)[None, :].to(
        tl.float32
    )


@triton.jit
def _depthwise_kernel(
    x,
    weight,
    bias,
    out,
    height,
    width,
    channels,
    out_height,
    out_width,
    top,
    left,
    KERNEL: tl.constexpr,
    STRIDE: tl.constexpr,
    W: tl.constexpr,
    C: tl.constexpr,
):
    strips = tl.cdiv(out_width, W)
    first = (tl.program_id(0) // strips) * 4
    column = (tl.program_id(0) % strips) * W + tl.arange(0, W)
    channel = tl.program_id(1) * C + tl.arange(0, C)
    picture = tl.program_id(2).to(tl.int64)
    known = channel < channels
    # Four lines of output side by side: a line of input is read once for all that it takes part in.
    line0 = tl.zeros((W, C), tl.float32) + tl.load(bias + channel, mask=known, other=0.0)[None, :].to(
        tl.float32
    )
    line1, line2, line3 = line0, line0, line0
    for line in tl.static_range(3 * STRIDE + KERNEL):
        y = first * STRIDE + line - top
        start = x + ((picture * height + y) * width) * channels
        for across in tl.static_range(KERNEL):
            at = column * STRIDE + across - left
            inside = (at >= 0) & (at < width) & (y >= 0) & (y < height)
            seen = tl.load(
                start + at[:, None] * channels + channel[None, :],
                mask=inside[:, None] & known[None, :],
                other=0.0,
            )
            seen = tl.minimum(seen.to(tl.float32), 6.0)  # the upper half of the ReLU6 before
            if line < KERNEL:
                line0 += seen * _tap(weight, line * KERNEL + across, channel, channels)
            if (line >= STRIDE) and (line < STRIDE + KERNEL):
                line1 += seen * _tap(weight, (line - STRIDE) * KERNEL + across, channel, channels)
            if (line >= 2 * STRIDE) and (line < 2 * STRIDE + KERNEL):
                line2 += seen * _tap(weight, (line - 2 * STRIDE) * KERNEL + across, channel, channels)
            if line >= 3 * STRIDE:
                line3 += seen * _tap(weight, (line - 3 * STRIDE) * KERNEL + across, channel, channels)
    places = (
        out + ((picture * out_height + first) * out_width + column)[:, None] * channels + channel[None, :]
    )
    wanted = (column < out_width)[:, None] & known[None, :]
    step = out_width * channels
    _store_relu6(places, line0, wanted & (first < out_height))
    _store_relu6(places + step, line1, wanted & (first + 1 < out_height))
    _store_relu6(places + 2 * step, line2, wanted & (first + 2 < out_height))
    _store_relu6(places + 3 * step, line3, wanted & (first + 3 < out_height))


@triton.jit
def _store_relu6(places, line, wanted):
    value = tl.minimum(tl.maximum(line, 0.0), 6.0)
    tl.store(places, value.to(places.dtype.element_ty), mask=wanted)


def depthwise_relu6(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    kernel: int,
    stride: int,
    pad: tuple[int, int],
    size: tuple[int, int],
) -> Tensor:
    """relu6(depthwise convolution of relu6(x)), for ``x`` [B, C, H, W] that is 0 or more, channels last.

    ``weight`` is [kernel · kernel, C]; ``pad``: how much lies above and left of the picture; ``size``: the output's.
    """
    pictures, channels, height, width = x.shape
    out = torch.empty(
        (pictures, channels, *size), dtype=x.dtype, device=x.device, memory_format=torch.channels_last
    )
    strip, line, warps = depthwise_tile(channels, size[1])
    grid = (triton.cdiv(size[0], 4) * triton.cdiv(size[1], strip), triton.cdiv(channels, line), pictures)
    _depthwise_kernel[grid](
        x,
        weight,
        bias,
        out,
        height,
        width,
        channels,
        *size,
        *pad,
        KERNEL=kernel,
        STRIDE=stride,
        W=strip,
        C=line,
        num_warps=warps,
    )
    return out


def depthwise_tile(channels: int, width: int) -> tuple[int, int, int]:
    """Columns, channels and warps of one program, as measured on an H200: few columns where the map is narrow."""
    strip = next(size for size in (16, 8, 4) if size == 4 or -(-width // size) * size <= 1.1 * width)
    return strip, 64 if strip == 4 and channels > 32 else 32, 2


@triton.jit
def _regions_kernel(
    x,
    starts,
    out,
    height,
    width,
    channels,
    window_height,
    window_width,
    out_picture,
    out_region,
    LEVEL: tl.constexpr,
    W: tl.constexpr,
    C: tl.constexpr,
):
    region = tl.program_id(0)
    channel = tl.program_id(1) * C + tl.arange(0, C)
    picture = tl.program_id(2).to(tl.int64)
    top = tl.load(starts + region // LEVEL)
    left = tl.load(starts + LEVEL + region % LEVEL)
    known = channel < channels
    best = tl.full((W, C), float("-inf"), tl.float32)
    row = 0
    while row < window_height:
        line = x + ((picture * height + top + row) * width + left) * channels
        column = 0
        while column < window_width:
            at = column + tl.arange(0, W)
            seen = tl.load(
                line + at[:, None] * channels + channel[None, :],
                mask=(at < window_width)[:, None] & known[None, :],
                other=float("-inf"),
            )
            best = tl.maximum(best, seen.to(tl.float32))
            column += W
        row += 1
    places = out + picture * out_picture + region * out_region + channel
    tl.store(places, tl.max(best, axis=0).to(out.dtype.element_ty), mask=known)


def regional_max_into(stage: Tensor, level: int, out: Tensor) -> None:
    """:func:`visil.model.regions.regional_max` of maps [B, C, H, W], channels last, into ``out`` [B, level², C]."""
    from visil.model.regions import region_windows

    pictures, channels, height, width = stage.shape
    (tall, rows), (wide, columns) = region_windows(height, level), region_windows(width, level)
    starts = torch.tensor([*rows, *columns], dtype=torch.int32).to(stage.device, non_blocking=True)
    strip = min(16, triton.next_power_of_2(wide))
    _regions_kernel[(level * level, triton.cdiv(channels, CHANNELS), pictures)](
        stage,
        starts,
        out,
        height,
        width,
        channels,
        tall,
        wide,
        out.stride(0),
        out.stride(1),
        LEVEL=level,
        W=strip,
        C=CHANNELS,
        num_warps=4,
    )
