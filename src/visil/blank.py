"""Frames that show nothing: black, white, one colour, the ends of fades. They match everything and mean nothing."""

from __future__ import annotations

from torch import Tensor

LEAST_CONTRAST = 5.0
"""Standard deviation of brightness (0 to 255) below which a frame is blank.

Of 7,596 frames of real clips fifteen are: black, flashes, dense fog (docs/localisation.md).
"""

GRID = 4
"""Every fourth pixel on both axes is looked at."""


def blank_frames(images: Tensor) -> Tensor:
    """Which frames of uint8 [T, H, W, 3] are nearly one colour: bool [T]."""
    sampled = images[:, ::GRID, ::GRID].float()
    brightness = sampled @ sampled.new_tensor([0.299, 0.587, 0.114])
    return brightness.flatten(1).std(dim=1, correction=0) < LEAST_CONTRAST
