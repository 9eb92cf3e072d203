"""Decoding a video stream from start to end, over damage, with a time for every frame."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from visil.errors import VideoError, printable
from visil.video.clock import Clock
from visil.video.container import plain_errors
from visil.video.paths import AnyPath
from visil.video.skipping import Skipper

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

logger = logging.getLogger("visil")

# A file of garbage with a valid header ends here, not after gigabytes of failing packets.
MOST_BAD_PACKETS_IN_A_ROW = 2000
MOST_READ_ERRORS_IN_A_ROW = 16

# Where recordings may have been joined, a longer gap in the time stamps, in seconds, is taken for a joint.
LONGEST_GAP_IN_ONE_RECORDING = 10.0
AVFMT_TS_DISCONT = 0x0200


class TimedFrame(NamedTuple):
    """A decoded frame and its time in seconds from the first."""

    frame: VideoFrame
    time: float


class Decoder:
    """Decodes one stream; what cannot be decoded is counted in ``damaged`` and passed over.

    With a ``skipper``, frames that no sample and no other frame needs are left out.
    """

    def __init__(self, container: InputContainer, stream: VideoStream, path: AnyPath) -> None:
        self.skipper: Skipper | None = None
        self.container = container
        self.stream = stream
        self.path = path
        self.damaged = 0
        self.tick = float(stream.time_base or Fraction(1, 90000))
        if stamps_may_restart(container):
            # There the "declared" duration is only the span of the stamps, which proves nothing about them.
            self.clock = Clock(frame_rate(stream), None, LONGEST_GAP_IN_ONE_RECORDING)
        else:
            self.clock = Clock(frame_rate(stream), declared_duration(container, stream))

    def frames(self) -> Iterator[TimedFrame]:
        """All frames in order of display; a :class:`VideoError` where there is not one."""
        found = False
        for frame in self.decode_on():
            found = True
            stamp = self.stamp(frame)
            time = self.clock.tick(stamp, self.held(frame))
            if self.skipper is not None and stamp is not None:
                self.skipper.offset = time - stamp
            yield TimedFrame(frame, time)
        if not found:
            if self.damaged:
                raise VideoError(self.path, "damaged: not one frame can be decoded")
            raise VideoError(self.path, "the video stream holds no frames")
        self._warn_of_damage()

    def decode_on(self) -> Iterator[VideoFrame]:
        """Frames from the current position to the end, without times."""
        import av.error

        bad_in_a_row = 0
        for packet in self._chosen():
            try:
                with plain_errors(self.path):
                    frames = self.stream.codec_context.decode(packet)
            except VideoError as error:
                if isinstance(error.__cause__, av.error.EOFError):
                    return
                self.damaged += 1
                bad_in_a_row += 1
                if bad_in_a_row >= MOST_BAD_PACKETS_IN_A_ROW:
                    return
                continue
            if frames:
                bad_in_a_row = 0
            yield from frames

    def _chosen(self) -> Iterator[Packet[VideoStream] | None]:
        """The packets, with the decoder told before each whether it may pass over a frame that none refers to."""
        if self.skipper is None:
            yield from self._packets()
            return
        context, skipping = self.stream.codec_context, False
        for packet, needed in self.skipper.packets(self._packets()):
            if needed == skipping:
                skipping = not needed
                context.skip_frame = "NONREF" if skipping else "DEFAULT"
            yield packet

    def _packets(self) -> Iterator[Packet[VideoStream] | None]:
        """The stream's packets, then None, which makes the decoder give out what it still holds."""
        errors_in_a_row = 0
        while errors_in_a_row < MOST_READ_ERRORS_IN_A_ROW:
            packets = self.container.demux(self.stream)
            try:
                while True:
                    with plain_errors(self.path):
                        packet = next(packets, None)
                    if packet is None or packet.size == 0:
                        # PyAV's own empty packet at the end.
                        yield None
                        return
                    errors_in_a_row = 0
                    yield packet
            except VideoError:
                self.damaged += 1
                errors_in_a_row += 1
        yield None

    def stamp(self, frame: VideoFrame) -> float | None:
        """A frame's presentation time in seconds, by the file's own reckoning."""
        return None if frame.pts is None else frame.pts * self.tick

    def held(self, frame: VideoFrame) -> float | None:
        """How long a frame says it is on display."""
        # PyAV 14 does not tell; the frame rate has to do there.
        duration: int | None = getattr(frame, "duration", None)
        return duration * self.tick if duration else None

    def _warn_of_damage(self) -> None:
        name = printable(str(self.path))
        if self.damaged:
            logger.warning("%s: damaged, %d packets could not be decoded", name, self.damaged)
        declared, end = self.clock.declared_duration, self.clock.end
        if declared is not None and declared - end > max(1.0, 0.02 * declared):
            logger.warning("%s: ends after %.1f s of the %.1f s it declares", name, end, declared)


def stamps_may_restart(container: InputContainer) -> bool:
    """Whether such a file (MPEG-TS, MPEG-PS) may be joined recordings, each with stamps of its own."""
    return bool(container.format.flags & AVFMT_TS_DISCONT)


def frame_rate(stream: VideoStream) -> float | None:
    """The stream's average frame rate, else FFmpeg's guess, else None; the rate that OpenCV reports."""
    for rate in (stream.average_rate, stream.guessed_rate):
        if rate is not None and rate > 0:
            return float(rate)
    return None


def declared_duration(container: InputContainer, stream: VideoStream) -> float | None:
    """How long the file says its video is, in seconds; None where it does not say."""
    if stream.duration is not None and stream.duration > 0 and stream.time_base:
        return float(stream.duration * stream.time_base)
    # The container's duration is the longest stream's, which may be the sound.
    if container.duration is not None and container.duration > 0:
        return container.duration / 1_000_000
    return None
