"""Videos made for tests: real files with known content, written with PyAV."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]

STAMP_BITS = 12
STAMP_ROWS, STAMP_COLUMNS = 3, 4


def write_video(
    path: str | Path,
    frames: Iterable[Image],
    fps: float | Fraction = 25,
    codec: str = "libx264",
    pix_fmt: str = "yuv420p",
    options: dict[str, str] | None = None,
    timestamps: Sequence[float] | None = None,
    time_base: Fraction | None = None,
    rotation: int = 0,
    pixel_aspect: Fraction | None = None,
    colorspace: int | None = None,
    color_range: int | None = None,
    container_format: str | None = None,
    container_options: dict[str, str] | None = None,
    sound: bool | NDArray[np.float32] = False,
    sound_codec: str = "aac",
    sound_rate: int = 48000,
    sound_bits: int = 128_000,
) -> Path:
    """Encode RGB frames [H, W, 3] into a file whose suffix names the container; returns its path.

    ``timestamps`` are seconds, one per frame, for a variable frame rate; they must go up. ``rotation`` is in
    degrees counterclockwise, the way the frames are to be turned for display. ``colorspace`` and
    ``color_range`` are FFmpeg's numbers (1 and 1: BT.709, limited); the pixels are converted to match.
    ``sound`` adds a track: silent, or samples at 48 kHz, as many as there are; two rows of them are left and right.
    """
    import av

    rate = Fraction(fps).limit_denominator(1001)
    path = Path(path)
    with av.open(str(path), "w", format=container_format, options=container_options or {}) as container:
        stream = container.add_stream(codec, rate=rate, options=_quick(codec) | (options or {}))
        assert isinstance(stream, av.VideoStream)
        stream.pix_fmt = pix_fmt
        tick = time_base or (Fraction(1, 90000) if timestamps is not None else 1 / rate)
        stream.codec_context.time_base = tick
        if rotation:
            stream.set_display_rotation(rotation)
        if pixel_aspect is not None:
            stream.codec_context.sample_aspect_ratio = pixel_aspect
        if colorspace is not None:
            stream.codec_context.colorspace = colorspace
        if color_range is not None:
            stream.codec_context.color_range = color_range
        voice = None
        if sound is not False:
            layout = "stereo" if np.ndim(sound) == 2 else "mono"
            voice = container.add_stream(sound_codec, rate=sound_rate, layout=layout)
            assert isinstance(voice, av.AudioStream)
            voice.bit_rate = sound_bits
        seconds = 0.0
        for index, image in enumerate(frames):
            if index == 0:
                stream.height, stream.width = image.shape[:2]
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
            frame = frame.reformat(
                format=pix_fmt,
                dst_colorspace=colorspace,
                dst_color_range=color_range,
            )
            seconds = timestamps[index] if timestamps is not None else float(index / rate)
            frame.time_base = tick
            frame.pts = round(seconds / tick) if timestamps is not None else round(index / rate / tick)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
        if voice is not None:
            length = round((seconds + float(1 / rate)) * 48000)
            _mux_sound(container, voice, np.zeros(length, np.float32) if isinstance(sound, bool) else sound)
    return path


def stamped_frames(count: int, size: tuple[int, int] = (192, 256), first: int = 0) -> Iterator[Image]:
    """Frames of ``size`` (height, width) that carry their own number; :func:`read_stamp` reads it back.

    The number is written as a 3 x 4 grid of black and white blocks inside the centre square, so it survives
    compression, resizing and a centre crop.
    """
    height, width = size
    side = min(height, width) * 3 // 4
    top, left = (height - side) // 2, (width - side) // 2
    for number in range(first, first + count):
        image = np.full((height, width, 3), 128, np.uint8)
        bits = [(number >> bit) & 1 for bit in range(STAMP_BITS)]
        blocks = np.array(bits, np.uint8).reshape(STAMP_ROWS, STAMP_COLUMNS) * 200 + 20
        rows = np.arange(side) * STAMP_ROWS // side
        columns = np.arange(side) * STAMP_COLUMNS // side
        image[top : top + side, left : left + side] = blocks[rows][:, columns, None]
        yield image


def read_stamp(image: Image, source: tuple[int, int] = (192, 256), resize: int = 256) -> int:
    """The number of a :func:`stamped_frames` frame of size ``source``, resized and centre-cropped."""
    height, width = image.shape[:2]
    side = min(source) * 3 // 4 * resize / min(source)
    number = 0
    for bit in range(STAMP_BITS):
        row, column = divmod(bit, STAMP_COLUMNS)
        y = round(height / 2 + side * ((row + 0.5) / STAMP_ROWS - 0.5))
        x = round(width / 2 + side * ((column + 0.5) / STAMP_COLUMNS - 0.5))
        level = float(image[y - 3 : y + 4, x - 3 : x + 4].mean())
        assert abs(level - 120) > 40, f"block {bit} is neither black nor white: {level:.0f}"
        number |= int(level > 120) << bit
    return number


def read_stamps(
    images: Iterable[Image], source: tuple[int, int] = (192, 256), resize: int = 256
) -> list[int]:
    """:func:`read_stamp` of each image."""
    return [read_stamp(image, source, resize) for image in images]


def same_frames(a: Sequence[Image], b: Sequence[Image]) -> bool:
    """Whether two videos are the same, pixel by pixel."""
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def difference(a: Image, b: Image) -> float:
    """Mean difference of two pictures, in steps of 255."""
    return float(np.abs(a.astype(int) - b.astype(int)).mean())


def moving_scene(
    seed: int, seconds: float, fps: float = 25, size: tuple[int, int] = (240, 320), shot: float = 4.0
) -> Iterator[Image]:
    """Footage that depends on ``seed`` alone, in shots of ``shot`` seconds.

    Each shot is a textured panorama with a camera moving over it and a few objects moving on their own. Other
    seeds, and other shots, look clearly different.
    """
    height, width = size
    per_shot = max(1, round(shot * fps))
    for index in range(round(seconds * fps)):
        number, step = divmod(index, per_shot)
        if step == 0:
            random = np.random.default_rng([seed, number])
            panorama = _texture(random, height * 3 // 2, width * 3 // 2)
            objects = [_Object.draw(random, height) for _ in range(4)]
            angle = random.uniform(0, 2 * np.pi)
        travel = step / per_shot - 0.5
        top = round(height / 4 * (1 + 0.9 * np.sin(angle) * 2 * travel))
        left = round(width / 4 * (1 + 0.9 * np.cos(angle) * 2 * travel))
        image = panorama[top : top + height, left : left + width].copy()
        for thing in objects:
            thing.paint(image, step / fps)
        yield image


class _Object:
    """A disc in one colour on a straight path that wraps around the edges."""

    def __init__(self, place: NDArray[np.float64], speed: NDArray[np.float64], radius: float, colour: Image):
        self.place, self.speed, self.radius, self.colour = place, speed, radius, colour

    @classmethod
    def draw(cls, random: np.random.Generator, height: int) -> _Object:
        colour = random.integers(0, 256, 3).astype(np.uint8)
        return cls(
            random.random(2), random.uniform(-0.25, 0.25, 2), random.uniform(0.06, 0.16) * height, colour
        )

    def paint(self, image: Image, time: float) -> None:
        height, width = image.shape[:2]
        y, x = (self.place + self.speed * time) % 1.0 * (height, width)
        rows, columns = np.ogrid[:height, :width]
        image[(rows - y) ** 2 + (columns - x) ** 2 <= self.radius**2] = self.colour


def _texture(random: np.random.Generator, height: int, width: int) -> Image:
    """Coloured noise at several scales, over a colour gradient: blotches, lines and grain."""
    total = np.zeros((height, width, 3))
    for cells in (3, 6, 12, 24, 48):
        grid = random.normal(size=(cells + 2, cells + 2, 3))
        y, x = np.linspace(0, cells, height), np.linspace(0, cells, width)
        row, column = y.astype(int), x.astype(int)
        v, u = (y - row)[:, None, None], (x - column)[None, :, None]
        upper = grid[row][:, column] * (1 - u) + grid[row][:, column + 1] * u
        lower = grid[row + 1][:, column] * (1 - u) + grid[row + 1][:, column + 1] * u
        total += (upper * (1 - v) + lower * v) * cells**-0.6
    stripes = np.sin(np.linspace(0, random.uniform(8, 40), width) + random.uniform(0, 6))[None, :, None]
    total += 0.25 * stripes * random.normal(size=3)
    levels = random.uniform(60, 196, 3) + 70 * total / total.std()
    texture: Image = np.clip(levels, 0, 255).astype(np.uint8)
    return texture


def _quick(codec: str) -> dict[str, str]:
    """Encoder settings that trade size for speed."""
    match codec:
        case "libx264" | "libx264rgb":
            return {"preset": "ultrafast", "crf": "18", "bf": "2", "threads": "1"}
        case "libx265":
            return {"preset": "ultrafast", "x265-params": "log-level=none:pools=1"}
        case "libvpx" | "libvpx-vp9":
            return {"deadline": "realtime", "cpu-used": "8", "b": "2M"}
        case "mpeg4" | "mpeg2video":
            return {"qmin": "2", "qmax": "4", "b": "4M"}
    return {}


def _mux_sound(container: object, voice: object, samples: NDArray[np.float32]) -> None:
    import av
    from av.audio.stream import AudioStream
    from av.container import OutputContainer

    assert isinstance(container, OutputContainer)
    assert isinstance(voice, AudioStream)
    samples = np.atleast_2d(samples)
    codec = voice.codec_context
    layout = codec.layout.name
    fitted = av.AudioResampler(codec.format, layout, voice.rate, codec.frame_size or 1024)
    for start in range(0, samples.shape[1], 1024):
        piece = np.ascontiguousarray(samples[:, start : start + 1024])
        frame = av.AudioFrame.from_ndarray(piece, format="fltp", layout=layout)
        frame.sample_rate = 48000
        frame.pts = start
        for part in fitted.resample(frame):
            container.mux(voice.encode(part))
    for part in fitted.resample(None):
        container.mux(voice.encode(part))
    container.mux(voice.encode())
