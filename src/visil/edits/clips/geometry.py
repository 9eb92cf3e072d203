"""Geometric changes as one homography for each clip, multiplied together and applied in a single sampling.

A map [B, 3, 3] takes a point of the new picture to the point of the old one that is shown there; both run from -1
to 1 between the outer edges of the picture, x to the right and y down. ``combine`` lists changes in the order in
which they happen. Maps are made on the CPU in float64.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from visil.edits.clips.quality import filtered, gaussian

SHRINK_FREE = 1.05
"""Old pixels for each new one up to which nothing is blurred before sampling."""

EDGE = 1 + 1e-5
"""How far out a point still counts as inside; rounding must not open gaps."""


def scaling(x: Tensor, y: Tensor, right: Tensor | None = None, down: Tensor | None = None) -> Tensor:
    """The picture grows by x and y about its centre, which then moves by (right, down)."""
    zero = torch.zeros_like(x)
    right = zero if right is None else right
    down = zero if down is None else down
    return _matrix((1 / x, zero, -right / x), (zero, 1 / y, -down / y), (zero, zero, zero + 1))


def flip_horizontal(chosen: Tensor) -> Tensor:
    """Left and right change places where chosen (bool [B])."""
    sign = 1 - 2 * chosen.double()
    return scaling(sign, torch.ones_like(sign))


def flip_vertical(chosen: Tensor) -> Tensor:
    """Top and bottom change places where chosen (bool [B])."""
    sign = 1 - 2 * chosen.double()
    return scaling(torch.ones_like(sign), sign)


def crop(left: Tensor, top: Tensor, width: Tensor, height: Tensor) -> Tensor:
    """A window of the picture, in shares of its sides, fills the frame."""
    return scaling(1 / width, 1 / height, (1 - 2 * left) / width - 1, (1 - 2 * top) / height - 1)


def window(left: Tensor, top: Tensor, width: Tensor, height: Tensor) -> Tensor:
    """The whole picture goes into a window of the frame: the opposite of :func:`crop`."""
    return scaling(width, height, 2 * left + width - 1, 2 * top + height - 1)


def rotation(degrees: Tensor, aspect: float = 1.0) -> Tensor:
    """The picture turns counter-clockwise about its centre; ``aspect`` is its width over its height in pixels."""
    angle = degrees.deg2rad()
    cos, sin, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    return _matrix((cos, -sin / aspect, zero), (sin * aspect, cos, zero), (zero, zero, zero + 1))


def resize(factor: Tensor) -> Tensor:
    """Width over height of everything shown, times the factor; the frame stays full, and pixels beyond it are lost."""
    return scaling(factor.clamp(min=1), 1 / factor.clamp(max=1))


def rescale(scale: Tensor, right: Tensor | None = None, down: Tensor | None = None) -> Tensor:
    """Smaller within the frame (scale below 1), or larger with the outside lost."""
    return scaling(scale, scale, right, down)


def perspective(corners: Tensor) -> Tensor:
    """The frame shows a quadrangle: its corners (from top left, clockwise) moved by ``corners`` [B, 4, 2]."""
    frame = corners.new_tensor([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    x, y = frame.expand_as(corners).unbind(-1)
    u, v = (frame + corners).unbind(-1)
    one, zero = torch.ones_like(x), torch.zeros_like(x)
    across = torch.stack([x, y, one, zero, zero, zero, -u * x, -u * y], dim=-1)
    down = torch.stack([zero, zero, zero, x, y, one, -v * x, -v * y], dim=-1)
    solution = torch.linalg.solve(torch.cat([across, down], dim=1), torch.cat([u, v], dim=1))
    return torch.cat([solution, one[:, :1]], dim=1).reshape(-1, 3, 3)


def combine(maps: Sequence[Tensor]) -> Tensor:
    """One map for several changes, the first of which happens first."""
    combined = maps[0]
    for later in maps[1:]:
        combined = combined @ later
    return combined


def points(maps: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """Where each new pixel comes from, (grid [B, H, W, 2], inside [B, H, W]), for a picture like ``like`` [..., H, W].

    Sums of products, not a matrix product: those may run at reduced precision on a GPU, and a tenth of a pixel shows.
    """
    height, width = like.shape[-2:]
    m = maps.to(like.device, torch.float32)[:, :, :, None, None]
    x = ((torch.arange(width, device=like.device) * 2 + 1) / width - 1)[None, None, :]
    y = ((torch.arange(height, device=like.device) * 2 + 1) / height - 1)[None, :, None]
    u, v, w = (m[:, row, 0] * x + m[:, row, 1] * y + m[:, row, 2] for row in range(3))
    front = w > 1e-6
    w = w.clamp(min=1e-6)
    u, v = u / w, v / w
    inside = front & (u.abs() <= EDGE) & (v.abs() <= EDGE)
    return torch.stack([u, v], dim=-1), inside


def project(clips: Tensor, maps: Tensor) -> tuple[Tensor, Tensor]:
    """Clips seen through maps, their edge pixels carried on outwards, and which pixels are inside, bool [B, H, W]."""
    batch, frames, channels, height, width = clips.shape
    clips = _softened(clips, maps)
    grid, inside = points(maps, clips)
    flat = clips.reshape(batch, frames * channels, height, width)
    seen = F.grid_sample(flat, grid.to(clips.dtype), padding_mode="border", align_corners=False)
    return seen.view_as(clips).clamp(0, 1), inside


def warp(clips: Tensor, maps: Tensor, fill: Tensor | None = None, replicate: Tensor | None = None) -> Tensor:
    """Clips seen through maps; outside is black, ``fill`` [B, 3], or the edge carried on (``replicate`` [B])."""
    seen, inside = project(clips, maps)
    outside = clips.new_zeros(len(clips), 3) if fill is None else fill.to(clips)
    if replicate is not None:
        inside = inside | replicate.to(clips.device)[:, None, None]
    return torch.where(inside[:, None, None], seen, outside[:, None, :, None, None])


def _softened(clips: Tensor, maps: Tensor) -> Tensor:
    """Clips blurred where the map makes them smaller, as much as averaging over the old pixels of a new one would."""
    height, width = clips.shape[-2:]
    centre = maps[:, :2, 2:] / maps[:, 2:, 2:]
    slope = (maps[:, :2, :2] - centre * maps[:, 2:, :2]) / maps[:, 2:, 2:]
    pixels = slope * slope.new_tensor([[1, width / height], [height / width, 1]])
    shrink = pixels.norm(dim=2)  # old pixels for each new one, along x and y
    rows = (shrink.amax(dim=1) > SHRINK_FREE).nonzero()[:, 0]
    if not len(rows):
        return clips
    # Variance of a triangle as wide as the shrinking asks for, less that of the bilinear sampling to come.
    sigma = ((shrink[rows] ** 2 - 1).clamp(min=0) / 6).sqrt().to(clips)
    index = rows.to(clips.device)
    soft = filtered(clips[index], gaussian(height, sigma[:, 1]), gaussian(width, sigma[:, 0]))
    return clips.index_copy(0, index, soft)


def _matrix(*rows: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    return torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2).double()
