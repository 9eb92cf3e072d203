"""Which YCbCr a frame's numbers are in, so that swscale turns them into the right RGB."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

UNSPECIFIED = 2
"""FFmpeg's AVCOL_SPC_UNSPECIFIED."""
LIMITED, FULL = 1, 2
"""FFmpeg's AVCOL_RANGE_MPEG and AVCOL_RANGE_JPEG."""

# FFmpeg's AVColorSpace to the name of swscale's matrix; all others are as good as BT.601.
_MATRICES = {1: "ITU709", 4: "FCC", 5: "ITU601", 6: "ITU601", 7: "SMPTE240M", 9: "BT2020", 10: "BT2020"}


class Colour(NamedTuple):
    """swscale's matrix and FFmpeg's range of a frame."""

    matrix: int
    range: int


def colour_of(frame: VideoFrame, *, obey_tags: bool = True) -> Colour:
    """What a frame is tagged with. Without ``obey_tags`` the matrix is BT.601, as OpenCV 4 took all video."""
    from av.video.reformatter import Colorspace

    space = frame.colorspace
    if space == UNSPECIFIED and (frame.width >= 1280 or frame.height > 576):
        # Players take untagged high-definition video for BT.709; swscale would take it for BT.601.
        space = 1
    name = _MATRICES.get(space, "ITU601") if obey_tags else "ITU601"
    # PyAV 14 knows no BT.2020, and BT.709 comes closest.
    matrix = getattr(Colorspace, name, Colorspace.ITU709)
    # The old pixel formats "yuvj..." are full range by name.
    full = frame.color_range == FULL or frame.format.name.startswith("yuvj")
    return Colour(int(matrix), FULL if full else LIMITED)
