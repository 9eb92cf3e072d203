"""Things laid over the picture or beside it: text, signs, boxes, bars, blurred sides, another clip, a screen's stripes.

The functions that put two clips into one picture also tell the share of the picture that still shows the clip, [B].
"""

from __future__ import annotations

from math import pi

import torch
from torch import Tensor
from torch.nn import functional as F

from visil.edits.clips.geometry import combine, crop, points, project, rotation, scaling, window
from visil.edits.clips.quality import blur
from visil.errors import UsageError


def paste(
    clips: Tensor,
    stamps: Tensor,
    x: Tensor,
    y: Tensor,
    widths: Tensor,
    degrees: Tensor,
    opacity: Tensor,
    tint: Tensor | None = None,
) -> Tensor:
    """A stamp [B, 4, h, w] over each clip, turned, its centre at (x, y), all in shares of the picture's sides.

    Stamps are as :mod:`visil.edits.clips.stamps` makes them; ``tint`` [B, 3] colours their white.
    """
    height, width = clips.shape[-2:]
    heights = widths * (width / height) * (stamps.shape[-2] / stamps.shape[-1])
    turned = rotation(degrees, width / height)
    # The stamp fills its own frame; here that frame is put into the picture: sized, turned about its centre, moved.
    sized = scaling(widths, heights)
    moved = scaling(torch.ones_like(x), torch.ones_like(x), 2 * x - 1, 2 * y - 1)
    grid, _ = points(combine([sized, turned, moved]), clips)
    stamp = F.grid_sample(stamps.to(clips), grid.to(clips.dtype), align_corners=False)
    stamp = stamp * opacity.to(clips)[:, None, None, None]
    colour, cover = stamp[:, None, :3], stamp[:, None, 3:]
    if tint is not None:
        colour = colour * tint.to(clips)[:, None, :, None, None]
    return (clips * (1 - cover) + colour).clamp(0, 1)


def box(clips: Tensor, left: Tensor, top: Tensor, width: Tensor, height: Tensor, colour: Tensor) -> Tensor:
    """An opaque rectangle, in shares of the picture's sides; a pixel belongs to it when its centre does."""
    x, y = _centres(clips)
    across = _between(x, left, left + width, clips)[:, None, :]
    down = _between(y, top, top + height, clips)[:, :, None]
    return _painted(clips, across & down, colour)


def bars(clips: Tensor, left: Tensor, top: Tensor, right: Tensor, bottom: Tensor, colour: Tensor) -> Tensor:
    """Bars along the four edges, so wide in shares of the picture's sides: a border, letterbox or pillarbox."""
    x, y = _centres(clips)
    across = _between(x, left, 1 - right, clips)[:, None, :]
    down = _between(y, top, 1 - bottom, clips)[:, :, None]
    return _painted(clips, ~(across & down), colour)


def picture_in_picture(
    clips: Tensor, other: Tensor, scale: Tensor, left: Tensor, top: Tensor, inner: Tensor
) -> tuple[Tensor, Tensor]:
    """One clip shrunk to ``scale`` over the other, its corner at (left, top) in shares of the picture's sides.

    ``inner`` (bool [B]) says that the clip is the small picture; else the other one lies over the clip.
    """
    _same_shape(clips, other)
    clip_is_inner = inner.to(clips.device)[:, None, None, None, None]
    small, inside = project(torch.where(clip_is_inner, clips, other), window(left, top, scale, scale))
    large = torch.where(clip_is_inner, other, clips)
    own = torch.where(inner, scale**2, 1 - scale**2)
    return torch.where(inside[:, None, None], small, large), own.to(clips)


