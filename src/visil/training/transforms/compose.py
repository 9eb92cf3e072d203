"""Two clips in one picture. Each function also tells the share of the picture that still shows the clip, [B]."""

from __future__ import annotations

import torch
from torch import Tensor

from visil.errors import UsageError
from visil.training.transforms.geometric import combine, crop, points, project, window


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


def _same_shape(clips: Tensor, other: Tensor) -> None:
    if clips.shape != other.shape:
        raise UsageError(
            f"two clips in one picture need one shape, got {list(clips.shape)} and {list(other.shape)}"
        )
