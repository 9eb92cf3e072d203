"""Which frames to keep: how often, how large, and by which clock. Pure rules, no files."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from visil.errors import UsageError

# Time stamps are rounded to ticks, so a frame may carry one up to half a tick after its true time. Ticks
# coarser than a millisecond are whole frames (AVI counts 1/25 s); their stamps are exact, not rounded.
COARSEST_ROUNDING = 0.0005
# Sums of binary fractions: 9.96 + 0.04 is a hair more than 10.
FLOAT_SLACK = 1e-9

FASTEST_BELIEVABLE_RATE = 144.0
DEFAULT_RATE = 25.0


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

        Even a video that ends before it begins has one frame, and so one sample.
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