def split_screen(
    clips: Tensor, other: Tensor, slot: Tensor, stacked: Tensor, squeezed: Tensor, parts: int = 2
) -> tuple[Tensor, Tensor]:
    """The frame in equal parts, the clip in one (``slot``, int [B]) and the other clip in the rest.

    Parts lie side by side, or one above the other where ``stacked``. A part shows its clip's middle at full size, or
    all of it where ``squeezed``. Both are bool [B].
    """
    _same_shape(clips, other)
    whole, zero = torch.ones(len(clips), dtype=torch.float64), torch.zeros(len(clips), dtype=torch.float64)
    share, middle = whole / parts, whole * (1 - 1 / parts) / 2
    shown = torch.where(
        squeezed[:, None, None],
        crop(zero, zero, whole, whole),
        torch.where(
            stacked[:, None, None], crop(zero, middle, whole, share), crop(middle, zero, share, whole)
        ),
    )
    result = clips
    for number in range(parts):
        at = share * number
        place = torch.where(
            stacked[:, None, None], window(zero, at, whole, share), window(at, zero, share, whole)
        )
        own = (slot == number).to(clips.device)[:, None, None, None, None]
        seen, _ = project(torch.where(own, clips, other), combine([shown, place]))
        in_part = points(place, clips)[1]
        result = torch.where(in_part[:, None, None], seen, result)
    return result, share.to(clips)


def blurred_sides(
    clips: Tensor, shares: Tensor, upright: Tensor, cropped: Tensor, sigmas: Tensor, light: Tensor
) -> Tensor:
    """The clip in a band across the middle, itself enlarged, blurred and darkened on both sides of it.

    As phones' clips are shown on wide screens (``upright``, bool [B]: a band from top to bottom) and wide ones on
    phones. The band is so wide in shares of the frame; it shows all of the clip, or where ``cropped`` its middle.
    """
    whole, zero = torch.ones_like(shares), torch.zeros_like(shares)
    middle = (1 - shares) / 2
    upright, cropped = upright[:, None, None], cropped[:, None, None]
    part = torch.where(upright, crop(middle, zero, shares, whole), crop(zero, middle, whole, shares))
    across = torch.where(upright, crop(zero, middle, whole, shares), crop(middle, zero, shares, whole))
    band = torch.where(upright, window(middle, zero, shares, whole), window(zero, middle, whole, shares))
    everything = crop(zero, zero, whole, whole)
    sides = blur(project(clips, across)[0], sigmas) * light.to(clips)[:, None, None, None, None]
    shown, _ = project(clips, combine([torch.where(cropped, part, everything), band]))
    return torch.where(points(band, clips)[1][:, None, None], shown, sides)


def moire(clips: Tensor, waves: Tensor, phases: Tensor, depth: Tensor) -> Tensor:
    """Stripes of interference between a screen's pixels and a camera's, another for each colour.

    ``waves`` [B, 2] are waves across and down the picture, ``phases`` [B, 3] shares of a turn, ``depth`` [B] how much
    of the light they take at most.
    """
    x, y = _centres(clips)
    across, down = waves.to(clips).unbind(1)
    turn = across[:, None, None] * x + down[:, None, None] * y[:, None]
    angle = 2 * pi * (turn[:, None] + phases.to(clips)[:, :, None, None])
    return clips * (1 - depth.to(clips)[:, None, None, None, None] * (1 + angle.cos())[:, None] / 2)


def uneven_light(clips: Tensor, slope: Tensor) -> Tensor:
    """Light that falls off in one direction: times 1 + ``slope`` [B, 2] · (x, y), both from -1 to 1."""
    x, y = _centres(clips)
    right, down = slope.to(clips)[:, :, None, None].unbind(1)
    light = 1 + right * (2 * x - 1) + down * (2 * y - 1)[:, None]
    return (clips * light[:, None, None]).clamp(0, 1)


def _same_shape(clips: Tensor, other: Tensor) -> None:
    if clips.shape != other.shape:
        raise UsageError(
            f"two clips in one picture need one shape, got {list(clips.shape)} and {list(other.shape)}"
        )


def _centres(clips: Tensor) -> tuple[Tensor, Tensor]:
    height, width = clips.shape[-2:]
    x = (torch.arange(width, device=clips.device) + 0.5) / width
    y = (torch.arange(height, device=clips.device) + 0.5) / height
    return x, y


def _between(at: Tensor, low: Tensor, high: Tensor, clips: Tensor) -> Tensor:
    """[n] within [B] … [B] → bool [B, n]."""
    low, high = low.to(clips.device, at.dtype), high.to(clips.device, at.dtype)
    return (at >= low[:, None]) & (at < high[:, None])


def _painted(clips: Tensor, where: Tensor, colour: Tensor) -> Tensor:
    return torch.where(where[:, None, None], colour.to(clips)[:, None, :, None, None], clips)
