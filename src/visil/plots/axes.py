"""The time axis of a drawn matrix: bins of even time, ticks, and lanes for bars that overlap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visil.plots.times import clock

CELLS = 720
"""A drawn matrix has at most this many cells a side, about one a pixel."""

_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800)


@dataclass(frozen=True)
class Axis:
    """When each frame of one video begins, and when the last one ends, in seconds."""

    starts: NDArray[np.float64]
    end: float

    @classmethod
    def of(cls, times: NDArray[np.float64]) -> Axis:
        """The axis of frames with these timestamps; the last one lasts as long as most."""
        step = float(np.median(np.diff(times))) if len(times) > 1 else 1.0
        return cls(np.asarray(times, np.float64), float(times[-1]) + step)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def start(self) -> float:
        """When the first frame begins."""
        return float(self.starts[0])

    @property
    def seconds(self) -> float:
        """How long all frames last."""
        return self.end - self.start

    def grouped(self, cells: int, stride: int) -> Axis:
        """The axis of ``cells`` that each stand for ``stride`` frames; a remainder of frames has no cell."""
        edges = np.append(self.starts, self.end)
        at = np.minimum(np.arange(cells + 1) * stride, len(self))
        return Axis(edges[at[:-1]], float(edges[at[-1]]))

    def bins(self, limit: int = CELLS) -> list[slice]:
        """Even stretches of time, at most ``limit``, as the frames on display in each; none is ever empty."""
        steps = np.diff(np.append(self.starts, self.end))
        even = steps.max() <= 1.02 * steps.min()
        if even and len(self) <= limit:
            return [slice(i, i + 1) for i in range(len(self))]
        count = min(limit, len(self)) if even else limit
        edges = np.linspace(self.start, self.end, count + 1)
        slack = 1e-6 * self.seconds / count
        first = np.searchsorted(self.starts, edges[:-1] + slack, "right") - 1
        last = np.searchsorted(self.starts, edges[1:] - slack, "left")
        return [slice(int(a), int(b)) for a, b in zip(first, last, strict=True)]


def shrink(matrix: NDArray[np.floating], rows: list[slice], columns: list[slice]) -> NDArray[np.float32]:
    """The highest value in every bin: a line one cell wide stays a line, however much the matrix shrinks."""
    strips = np.stack([matrix[rows_in].max(axis=0) for rows_in in rows])
    return np.stack([strips[:, columns_in].max(axis=1) for columns_in in columns], axis=1).astype(np.float32)


def ticks(axis: Axis, room: int) -> tuple[list[float], list[str]]:
    """At most about ``room`` round times on an axis, and how to write them."""
    finest = min(1.0, axis.seconds / len(axis))  # no ticks between frames
    step = next((s for s in _STEPS if axis.seconds / s <= room and s >= finest - 1e-6), _STEPS[-1])
    while axis.seconds / step > room:
        step *= 2
    first = int(np.ceil(axis.start / step - 1e-6))
    last = int(np.floor(axis.end / step + 1e-6))
    places = [i * step for i in range(first, last + 1)]
    return places, [clock(place, tenths=step < 1) for place in places]


def lanes(stretches: list[tuple[float, float]], most: int) -> list[int]:
    """A lane for each stretch so that none covers another, as far as ``most`` lanes allow."""
    free = [-np.inf] * most
    chosen = [0] * len(stretches)
    for i in sorted(range(len(stretches)), key=lambda i: stretches[i]):
        start, end = stretches[i]
        lane = next((n for n, until in enumerate(free) if until <= start + 1e-6), int(np.argmin(free)))
        chosen[i], free[lane] = lane, max(free[lane], end)
    return chosen
