"""Which packets need not be decoded: frames that no other refers to, and that no sample is taken from.

Some codecs (H.264, HEVC, MPEG-2, MPEG-4) mark frames that nothing else is predicted from, often every second one. A
sample is the frame on display at a time of the grid; a look at the packets ahead tells which frames those are before
anything is decoded. The rest of the unreferred frames are passed over, and the samples are the same.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from av.packet import Packet
    from av.video.stream import VideoStream

AHEAD = 40
"""Packets looked at ahead: frames are stored at most 16 places before or after their turn."""

LEAP = 1.0
"""Seconds between neighbouring packets beyond which stamps are taken to start anew."""


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
        return ceil(start * self.fps) < ceil(stop * self.fps)
