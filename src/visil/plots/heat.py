"""The one palette of similarities, and matrices as pictures of one pixel a cell."""

from __future__ import annotations

import io

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from numpy.typing import NDArray

STOPS = ("#0c0f24", "#17305c", "#1f5f8b", "#3f97a8", "#8ccbb5", "#f4fbe8")
"""From dark to light in even steps of lightness, so it reads the same for every eye and in grey."""

HEAT = LinearSegmentedColormap.from_list("visil", STOPS, N=256)


def heat_png(matrix: NDArray[np.float32], low: float = 0.0) -> bytes:
    """A matrix as a PNG of one pixel a cell, from ``low``, dark, to 1, light; two pictures so compare."""
    from PIL import Image as pillow

    levels = np.clip(np.rint((np.nan_to_num(matrix) - low) / (1 - low) * 255), 0, 255).astype(np.uint8)
    picture = pillow.fromarray(levels).convert("P")
    picture.putpalette((HEAT(np.arange(256))[:, :3] * 255).round().astype(np.uint8).tobytes())
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()
