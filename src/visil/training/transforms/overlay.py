"""Things laid over the picture: text, signs and logos, boxes, and bars along the edges."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from visil.training.transforms.geometric import combine, points, rotation, scaling


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

    Stamps are as :mod:`visil.training.transforms.stamps` makes them; ``tint`` [B, 3] colours what is white in them.
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
