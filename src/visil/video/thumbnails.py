"""Single frames at given times, for pictures of a video or a closer look: found by seeking, not by reading it all."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from visil.errors import UsageError, VideoError
from visil.video import images
from visil.video.animations import Animation
from visil.video.container import AnyPath, kind_of, open_video, plain_errors
from visil.video.decoding import LONGEST_GAP_IN_ONE_RECORDING, Decoder, stamps_may_restart
from visil.video.pictures import Converter, Image
from visil.video.sampling import FLOAT_SLACK, Sampling, stamp_tolerance

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

Picture = Callable[[Converter, "VideoFrame"], Image]
"""The picture made of a frame."""

SamplesAt = Callable[[AnyPath, Sequence[float], Sampling], list[Image]]
"""Path, times, sampling: :func:`samples_at`, or one that decodes in a process of its own."""

# Decoding this far ahead is cheaper than a seek, which goes back to a key frame first.
READ_ON = 2.0
# A seek may land after the time asked for; then it is asked for that much earlier, in seconds.
STEPS_BACK = (0.0, 2.0, 15.0, 120.0)


def frames_at(path: AnyPath, times: Sequence[float], height: int = 96, *, fps: float = 1.0) -> list[Image]:
    """The frame on display at each time, whole, in its proportions, ``height`` pixels high.

    Times are in seconds from the first frame, in any order; one before the start or after the end gives the
    first or the last frame. ``fps`` is the pace of a folder of images.
    """
    if not all(math.isfinite(time) for time in times):
        raise UsageError("times must be finite numbers of seconds")
    if not 1 <= height <= 8192:
        raise UsageError(f"height must be from 1 to 8192 pixels, not {height}")
    if kind_of(path) in ("video", "animation"):
        return _pictures_at(path, times, lambda converter, frame: converter.thumbnail(frame, height))
    return _images_at(path, times, fps, lambda file: images.thumbnail_image(file, path, height))


def samples_at(path: AnyPath, times: Sequence[float], sampling: Sampling) -> list[Image]:
    """The frame on display at each time, prepared as ``sampling`` prepares its samples."""
    if kind_of(path) not in ("video", "animation"):
        return _images_at(path, times, sampling.fps, lambda file: images.square_image(file, path, sampling))

    def prepared(converter: Converter, frame: VideoFrame) -> Image:
        if sampling.fit == "whole":
            return converter.whole(frame, sampling.crop)
        return converter.square(frame, sampling.resize, sampling.crop)

    return _pictures_at(path, times, prepared)


def _images_at(
    path: AnyPath, times: Sequence[float], fps: float, read: Callable[[Path], Image]
) -> list[Image]:
    """Images of a folder by time; in place of one that cannot be read the nearest that can."""
    files = images.image_files(path)
    shown = [min(int(max(0.0, time) * fps + FLOAT_SLACK), len(files) - 1) for time in times]

    def nearest(index: int) -> Image:
        by_distance = sorted(range(len(files)), key=lambda other: abs(other - index))
        return images.first_readable([files[other] for other in by_distance], read)

    found = {index: nearest(index) for index in set(shown)}
    return [found[index] for index in shown]


def _pictures_at(path: AnyPath, times: Sequence[float], picture: Picture) -> list[Image]:
    wanted = sorted({max(0.0, float(time)) for time in times})
    if kind_of(path) == "animation":
        found = _by_reading(Animation(path), Converter(None), wanted, picture)
    else:
        found = _by_seeking(path, wanted, picture) or _from_start(path, wanted, picture)
    return [found[max(0.0, float(time))] for time in times]


def _from_start(path: AnyPath, wanted: list[float], picture: Picture) -> dict[float, Image]:
    with open_video(path) as (container, stream), plain_errors(path):
        converter = Converter(stream.sample_aspect_ratio)
        return _by_reading(Decoder(container, stream, path), converter, wanted, picture)


def _by_reading(
    decoder: Decoder | Animation, converter: Converter, wanted: list[float], picture: Picture
) -> dict[float, Image]:
    """Decode from the start; right for every file, and as slow as the video is long."""
    found: dict[float, Image] = {}
    waiting = iter(wanted)
    time = next(waiting, None)
    tolerance = stamp_tolerance(decoder.tick)
    shown: VideoFrame | None = None
    for frame, start in decoder.frames():
        while time is not None and shown is not None and start > time + tolerance:
            found[time] = picture(converter, shown)
            time = next(waiting, None)
        if time is None:
            return found
        shown = frame
    while time is not None and shown is not None:
        found[time] = picture(converter, shown)
        time = next(waiting, None)
    return found


def _by_seeking(path: AnyPath, wanted: list[float], picture: Picture) -> dict[float, Image] | None:
    """Seek to each time; None where the file's stamps or index do not allow it."""
    try:
        with open_video(path) as (container, stream), plain_errors(path):
            decoder = Decoder(container, stream, path)
            if not _stamps_run_through(decoder):
                return None
        with open_video(path) as (container, stream), plain_errors(path):
            converter = Converter(stream.sample_aspect_ratio)
            seeker = _Seeker(Decoder(container, stream, path))
            return {time: picture(converter, seeker.frame_at(time)) for time in wanted}
    except (_CannotSeek, VideoError):
        # A damaged file fails again, with its reason, when it is read from the start.
        return None


def _stamps_run_through(decoder: Decoder) -> bool:
    """Whether time stamps can be trusted to find a frame by.

    Where stamps may restart, there is no telling but to read them all, which without decoding is quick.
    """
    if decoder.clockless:
        return False
    if not stamps_may_restart(decoder.container):
        return True
    last: int | None = None
    for packet in decoder.container.demux(decoder.stream):
        if packet.dts is None:
            continue
        if last is not None and not 0 <= (packet.dts - last) * decoder.tick <= LONGEST_GAP_IN_ONE_RECORDING:
            return False
        last = packet.dts
    return last is not None


class _CannotSeek(Exception):
    """Seeking in this file does not lead to the frame asked for."""


class _Seeker:
    """Finds the frame on display at a time; times must not go down from call to call."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.tolerance = stamp_tolerance(decoder.tick)
        self._coming = self._stamped()
        self._shown = next(self._coming, None)
        if self._shown is None:
            raise _CannotSeek
        self._origin = self._shown[0]
        self._ahead = next(self._coming, None)

    def frame_at(self, time: float) -> VideoFrame:
        """The last frame that begins at ``time`` or before."""
        target = self._origin + time
        if self._ahead is not None and self._ahead[0] + READ_ON < target:
            self._seek(target)
        while self._ahead is not None and self._ahead[0] <= target + self.tolerance:
            self._shown, self._ahead = self._ahead, next(self._coming, None)
        assert self._shown is not None
        return self._shown[1]

    def _seek(self, target: float) -> None:
        """Put ``_shown`` on a frame before ``target``, not further back than it is now."""
        assert self._shown is not None
        for back in STEPS_BACK:
            goal = target - back
            if goal <= self._shown[0]:
                break
            self._coming.close()
            self.decoder.container.seek(int(goal / self.decoder.tick), stream=self.decoder.stream)
            self._coming = self._stamped()
            landed = next(self._coming, None)
            if landed is not None and landed[0] <= target + self.tolerance:
                self._shown, self._ahead = landed, next(self._coming, None)
                return
        raise _CannotSeek

    def _stamped(self) -> Generator[tuple[float, VideoFrame], None, None]:
        for frame in self.decoder.decode_on():
            stamp = self.decoder.stamp(frame)
            if stamp is None:
                raise _CannotSeek
            yield stamp, frame
