"""Whether moments at which miniatures show nothing are blank at full size: stars and small words on black are not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from visil.video import Image

MOST = 240
"""Moments that are looked at, evenly spread where there are more: a minute of them."""
AT_ONCE = 8
CELL = 2
"""Pixels a side of the smallest place that is seen."""
SEEN = 12.0
"""Levels of 255 that a place must differ from the ground by (one colour, coded at CRF 40: 9),"""
OVER_NOISE = 8.0
"""and by how many times the noise of the ground."""


def seen(frames: Callable[[Sequence[float]], Sequence[Image]], moments: Sequence[float]) -> float:
    """At which part of some moments something is seen; a single one between two is the end of a fade."""
    chosen = np.unique(np.linspace(0, len(moments) - 1, min(len(moments), MOST)).astype(int))
    times = [moments[i] for i in chosen]
    found = [
        not _is_blank(picture)
        for start in range(0, len(times), AT_ONCE)
        for picture in frames(times[start : start + AT_ONCE])
    ]
    flags = np.array([False, *found, False])
    lasting = flags[1:-1] & (flags[:-2] | flags[2:])
    return float(lasting.mean()) if len(lasting) else 0.0


def _is_blank(picture: Image) -> bool:
    """Whether a picture is one colour, noise apart."""
    height, width = (side // CELL * CELL for side in picture.shape[:2])
    cells = picture[:height, :width].reshape(height // CELL, CELL, width // CELL, CELL, 3)
    means = cells.mean(axis=(1, 3), dtype=np.float32).reshape(-1, 3)
    apart = np.abs(means - np.median(means, axis=0))
    noise = 1.5 * np.median(apart, axis=0)
    return bool((apart.max(axis=0) < np.maximum(SEEN, OVER_NOISE * noise)).all())
