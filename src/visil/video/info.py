"""A video file's facts about itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from visil.errors import VideoError
from visil.video import images
from visil.video.container import AnyPath, has_no_clock, kind_of, moving_streams, open_video, plain_errors
from visil.video.decoding import Decoder, declared_duration, frame_rate
from visil.video.pictures import Converter, Size

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

HDR = (16, 18)
"""Transfer functions, by the numbers of H.273: PQ and HLG."""


@dataclass(frozen=True)
class VideoInfo:
    """The facts in a file's headers, with the size at which its first frame is shown."""

    path: str
    width: int
    """As displayed: after rotation and with square pixels."""
    height: int
    duration: float | None
    """Seconds, as declared; None where the file does not say."""
    fps: float | None
    codec: str
    container: str
    bit_rate: int | None
    """Bits per second of the whole file."""
    has_audio: bool
    videos: int = 1
    """Moving pictures in the file; the first readable one is used."""
    sounds: int = 0
    """Sound tracks."""
    subtitles: int = 0
    """Tracks of text; captions that lie between the pictures (CEA-608, CEA-708) are one."""
    chapters: int = 0
    attachments: int = 0
    """Files and tracks of data in it: fonts, a camera's measurements, time codes, a cover picture."""
    depth: int = 8
    """Bits of a colour."""
    chroma: float = 0.25
    """How many pixels have a colour of their own; a quarter where four share one."""
    transparent: bool = False
    interlaced: bool = False
    """Whether each frame holds two moments, line by line."""
    hdr: bool = False
    """Whether it shows more than a usual screen: brightness by PQ or HLG."""


def probe(path: AnyPath) -> VideoInfo:
    """Read a video's facts. Decodes its first frame, so what can be probed can be read."""
    kind = kind_of(path)
    if kind == "animation":
        from visil.video.animations import Animation

        return Animation(path).info
    if kind != "video":
        return image_info(path, images.image_files(path), fps=None)
    with open_video(path) as (container, stream), plain_errors(path):
        decoder = Decoder(container, stream, path)
        for first in decoder.frames():
            converter = Converter(stream.sample_aspect_ratio)
            return video_info(path, container, stream, converter.display_size(first.frame), first.frame)
    raise VideoError(path, "the video stream holds no frames")


def declared_seconds(path: AnyPath) -> float | None:
    """How long a video is, as its file declares it, without decoding anything; None where it does not say."""
    kind = kind_of(path)
    if kind == "animation":
        from visil.video.animations import Animation

        return Animation(path).duration
    if kind != "video":
        return None
    with open_video(path) as (container, stream), plain_errors(path):
        return None if has_no_clock(container, stream, path) else declared_duration(container, stream)


def video_info(
    path: AnyPath,
    container: InputContainer,
    stream: VideoStream,
    display: Size,
    first: VideoFrame,
) -> VideoInfo:
    """The facts of an open container whose first frame is ``first``, shown at the size ``display``."""
    timed = not has_no_clock(container, stream, path)
    streams, moving = container.streams, len(moving_streams(container))
    return VideoInfo(
        path=os.fspath(path),
        width=display.width,
        height=display.height,
        duration=declared_duration(container, stream) if timed else None,
        fps=frame_rate(stream) if timed else None,
        codec=stream.codec_context.codec.canonical_name,
        container=_container_name(container.format.name, Path(path).suffix),
        bit_rate=container.bit_rate or None,
        has_audio=bool(streams.audio),
        videos=max(1, moving),
        sounds=len(streams.audio),
        subtitles=len(streams.subtitles) + _captions(first),
        chapters=len(container.chapters()),
        attachments=len(streams.data) + len(streams.attachments) + len(streams.video) - moving,
        interlaced=bool(first.interlaced_frame),
        hdr=stream.codec_context.color_trc in HDR,
        **_colours(stream),
    )


def _captions(frame: VideoFrame) -> int:
    """Whether a frame has captions with it, as broadcasts have in every one."""
    from av.sidedata.sidedata import Type

    return int(Type.A53_CC in frame.side_data)


class _Colours(TypedDict):
    depth: int
    chroma: float
    transparent: bool


def _colours(stream: VideoStream) -> _Colours:
    """The colours that its pixels can hold; of a GIF, which has 256 colours in all, that of any video."""
    form = stream.codec_context.format
    if form is None or stream.codec_context.name == "gif":
        return _Colours(depth=8, chroma=0.25, transparent=False)
    side = 64
    chroma = (form.chroma_width(side) or side) * (form.chroma_height(side) or side) / side**2
    grey = len([part for part in form.components if not part.is_alpha]) < 3
    return _Colours(
        depth=max((part.bits for part in form.components), default=8),
        chroma=0.25 if grey else chroma,
        transparent=any(part.is_alpha for part in form.components)
        or stream.metadata.get("alpha_mode") == "1",
    )


def image_info(path: AnyPath, files: list[Path], fps: float | None) -> VideoInfo:
    """The facts of images shown ``fps`` a second."""
    size = images.display_size(files, path)
    return VideoInfo(
        path=os.fspath(path),
        width=size.width,
        height=size.height,
        duration=len(files) / fps if fps else None,
        fps=fps,
        codec=files[0].suffix.lstrip(".").lower(),
        container="images",
        bit_rate=None,
        has_audio=False,
    )


def _container_name(names: str, suffix: str) -> str:
    """One of FFmpeg's names for a container ("mov,mp4,m4a,..."): the file's suffix if it is among them."""
    known = names.split(",")
    return suffix[1:].lower() if suffix[1:].lower() in known else known[0]
