"""Which frames of a video are samples and which packets they need, told before anything is decoded on a GPU.

The times are those of the CPU path: the same clock and the same grid, run over the packets in order of display. That
holds for files whose time stamps are whole and in order; every other file is :class:`Unfit`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from visil.errors import VideoError
from visil.video.container import AnyPath, kind_of, open_video, plain_errors
from visil.video.decoding import Decoder
from visil.video.info import VideoInfo, video_info
from visil.video.pictures import (
    Colour,
    Converter,
    Orientation,
    Size,
    colour_of,
    is_strip,
    orientation_of,
    scaled_to_shorter,
)
from visil.video.sampling import Sampling, TimeGrid, stamp_tolerance

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

CODECS = {"h264": "H264", "hevc": "HEVC", "mpeg2video": "MPEG2"}
"""FFmpeg's names to NVDEC's. Of VP9, whose packets may hold a hidden frame beside the shown one, NVDEC (580.159) gave
out frames with other stamps than the container's; VP8 and AV1 pack frames likewise."""
REWRITING = {"H264": "h264_mp4toannexb", "HEVC": "hevc_mp4toannexb"}
"""FFmpeg's filters that put start codes before the parts of a packet, as NVDEC wants them."""
SLICES = range(1, 6)
"""Types of the parts of an H.264 packet that hold the picture itself."""
PIXEL_FORMATS = ("yuv420p", "yuvj420p")


class Unfit(Exception):
    """NVDEC cannot decode this video; ``str()`` is the reason, fit to read."""


@dataclass(frozen=True)
class Plan:
    """The frames to decode, and the samples to make of them."""

    codec: str
    """NVDEC's name."""
    rewriting: str | None
    stored: Size
    scaled: Size
    """Before turning and cropping."""
    colour: Colour
    orientation: Orientation
    info: VideoInfo
    first: int
    """The first frame's time stamp, in ticks."""
    wanted: dict[int, range]
    """Time stamps of the samples, and the places of each on the grid."""
    duration: float


def planned(path: AnyPath, sampling: Sampling) -> Plan:
    """From a video's packets, and its first frame decoded on the CPU; :class:`Unfit` where NVDEC cannot decode it."""
    if sampling.mode != "time":
        raise Unfit("sampling by count follows OpenCV, which is the CPU's")
    if kind_of(path) != "video":
        raise Unfit("not a video file")
    try:
        return _planned(path, sampling)
    except VideoError as error:
        raise Unfit(error.reason) from error


def _planned(path: AnyPath, sampling: Sampling) -> Plan:
    with open_video(path) as (container, stream), plain_errors(path):
        codec = CODECS.get(stream.codec_context.codec.canonical_name)
        if codec is None:
            raise Unfit(f"{stream.codec_context.codec.canonical_name} is not a codec that is left to NVDEC")
        decoder = Decoder(container, stream, path)
        first: VideoFrame | None = None
        packets: list[tuple[int, int]] = []
        for packet in container.demux(stream):
            if packet.size:
                packets.append(_stamped(packet, first=not packets))
            if first is None:
                first = next(iter(stream.codec_context.decode(packet if packet.size else None)), None)
                if first is not None:
                    _check_picture(first)
        if first is None:
            raise Unfit("not one frame can be decoded")
        packets.sort()
        _check_order(packets, first)
        wanted = _wanted(packets, decoder, sampling)
        converter = Converter(stream.sample_aspect_ratio)
        aspect = converter.pixel_aspect
        if is_strip(first.width, first.height, aspect):
            raise Unfit("too long a strip")
        if sampling.fit == "whole":
            scaled = Size(sampling.crop, sampling.crop)
        else:
            scaled = scaled_to_shorter(float(first.width * aspect), first.height, sampling.resize)
        return Plan(
            codec=codec,
            rewriting=REWRITING.get(codec),
            stored=Size(first.width, first.height),
            scaled=scaled,
            colour=colour_of(first),
            orientation=orientation_of(first),
            info=video_info(path, container, stream, converter.display_size(first), first),
            first=packets[0][0],
            wanted=wanted,
            duration=decoder.clock.end,
        )


def _stamped(packet: Packet[VideoStream], *, first: bool) -> tuple[int, int]:
    """When a packet's frame is shown and for how long, in ticks."""
    if packet.pts is None:
        raise Unfit("packets without time stamps")
    if packet.is_corrupt or packet.is_discard:
        raise Unfit("packets that are damaged, or cut away by an edit list")
    if first and not packet.is_keyframe:
        raise Unfit("it does not begin with a key frame")
    return packet.pts, packet.duration or 0


def _check_order(packets: list[tuple[int, int]], first: VideoFrame) -> None:
    stamps = [stamp for stamp, _ in packets]
    if len(set(stamps)) < len(stamps):
        raise Unfit("several frames with the same time stamp")
    if first.pts != stamps[0]:
        raise Unfit("its first frames cannot be decoded")


def _check_picture(first: VideoFrame) -> None:
    if first.format.name not in PIXEL_FORMATS:
        raise Unfit(f"pixels are {first.format.name}, not 8 bits 4:2:0")
    if first.width % 2 or first.height % 2:
        raise Unfit(f"an odd size, {first.width}x{first.height}")
    if first.interlaced_frame:
        raise Unfit("interlaced, which NVDEC would smooth")


def _wanted(packets: list[tuple[int, int]], decoder: Decoder, sampling: Sampling) -> dict[int, range]:
    """The samples, by the clock and the grid of :class:`visil.video.frames.FrameStream`."""
    clock, tick = decoder.clock, decoder.tick
    grid = TimeGrid(sampling.fps, stamp_tolerance(tick))
    wanted: dict[int, range] = {}
    for place, (stamp, held) in enumerate(packets):
        time = clock.tick(stamp * tick, held * tick if held else None)
        if place:
            wanted[packets[place - 1][0]] = grid.until(time)
    wanted[packets[-1][0]] = grid.finish(clock.end)
    if clock.discontinuities:
        raise Unfit("time stamps that leap or run backwards")
    return {stamp: indices for stamp, indices in wanted.items() if indices}


def chosen_packets(
    container: InputContainer, stream: VideoStream, plan: Plan
) -> Iterator[Packet[VideoStream] | None]:
    """The packets for NVDEC: start codes in place of lengths, without frames that are not needed; None at the end."""
    from av.bitstream import BitStreamFilterContext

    rewrite = BitStreamFilterContext(plan.rewriting, stream) if plan.rewriting else None
    for packet in container.demux(stream):
        if packet.size == 0:
            break
        for ready in rewrite.filter(packet) if rewrite is not None else [packet]:
            if plan.codec != "H264" or ready.pts in plan.wanted or referred_to(bytes(ready)):
                yield ready
    yield None


def referred_to(data: bytes) -> bool:
    """Whether other frames may be predicted from this H.264 packet's; what is no picture counts as if they were."""
    at = data.find(b"\0\0\1")
    while 0 <= at < len(data) - 3:
        header = data[at + 3]
        if header & 31 in SLICES:
            return header >> 5 & 3 != 0
        at = data.find(b"\0\0\1", at + 3)
    return True
