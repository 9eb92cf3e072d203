"""Edits of frames, RGB uint8 [H, W, 3], one at a time, as people make them to footage they copy.

An edit turns frames into frames; edits chain in any order, and a chain of them holds only a few frames.

>>> edited(frames, cut(2, 6), crop(0.8), mirror(), speed(1.25))    # doctest: +SKIP

Places and sizes are shares of the picture, or whole pixels where a docstring says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from visil.errors import UsageError
from visil.video import Image

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image as Picture
    from PIL.Image import Resampling

Edit = Callable[[Iterable[Image]], Iterator[Image]]
Colour = tuple[int, int, int]
Box = tuple[float, float, float, float]

FPS = 25


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


# ---------------------------------------------------------------------- geometry


def crop(keep: float, x: float = 0.5, y: float = 0.5) -> Edit:
    """Cut away the edges and enlarge the rest, ``keep`` of each side.

    ``x`` and ``y`` say which part is kept: 0 is the left or top, 1 the right or bottom.
    """
    _check_share("keep", keep)
    _check_place(x, y)

    def apply(frame: Image) -> Image:
        height, width = frame.shape[:2]
        left, top = (1 - keep) * width * x, (1 - keep) * height * y
        return _resized(frame, (width, height), box=(left, top, left + keep * width, top + keep * height))

    return _each(apply)


def window(left: int, top: int, width: int, height: int) -> Edit:
    """Only a window of the picture, in pixels, at its own size."""
    return _each(lambda frame: frame[top : top + height, left : left + width])


def mirror() -> Edit:
    """Left and right swapped."""
    return _each(lambda frame: np.ascontiguousarray(frame[:, ::-1]))


def resize(width: int, height: int) -> Edit:
    """All of the picture at another size in pixels; the same frame twice in a row is resized once."""

    def apply(frames: Iterable[Image]) -> Iterator[Image]:
        before: Image | None = None
        for frame in frames:
            if frame is not before:
                before, made = frame, _resized(frame, (width, height), fine=True)
            yield made

    return apply


def rotation(degrees: float) -> Edit:
    """Turned counter-clockwise about the middle; corners are cut off or black, quarter turns swap the sides."""
    whole = degrees % 90 == 0
    return _each_picture(lambda picture: picture.rotate(degrees, _bicubic(), expand=whole))


def perspective(corners: Sequence[float]) -> Edit:
    """The picture on a leaning plane, black around it.

    ``corners``: how far each moves inwards, from top left, clockwise, as shares of width and height; eight numbers.
    """
    inwards = np.array(corners).reshape(4, 2)
    unit = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], float)
    moved = unit + inwards * np.where(unit == 0, 1, -1)

    def apply(picture: Picture) -> Picture:
        from PIL import Image as pillow

        size = np.array(picture.size)
        # Pillow wants the eight numbers that take a place on the card back to a point of the picture.
        rows, points = [], []
        for (u, v), (x, y) in zip(unit * size, moved * size, strict=True):
            rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
            points += [u, v]
        back = [float(v) for v in np.linalg.solve(np.array(rows), np.array(points))]
        return picture.transform(picture.size, pillow.Transform.PERSPECTIVE, back, _bicubic())

    return _each_picture(apply)


# ---------------------------------------------------------------------- colour and quality


def colour(
    brightness: float = 1.0, contrast: float = 1.0, saturation: float = 1.0, *, middle: int | None = None
) -> Edit:
    """Another grade: factors of one leave it as it is; ``saturation`` 0 is black and white.

    Contrast is the distance from the grey ``middle``, from 0 to 255; by default the picture's mean.
    """
    if min(brightness, contrast, saturation) < 0:
        raise UsageError("brightness, contrast and saturation cannot be negative")

    def apply(picture: Picture) -> Picture:
        from PIL import Image as pillow
        from PIL import ImageEnhance

        picture = ImageEnhance.Brightness(picture).enhance(brightness)
        if middle is None:
            picture = ImageEnhance.Contrast(picture).enhance(contrast)
        else:
            picture = pillow.blend(pillow.new("RGB", picture.size, (middle,) * 3), picture, contrast)
        return ImageEnhance.Color(picture).enhance(saturation)

    return _each_picture(apply)


def tint(gains: NDArray[np.floating]) -> Edit:
    """Red, green and blue each times its own gain."""
    return _each(lambda frame: np.clip(frame * gains, 0, 255).astype(np.uint8))


def blur(sigma: float) -> Edit:
    """Gaussian blur of sigma pixels."""

    def apply(picture: Picture) -> Picture:
        from PIL import ImageFilter

        return picture.filter(ImageFilter.GaussianBlur(sigma))

    return _each_picture(apply)


def recode(
    bit_rate: int | None = None, fps: float = FPS, *, crf: int | None = None, short_side: int | None = None
) -> Edit:
    """Through a codec once, at ``bit_rate`` bits a second or at a quality: what a cheap upload leaves of the picture.

    ``crf`` is x264's quality, lower is better. With a ``short_side`` in pixels the picture is that small meanwhile.
    """
    if (bit_rate is None) == (crf is None):
        raise UsageError("a codec needs a bit rate or a quality, and not both")
    if bit_rate is not None and bit_rate < 1:
        raise UsageError(f"a bit rate must be positive, not {bit_rate}")
    options = {"preset": "veryfast"}
    if bit_rate is not None:
        options |= {"maxrate": str(bit_rate), "bufsize": str(2 * bit_rate)}
    else:
        options["crf"] = str(crf)

    def apply(frames: Iterable[Image]) -> Iterator[Image]:
        from visil.video.writer import peek

        first, frames = peek(frames, even=short_side is None)
        if short_side is None:
            return _through_codec(frames, fps, bit_rate, options)
        height, width = first.shape[:2]
        scale = short_side / min(height, width)
        small = resize(int(width * scale) // 2 * 2, int(height * scale) // 2 * 2)(frames)
        return resize(width, height)(_through_codec(small, fps, bit_rate, options))

    return apply


def _through_codec(
    frames: Iterable[Image], fps: float, bit_rate: int | None, options: dict[str, str]
) -> Iterator[Image]:
    import av  # all of it, as in visil.video.pictures
    from av.video.codeccontext import VideoCodecContext

    from visil.video.writer import CODEC, peek, repeatable, set_up, video_frames

    first, frames = peek(frames)
    rate = Fraction(fps).limit_denominator(1001)
    size = (first.shape[1], first.shape[0])
    encoder, decoder = av.CodecContext.create(CODEC, "w"), av.CodecContext.create("h264", "r")
    assert isinstance(encoder, VideoCodecContext)
    assert isinstance(decoder, VideoCodecContext)
    set_up(encoder, size, rate, threads=1)  # with more, what a limited bit rate gives is left to chance
    if bit_rate is not None:
        encoder.bit_rate = bit_rate
    encoder.options = options | repeatable()
    for picture in chain(video_frames(frames, first, size, rate), [None]):
        packets = encoder.encode(picture)
        for packet in chain(packets, [None] if picture is None else []):
            for decoded in decoder.decode(packet):
                yield np.asarray(decoded.to_ndarray(format="rgb24"), np.uint8)


# ---------------------------------------------------------------------- over, under and around the picture


def overlay(
    text: str, x: float = 0.03, y: float = 0.94, *, height: float = 0.11, fill: Colour = (214, 40, 57)
) -> Edit:
    """A caption in a box, ``height`` of the frame's; ``x`` and ``y`` say where, from 0 (left, top) to 1."""
    _check_share("height", height)
    _check_place(x, y)
    drawn: dict[int, Image] = {}

    def apply(frame: Image) -> Image:
        rows, columns = frame.shape[:2]
        tall = max(1, round(height * rows))
        box = drawn.setdefault(tall, _caption(text, tall, fill))[:, :columns]
        return placed(frame, box, round(x * (columns - box.shape[1])), round(y * (rows - tall)))

    return _each(apply)


