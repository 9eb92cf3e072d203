"""Times in words."""

from __future__ import annotations

from visil.matching.localize import Segment
from visil.plots.times import clock, duration, shared_seconds


def test_shared_seconds_count_no_moment_twice() -> None:
    segments = [Segment((0, 10), (0, 10), 1), Segment((5, 12), (40, 47), 1), Segment((20, 21), (0, 1), 1)]
    assert shared_seconds(segments) == 13
    assert shared_seconds([]) == 0


def test_times_are_written_as_people_write_them() -> None:
    assert [clock(s) for s in (0, 7.4, 59.6, 600, 3725)] == ["0:00", "0:07", "1:00", "10:00", "1:02:05"]
    assert clock(7.46, tenths=True) == "0:07.5"
    assert clock(59.97, tenths=True) == "1:00.0"
    lengths = [duration(s) for s in (0.5, 12, 59.7, 200, 120, 3900, 7200)]
    assert lengths == ["0.5 s", "12 s", "1 min", "3 min 20 s", "2 min", "1 h 5 min", "2 h"]
