"""Sizes and orientations: how a stored frame lies on the display, and which part of it becomes the sample."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from visil.video.frames import Image

# A strip longer than this many times its width is cut to its middle before it is enlarged: resized whole, a
# frame of 16000 x 2 pixels would be two million pixels wide. The crop needs no more than the middle square.
LONGEST_STRIP = 4
# Pixels more oblong than this exist in no video format; such a flag is damage.
MOST_OBLONG_PIXEL = 8


class Size(NamedTuple):
    """Width and height in pixels."""

    width: int
    height: int


@dataclass(frozen=True)
class Orientation:
    """One of the eight ways to lay a frame on the display: transpose first, then mirror."""

    transpose: bool = False
    mirror_x: bool = False
    mirror_y: bool = False

    @classmethod
    def from_display_matrix(cls, data: bytes) -> Orientation:
        """Read FFmpeg's display matrix, nine 32-bit numbers; upright unless it is a quarter turn or a mirror.

        A stored pixel (x, y), y down, is shown at (a x + c y, b x + d y).
        """
        if len(data) != 36:
            return cls()
        a, b, _, c, d, *_ = struct.unpack("=9i", data)
        upright, turned = min(abs(a), abs(d)), min(abs(b), abs(c))
        if upright > 100 * max(abs(b), abs(c)):
            return cls(False, a < 0, d < 0)
        if turned > 100 * max(abs(a), abs(d)):
            return cls(True, c < 0, b < 0)
        return cls()

    def apply(self, image: Image) -> Image:
        """Turn a stored picture the way it is meant to be seen."""
        if self.transpose:
            image = image.transpose(1, 0, 2)
        return image[:: -1 if self.mirror_y else 1, :: -1 if self.mirror_x else 1]

    def turn(self, size: Size) -> Size:
        """The size that a picture of ``size`` has after :meth:`apply`."""
        return Size(size.height, size.width) if self.transpose else size


UPRIGHT = Orientation()


def believable_pixel_aspect(aspect: Fraction | None) -> Fraction:
    """Width over height of one pixel, square where the file says nothing or nonsense."""
    if aspect is None or not Fraction(1, MOST_OBLONG_PIXEL) <= aspect <= MOST_OBLONG_PIXEL:
        return Fraction(1)
    return aspect


def scaled_to_shorter(width: float, height: float, shorter: int) -> Size:
    """The size whose shorter side is ``shorter``, in the proportions of ``width`` x ``height``."""
    scale = shorter / min(width, height)
    return Size(max(shorter, round(width * scale)), max(shorter, round(height * scale)))


def middle(width: int, height: int, aspect: Fraction = Fraction(1)) -> tuple[slice, slice]:
    """Rows and columns of the middle of a frame, no longer than ``LONGEST_STRIP`` times its shown width."""
    widest = max(1, int(height * LONGEST_STRIP / aspect))
    highest = max(1, int(width * LONGEST_STRIP * aspect))
    return _centre(height, min(height, highest)), _centre(width, min(width, widest))


def centre_crop(image: Image, side: int) -> Image:
    """The square of ``side`` pixels in the middle, or what there is of it."""
    height, width = image.shape[:2]
    return image[_centre(height, min(side, height)), _centre(width, min(side, width))]


def is_strip(width: int, height: int, aspect: Fraction = Fraction(1)) -> bool:
    """Whether a frame is so long that it must be cut to its :func:`middle` before it is resized."""
    shown = width * aspect
    return max(shown, Fraction(height)) > LONGEST_STRIP * min(shown, Fraction(height))


def contiguous(image: Image) -> Image:
    """The same picture in plain memory order."""
    return np.ascontiguousarray(image)


def _centre(length: int, part: int) -> slice:
    start = int((length - part) / 2)
    return slice(start, start + part)
