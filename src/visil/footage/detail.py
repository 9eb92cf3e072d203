"""Which of two files shows the same footage in more detail: detail that is there, not the number of its pixels or bits.

Of two sizes, the larger picture has more detail only if it holds what no enlargement of the smaller one could: what is
left of it after it was made as small as the other and large again. An enlargement leaves what the smaller picture
leaves when it is enlarged here. Of two pictures of one size, the finer has the steeper edges where both have them,
contrast apart. A file that was recoded with visible loss keeps its edges but not what lies between them; of two such
files the one with more bits, each codec by what it makes of them, was there first, if it shows more between edges as
well. Sharpening makes edges steep, too: where one picture may be the other sharpened, nobody can tell, and both are
worth keeping. So are two files whose pictures differ a little and do not say which of them was there first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from visil.video import Image, VideoInfo

Floats = NDArray[np.float32]
Which = Literal["first", "second"]

GREY = np.array([0.299, 0.587, 0.114], np.float32)

HIGHEST = 2160
"""Pixels in height beyond which frames are made smaller."""

EDGES = 0.02
"""Share of the pixels, the steepest in both files, that edges are measured at."""

CLEARLY = 0.03
"""Logarithm of the ratio of steepness from which one file is clearly finer. Recoding moves it by less."""
HARDLY = 0.005
"""And from which it is finer at all, if nearly every moment says so:"""
AGREEING = 0.8
ALIKE = 60.0
"""Signal to noise in decibels from which two files hold the same pictures: neither is the other coded again."""

ENLARGED = 1.4
"""What is left of a larger picture, to what is left of the smaller one enlarged: up to here it is nothing more,"""
REAL = 1.7
"""and from here on it is detail. Enlarging comes to at most 1.4, and sharpened to 2.1; real detail to 1.2 or more."""
CRISPER = 0.12
"""Steepness by which the two may differ then, brought to one size; more, and one of them was sharpened,"""
SURELY = 2.6
"""unless so much is left that sharpening does not explain it."""

CONTRAST = 0.08
"""Logarithm of the ratio of contrasts from which one of two may have been clipped."""

SHARPENED = 0.35
"""Part of what a picture has more than another from which sharpening the other would do the same."""

SAME_SIZE = 1.05
"""Ratio of heights up to which two pictures are of one size."""

VISIBLE = 40.0
"""Signal to noise in decibels below which two pictures differ visibly."""
MORE_BITS = 1.4
"""And how many times the bits the one must then have that was there first, if it shows more between edges as well;"""
FAR_MORE_BITS = 4.0
"""whatever it shows there from so many times on: a copy of so many bits does not differ visibly."""

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

    which: Which | None
    """None: nobody could tell."""
    clearly: bool
    """Whether the other would be missed no more than a worse copy is; if not, hardly anybody sees a difference.

    Where nobody could tell which: whether they differ all the same, and each may have what the other has not."""


UNTOLD = Finer(None, False)
UNSURE = Finer(None, True)


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


def finer(first: Shown, second: Shown, frames: Iterable[tuple[Image, Image]]) -> Finer:
    """Which of two files shows more detail; ``frames`` are those of the same moments, each at its file's height."""
    detail = _Detail(first, second)
    for one, two in frames:  # one at a time: they may be large
        detail.add(one, two)
    return detail.finer()


