"""From NV12, which hardware decoders give out, to RGB of another size; plain torch, on the tensor's own device.

Colours and filter are those of :mod:`visil.video.pictures`, where swscale does this work on the processor. Resizing is
a product with a matrix for each direction, so brightness and colour are each read once.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.video.pictures import FULL, Colour, Orientation, Size

# What red and blue count in brightness, by the number of swscale's matrix.
_RED_AND_BLUE = {
    1: (0.2126, 0.0722),  # BT.709
    4: (0.30, 0.11),  # FCC
    5: (0.299, 0.114),  # BT.601
    7: (0.212, 0.087),  # SMPTE 240M
    9: (0.2627, 0.0593),  # BT.2020
}
SHARPNESS = -0.6
"""The cubic kernel's parameter in swscale."""
ROUNDED_DOWN = 1.2
"""Levels that swscale loses on the way from limited range to RGB of even width, measured: 0.9 to 2.2, by matrix."""


class Pictures:
    """Makes RGB pictures of the size ``shown`` from NV12 frames of the size ``stored``, both sides even."""

    def __init__(self, stored: Size, shown: Size, colour: Colour, device: torch.device) -> None:
        self.stored = stored
        matrix, offset = rgb_from_ycbcr(colour)

        def on_device(weights: NDArray[np.float64]) -> Tensor:
            return torch.from_numpy(weights).to(device, torch.float32)

        self._down = on_device(resampling(stored.height, shown.height))
        self._across = on_device(resampling(stored.width, shown.width).T)
        self._colour_down = on_device(resampling(stored.height // 2, shown.height))
        # As in swscale, whose quick way for even widths gives two neighbours one colour, and rounds down.
        shared = 1 if shown.width % 2 else 2
        if shared == 2 and colour.range != FULL:
            offset = offset - ROUNDED_DOWN
        pairs = resampling(stored.width // 2, shown.width // shared)
        self._colour_across = on_device(pairs.repeat(shared, axis=0).T)
        self._matrix, self._offset = on_device(matrix.T), on_device(offset)

    def rgb(self, nv12: Tensor) -> Tensor:
        """uint8 [height * 3 / 2, width], brightness above pairs of Cb and Cr, to uint8 [height, width, 3]."""
        width, height = self.stored
        brightness = self._down @ (nv12[:height].float() @ self._across)
        pairs = nv12[height:].reshape(height // 2, width // 2, 2).permute(2, 0, 1).float()
        colour = self._colour_down @ (pairs @ self._colour_across)
        ycbcr = torch.stack([brightness, colour[0], colour[1]], dim=-1)
        return (ycbcr @ self._matrix + self._offset).round_().clamp_(0, 255).to(torch.uint8)


def rgb_from_ycbcr(colour: Colour) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """M [3, 3] and b [3] of RGB = M · (Y, Cb, Cr) + b, all from 0 to 255."""
    red, blue = _RED_AND_BLUE[colour.matrix]
    green = 1 - red - blue
    from_full = np.array(
        [
            [1, 0, 2 * (1 - red)],
            [1, -2 * blue * (1 - blue) / green, -2 * red * (1 - red) / green],
            [1, 2 * (1 - blue), 0],
        ]
    )
    if colour.range == FULL:
        black, scale = 0.0, np.ones(3)
    else:
        black, scale = 16.0, 255 / np.array([219.0, 224.0, 224.0])
    matrix = from_full * scale
    return matrix, -matrix @ np.array([black, 128.0, 128.0])


def resampling(length: int, wanted: int) -> NDArray[np.float64]:
    """Cubic weights [wanted, length] that bring ``length`` pixels to ``wanted``, smoothed where they become fewer.

    What the kernel asks for beyond an edge is taken from the pixel at the edge.
    """
    step = length / wanted
    spread = max(1.0, step)
    centres = (np.arange(wanted) + 0.5) * step - 0.5
    reach = int(np.ceil(2 * spread))
    pixels = np.floor(centres).astype(int)[:, None] + np.arange(-reach, reach + 2)
    taps = _cubic(np.abs(pixels - centres[:, None]) / spread)
    weights = np.zeros((wanted, length))
    rows = np.broadcast_to(np.arange(wanted)[:, None], pixels.shape)
    np.add.at(weights, (rows, np.clip(pixels, 0, length - 1)), taps / taps.sum(axis=1, keepdims=True))
    return weights


def _cubic(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Keys' kernel at distances ``x``."""
    a = SHARPNESS
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = a * (((x - 5) * x + 8) * x - 4)
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


def turned(image: Tensor, orientation: Orientation) -> Tensor:
    """:meth:`Orientation.apply` for a tensor [height, width, 3]."""
    if orientation.transpose:
        image = image.transpose(0, 1)
    mirrored = [axis for axis, mirror in enumerate((orientation.mirror_y, orientation.mirror_x)) if mirror]
    return image.flip(mirrored) if mirrored else image
