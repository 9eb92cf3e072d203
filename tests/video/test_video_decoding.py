"""The clock: time stamps, good and bad, become seconds that only run forward."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from visil.video.decoding import ALWAYS_BELIEVED, LONGEST_HELD_VIDEO, Clock


def run(
    stamps: list[float | None],
    held: float | None = None,
    rate: float | None = 25.0,
    declared: float | None = None,
) -> tuple[list[float], Clock]:
    clock = Clock(rate, declared)
    return [clock.tick(stamp, held) for stamp in stamps], clock


def test_time_starts_at_the_first_frame_wherever_that_is() -> None:
    for start in (-3.2, 0.0, 36000.0):
        times, clock = run([start, start + 0.04, start + 0.08])
        assert times == pytest.approx([0, 0.04, 0.08])
        assert clock.end == pytest.approx(0.12)


def test_missing_stamps_are_counted_at_the_frame_rate() -> None:
    assert run([None] * 4, rate=10.0)[0] == pytest.approx([0, 0.1, 0.2, 0.3])
    assert run([0.0, None, None, 0.12])[0] == pytest.approx([0, 0.04, 0.08, 0.12])


def test_going_back_resumes_after_one_interval() -> None:
    times, clock = run([10.0, 10.04, 10.08, 0.0, 0.04, 0.08])
    assert times == pytest.approx([0, 0.04, 0.08, 0.12, 0.16, 0.2])
    assert clock.discontinuities == 1


def test_one_absurd_stamp_costs_nothing() -> None:
    times, _ = run([0.0, 0.04, 1e9, 0.12, 0.16], declared=2e9)
    assert times == pytest.approx([0, 0.04, 0.08, 0.12, 0.16])


def test_a_leap_that_nothing_explains_is_a_cut() -> None:
    assert run([0.0, 0.04, 500.0, 500.04], declared=1.0)[0] == pytest.approx([0, 0.04, 0.08, 0.12])
    assert run([0.0, 0.04, 500.0, 500.04])[0] == pytest.approx([0, 0.04, 0.08, 0.12])


def test_a_held_frame_is_believed_when_the_file_says_so() -> None:
    assert run([0.0, 0.04, 500.0], declared=501.0)[0] == pytest.approx([0, 0.04, 500.0])
    assert run([0.0, 30.0, 60.0])[0] == pytest.approx([0, 30, 60])
    clock = Clock(25.0, 1.0)
    clock.tick(0.0, held=500.0)
    assert clock.tick(500.0, held=None) == pytest.approx(500.0)


def test_no_frame_is_held_for_more_than_an_hour() -> None:
    assert run([0.0, 3601.0], held=3601.0, declared=4000.0)[0] == pytest.approx([0, 0.04])


def test_one_repeated_stamp_replaces_a_frame_but_stuck_stamps_are_counted_on() -> None:
    assert run([0.0, 0.04, 0.04, 0.08])[0] == pytest.approx([0, 0.04, 0.04, 0.08])
    assert run([0.0] * 5)[0] == pytest.approx([0, 0, 0.04, 0.08, 0.12])


def test_the_end_is_the_last_frame_s_own_duration_else_the_rate_s_else_the_last_gap() -> None:
    assert run([0.0, 0.04], held=0.5)[1].end == pytest.approx(0.54)
    assert run([0.0, 0.04], rate=10.0)[1].end == pytest.approx(0.14)
    assert run([0.0, 0.2], rate=None)[1].end == pytest.approx(0.4)
    assert run([0.0, 0.04], held=1e9)[1].end == pytest.approx(0.08)
    assert Clock().end == 0.0


anything = st.none() | st.floats() | st.integers(-(10**12), 10**12).map(float)


@given(
    frames=st.lists(st.tuples(anything, anything), max_size=60),
    rate=anything,
    declared=st.none() | st.floats(0, 1e15),
)
def test_time_never_goes_back_and_never_runs_away(
    frames: list[tuple[float | None, float | None]], rate: float | None, declared: float | None
) -> None:
    clock = Clock(rate, declared)
    times = [clock.tick(stamp, held) for stamp, held in frames]
    assert times == sorted(times)
    assert all(math.isfinite(time) for time in times)
    # Past a week only ordinary steps are taken: at most two intervals of at most a minute.
    assert clock.end <= LONGEST_HELD_VIDEO + (len(frames) + 1) * max(ALWAYS_BELIEVED, 120.0)
