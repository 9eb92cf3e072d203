"""What people do to footage they copy. An edit turns frames into frames; edits chain in any order.

>>> edited(frames, cut(2, 6), crop(0.8), mirror(), speed(1.25))    # doctest: +SKIP

Frames are RGB uint8 [H, W, 3] and come one at a time, so a chain of edits holds only a few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from visil.demo.scenes import FPS
from visil.errors import UsageError
from visil.video import Image

if TYPE_CHECKING:
    from numpy.typing import NDArray

Edit = Callable[[Iterable[Image]], Iterator[Image]]
Colour = tuple[int, int, int]
Box = tuple[float, float, float, float]


def edited(frames: Iterable[Image], *edits: Edit) -> Iterator[Image]:
    """The frames after every edit, in the order given."""
    for edit in edits:
        frames = edit(frames)
    return iter(frames)


# ---------------------------------------------------------------------- in time


def cut(start: float, end: float, fps: float = FPS) -> Edit:
    """Only what lies from ``start`` to ``end``, in seconds."""
    if not 0 <= start < end:
        raise UsageError(f"cannot cut from {start:g} s to {end:g} s")
    return lambda frames: islice(frames, round(start * fps), round(end * fps))


def speed(factor: float) -> Edit:
    """Run ``factor`` times as fast: frames are left out, or shown again; n of them become n / factor."""
    if not factor > 0:
        raise UsageError(f"cannot run a video {factor:g} times as fast")
    step = Fraction(factor).limit_denominator(1000)

    def apply(frames: Iterable[Image]) -> Iterator[Image]:
        shown = 0  # frames given out
        for number, frame in enumerate(frames):
            while int(shown * step) == number:
                yield frame
                shown += 1

    return apply


def between(before: Iterable[Image], after: Iterable[Image] = ()) -> Edit:
    """In the middle of a longer video: other footage before, other footage after."""
    return lambda frames: chain(before, frames, after)


# ---------------------------------------------------------------------- in the picture


def crop(keep: float, x: float = 0.5, y: float = 0.5) -> Edit:
    """Cut away the edges and enlarge what is left, ``keep`` of each side.

    ``x`` and ``y`` say which part is kept: 0 is the left or top, 1 the right or bottom.
    """
    _check_share("keep", keep)
    _check_share("x", x, 0)
    _check_share("y", y, 0)

    def apply(frame: Image) -> Image:
        height, width = frame.shape[:2]
        left, top = (1 - keep) * width * x, (1 - keep) * height * y
        return _resized(frame, (width, height), (left, top, left + keep * width, top + keep * height))

    return _each(apply)


def mirror() -> Edit:
    """Left and right swapped."""
    return _each(lambda frame: np.ascontiguousarray(frame[:, ::-1]))


def colour(brightness: float = 1.0, contrast: float = 1.0, saturation: float = 1.0) -> Edit:
    """Another grade: factors of one leave it as it is; ``saturation`` 0 is black and white."""
    if min(brightness, contrast, saturation) < 0:
        raise UsageError("brightness, contrast and saturation cannot be negative")
    levels = (np.arange(256, dtype=np.float32) * brightness - 128) * contrast + 128
    table = np.clip(np.rint(levels), 0, 255).astype(np.uint8)

    def apply(frame: Image) -> Image:
        from PIL import Image as pillow
        from PIL import ImageEnhance

        if saturation != 1:
            frame = np.asarray(ImageEnhance.Color(pillow.fromarray(frame)).enhance(saturation))
        graded: Image = table[frame]
        return graded

    return _each(apply)


def overlay(
    text: str, x: float = 0.03, y: float = 0.94, *, height: float = 0.11, fill: Colour = (214, 40, 57)
) -> Edit:
    """A caption in a box, ``height`` of the frame's; ``x`` and ``y`` say where, from 0 (left, top) to 1."""
    _check_share("height", height)
    _check_share("x", x, 0)
    _check_share("y", y, 0)
    drawn: dict[int, NDArray[np.uint8]] = {}

    def apply(frame: Image) -> Image:
        rows, columns = frame.shape[:2]
        tall = max(1, round(height * rows))
        box = drawn.setdefault(tall, _caption(text, tall, fill))[:, :columns]
        top, left = round(y * (rows - tall)), round(x * (columns - box.shape[1]))
        covered = frame.copy()
        covered[top : top + tall, left : left + box.shape[1]] = box
        return covered

    return _each(apply)


