"""From a decoded frame, in whatever pixel format, to an upright RGB picture of the wanted size."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, cast

from visil.video.colour import FULL, Colour, colour_of
from visil.video.container import pyav_version
from visil.video.frames import Image
from visil.video.geometry import (
    LONGEST_STRIP,
    UPRIGHT,
    Orientation,
    Size,
    centre_crop,
    contiguous,
    is_strip,
    middle,
    scaled_to_shorter,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from av.buffer import Buffer
    from av.video.frame import VideoFrame


class Converter:
    """Converts the frames of one stream; keeps swscale's tables from frame to frame."""

    def __init__(self, pixel_aspect: Fraction) -> None:
        from av.video.reformatter import VideoReformatter

        self.pixel_aspect = pixel_aspect
        self._swscale = VideoReformatter()
        # PyAV before 17 scales in one thread and has no such argument.
        self._extra = {"threads": 1} if pyav_version() >= 17 else {}

    def display_size(self, frame: VideoFrame) -> Size:
        """The size at which a frame is meant to be seen."""
        shown = Size(max(1, round(frame.width * self.pixel_aspect)), frame.height)
        return orientation_of(frame).turn(shown)

    def square(self, frame: VideoFrame, resize: int, crop: int) -> Image:
        """Resize the shorter side to ``resize`` and cut the ``crop`` x ``crop`` centre; upright."""
        orientation = orientation_of(frame)
        frame = self._without_far_ends(frame)
        size = scaled_to_shorter(float(frame.width * self.pixel_aspect), frame.height, resize)
        return contiguous(centre_crop(orientation.apply(self._scaled(frame, size)), crop))

    def whole(self, frame: VideoFrame, side: int) -> Image:
        """All of the frame pressed into a square; upright."""
        orientation = orientation_of(frame)
        frame = self._without_far_ends(frame)
        return contiguous(orientation.apply(self._scaled(frame, Size(side, side))))

    def thumbnail(self, frame: VideoFrame, height: int) -> Image:
        """The whole frame, upright, ``height`` pixels high and at most ``LONGEST_STRIP`` times as wide."""
        orientation = orientation_of(frame)
        frame = self._without_far_ends(frame)
        shown = orientation.turn(Size(max(1, round(frame.width * self.pixel_aspect)), frame.height))
        width = min(max(1, round(height * shown.width / shown.height)), LONGEST_STRIP * height)
        size = orientation.turn(Size(width, height))
        return contiguous(orientation.apply(self._scaled(frame, size)))

    def as_opencv(self, frame: VideoFrame) -> Image:
        """The stored frame at its full size, neither turned nor stretched, in OpenCV 4's colours."""
        return self._rgb(frame, Size(frame.width, frame.height), colour_of(frame, obey_tags=False))

    def _without_far_ends(self, frame: VideoFrame) -> VideoFrame:
        if not is_strip(frame.width, frame.height, self.pixel_aspect):
            return frame
        from av.video.frame import VideoFrame

        whole = self._scaled(frame, Size(frame.width, frame.height))
        rows, columns = middle(frame.width, frame.height, self.pixel_aspect)
        return VideoFrame.from_ndarray(contiguous(whole[rows, columns]), format="rgb24")

    def _scaled(self, frame: VideoFrame, size: Size) -> Image:
        return self._rgb(frame, size, colour_of(frame))

    def _rgb(self, frame: VideoFrame, size: Size, colour: Colour) -> Image:
        from av.video.reformatter import Colorspace, Interpolation

        rgb = self._swscale.reformat(
            frame,
            width=size.width,
            height=size.height,
            format="rgb24",
            src_colorspace=colour.matrix,
            src_color_range=colour.range,
            # RGB has neither; but PyAV before 17 does nothing about the source's unless these differ from it.
            dst_colorspace=Colorspace.ITU601,
            dst_color_range=FULL,
            interpolation=Interpolation.BICUBIC,
            **self._extra,
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
