"""How often one caller may ask for work."""

from __future__ import annotations

import time
from collections import OrderedDict

from visil.web.problems import Problem

CALLERS = 10_000
"""Remembered at once; the one longest unheard of makes way."""


class Rate:
    """So many a minute for each caller, a third of them at once."""

    def __init__(self, per_minute: int) -> None:
        self.per_second = per_minute / 60
        self.burst = max(1.0, per_minute / 3)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str, now: float | None = None) -> None:
        """Count one call; a problem 429 where it is one too many."""
        now = time.monotonic() if now is None else now
        left, since = self._left.pop(caller, (self.burst, now))
        left = min(self.burst, left + (now - since) * self.per_second)
        self._left[caller] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > CALLERS:
            self._left.popitem(last=False)
        if left < 1:
            raise Problem(
                429,
                "Too many requests at once; try again in a moment.",
                retry_after=(1 - left) / self.per_second,
            )