def border(share: float, fill: Colour = (0, 0, 0)) -> Edit:
    """The picture made smaller, with a plain frame around it that takes ``share`` of each side."""
    _check_share("share", 1 - share)

    def apply(frame: Image) -> Image:
        height, width = frame.shape[:2]
        inner = _resized(frame, (max(1, round(width * (1 - share))), max(1, round(height * (1 - share)))))
        framed = np.empty_like(frame)
        framed[...] = np.array(fill, np.uint8)
        top, left = (height - inner.shape[0]) // 2, (width - inner.shape[1]) // 2
        framed[top : top + inner.shape[0], left : left + inner.shape[1]] = inner
        return framed

    return _each(apply)


def inset(around: Iterable[Image], scale: float = 0.4, x: float = 0.95, y: float = 0.08) -> Edit:
    """Picture in picture: shown small over other footage, for as long as both last."""
    _check_share("scale", scale)
    _check_share("x", x, 0)
    _check_share("y", y, 0)

    def apply(frames: Iterable[Image]) -> Iterator[Image]:
        for frame, background in zip(frames, around, strict=False):
            height, width = background.shape[:2]
            small = _resized(frame, (max(1, round(width * scale)), max(1, round(height * scale))))
            top, left = round(y * (height - small.shape[0])), round(x * (width - small.shape[1]))
            both = background.copy()
            both[top : top + small.shape[0], left : left + small.shape[1]] = small
            yield both

    return apply


def recode(bit_rate: int, fps: float = FPS) -> Edit:
    """Through a codec once, at ``bit_rate`` bits a second: what a cheap upload leaves of the picture."""
    if bit_rate < 1:
        raise UsageError(f"a bit rate must be positive, not {bit_rate}")

    def apply(frames: Iterable[Image]) -> Iterator[Image]:
        from av.codec import CodecContext
        from av.video.codeccontext import VideoCodecContext

        from visil.demo.writer import CODEC, peek, set_up, video_frames

        first, frames = peek(frames)
        rate = Fraction(fps).limit_denominator(1001)
        encoder, decoder = CodecContext.create(CODEC, "w"), CodecContext.create("h264", "r")
        assert isinstance(encoder, VideoCodecContext)
        assert isinstance(decoder, VideoCodecContext)
        set_up(encoder, first, rate, threads=1)  # with more, what a limited bit rate gives is left to chance
        encoder.bit_rate = bit_rate
        encoder.options = {"preset": "veryfast", "maxrate": str(bit_rate), "bufsize": str(2 * bit_rate)}
        for picture in chain(video_frames(frames, first, rate), [None]):
            packets = encoder.encode(picture)
            for packet in chain(packets, [None] if picture is None else []):
                for decoded in decoder.decode(packet):
                    yield np.asarray(decoded.to_ndarray(format="rgb24"), np.uint8)

    return apply


# ---------------------------------------------------------------------- how


def _each(apply: Callable[[Image], Image]) -> Edit:
    return lambda frames: map(apply, frames)


def _resized(frame: Image, size: tuple[int, int], box: Box | None = None) -> Image:
    from PIL import Image as pillow

    return np.asarray(pillow.fromarray(frame).resize(size, pillow.Resampling.BILINEAR, box=box))


def _caption(text: str, height: int, fill: Colour) -> Image:
    """The text in white on a box just wide enough."""
    from PIL import Image as pillow
    from PIL import ImageDraw, ImageFont

    font = ImageFont.load_default(size=max(4, round(height * 0.62)))
    width = round(font.getlength(text) + height * 0.7)
    box = pillow.new("RGB", (max(1, width), height), fill)
    ImageDraw.Draw(box).text((box.width / 2, height / 2), text, "white", font, anchor="mm")
    return np.asarray(box)


def _check_share(name: str, value: float, above: float = 1e-6) -> None:
    if not above <= value <= 1:
        raise UsageError(f"{name} must be a share between 0 and 1, not {value:g}")
