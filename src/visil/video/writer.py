"""Frames into a video file: H.264 in the container that the suffix names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from visil.errors import UsageError, printable
from visil.files import replacing
from visil.machine import processor
from visil.video.pictures import Image

if TYPE_CHECKING:
    from av.container import OutputContainer
    from av.video.codeccontext import VideoCodecContext
    from av.video.frame import VideoFrame

CODEC = "libx264"
THREADS = 2
"""Fixed, so that the same frames give the same file on any machine."""


def write_video(
    path: str | os.PathLike[str],
    frames: Iterable[Image],
    fps: float = 25,
    *,
    crf: int = 23,
    preset: str = "veryfast",
    size: tuple[int, int] | None = None,
    threads: int = THREADS,
    keyframes: int | None = None,
) -> Path:
    """Write frames whole or not at all; ``crf`` is x264's quality, lower is better.

    Frames are all of one size, which must be even unless ``size`` (width, height) says what they are scaled to.
    A player jumps to a key frame; ``keyframes`` is the most frames from one to the next.
    """
    import av
    from av.video.stream import VideoStream

    first, frames = peek(frames, even=size is None)
    size = size or (first.shape[1], first.shape[0])
    rate = Fraction(fps).limit_denominator(1001)
    options = {"preset": preset, "crf": str(crf), **repeatable()}
    if keyframes is not None:
        options["g"] = str(keyframes)
    with replacing(path) as fresh:
        try:
            with _opened(fresh) as container:
                stream = container.add_stream(CODEC, rate=rate, options=options)
                assert isinstance(stream, VideoStream)
                set_up(stream.codec_context, size, rate, threads)
                for frame in video_frames(frames, first, size, rate):
                    container.mux(stream.encode(frame))
                container.mux(stream.encode(None))
        except av.error.FFmpegError as error:
            reason = error.strerror or "the encoder failed"
            raise UsageError(f"{printable(os.fspath(path))}: cannot be written: {reason}") from error
    return Path(path)


def _opened(path: Path) -> OutputContainer:
    import av

    try:
        return av.open(path, "w")
    except ValueError as error:
        raise UsageError(f"a video cannot be written as {path.suffix or 'a file without suffix'}") from error


def set_up(codec: VideoCodecContext, size: tuple[int, int], rate: Fraction, threads: int = THREADS) -> None:
    """Give an encoder the size and pace of the frames it will get."""
    codec.width, codec.height = size
    codec.pix_fmt = "yuv420p"
    codec.framerate = rate
    codec.time_base = 1 / rate
    codec.thread_count = threads


def repeatable() -> dict[str, str]:
    """Options with which x264 makes the same of the same frames: what it makes with AVX-512 of sizes that are no
    multiples of 64 differs from time to time."""
    return {"x264-params": "asm=avx2"} if processor.has("avx512f", "avx2") else {}


def video_frames(
    frames: Iterable[Image], first: Image, size: tuple[int, int], rate: Fraction
) -> Iterator[VideoFrame]:
    """Pictures as PyAV's frames of this width and height, numbered; all must be of the first one's size."""
    import av

    for number, image in enumerate(frames):
        if image.shape != first.shape:
            raise UsageError(f"frame {number} is {_size(image)}, the first was {_size(first)}")
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
        frame = frame.reformat(*size, "yuv420p")
        frame.pts = number
        frame.time_base = 1 / rate
        yield frame


def peek(frames: Iterable[Image], *, even: bool = True) -> tuple[Image, Iterator[Image]]:
    """The first frame, and all of them; ``even``: it must be of a size that H.264 can hold."""
    rest = iter(frames)
    first = next(rest, None)
    if first is None:
        raise UsageError("a video needs at least one frame")
    if first.ndim != 3 or first.shape[2] != 3 or (even and (first.shape[0] % 2 or first.shape[1] % 2)):
        raise UsageError(f"frames must be RGB of even width and height, not {_size(first)}")
    return first, chain([first], rest)


def _size(image: Image) -> str:
    return "×".join(str(side) for side in image.shape)
