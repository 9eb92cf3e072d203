"""The authors' resizing, against the formula written out pixel by pixel."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from visil.video.opencv import resize_and_crop


def kernel(x: float, a: float = -0.75) -> float:
    """Keys' cubic convolution kernel."""
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    if x < 2:
        return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
    return 0.0


def pixel(image: NDArray[np.float64], y: float, x: float) -> NDArray[np.float64]:
    """The image at a fractional position, edges repeated."""
    height, width = image.shape[:2]
    total = np.zeros(3)
    for row in range(math.floor(y) - 1, math.floor(y) + 3):
        for column in range(math.floor(x) - 1, math.floor(x) + 3):
            source = image[min(max(row, 0), height - 1), min(max(column, 0), width - 1)]
            total += kernel(y - row) * kernel(x - column) * source
    return total


def by_hand(image: NDArray[np.uint8], resize: int, crop: int) -> NDArray[np.float64]:
    height, width = image.shape[:2]
    scale = resize / min(height, width)
    rows, columns = round(height * scale), round(width * scale)
    top, left = int(max(0, (rows - crop) / 2)), int(max(0, (columns - crop) / 2))
    result = np.zeros((crop, crop, 3))
    for y in range(crop):
        for x in range(crop):
            at = ((top + y + 0.5) / scale - 0.5, (left + x + 0.5) / scale - 0.5)
            result[y, x] = pixel(image.astype(float), *at)
    return np.clip(np.rint(result), 0, 255)


@pytest.mark.parametrize(
    ("size", "resize", "crop"),
    [
        ((30, 40), 32, 28),  # larger
        ((90, 121), 32, 28),  # smaller: aliased, as OpenCV leaves it
        ((33, 32), 32, 31),  # barely changed, sizes odd
        ((47, 31), 24, 24),  # 47 * 24 / 31 = 36.4
        ((32, 32), 32, 32),  # not at all
    ],
)
def test_it_is_cubic_interpolation_without_smoothing(size: tuple[int, int], resize: int, crop: int) -> None:
    image = np.random.default_rng(0).integers(0, 256, (*size, 3)).astype(np.uint8)
    expected = by_hand(image, resize, crop)
    difference = np.abs(resize_and_crop(image, resize, crop) - expected)
    # OpenCV's weights are multiples of 1 / 2048, so a value near a half may round the other way.
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.12


def test_same_size_changes_nothing() -> None:
    image = np.random.default_rng(1).integers(0, 256, (256, 300, 3)).astype(np.uint8)
    assert np.array_equal(resize_and_crop(image, 256, 224), image[16:240, 38:262])


def test_known_values() -> None:
    """What cv2.resize of OpenCV 4.9 gives for a step from 0 to 255, doubled in size."""
    step = np.zeros((4, 8, 3), np.uint8)
    step[:, 4:] = 255
    row = resize_and_crop(step, 8, 8)[4, :, 0]
    # Half-pixel centres a quarter off: the kernel overshoots below 0 and above 255, where it is cut off.
    assert row.tolist() == [0, 0, 0, 58, 197, 255, 255, 255]
