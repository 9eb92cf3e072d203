"""Decoding a video stream from start to end, over damage, with a time for every frame.

Times are seconds that only run forward, made from time stamps that may be missing or wrong.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from visil.errors import VideoError, printable
from visil.video.container import AnyPath, has_no_clock, plain_errors
from visil.video.sampling import LONGEST_APART, Skipper, key_packets

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

logger = logging.getLogger("visil")

ENCRYPTED = "encrypted: it can be read once it is decrypted with its key"

# A file of garbage with a valid header ends here, not after gigabytes of failing packets.
MOST_BAD_PACKETS_IN_A_ROW = 2000
MOST_READ_ERRORS_IN_A_ROW = 16

# Where recordings may have been joined, a longer gap in the time stamps, in seconds, is taken for a joint.
LONGEST_GAP_IN_ONE_RECORDING = 10.0
AVFMT_TS_DISCONT = 0x0200

# A gap this short is believed whatever the container says: its declared duration is often an estimate.
ALWAYS_BELIEVED = 1.0
# Where the container declares no duration (a live recording), frames may be held this long.
BELIEVED_UNDECLARED = 60.0
LONGEST_GAP = 3600.0
# A video may run longer than this, frame by frame, but no held frame takes it there: without a limit, a small
# file of absurd time stamps would be a month of repeated frames.
LONGEST_HELD_VIDEO = 7 * 24 * 3600.0
DECLARED_SLACK = 1.0
SLOWEST_RATE = 1 / 60
FASTEST_RATE = 1000.0


class Clock:
    """Turns each frame's time stamp into seconds from the first frame, never running backwards.

    A frame is put where its stamp says, unless the stamp is missing, goes back, or leaps ahead further than
    the previous frame's own duration or the container's declared duration can explain. Then the stamps have
    been cut (joined recordings, damage), and time resumes one frame interval after the previous frame.
    """

    def __init__(
        self,
        rate: float | None = None,
        declared_duration: float | None = None,
        longest_undeclared: float = BELIEVED_UNDECLARED,
    ) -> None:
        """``rate`` (frames per second) and ``declared_duration`` (seconds) are what the file declares.

        Where it declares no duration, gaps of up to ``longest_undeclared`` seconds are believed.
        """
        self.longest_undeclared = longest_undeclared
        believable = rate is not None and SLOWEST_RATE <= rate <= FASTEST_RATE
        self.declared_interval = 1 / rate if rate and believable else None
        self.declared_duration = declared_duration
        self.time = 0.0
        self.discontinuities = 0
        self._started = False
        self._stamp: float | None = None
        self._held: float | None = None
        self._last_gap = 1 / 25
        self._stuck = False

    @property
    def interval(self) -> float:
        """The usual time between frames: by the declared rate, else the last one seen."""
        return self.declared_interval or self._last_gap

    def tick(self, stamp: float | None, held: float | None) -> float:
        """The time of the next frame, from its ``stamp`` and the duration it declares, if any."""
        if stamp is not None and not math.isfinite(stamp):
            stamp = None
        if self._started:
            self.time += self._step(stamp)
        self._started = True
        self._stamp = stamp
        self._held = held if held is not None and math.isfinite(held) and held > 0 else None
        return self.time

    @property
    def end(self) -> float:
        """When the last frame so far leaves the display."""
        if not self._started:
            return 0.0
        held = self._held if self._held is not None and self._believes(self._held) else self.interval
        return self.time + held

    def _step(self, stamp: float | None) -> float:
        if stamp is None or self._stamp is None:
            return self._usual_step()
        gap = stamp - self._stamp
        # One frame with the stamp of the one before replaces it. When that goes on, stamps have stopped.
        stuck, self._stuck = self._stuck, gap == 0
        if gap == 0 and not stuck:
            return 0.0
        if gap > 0 and (self._believes(gap) or self._announced(gap)):
            if gap <= ALWAYS_BELIEVED:
                self._last_gap = gap
            return gap
        self.discontinuities += 1
        return self._usual_step()

    def _usual_step(self) -> float:
        if self._held is not None and self._held <= ALWAYS_BELIEVED:
            return self._held
        return self.interval

    def _announced(self, gap: float) -> bool:
        """Whether the previous frame itself said that it would be held that long."""
        return (
            self._held is not None
            and gap <= min(1.5 * self._held, LONGEST_GAP)
            and self.time + gap <= LONGEST_HELD_VIDEO
        )

    def _believes(self, gap: float) -> bool:
        if gap <= max(ALWAYS_BELIEVED, 2 * self.interval):
            return True
        if gap > LONGEST_GAP or self.time + gap > LONGEST_HELD_VIDEO:
            return False
        if self.declared_duration is None:
            return gap <= self.longest_undeclared
        return self.time + gap <= self.declared_duration + DECLARED_SLACK


class TimedFrame(NamedTuple):
    """A decoded frame and its time in seconds from the first."""

    frame: VideoFrame
    time: float


class Decoder:
    """Decodes one stream; what cannot be decoded is counted in ``damaged`` and passed over.

    With a ``skipper``, frames that no sample and no other frame needs are left out; with ``keyframes`` all that need
    others, where key frames are near each other.
    """

    def __init__(
        self, container: InputContainer, stream: VideoStream, path: AnyPath, *, keyframes: bool = False
    ) -> None:
        self.skipper: Skipper | None = None
        self.keyframes = keyframes
        self.end = 0.0
        """When the last frame so far leaves the display, those that ``keyframes`` leaves out included."""
        self._left_out_until = 0.0  # by the file's own reckoning
        self.container = container
        self.stream = stream
        self.path = path
        self.damaged = 0
        self.encrypted = 0
        """Packets that cannot be decoded for want of a key; they count as damaged, too."""
        self.tick = float(stream.time_base or Fraction(1, 90000))
        self.clockless = has_no_clock(container, stream, path)
        """Whether its stamps mean nothing: frames then follow each other at the usual rate."""
        if self.clockless:
            self.clock = Clock()
        elif stamps_may_restart(container):
            # There the "declared" duration is only the span of the stamps, which proves nothing about them.
            self.clock = Clock(frame_rate(stream), None, LONGEST_GAP_IN_ONE_RECORDING)
        else:
            self.clock = Clock(frame_rate(stream), declared_duration(container, stream))

    def frames(self) -> Iterator[TimedFrame]:
        """All frames in order of display; a :class:`VideoError` where there is not one."""
        found = False
        last: float | None = None
        for frame in self.decode_on():
            found = True
            stamp = self.stamp(frame)
            time = self.clock.tick(stamp, self.held(frame))
            self.end = self.clock.end
            last = stamp
            if self.skipper is not None and stamp is not None:
                self.skipper.offset = time - stamp
            yield TimedFrame(frame, time)
            del frame  # it may be large, and the next one is decoded before the name is used again
        if not found:
            if self.encrypted:
                raise VideoError(self.path, ENCRYPTED)
            if self.damaged:
                raise VideoError(self.path, "damaged: not one frame can be decoded")
            raise VideoError(self.path, "the video stream holds no frames")
        if self.keyframes and last is not None:
            after = min(self._left_out_until - last, LONGEST_APART + ALWAYS_BELIEVED)
            self.end = max(self.end, self.clock.time + after)
        self._warn_of_damage()

    def decode_on(self) -> Iterator[VideoFrame]:
        """Frames from the current position to the end, without times."""
        import av.error

        bad_in_a_row = 0
        for packet in self._chosen():
            try:
                if packet is not None and packet.has_sidedata("encryption_info"):
                    self.encrypted += 1
                    raise VideoError(self.path, ENCRYPTED)
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
            while frames:
                yield frames.pop(0)

    def _chosen(self) -> Iterator[Packet[VideoStream] | None]:
        """The packets, with the decoder told before each whether it may pass over a frame that none refers to."""
        if self.skipper is None:
            yield from key_packets(self._noted(), self.tick) if self.keyframes else self._packets()
            return
        context, skipping = self.stream.codec_context, False
        for packet, needed in self.skipper.packets(self._packets()):
            if needed == skipping:
                skipping = not needed
                context.skip_frame = "NONREF" if skipping else "DEFAULT"
            yield packet

    def _noted(self) -> Iterator[Packet[VideoStream] | None]:
        """The packets, with the end of the last one noted."""
        for packet in self._packets():
            if packet is not None and packet.pts is not None:
                end = (packet.pts + (packet.duration or 0)) * self.tick
                self._left_out_until = max(self._left_out_until, end)
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
        return None if frame.pts is None or self.clockless else frame.pts * self.tick

    def held(self, frame: VideoFrame) -> float | None:
        """How long a frame says it is on display."""
        return frame.duration * self.tick if frame.duration and not self.clockless else None

    def _warn_of_damage(self) -> None:
        name = printable(str(self.path))
        if self.clockless:
            logger.warning("%s: says nowhere how fast it runs; taken for 25 frames a second", name)
        if self.damaged:
            logger.warning("%s: damaged, %d packets could not be decoded", name, self.damaged)
        declared, end = self.clock.declared_duration, self.end
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
