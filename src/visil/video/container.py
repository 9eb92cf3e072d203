"""Opening files: which paths are videos, and a video file opened by FFmpeg, and nothing but that file.

FFmpeg opens far more than files: URLs, playlists that name other files, devices. A path given by a user may
be hostile, so it is always opened as a plain file, and only by demuxers that read one file from end to end.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from visil.errors import VideoError

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream


AnyPath = str | PathLike[str]

# fmt: off
VIDEO_SUFFIXES = frozenset((
    ".3g2", ".3gp", ".asf", ".avi", ".dv", ".f4v", ".flv", ".gif", ".h264", ".h265", ".hevc", ".ivf", ".m1v",
    ".m2t", ".m2ts", ".m2v", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".mxf", ".nut", ".ogm",
    ".ogv", ".rm", ".rmvb", ".ts", ".vob", ".webm", ".wmv", ".wtv", ".y4m",
))
# fmt: on
IMAGE_SUFFIXES = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"))

# Containers of real videos, all of them one self-contained file. Not here, on purpose: hls, dash, concat,
# sdp, rtsp, image2, imf, lavfi, tty, vobsub, mlv and the like, which read other files, the network or text.
VIDEO_DEMUXERS = (
    "3gp,apng,asf,av1,avi,avs2,avs3,cavsvideo,dhav,dirac,dnxhd,dv,evc,flv,gif,gxf,h261,h263,h264,hevc,ivf,"
    "live_flv,lxf,m4v,matroska,mjpeg,mov,mp4,mpeg,mpegts,mpegvideo,mxf,nsv,nut,nuv,obu,ogg,pva,rm,ty,vc1,vvc,"
    "webm,wtv,yuv4mpegpipe"
)
# Sound files, so that they can be told from garbage. They may hold a cover picture, which is no video.
AUDIO_DEMUXERS = "aac,ac3,aiff,amr,ape,caf,eac3,flac,mp3,w64,wav,wv"

# 16K video. More than this in one frame is damage or an attack, and would take gigabytes to decode.
MAX_PIXELS = 15360 * 8640

DECODER_OPTIONS = {"max_pixels": str(MAX_PIXELS)}
FAST_OPTIONS = {"skip_frame": "bidir", "skip_loop_filter": "all"}


def is_video_path(path: AnyPath) -> bool:
    """Whether a path is named like a video file. Looks at the name only."""
    return _suffix(path) in VIDEO_SUFFIXES


def is_image_path(path: AnyPath) -> bool:
    """Whether a path is named like an image file. Looks at the name only; GIF counts as both."""
    return _suffix(path) in IMAGE_SUFFIXES


Kind = Literal["video", "image", "animation", "folder"]


def kind_of(path: AnyPath) -> Kind:
    """The kind of a path; a :class:`VideoError` where there is nothing local and regular to read."""
    try:
        name = os.fspath(path)
        status = os.stat(name)
        if stat.S_ISDIR(status.st_mode):
            return "folder"
        if not stat.S_ISREG(status.st_mode):
            raise VideoError(path, "not a regular file (a pipe, socket or device)")
        if not os.access(name, os.R_OK):
            raise VideoError(path, "permission denied")
    except (OSError, ValueError) as error:
        raise VideoError(path, reason_of_os_error(error)) from error
    if status.st_size == 0:
        raise VideoError(path, "the file is empty")
    # An animated GIF is a video; every other image is one frame, unless it moves.
    return still_or_moving(name) if is_image_path(name) and not is_video_path(name) else "video"


def still_or_moving(image: AnyPath) -> Kind:
    """The kind of an image by its first bytes: WebP and PNG may be animated. FFmpeg reads the latter as a video."""
    try:
        with open(image, "rb") as file:
            head = file.read(4096)
    except OSError:
        return "image"
    if head[8:16] == b"WEBPVP8X" and head[20] & 0x02:
        return "animation"
    if head.startswith(b"\x89PNG") and b"acTL" in head.partition(b"IDAT")[0]:
        return "video"
    return "image"


def reason_of_os_error(error: OSError | ValueError) -> str:
    """The operating system's objection to a path, in plain words."""
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return "no such file"
        case PermissionError():
            return "permission denied"
        case OSError(strerror=str(said)) if said:
            return said[0].lower() + said[1:]
        case OSError():
            return "cannot be read"
    return "no such file: its name holds characters that no file name can"


def _suffix(path: AnyPath) -> str:
    return Path(path).suffix.lower()


@contextmanager
def plain_errors(path: AnyPath) -> Iterator[None]:
    """Turn whatever PyAV raises on a bad file into a :class:`VideoError` with a reason fit to read."""
    import av.error

    try:
        yield
    except av.error.DecoderNotFoundError as error:
        raise VideoError(path, "its video is in a format that this FFmpeg cannot decode") from error
    except MemoryError as error:
        raise VideoError(path, "damaged: decoding it needs more memory than there is") from error
    except (
        *(av.error.FFmpegError, OSError, EOFError, ValueError),
        *(ArithmeticError, LookupError, RuntimeError, AssertionError),
    ) as error:
        # FFmpeg's own words ("Operation not permitted" for a bad byte) mislead; they are in the cause.
        raise VideoError(path, "damaged: its content cannot be decoded") from error