def banner(
    text: str, top: float, bottom: float, fill: Colour, colour: Colour, *, text_top: float, size: float
) -> Edit:
    """A band from side to side, from ``top`` to ``bottom`` in pixels, with a line of text of ``size`` pixels."""

    def apply(picture: Picture) -> Picture:
        from PIL import ImageDraw

        pen = ImageDraw.Draw(picture)
        pen.rectangle((0, top, picture.width, bottom), fill=fill)
        pen.text((picture.width * 0.04, text_top), text, fill=colour, font_size=size)
        return picture

    return _each_picture(apply)


def disc(left: float, top: float, across: float, fill: Colour) -> Edit:
    """A disc in the square with this corner and side, in pixels: a logo."""

    def apply(picture: Picture) -> Picture:
        from PIL import ImageDraw

        ImageDraw.Draw(picture).ellipse((left, top, left + across, top + across), fill=fill)
        return picture

    return _each_picture(apply)


def border(share: float, fill: Colour = (0, 0, 0)) -> Edit:
    """The picture made smaller, with a plain frame around it that takes ``share`` of each side."""
    _check_share("share", 1 - share)

    def apply(frame: Image) -> Image:
        height, width = frame.shape[:2]
        inner = (max(1, round(width * (1 - share))), max(1, round(height * (1 - share))))
        return _framed(_resized(frame, inner), width, height, fill)

    return _each(apply)