class _Detail:
    """The detail in frames of two files, one pair after the other."""

    def __init__(self, first: Shown, second: Shown) -> None:
        self.first, self.second = first, second
        self._stretched = False
        """Whether one shows wider pictures of the same height: each is of another size, and one of them is wrong."""
        self._steeper: list[float] = []
        self._noise: list[float] = []
        self._more: list[float] = []
        """What the larger picture has more than an enlargement of the smaller."""
        self._rougher: list[float] = []
        """How much more the first has between edges."""
        self._sharpened: list[float] = []
        self._contrast: list[float] = []

    def add(self, one: Image, two: Image) -> None:
        """Frames of the same moment."""
        mine, theirs = one @ GREY, two @ GREY
        if mine.shape != theirs.shape:
            self._stretched |= abs(np.log(_aspect(mine) / _aspect(theirs))) > np.log(SAME_SIZE)
            large, small = (mine, theirs) if mine.shape > theirs.shape else (theirs, mine)
            self._more.append(beyond(large, small))
            mine, theirs = _at_one_size(mine, theirs)
        self._contrast.append(_contrast(mine, theirs))
        mine = (mine - mine.mean()) * np.float32(np.exp(self._contrast[-1])) + theirs.mean()
        self._steeper.append(steepness(mine, theirs))
        self._rougher.append(roughness(mine) - roughness(theirs))
        self._noise.append(float(np.mean((mine - theirs) ** 2)))
        self._sharpened.append(sharpened(mine, theirs) if self._steeper[-1] > 0 else sharpened(theirs, mine))

    def finer(self) -> Finer:
        """Which file they say is finer."""
        if not self._steeper:
            return UNTOLD
        if self._stretched:
            return UNSURE
        ratio = float(np.mean(self._steeper))
        heights = sorted((self.first.height, self.second.height))
        if self._more and heights[1] > SAME_SIZE * heights[0]:
            found = self._of_two_sizes(ratio)
        else:
            found = self._of_one_size(ratio)
        return UNSURE if abs(float(np.median(self._contrast))) > CONTRAST and not found.clearly else found

    def _of_two_sizes(self, ratio: float) -> Finer:
        large: Which = "first" if self.first.height > self.second.height else "second"
        small: Which = "second" if large == "first" else "first"
        crisper = -ratio if large == "first" else ratio
        more = float(np.median(self._more))
        if more >= SURELY and crisper < CRISPER:
            return Finer(large, True)
        if more > ENLARGED and abs(crisper) < CRISPER:
            recoded = self._recoded() == large and not self._is_sharpened()
            return Finer(large, True) if more >= REAL or recoded else UNSURE
        if more > ENLARGED or crisper <= -CLEARLY:
            return UNSURE
        if crisper < CRISPER and self._recoded() == large:  # a soft picture; the small one may be a poor copy
            return UNSURE
        return Finer(small, True) if crisper >= CLEARLY else UNTOLD

    def _of_one_size(self, ratio: float) -> Finer:
        finer: Which = "first" if ratio > 0 else "second"
        told = abs(ratio) >= HARDLY and _agree(self._steeper)
        first = self._recoded()
        if first is not None and abs(ratio) < 2 * CLEARLY:
            rougher: Which = "first" if float(np.mean(self._rougher)) > 0 else "second"
            seen = rougher == first and _agree(self._rougher)  # a poor copy may have more bits as well
            sure = first == finer if told else seen or self._with_more_bits(FAR_MORE_BITS) == first
            return Finer(first, True) if sure else UNSURE
        if not told:
            return UNTOLD if self._decibels() >= ALIKE else UNSURE
        if abs(ratio) < CLEARLY:
            return Finer(finer, False)
        # Steep edges of few bits are those of blocks; others may have been sharpened.
        doubtful = self._with_more_bits() not in (finer, None) or self._is_sharpened()
        return UNSURE if doubtful else Finer(finer, True)

    def _recoded(self) -> Which | None:
        """Of two that differ visibly, the one with more bits: the other was recoded from something like it."""
        return self._with_more_bits() if self._decibels() < VISIBLE else None

    def _decibels(self) -> float:
        return 10 * float(np.log10(255.0**2 / max(float(np.mean(self._noise)), 1e-6)))

    def _with_more_bits(self, times: float = MORE_BITS) -> Which | None:
        bits = np.log(self.first.bits / max(self.second.bits, 1e-6))
        return None if abs(bits) < np.log(times) else "first" if bits > 0 else "second"

    def _is_sharpened(self) -> bool:
        return float(np.median(self._sharpened)) > SHARPENED


def _agree(moments: list[float]) -> bool:
    """Whether nearly all moments say what they say on average."""
    return float(np.mean(np.sign(moments) == np.sign(np.mean(moments)))) >= AGREEING


def beyond(large: Floats, small: Floats) -> float:
    """What is left of a picture made as small as another and large again, to what is left of the other enlarged."""
    enlarged = max(_left(_resized(small, large.shape, how), small.shape) for how in ("BICUBIC", "BILINEAR"))
    return _left(large, small.shape) / max(enlarged, 1e-3)


