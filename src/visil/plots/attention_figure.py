"""Attention drawn as in the paper's supplement: frames, and the same frames under their weights."""

from __future__ import annotations

from math import isqrt

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from visil.errors import UsageError
from visil.plots.panels import FAINT, Box

MOST_FRAMES = 8
WIDTH = 1.55
GAP = 0.06
MARGIN = 0.15
BAR = 0.62

# Blue for little, red for much, through a pale middle: apart for colour-blind eyes too.
WEIGHT = LinearSegmentedColormap.from_list("weight", ["#2166ac", "#67a9cf", "#f2efe6", "#ef8a62", "#b2182b"])


def attention_figure(frames: NDArray[np.uint8], weights: NDArray[np.float64], grid: int | None) -> Figure:
    """Frames above, weights over the same frames in grey below."""
    if frames.ndim != 4 or frames.shape[-1] != 3 or frames.dtype != np.uint8 or 0 in frames.shape:
        raise UsageError(f"frames must be uint8 [T, H, W, 3], got {frames.dtype} {list(frames.shape)}")
    if weights.ndim != 2 or len(weights) != len(frames) or not np.isfinite(weights).all():
        raise UsageError(f"weights must be finite, [{len(frames)}, R], got {list(weights.shape)}")
    maps = weight_maps(weights, grid)
    shown = np.unique(np.linspace(0, len(frames) - 1, min(len(frames), MOST_FRAMES)).round().astype(int))
    height = min(max(WIDTH * frames.shape[1] / frames.shape[2], 0.5), 3.0)
    low, high = float(maps.min()), float(maps.max())
    norm = Normalize(low, high) if high - low > 1e-9 else Normalize(low - 0.5, high + 0.5)
    figure = Figure(
        (2 * MARGIN + len(shown) * (WIDTH + GAP) + BAR, 2 * MARGIN + 2 * height + GAP), facecolor="white"
    )
    for column, index in enumerate(shown):
        image = frames[index]
        x = MARGIN + column * (WIDTH + GAP)
        above = Box(x, MARGIN, WIDTH, height).axes(figure)
        above.imshow(image, aspect="auto")
        below = Box(x, MARGIN + height + GAP, WIDTH, height).axes(figure)
        below.imshow(under_weights(image, maps[index], norm), aspect="auto")
    right = MARGIN + len(shown) * (WIDTH + GAP)
    axes = Box(right + 0.03, MARGIN + height + GAP, 0.09, height).axes(figure)
    bar = figure.colorbar(ScalarMappable(norm, WEIGHT), cax=axes)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7, labelcolor=FAINT, color=FAINT, length=2, width=0.6, pad=2)
    bar.ax.locator_params(nbins=4)
    bar.set_label("weight", size=8, color=FAINT, labelpad=3)
    return figure


def under_weights(
    image: NDArray[np.uint8], weights: NDArray[np.float64], norm: Normalize
) -> NDArray[np.float64]:
    """A frame in grey under its weights [N, N] in colour, as values from 0 to 1."""
    grey = (image @ np.array([0.299, 0.587, 0.114]) / 255)[..., None]
    colours = WEIGHT(norm(smooth(weights, image.shape[0], image.shape[1])))[..., :3]
    return np.clip(0.62 * colours + 0.38 * grey, 0, 1)


def weight_maps(weights: NDArray[np.float64], grid: int | None) -> NDArray[np.float64]:
    """Weights [T, R] as maps [T, N, N]: the last N² of the R regions, N the finest level that R can hold."""
    regions = weights.shape[1]
    side = grid if grid is not None else _finest(regions)
    if side < 1 or side * side > regions:
        raise UsageError(f"{regions} regions hold no grid of {side}×{side}")
    return weights[:, regions - side * side :].reshape(-1, side, side)


def _finest(regions: int) -> int:
    """N where R is N², or 1 + 4 + … + N², or a run of squares that ends in N²."""
    for side in range(isqrt(regions), 0, -1):
        rest, level = regions - side * side, side - 1
        while rest > 0 and level > 0:
            rest, level = rest - level * level, level - 1
        if rest == 0:
            return side
    raise UsageError(f"{regions} regions make no square grid: say which with grid=N")


def smooth(weights: NDArray[np.float64], height: int, width: int) -> NDArray[np.float64]:
    """A map [N, N] enlarged to [height, width], bicubic between the middles of its cells."""
    from PIL import Image as pillow

    small = pillow.fromarray(weights.astype(np.float32))
    large = np.asarray(small.resize((width, height), pillow.Resampling.BICUBIC), np.float64)
    return np.clip(large, weights.min(), weights.max())
