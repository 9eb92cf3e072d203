"""From a decoded frame, in whatever pixel format, to an upright RGB picture of the wanted size.

Which YCbCr a frame's numbers are in, how it lies on the display, and which part of it becomes the sample.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping

    from av.buffer import Buffer
    from av.video.frame import VideoFrame

Image = NDArray[np.uint8]
"""One picture, [height, width, 3], RGB."""

# A strip longer than this many times its width is cut to its middle before it is enlarged: resized whole, a
# frame of 16000 x 2 pixels would be two million pixels wide. The crop needs no more than the middle square.
LONGEST_STRIP = 4
# Pixels more oblong than this exist in no video format; such a flag is damage.
MOST_OBLONG_PIXEL = 8
# Pixels that are less oblong than this are shown as they are: 456 of them made 455 are only blurred.
HARDLY_OBLONG = 0.01

LARGE_PIXELS = 1 << 26
"""Frames larger than that are not to be held a moment longer than needed."""

UNSPECIFIED = 2
"""FFmpeg's AVCOL_SPC_UNSPECIFIED."""
LIMITED, FULL = 1, 2
"""FFmpeg's AVCOL_RANGE_MPEG and AVCOL_RANGE_JPEG."""

# FFmpeg's AVColorSpace to the name of swscale's matrix; all others are taken for BT.601.
_MATRICES = {1: "ITU709", 4: "FCC", 5: "ITU601", 6: "ITU601", 7: "SMPTE240M", 9: "BT2020", 10: "BT2020"}


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


class Colour(NamedTuple):
    """swscale's matrix and FFmpeg's range of a frame."""

    matrix: int
    range: int


def colour_of(frame: VideoFrame, *, obey_tags: bool = True) -> Colour:
    """The colours by a frame's tags. Without ``obey_tags`` the matrix is BT.601, as OpenCV 4 took all video."""
    from av.video.reformatter import Colorspace

    space = frame.colorspace
    if space == UNSPECIFIED and (frame.width >= 1280 or frame.height > 576):
        # Players take untagged high-definition video for BT.709; swscale would take it for BT.601.
        space = 1
    name = _MATRICES.get(space, "ITU601") if obey_tags else "ITU601"
    # The old pixel formats "yuvj..." are full range by name.
    full = frame.color_range == FULL or frame.format.name.startswith("yuvj")
    return Colour(int(Colorspace[name]), FULL if full else LIMITED)


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


def _centre(length: int, part: int) -> slice:
    start = int((length - part) / 2)
    return slice(start, start + part)


class Converter:
    """Converts the frames of one stream; keeps swscale's tables from frame to frame."""

    def __init__(self, pixel_aspect: Fraction | None) -> None:
        """``pixel_aspect`` is what the stream declares."""
        # All of it first: where two threads import parts of PyAV, each may wait for what the other has begun.
        import av  # noqa: F401
        from av.video.reformatter import VideoReformatter

        self.pixel_aspect = believable_pixel_aspect(pixel_aspect)
        self._swscale = VideoReformatter()
        self._orientations: dict[float, Orientation] = {}

    def orientation(self, frame: VideoFrame) -> Orientation:
        """How a frame is to be turned: as the first one of the stream that is turned as far.

        A frame that is asked for its side data, which the whole truth is in, is freed by nobody but the garbage
        collector: of each frame, that would be gigabytes at times.
        """
        turned = frame.rotation
        if turned not in self._orientations:
            large = frame.width * frame.height > LARGE_PIXELS
            found = _QUARTER_TURNS.get(turned % 360, UPRIGHT) if large else orientation_of(frame)
            self._orientations[turned] = found
        return self._orientations[turned]

    def display_size(self, frame: VideoFrame) -> Size:
        """The size at which a frame is meant to be seen."""
        shown = Size(max(1, round(frame.width * self.pixel_aspect)), frame.height)
        return self.orientation(frame).turn(shown)

    def square(self, frame: VideoFrame, resize: int, crop: int) -> Image:
        """Resize the shorter side to ``resize`` and cut the ``crop`` x ``crop`` centre; upright."""
        orientation = self.orientation(frame)
        frame = self._without_far_ends(frame)
        size = scaled_to_shorter(float(frame.width * self.pixel_aspect), frame.height, resize)
        return np.ascontiguousarray(centre_crop(orientation.apply(self._rgb(frame, size)), crop))

    def whole(self, frame: VideoFrame, side: int) -> Image:
        """All of the frame pressed into a square; upright."""
        orientation = self.orientation(frame)
        frame = self._without_far_ends(frame)
        return np.ascontiguousarray(orientation.apply(self._rgb(frame, Size(side, side))))

    def thumbnail(self, frame: VideoFrame, height: int) -> Image:
        """The whole frame, upright, ``height`` pixels high and at most ``LONGEST_STRIP`` times as wide."""
        orientation = self.orientation(frame)
        frame = self._without_far_ends(frame)
        aspect = Fraction(1) if abs(self.pixel_aspect - 1) < HARDLY_OBLONG else self.pixel_aspect
        shown = orientation.turn(Size(max(1, round(frame.width * aspect)), frame.height))
        width = min(max(1, round(height * shown.width / shown.height)), LONGEST_STRIP * height)
        size = orientation.turn(Size(width, height))
        return np.ascontiguousarray(orientation.apply(self._rgb(frame, size)))

    def as_opencv(self, frame: VideoFrame) -> Image:
        """The stored frame at its full size, neither turned nor stretched, in OpenCV 4's colours."""
        return self._rgb(frame, Size(frame.width, frame.height), colour_of(frame, obey_tags=False))

    def _without_far_ends(self, frame: VideoFrame) -> VideoFrame:
        if not is_strip(frame.width, frame.height, self.pixel_aspect):
            return frame
        from av.video.frame import VideoFrame

        whole = self._rgb(frame, Size(frame.width, frame.height))
        rows, columns = middle(frame.width, frame.height, self.pixel_aspect)
        return VideoFrame.from_ndarray(np.ascontiguousarray(whole[rows, columns]), format="rgb24")

    def _rgb(self, frame: VideoFrame, size: Size, colour: Colour | None = None) -> Image:
        from av.video.reformatter import Colorspace, Interpolation

        colour = colour or colour_of(frame)
        rgb = self._swscale.reformat(
            frame,
            width=size.width,
            height=size.height,
            format="rgb24",
            src_colorspace=colour.matrix,
            src_color_range=colour.range,
            dst_colorspace=Colorspace.ITU601,
            dst_color_range=FULL,
            interpolation=Interpolation.BICUBIC,
            threads=1,
        )
        return cast(Image, rgb.to_ndarray())


def orientation_of(frame: VideoFrame) -> Orientation:
    """How a frame's display matrix, if it has one, says it is to be turned."""
    if frame.rotation == 0 and len(frame.side_data) == 0:
        return UPRIGHT
    try:
        # PyAV's types know of one kind of side data only.
        matrix = cast("Mapping[str, Buffer]", frame.side_data)["DISPLAYMATRIX"]
        return Orientation.from_display_matrix(bytes(matrix))
    except KeyError:
        return UPRIGHT
    except ValueError:
        # Another piece of side data is of a kind newer than PyAV, which then lists none.
        return _QUARTER_TURNS.get(frame.rotation % 360, UPRIGHT)


# By degrees counterclockwise.
_QUARTER_TURNS = {
    90: Orientation(transpose=True, mirror_y=True),
    180: Orientation(mirror_x=True, mirror_y=True),
    270: Orientation(transpose=True, mirror_x=True),
}