def _left(picture: Floats, shape: tuple[int, ...]) -> float:
    """What a picture loses at its edges when it is made smaller and large again in the way that suits it best."""
    there_and_back = [
        _resized(_resized(picture, shape, down), picture.shape, up)
        for down, up in (("LANCZOS", "LANCZOS"), ("BICUBIC", "BICUBIC"), ("BOX", "NEAREST"))
    ]
    slopes = _slopes(there_and_back[1])
    edges = slopes >= max(float(np.quantile(slopes, 1 - EDGES)), 1e-3)
    if not edges.any():
        return 0.0
    left = (float(np.abs(picture - back)[:-1, :-1][edges].mean()) for back in there_and_back)
    return min(left) / float(slopes[edges].mean())


def sharpened(steep: Floats, soft: Floats) -> float:
    """Part of what a picture has more than another that sharpening the other would have made, in [0, 1]."""
    from PIL import Image as pillow
    from PIL import ImageFilter

    levels = pillow.fromarray(np.clip(soft, 0, 255).astype(np.uint8))
    blurred = [np.asarray(levels.filter(ImageFilter.GaussianBlur(radius)), np.float32) for radius in (1, 2)]
    edges = np.stack([(soft - one).ravel() for one in blurred])
    more = (steep - soft).ravel()
    more = more - more.mean()
    power = float(more @ more)
    if power < 1e-3 * more.size:
        return 0.0
    weights = np.linalg.lstsq(edges @ edges.T + np.eye(2), edges @ more, rcond=None)[0]
    rest = more - weights @ edges
    return max(0.0, 1.0 - float(rest @ rest) / power)


def steepness(one: Floats, two: Floats) -> float:
    """How much steeper the edges that both have are in the one: a logarithm, 0 where they are alike."""
    slopes = [_slopes(picture) for picture in (one, two)]
    least = np.minimum(*slopes)
    edges = least >= max(float(np.quantile(least, 1 - EDGES)), 1e-3)
    if not edges.any():
        return 0.0
    return float(np.log(slopes[0][edges].mean() / slopes[1][edges].mean()))


def roughness(picture: Floats) -> float:
    """How much there is between edges as well: a logarithm, of the mean of what a light blur takes away."""
    from PIL import Image as pillow
    from PIL import ImageFilter

    levels = pillow.fromarray(np.clip(picture, 0, 255).astype(np.uint8))
    blurred = np.asarray(levels.filter(ImageFilter.GaussianBlur(1)), np.float32)
    return float(np.log(max(float(np.abs(np.asarray(levels, np.float32) - blurred).mean()), 1e-3)))


def _slopes(picture: Floats) -> Floats:
    slopes: Floats = np.hypot(np.diff(picture, axis=1)[:-1], np.diff(picture, axis=0)[:, :-1])
    return slopes


def _aspect(picture: Floats) -> float:
    return picture.shape[1] / picture.shape[0]


def _contrast(one: Floats, two: Floats) -> float:
    """Logarithm of the contrast of a picture to that of another: one that was raised is no detail."""
    deviations = [float(picture.std()) for picture in (one, two)]
    return float(np.log(deviations[1] / deviations[0])) if min(deviations) > 1.0 else 0.0


def _at_one_size(one: Floats, two: Floats) -> tuple[Floats, Floats]:
    """Two pictures at the size of the smaller: made smaller, or cut as encoders cut odd sides."""
    height, width = (min(sides) for sides in zip(one.shape, two.shape, strict=True))
    cut = one[:height, :width], two[:height, :width]
    smaller = min(one.shape, two.shape)
    resized = _resized(one, smaller, "LANCZOS"), _resized(two, smaller, "LANCZOS")
    return min(resized, cut, key=lambda pair: float(np.mean((pair[0] - pair[1]) ** 2)))


def _resized(picture: Floats, shape: tuple[int, ...], how: str) -> Floats:
    if picture.shape == shape:
        return picture
    from PIL import Image as pillow

    resized: Floats = np.asarray(
        pillow.fromarray(picture).resize((shape[1], shape[0]), pillow.Resampling[how])
    )
    return resized
