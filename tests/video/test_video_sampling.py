"""The sampling rule, without files."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from visil.errors import UsageError
from visil.video import Sampling
from visil.video.sampling import TimeGrid, believable_rate, every_nth, stamp_tolerance


def sampled(times: list[float], end: float, fps: float, tolerance: float = 1e-9) -> list[int]:
    """Index of the frame that each sample shows, by the streaming rule under test."""
    grid = TimeGrid(fps, tolerance)
    shown: list[int] = []
    for index, time in enumerate(times[1:]):
        shown += [index] * len(grid.until(time))
    return shown + [len(times) - 1] * len(grid.finish(end))


def by_definition(times: list[float], end: float, fps: float, tolerance: float) -> list[int]:
    """The same from the definition, looking at all frames for every grid time."""
    shown = []
    k = 0
    while k == 0 or k / fps < end - tolerance:
        shown.append(max(index for index, time in enumerate(times) if time <= k / fps + tolerance))
        k += 1
    return shown


ticks_between_frames = st.lists(st.integers(0, 400), max_size=60)


@given(
    gaps=ticks_between_frames,
    last=st.integers(1, 400),
    fps=st.sampled_from([0.3, 0.5, 1.0, 2.0, 3.0, 7.5, 24.0, 29.97]),
    tick=st.sampled_from([0.001, 1 / 90, 0.04, 1 / 30]),
)
def test_each_sample_is_the_frame_on_display(gaps: list[int], last: int, fps: float, tick: float) -> None:
    times = [0.0]
    for gap in gaps:
        times.append(times[-1] + gap * tick)
    end = times[-1] + last * tick
    tolerance = stamp_tolerance(tick)
    assert sampled(times, end, fps, tolerance) == by_definition(times, end, fps, tolerance)


@given(
    times=st.lists(st.floats(0, 50), max_size=40).map(sorted),
    fps=st.floats(0.1, 40),
    last=st.floats(0, 5),
)
def test_samples_fill_the_grid_in_order(times: list[float], fps: float, last: float) -> None:
    times = [0.0, *times]
    shown = sampled(times, times[-1] + last, fps)
    assert shown == sorted(shown)
    assert abs(len(shown) - (times[-1] + last) * fps) <= 1


def test_ten_seconds_at_25_fps_are_ten_samples() -> None:
    times = [n / 25 for n in range(250)]
    assert sampled(times, times[-1] + 1 / 25, 1.0) == list(range(0, 250, 25))


def test_less_than_an_interval_is_one_sample() -> None:
    assert sampled([n / 25 for n in range(10)], 0.4, 1.0) == [0]
    assert sampled([0.0], 0.0, 1.0) == [0]


def test_a_held_frame_is_repeated() -> None:
    assert sampled([0.0, 0.5, 4.2, 4.3], 6.0, 1.0) == [0, 1, 1, 1, 1, 3]


def test_stamps_rounded_up_to_a_tick_still_count() -> None:
    # 23.976 fps in milliseconds: frame 1 is at 41.708 ms and stamped 42.
    times = [round(n * 1001 / 24) / 1000 for n in range(48)]
    grid_fps = 24000 / 1001
    assert sampled(times, 48 * 1001 / 24000, grid_fps, stamp_tolerance(0.001)) == list(range(48))


def test_ticks_of_a_whole_frame_are_taken_as_exact() -> None:
    # At 0.35 s the frame from 0.32 is on display, though 0.36 is less than half a tick away.
    times = [n * 0.04 for n in range(25)]
    assert sampled(times, 1.0, 1 / 0.35, stamp_tolerance(0.04)) == [0, 8, 17]


@pytest.mark.parametrize(
    ("rate", "fps", "step"),
    [
        (25.0, 1.0, 25),
        (29.97, 1.0, 30),
        (12.5, 1.0, 12),  # halves go to the even neighbour
        (13.5, 1.0, 14),
        (25.0, 50.0, 1),  # round(0.5) is 0, which would divide by zero
        (None, 1.0, 25),
        (0.0, 1.0, 25),
        (90000.0, 1.0, 25),
        (144.0, 1.0, 144),
        (math.inf, 1.0, 25),
        (30.0, 4.0, 8),  # round(7.5)
    ],
)
def test_every_nth_frame_as_the_authors_count(rate: float | None, fps: float, step: int) -> None:
    assert every_nth(rate, fps) == step


def test_rates_that_no_camera_has_are_25() -> None:
    assert believable_rate(144.1) == 25.0
    assert believable_rate(59.94) == 59.94


@pytest.mark.parametrize(
    "wrong",
    [
        {"fps": 0.0},
        {"fps": -1.0},
        {"fps": math.nan},
        {"fps": math.inf},
        {"resize": 0},
        {"resize": 1 << 20},
        {"crop": 0},
        {"crop": 257},
        {"crop": 100.5},
        {"mode": "frames"},
    ],
)
def test_settings_that_cannot_be_meant(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        Sampling(**wrong)  # type: ignore[arg-type]
