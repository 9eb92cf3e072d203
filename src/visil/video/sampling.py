"""Which frames to keep, how large, and which packets need not be decoded for them. Pure rules, no files.

Some codecs (H.264, HEVC, MPEG-2, MPEG-4) mark frames that nothing else is predicted from, often every second one. A
sample is the frame on display at a time of the grid; a look at the packets ahead tells which frames those are before
anything is decoded. The rest of the unreferred frames are passed over, and the samples are the same.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from visil.errors import UsageError

if TYPE_CHECKING:
    from av.packet import Packet
    from av.video.stream import VideoStream

# Time stamps are rounded to ticks, so a frame may carry one up to half a tick after its true time. Ticks
# coarser than a millisecond are whole frames (AVI counts 1/25 s); their stamps are exact, not rounded.
COARSEST_ROUNDING = 0.0005
# Sums of binary fractions: 9.96 + 0.04 is slightly more than 10.
FLOAT_SLACK = 1e-9

FASTEST_BELIEVABLE_RATE = 144.0
DEFAULT_RATE = 25.0

AHEAD = 40
"""Packets looked at ahead: frames are stored at most 16 places before or after their turn."""

LONGEST_APART = 4.0
"""Seconds between key frames beyond which these alone would miss too much."""

LEAP = 1.0
"""Seconds between neighbouring packets beyond which stamps are taken to start anew."""


@dataclass(frozen=True)
class Sampling:
    """How a video becomes frames.

    ``mode="time"`` follows time stamps: sample k is the frame on display k / fps seconds after the first.
    ``mode="count"`` keeps every n-th frame, n = round(rate / fps), and resizes like OpenCV: the way the
    paper's authors read videos, for reproducing their numbers. It looks at neither rotation nor pixel shape.
    """

    fps: float = 1.0
    """Frames kept per second of video."""
    resize: int = 256
    """Length of the shorter side after resizing."""
    crop: int = 224
    """Side of the square that a sample is."""
    mode: Literal["time", "count"] = "time"
    fit: Literal["crop", "whole"] = field(default="crop", repr=False)
    """"crop": the square is cut from the centre, as in the paper. "whole": all of the frame is pressed into it, so
    that nothing at the sides is missed; ``resize`` plays no part then."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.fps) and 0 < self.fps <= 1000):
            raise UsageError(f"fps must be a number above 0 and at most 1000, not {self.fps}")
        for name, value in (("resize", self.resize), ("crop", self.crop)):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 8192:
                raise UsageError(f"{name} must be a whole number of pixels from 1 to 8192, not {value!r}")
        if self.fit == "crop" and self.crop > self.resize:
            raise UsageError(f"crop must not exceed resize, but {self.crop} > {self.resize}")
        if self.mode not in ("time", "count"):
            raise UsageError(f"mode must be 'time' or 'count', not {self.mode!r}")
        if self.fit not in ("crop", "whole"):
            raise UsageError(f"fit must be 'crop' or 'whole', not {self.fit!r}")
        if self.mode == "count" and self.fit != "crop":
            raise UsageError("mode 'count' follows the authors, who cut the centre: fit must be 'crop'")


DEFAULT_SAMPLING = Sampling()


def stamp_tolerance(tick: float) -> float:
    """How far a time stamp in ticks of ``tick`` seconds may lie after the true time of its frame."""
    return min(tick / 2, COARSEST_ROUNDING) + FLOAT_SLACK


class TimeGrid:
    """Shares the grid times k / fps out among frames: each goes to the frame on display at that time.

    Frames arrive in order of time. A frame owns the grid times from its own time up to the next frame's, so
    how many it owns is known only when the next one comes, or the end.
    """

    def __init__(self, fps: float, tolerance: float = FLOAT_SLACK) -> None:
        self.fps = fps
        self.tolerance = tolerance
        self._next = 0

    def until(self, time: float) -> range:
        """The grid indices before a frame that begins at ``time``, or before the end, not yet given out."""
        stop = max(self._next, math.ceil((time - self.tolerance) * self.fps))
        owned = range(self._next, stop)
        self._next = stop
        return owned

    def finish(self, end: float) -> range:
        """The grid indices left for the last frame, which is on display until ``end``.

        Even a video without any duration has one frame, and so one sample.
        """
        if self._next == 0:
            end = max(end, 2 * self.tolerance)
        return self.until(end)


