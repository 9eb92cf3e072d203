"""A long video in parts by time, each decoded by itself, whose frames together are exactly those of the whole.

:func:`plan_parts` reads all packets, decodes none, and runs the video's clock over their stamps: so each part knows
which frame it begins with, and what the clock and the grid of samples say there. A part is decoded from a key frame at
least one whole group of pictures before, so that what leans on earlier pictures has them.

Three things are checked, and any that fails means that the video is read unsplit: the part meets the frame that it
begins with; at its end its clock is where the next part's began; and the first pictures of the next part, which both
decode, are equal to the last bit.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from visil.compare.visil import BATCH
from visil.errors import VideoError
from visil.video.container import open_video, plain_errors
from visil.video.decoding import Decoder, declared_duration, stamps_may_restart
from visil.video.frames import Frames, Sample, batched
from visil.video.geometry import believable_pixel_aspect
from visil.video.info import VideoInfo, video_info
from visil.video.paths import AnyPath, kind_of
from visil.video.picture import Converter
from visil.video.sampling import Sampling, TimeGrid, stamp_tolerance

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

CONTAINERS = {"mov", "mp4", "matroska", "webm"}
"""Those whose stamps are the file's own, and run through."""

CODECS = {"h264", "hevc", "mpeg4", "vp9", "av1"}
"""Those with one picture a packet, and key frames that say so."""

OVERLAP = 32
"""Pictures that two neighbouring parts both decode and compare."""

State = dict[str, Any]
"""All that a clock remembers."""


class CannotSplit(Exception):
    """The parts would not make the whole."""


@dataclass(frozen=True)
class Part:
    """Samples ``start`` to ``stop`` of a video (None: to its end), and how to get there."""

    start: int
    stop: int | None
    key: int | None
    """The stamp of the key frame to decode from; None: the beginning."""
    first: int | None
    """The stamp of the frame that sample ``start`` shows; None: the video's first."""
    clock: State | None
    """What the clock remembers when it has seen that frame."""


@dataclass(frozen=True)
class Joint:
    """What one part knows about where it meets its neighbours."""

    head: str
    """Digest of its first pictures."""
    tail: str | None
    """Digest of the next part's first pictures; None at the end of the video."""


def plan_parts(path: AnyPath, sampling: Sampling, samples: int) -> list[Part] | None:
    """Parts of about ``samples`` samples (a multiple of ``BATCH``); None where the video is best read whole."""
    assert samples % BATCH == 0, "or batches would not be those of the whole video"
    if kind_of(path) != "video" or sampling.mode != "time":
        return None
    with open_video(path) as (container, stream), plain_errors(path):
        seconds = declared_duration(container, stream)
        if (
            seconds is None
            or seconds * sampling.fps < 2 * samples
            or stamps_may_restart(container)
            or not CONTAINERS.intersection(container.format.name.split(","))
            or stream.codec_context.codec.canonical_name not in CODECS
        ):
            return None
        decoder = Decoder(container, stream, path)
        stamps, held, keys = array("q"), array("q"), array("q")
        for packet in container.demux(stream):
            if packet.size == 0:
                continue
            if packet.pts is None or packet.is_corrupt or packet.is_discard:
                return None
            stamps.append(packet.pts)
            held.append(packet.duration or 0)
            if packet.is_keyframe:
                keys.append(packet.pts)
    return _planned(decoder, sampling, samples, stamps, held, sorted(keys))


def _planned(
    decoder: Decoder, sampling: Sampling, samples: int, stamps: array[int], held: array[int], keys: list[int]
) -> list[Part] | None:
    shown = np.array(stamps, np.int64)
    order = np.argsort(shown, kind="stable")
    shown, lasting = shown[order], np.array(held, np.int64)[order]
    if len(shown) < 2 or (np.diff(shown) <= 0).any():
        return None
    grid = TimeGrid(sampling.fps, stamp_tolerance(decoder.tick))
    parts = [Part(0, None, None, None, None)]
    state: State = {}
    border, before = samples, int(shown[0])
    for stamp, duration in zip(shown.tolist(), lasting.tolist(), strict=True):
        time = decoder.clock.tick(stamp * decoder.tick, duration * decoder.tick if duration else None)
        owned = grid.until(time) if state else range(0)
        while border in owned:
            place = bisect_right(keys, before) - 2
            near = place >= 0 and (before - keys[place]) * decoder.tick * sampling.fps <= samples
            if near:
                last = parts.pop()
                parts.append(Part(last.start, border, last.key, last.first, last.clock))
                parts.append(Part(border, None, keys[place], before, state))
            border += samples
        before, state = stamp, dict(vars(decoder.clock))
    return parts if len(parts) > 1 else None