def framed(
    width: int, height: int, fill: Colour, *, at: tuple[int, int] | None = None, fine: bool = True
) -> Edit:
    """The picture ``width`` by ``height`` pixels on a card of its old size, its corner ``at``, else in the middle.

    ``fine`` resizes it bicubically, else bilinearly.
    """

    def apply(frame: Image) -> Image:
        inner = _resized(frame, (width, height), fine=fine)
        return _framed(inner, frame.shape[1], frame.shape[0], fill, at)

    return _each(apply)


def inset(around: Iterable[Image], scale: float = 0.4, x: float = 0.95, y: float = 0.08) -> Edit:
    """Picture in picture: shown small over other footage, for as long as both last."""
    _check_share("scale", scale)
    _check_place(x, y)

    def apply(frames: Iterable[Image]) -> Iterator[Image]:
        for frame, background in zip(frames, around, strict=False):
            height, width = background.shape[:2]
            small = _resized(frame, (max(1, round(width * scale)), max(1, round(height * scale))))
            left, top = round(x * (width - small.shape[1])), round(y * (height - small.shape[0]))
            yield placed(background, small, left, top)

    return apply


def placed(background: Image, picture: Image, left: int, top: int) -> Image:
    """A copy of the background with a picture over it, its corner at (left, top) in pixels."""
    both = background.copy()
    both[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
    return both


# ---------------------------------------------------------------------- with Pillow


def _each(apply: Callable[[Image], Image]) -> Edit:
    return lambda frames: map(apply, frames)


def _each_picture(apply: Callable[[Picture], Picture]) -> Edit:
    """An edit of Pillow's pictures; it may draw on the one it is given."""

    def on_frame(frame: Image) -> Image:
        from PIL import Image as pillow

        return np.asarray(apply(pillow.fromarray(frame)))

    return _each(on_frame)


def _bicubic() -> Resampling:
    from PIL import Image as pillow

    return pillow.Resampling.BICUBIC


def _resized(frame: Image, size: tuple[int, int], *, box: Box | None = None, fine: bool = False) -> Image:
    from PIL import Image as pillow

    how = pillow.Resampling.BICUBIC if fine else pillow.Resampling.BILINEAR
    return np.asarray(pillow.fromarray(frame).resize(size, how, box=box))


def _framed(inner: Image, width: int, height: int, fill: Colour, at: tuple[int, int] | None = None) -> Image:
    card = np.empty((height, width, 3), np.uint8)
    card[...] = np.array(fill, np.uint8)
    left, top = at or ((width - inner.shape[1]) // 2, (height - inner.shape[0]) // 2)
    return placed(card, inner, left, top)


def _caption(text: str, height: int, fill: Colour) -> Image:
    """The text in white on a box just wide enough."""
    from PIL import Image as pillow
    from PIL import ImageDraw, ImageFont

    font = ImageFont.load_default(size=max(4, round(height * 0.62)))
    width = round(font.getlength(text) + height * 0.7)
    box = pillow.new("RGB", (max(1, width), height), fill)
    ImageDraw.Draw(box).text((box.width / 2, height / 2), text, "white", font, anchor="mm")
    return np.asarray(box)


def _check_place(x: float, y: float) -> None:
    _check_share("x", x, 0)
    _check_share("y", y, 0)


def _check_share(name: str, value: float, above: float = 1e-6) -> None:
    if not above <= value <= 1:
        raise UsageError(f"{name} must be a share between 0 and 1, not {value:g}")
