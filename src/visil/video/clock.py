"""The clock of a video: seconds that only run forward, from time stamps that may be missing or wrong."""

from __future__ import annotations

import math

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