class PartStream:
    """The frames of one part, in batches as those of the whole video; ``following`` is the part after it."""

    info: VideoInfo | None = None
    """What the file says about itself: the first part tells."""
    duration = 0.0
    """Of the whole video: the last part tells."""
    joint: Joint
    """Once iteration is over."""

    def __init__(self, path: AnyPath, sampling: Sampling, part: Part, following: Part | None) -> None:
        self.path = path
        self.sampling = sampling
        self.part = part
        self.following = following

    def __iter__(self) -> Iterator[Frames]:
        return batched(self._samples(), BATCH, self.sampling.crop)

    def _samples(self) -> Iterator[Sample]:
        part, head, tail = self.part, _Digest(), _Digest()
        with open_video(self.path) as (container, stream), plain_errors(self.path):
            decoder = Decoder(container, stream, self.path)
            converter = Converter(believable_pixel_aspect(stream.sample_aspect_ratio))
            if part.key is not None:
                container.seek(part.key, stream=stream)
            frames = decoder.decode_on()
            shown = self._first(frames, decoder)
            if part.start == 0:
                self.info = video_info(self.path, container, stream, converter.display_size(shown))
            grid = TimeGrid(self.sampling.fps, stamp_tolerance(decoder.tick))
            grid.until((part.start - 0.5) / self.sampling.fps)
            head.add(shown)
            for frame in frames:
                state, owner = dict(vars(decoder.clock)), shown
                time = decoder.clock.tick(decoder.stamp(frame), decoder.held(frame))
                owned = grid.until(time)
                ours = owned if part.stop is None else range(owned.start, min(owned.stop, part.stop))
                yield from self._repeated(shown, ours, converter)
                head.add(frame)
                shown = frame
                if part.stop is not None and owned.stop > part.stop:
                    self._meets(owner, state)
                    for picture in (owner, frame):
                        tail.add(picture)
                    break
            else:
                if part.stop is not None:
                    raise CannotSplit
                yield from self._repeated(shown, grid.finish(decoder.clock.end), converter)
                self.duration = decoder.clock.end
            for frame in frames if part.stop is not None else ():
                head.add(frame)
                if not tail.add(frame):
                    break
            if decoder.damaged:
                raise CannotSplit
            self.joint = Joint(head.text(), None if part.stop is None else tail.text())

    def _first(self, frames: Iterator[VideoFrame], decoder: Decoder) -> VideoFrame:
        """The frame that the part begins with, and the clock set to what it remembers there."""
        part = self.part
        if part.first is None or part.clock is None:
            for frame in frames:
                decoder.clock.tick(decoder.stamp(frame), decoder.held(frame))
                return frame
            raise VideoError(self.path, "the video stream holds no frames")
        landed = False
        for frame in frames:
            if frame.pts is None or (not landed and part.key is not None and frame.pts > part.key):
                raise CannotSplit  # a seek that went too far: the pictures before may be missed
            landed = True
            if frame.pts > part.first:
                raise CannotSplit
            if frame.pts == part.first:
                vars(decoder.clock).update(part.clock)
                return frame
        raise CannotSplit

    def _meets(self, owner: VideoFrame, state: State) -> None:
        following = self.following
        if following is None or owner.pts != following.first or state != following.clock:
            raise CannotSplit

    def _repeated(self, frame: VideoFrame, indices: range, converter: Converter) -> Iterator[Sample]:
        if indices:
            sampling = self.sampling
            if sampling.fit == "whole":
                image = converter.whole(frame, sampling.crop)
            else:
                image = converter.square(frame, sampling.resize, sampling.crop)
            for index in indices:
                yield Sample(image, index / sampling.fps)


class _Digest:
    """Of the first ``OVERLAP`` pictures that it is given: their stamps and all their pixels."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._left = OVERLAP

    def add(self, frame: VideoFrame) -> bool:
        """Whether it takes more."""
        if self._left > 0:
            self._left -= 1
            try:
                pixels = np.ascontiguousarray(frame.to_ndarray())
            except ValueError as error:  # a pixel format that cannot be compared so
                raise CannotSplit from error
            self._hash.update(f"{frame.pts} {frame.width} {frame.height} {frame.format.name}".encode())
            self._hash.update(pixels.tobytes())
        return self._left > 0

    def text(self) -> str:
        return self._hash.hexdigest()