def every_nth(rate: float | None, fps: float) -> int:
    """n of "every n-th frame" in the authors' code, with Python's rounding of halves to even."""
    return max(1, round(believable_rate(rate) / fps))


def believable_rate(rate: float | None) -> float:
    """The frame rate a file declares, or 25 where it declares none or one that no camera has."""
    if rate is None or not 0 < rate <= FASTEST_BELIEVABLE_RATE:
        return DEFAULT_RATE
    return rate


class Skipper:
    """Tells the packets that a sample may come from; until ``offset`` is known, that is all of them."""

    def __init__(self, fps: float, tolerance: float, tick: float) -> None:
        self.fps = fps
        self.tolerance = 2 * tolerance
        self.tick = tick
        self.offset: float | None = None
        """Clock minus stamp of the last frame given out, in seconds."""
        self._careful = 0

    def packets(
        self, packets: Iterator[Packet[VideoStream] | None]
    ) -> Iterator[tuple[Packet[VideoStream] | None, bool]]:
        """Each packet, and whether its frame is to be decoded even if no other refers to it."""
        waiting: deque[Packet[VideoStream] | None] = deque()
        stamps: list[int] = []  # of the packets around, in order of display
        past: deque[int] = deque()
        last: int | None = None
        for packet in packets:
            waiting.append(packet)
            stamp = None if packet is None else packet.pts
            if stamp is not None:
                insort(stamps, stamp)
                if last is not None and abs(stamp - last) * self.tick > LEAP:
                    self._careful = 2 * AHEAD
                last = stamp
            elif packet is not None:
                self._careful = 2 * AHEAD  # without a stamp nothing is known
            if len(waiting) > AHEAD:
                yield self._decided(waiting.popleft(), stamps, past)
        while waiting:
            yield self._decided(waiting.popleft(), stamps, past)

    def _decided(
        self, packet: Packet[VideoStream] | None, stamps: list[int], past: deque[int]
    ) -> tuple[Packet[VideoStream] | None, bool]:
        if packet is None or packet.pts is None:
            return packet, True
        needed = self._careful > 0 or self.offset is None or self._sampled(packet.pts, stamps)
        self._careful = max(0, self._careful - 1)
        past.append(packet.pts)
        if len(past) > AHEAD:
            stamps.remove(past.popleft())
        return packet, needed

    def _sampled(self, stamp: int, stamps: list[int]) -> bool:
        """Whether a time of the grid lies between this frame and the next; without a next one, it may."""
        after = next((other for other in stamps if other > stamp), None)
        if after is None or self.offset is None:
            return True
        start = stamp * self.tick + self.offset - self.tolerance
        stop = after * self.tick + self.offset + self.tolerance
        return math.ceil(start * self.fps) < math.ceil(stop * self.fps)


def key_packets(
    packets: Iterator[Packet[VideoStream] | None], tick: float
) -> Iterator[Packet[VideoStream] | None]:
    """Key frames alone, which need no other frame to be decoded; all frames from one that has no other near after it.

    ``packets`` end with None, as do those that come out.
    """
    held: list[Packet[VideoStream]] = []  # a key frame, and what follows it until the next one
    whole = False
    for packet in packets:
        if packet is None:
            break
        if packet.is_keyframe:
            yield from held[:1]
            held, whole = [packet], False
        elif whole:
            yield packet
        else:
            held.append(packet)
            if _seconds(held, tick) > LONGEST_APART:
                yield from held
                held, whole = [], True
    yield from held[:1]
    yield None


def _seconds(packets: list[Packet[VideoStream]], tick: float) -> float:
    """From the first packet to the last; without stamps, as many as :data:`DEFAULT_RATE` packets are one."""
    first, last = packets[0].dts, packets[-1].dts
    return len(packets) / DEFAULT_RATE if first is None or last is None else (last - first) * tick