@contextmanager
def open_video(
    path: AnyPath, threads: int = 1, *, fast: bool = False
) -> Iterator[tuple[InputContainer, VideoStream]]:
    """Open a file and choose its video stream, ready to decode; closed on leaving.

    ``fast``: no frames that are predicted from both sides, and no smoothing of block edges.
    """
    kind_of(path)
    container = _opened(path)
    try:
        with plain_errors(path):
            stream = _video_stream(container, path)
            if has_no_clock(container, stream, path):
                container.close()
                container = _opened(path, ignore_editlist="1")  # by such a clock it would leave out frames
                stream = _video_stream(container, path)
            stream.codec_context.options = DECODER_OPTIONS | (FAST_OPTIONS if fast else {})
            stream.codec_context.thread_count = threads
            stream.codec_context.thread_type = "NONE" if threads == 1 else "AUTO"
        yield container, stream
    finally:
        container.close()


def _opened(path: AnyPath, **options: str) -> InputContainer:
    import av
    import av.error

    container_options = {
        "format_whitelist": f"{VIDEO_DEMUXERS},{AUDIO_DEMUXERS}",
        "protocol_whitelist": "file",
    }
    with plain_errors(path):
        try:
            # "file:" and an absolute path: a name like "concat:a.mp4" or "-" is only a name.
            return av.open(
                "file:" + os.path.abspath(path),
                mode="r",
                options=DECODER_OPTIONS,  # also for the decoders that look into the file while it is opened
                container_options=container_options | options,
                **_lenient_metadata(),
            )
        except av.error.FFmpegError as error:
            raise VideoError(path, _why_not_video(path)) from error


def _lenient_metadata() -> dict[str, Any]:
    """Names in the file that are not UTF-8 are no reason to refuse it; from 19 on, PyAV needs no telling."""
    import av

    return {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}


def moving_streams(container: InputContainer) -> list[VideoStream]:
    """The video streams that are no cover art."""
    from av.stream import Disposition

    return [s for s in container.streams.video if not s.disposition & Disposition.attached_pic]


def _video_stream(container: InputContainer, path: AnyPath) -> VideoStream:
    """The stream to read: the largest video that is neither cover art nor beyond decoding."""
    from av.stream import Disposition

    moving = moving_streams(container)
    if not moving:
        if container.streams.video:
            raise VideoError(path, "no video stream: the file holds only sound and a cover picture")
        if container.streams.audio:
            raise VideoError(path, "no video stream: the file holds only sound")
        raise VideoError(path, "no video stream")
    decodable = [stream for stream in moving if stream.codec_context is not None]
    if not decodable:
        raise VideoError(path, "its video is in a format that this FFmpeg cannot decode")

    def rank(stream: VideoStream) -> tuple[bool, int, int]:
        area = stream.codec_context.width * stream.codec_context.height
        return bool(stream.disposition & Disposition.default), area, -stream.index

    best = max(decodable, key=rank)
    if best.codec_context.width * best.codec_context.height > MAX_PIXELS:
        size = f"{best.codec_context.width}x{best.codec_context.height}"
        raise VideoError(path, f"damaged: it claims frames of {size} pixels")
    return best


def _why_not_video(path: AnyPath) -> str:
    """A guess at a file that no demuxer on the list recognises."""
    try:
        with open(path, "rb") as file:
            head = file.read(4096)
    except OSError as error:
        return reason_of_os_error(error)
    if head[4:8] == b"ftyp":
        return "damaged: its index is missing, as if the recording or download was cut short"
    if not head.strip(b"\0"):
        return "not a video file: it holds only zeros"
    if head.startswith(b"#EXTM3U") or head.startswith(b"ffconcat"):
        return "not a video file: a playlist"
    if b"\0" not in head and _is_text(head):
        return "not a video file: it holds text"
    return "not a video file, or damaged at its start"


def _is_text(head: bytes) -> bool:
    try:
        # A character may be cut in two at the end.
        head[:-3].decode("utf-8") if len(head) > 3 else head.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


INSIDE = (b"moov", b"trak", b"mdia")
"""Boxes that lead to the headers."""

DEEPEST = 4


def has_no_clock(container: InputContainer, stream: VideoStream, path: str | PathLike[str]) -> bool:
    """Whether the stamps of a file mean nothing: the header of some track counts no ticks a second."""
    if stream.time_base != 1 or "mp4" not in container.format.name:
        return False
    try:
        with Path(path).open("rb") as file:
            return _has_no_clock(file, 0, Path(path).stat().st_size, DEEPEST)
    except OSError:
        return False


def _has_no_clock(file: BinaryIO, at: int, end: int, depth: int) -> bool:
    while depth and at + 8 <= end:
        file.seek(at)
        header = file.read(32)
        size, head = int.from_bytes(header[:4], "big"), 8
        if size == 1:
            size, head = int.from_bytes(header[8:16], "big"), 16
        elif size == 0:
            size = end - at
        if size < head:
            return False  # damaged
        name, body = header[4:8], header[head:]
        if name == b"mdhd" and not any(body[20:24] if body[:1] == b"\1" else body[12:16]):
            return True
        if name in INSIDE and _has_no_clock(file, at + head, min(at + size, end), depth - 1):
            return True
        at += size
    return False
