"""Which of two files shows the same footage in more detail: detail that is there, not the number of its pixels or bits.

Frames of the same moments are brought to the same size in the same steps, so that one that was enlarged counts as
what it was enlarged from. Where both have an edge, the finer file has the steeper one. A file that was recoded with
visible loss keeps its edges but not what lies between them; of two such files the one with more bits, each codec by
what it makes of them, was there first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from visil.video import Image, VideoInfo

Floats = NDArray[np.float32]
FramesAt = Callable[[str, list[float], int], list[Image]]
"""Path, times, height: :func:`visil.video.frames_at`, or one that decodes in a process of its own."""

GREY = np.array([0.299, 0.587, 0.114], np.float32)

HIGHEST = 2160
"""Pixels in height beyond which frames are made smaller."""

EDGES = 0.02
"""Share of the pixels, the steepest in both files, that edges are measured at."""

CLEARLY = 0.03
"""Logarithm of the ratio of steepness from which one file is clearly finer. Recoding moves it by less."""
HARDLY = 0.001
"""And from which it is finer at all, if nearly every moment says so:"""
AGREEING = 0.8

SAME_SIZE = 1.05
"""Ratio of heights up to which two pictures are of one size."""

VISIBLE = 38.0
"""Signal to noise in decibels below which two pictures differ visibly."""
MORE_BITS = 1.4
"""And how many times the bits the one must then have that was there first."""

# How much one bit of a codec shows, against one of H.264.
EFFICIENCY = {
    **dict.fromkeys(("mjpeg", "gif", "rawvideo", "png", "huffyuv", "ffv1", "webp"), 0.1),
    **dict.fromkeys(("mpeg1video", "mpeg2video", "dvvideo", "h261"), 0.5),
    **dict.fromkeys(("mpeg4", "h263", "flv1", "wmv1", "wmv2", "msmpeg4v3", "theora", "rv40"), 0.7),
    **dict.fromkeys(("hevc", "vp9"), 1.6),
    **dict.fromkeys(("av1", "vvc"), 2.0),
}


@dataclass(frozen=True)
class Finer:
    """Which of two files is finer."""

    which: Literal["first", "second"] | None
    """None: nobody could tell."""
    clearly: bool
    """Whether the other would be missed no more than a worse copy is; if not, hardly anybody sees a difference."""


UNTOLD = Finer(None, False)


@dataclass(frozen=True)
class Shown:
    """One of the two: its file, what it says of itself, its bytes and length."""

    path: str
    info: VideoInfo
    bytes: int
    seconds: float

    @property
    def height(self) -> int:
        """Pixels that its frames are compared at."""
        return min(self.info.height, HIGHEST)

    @property
    def bits(self) -> float:
        """Bits a second, each by what its codec makes of it."""
        return 8 * self.bytes / max(self.seconds, 0.1) * EFFICIENCY.get(self.info.codec, 1.0)


def finer(first: Shown, second: Shown, moments: Sequence[tuple[float, float]], frames_at: FramesAt) -> Finer:
    """Which of two files shows some moments (seconds of the one, of the other) in more detail."""
    steeper, noise = [], []
    for here, there in moments:  # one at a time: frames may be large
        (one,) = frames_at(first.path, [here], first.height)
        (two,) = frames_at(second.path, [there], second.height)
        grey = _at_one_size(one @ GREY, two @ GREY)
        steeper.append(steepness(*grey))
        noise.append(float(np.mean((grey[0] - grey[1]) ** 2)))
    if not steeper:
        return UNTOLD
    ratio = float(np.mean(steeper))
    sign = 1 if ratio > 0 else -1
    agreeing = float(np.mean(np.sign(steeper) == sign))
    heights = sorted((first.height, second.height))
    decibels = 10 * np.log10(255.0**2 / max(float(np.mean(noise)), 1e-6))
    if heights[1] <= SAME_SIZE * heights[0] and decibels < VISIBLE:
        bits = np.log(first.bits / max(second.bits, 1e-6))
        if abs(bits) >= np.log(MORE_BITS) and abs(ratio) < 2 * CLEARLY:
            return Finer("first" if bits > 0 else "second", True)
    if abs(ratio) < HARDLY or agreeing < AGREEING:
        return UNTOLD
    return Finer("first" if ratio > 0 else "second", abs(ratio) >= CLEARLY)


def steepness(one: Floats, two: Floats) -> float:
    """How much steeper the edges that both have are in the one: a logarithm, 0 where they are alike."""
    slopes = [
        np.hypot(np.diff(picture, axis=1)[:-1], np.diff(picture, axis=0)[:, :-1]) for picture in (one, two)
    ]
    least = np.minimum(*slopes)
    edges = least >= max(float(np.quantile(least, 1 - EDGES)), 1e-3)
    if not edges.any():
        return 0.0
    return float(np.log(slopes[0][edges].mean() / slopes[1][edges].mean()))


def _at_one_size(one: Floats, two: Floats) -> tuple[Floats, Floats]:
    """Both at the smaller's size; the smaller goes through the larger's size first, as if it had been enlarged too."""
    if one.shape == two.shape:
        return one, two
    large, small = sorted((one.shape, two.shape), reverse=True)
    return _resized(_resized(one, large), small), _resized(_resized(two, large), small)


def _resized(picture: Floats, shape: tuple[int, ...]) -> Floats:
    if picture.shape == shape:
        return picture
    from PIL import Image as pillow

    resized: Floats = np.asarray(
        pillow.fromarray(picture).resize((shape[1], shape[0]), pillow.Resampling.BICUBIC)
    )
    return resized
