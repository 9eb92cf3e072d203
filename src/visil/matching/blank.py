"""Frames that show next to nothing: black, one colour, the ends of fades, colour bars, a few words on plain ground.

Blank frames of any two videos look alike, so they count neither for nor against a match.
"""

from __future__ import annotations

from torch import Tensor

LEAST_CONTRAST = 5.0
"""Standard deviation of brightness (0 to 255) below which a frame is blank."""

GROUND_SHARE = 0.88
"""Share of plain ground from which a frame is blank: the rest (a title, a cursor, an outline) is too little.

Of 7,596 frames of real clips 77 are blank by either rule: black, flashes, fog, credits, empty pages; no clip is all of
such frames.
"""

GROUND_LEFT_TO_READER = 0.97
"""The same where a reader judges (:mod:`visil.model.reader`): it tells plain slides and terminals apart itself."""

GROUND_LEVELS = 12
"""How far a pixel of the ground may lie from its colour (the median), of 255 in each channel."""

BARS_HEIGHT = 0.6
"""Part of a test picture, from the top, in which each column is one colour."""

BARS_LEVELS = 6.0
"""Mean standard deviation down a column, of 255, below which the columns are of one colour each."""

BARS_CONTRAST = 50.0
"""Mean standard deviation from side to side, above which the columns are bars and not some plain scene."""

GRID = 4
"""Every fourth pixel on both axes is looked at."""


def blank_frames(images: Tensor, ground_share: float = GROUND_SHARE) -> Tensor:
    """Which frames of uint8 [T, H, W, 3] are nearly one colour, colour bars, or little on plain ground: bool [T]."""
    sampled = images[:, ::GRID, ::GRID].float()
    pixels = sampled.flatten(1, 2)
    brightness = pixels @ pixels.new_tensor([0.299, 0.587, 0.114])
    flat = brightness.std(dim=1, correction=0) < LEAST_CONTRAST
    ground = pixels.median(dim=1, keepdim=True).values
    share = ((pixels - ground).abs().amax(dim=2) <= GROUND_LEVELS).float().mean(dim=1)
    # Bars: nothing changes from top to bottom, whatever changes from side to side.
    upper = sampled[:, : max(1, round(BARS_HEIGHT * sampled.shape[1]))]
    bars = (upper.std(dim=1, correction=0).mean(dim=(1, 2)) < BARS_LEVELS) & (
        upper.mean(dim=1).std(dim=1, correction=0).mean(dim=1) > BARS_CONTRAST
    )
    return flat | (share >= ground_share) | bars
