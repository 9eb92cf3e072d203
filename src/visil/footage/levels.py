"""Two pictures at one brightness and contrast, as far as a change of video levels goes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

DARKEST, BRIGHTEST = 0.85, 1.18
"""Contrast of the one to the other: the two ranges of video levels, taken for each other, come to 0.86 and 1.16."""
SHIFT = 20.0
"""Levels of brightness between them, at most."""


def levelled(mine: Floats, theirs: Floats) -> Floats:
    """Pictures [n, height, width] with the brightness and contrast of others."""
    here, there = mine.mean(axis=(1, 2), keepdims=True), theirs.mean(axis=(1, 2), keepdims=True)
    centred = mine - here
    power = (centred * centred).sum(axis=(1, 2), keepdims=True)
    gain = (centred * (theirs - there)).sum(axis=(1, 2), keepdims=True) / np.maximum(power, 1.0)
    result: Floats = centred * np.clip(gain, DARKEST, BRIGHTEST) + here + np.clip(there - here, -SHIFT, SHIFT)
    return result
