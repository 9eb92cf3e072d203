"""Single frames at given times."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from synthetic import Image, read_stamps, write_video
from synthetic import stamped_frames as stamped_frames_of
from visil.errors import UsageError, VideoError
from visil.video import frames_at

HEIGHT = 192


def stamped_frames(count: int, first: int = 0) -> Iterator[Image]:
    """Small ones, which are soon encoded: the numbers are read off pictures of one height."""
    return stamped_frames_of(count, (48, 64), first)


def shown(path: Path, times: list[float]) -> list[int]:
    return read_stamps(frames_at(path, times, height=HEIGHT), resize=HEIGHT)


TIMES = [39.99, 0.0, 3.5, 20.02, 3.52, 20.0, 39.0]
FRAMES = [999, 0, 87, 500, 88, 500, 975]


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.mp4", "libx264"),
        ("a.mkv", "libx264"),
        ("a.flv", "libx264"),
        ("a.ts", "libx264"),
        ("a.avi", "mpeg4"),
    ],
)
def test_the_frame_on_display(tmp_path: Path, name: str, codec: str) -> None:
    options = {"g": "50"}
    path = write_video(tmp_path / name, stamped_frames(1000), codec=codec, options=options)
    assert shown(path, TIMES) == FRAMES


def test_a_long_video_is_not_decoded_whole(tmp_path: Path, decoded: list[int]) -> None:
    path = write_video(tmp_path / "long.mp4", stamped_frames(2000), options={"g": "25"})
    assert shown(path, [70.0, 40.0, 10.0]) == [1750, 1000, 250]
    assert len(decoded) < 200


def test_times_outside_are_the_first_and_the_last_frame(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", stamped_frames(100))
    assert shown(path, [-5.0, 1000.0, 0.0, 4.0]) == [0, 99, 0, 99]
    assert frames_at(path, []) == []


def test_files_without_stamps_are_read_through(tmp_path: Path) -> None:
    path = write_video(tmp_path / "raw.h264", stamped_frames(200))
    assert shown(path, [6.0, 2.0, 100.0]) == [150, 50, 199]


@pytest.mark.parametrize("start", [0.0, 300.0])
def test_joined_recordings_are_read_through(tmp_path: Path, start: float) -> None:
    one = write_video(tmp_path / "1.ts", stamped_frames(100))
    times = [start + n / 25 for n in range(100)]
    two = write_video(tmp_path / "2.ts", stamped_frames(100, first=100), timestamps=times)
    joined = tmp_path / "joined.ts"
    joined.write_bytes(one.read_bytes() + two.read_bytes())
    assert shown(joined, [1.0, 6.0, 7.5]) == pytest.approx([25, 150, 187], abs=2)


def test_joined_recordings_with_the_same_stamps_twice(tmp_path: Path) -> None:
    """Twenty seconds stamped from 0, twenty more stamped from 3: a seek to stamp 18 leads to the wrong one."""
    parts = []
    for name, start, first, count in (("1.ts", 0, 0, 500), ("2.ts", 3, 500, 500)):
        times = [start + n / 25 for n in range(count)]
        frames = stamped_frames(count, first=first)
        parts.append(write_video(tmp_path / name, frames, timestamps=times, options={"g": "25"}))
    joined = tmp_path / "joined.ts"
    joined.write_bytes(b"".join(part.read_bytes() for part in parts))
    assert shown(joined, [1.0, 18.0]) == pytest.approx([25, 450], abs=2)


def test_a_late_start_and_a_variable_rate(tmp_path: Path) -> None:
    times = [100.0, 100.5, 104.2, 104.3, 105.0, 120.0]
    path = write_video(tmp_path / "vfr.mkv", stamped_frames(6), timestamps=times)
    assert shown(path, [0.4, 0.5, 4.0, 4.25, 19.0, 20.0]) == [0, 1, 1, 2, 4, 5]


def test_the_whole_frame_in_its_proportions(tmp_path: Path) -> None:
    frames = [np.zeros((90, 160, 3), np.uint8)] * 3
    plain = write_video(tmp_path / "plain.mp4", frames)
    assert [image.shape for image in frames_at(plain, [0.0])] == [(96, 171, 3)]
    turned = write_video(tmp_path / "turned.mp4", frames, rotation=90)
    assert frames_at(turned, [0.0])[0].shape == (96, 54, 3)
    wide = write_video(tmp_path / "wide.mp4", frames, pixel_aspect=Fraction(3, 2))
    assert frames_at(wide, [0.0])[0].shape == (96, 256, 3)
    strip = write_video(tmp_path / "strip.mkv", [np.zeros((2, 4096, 3), np.uint8)] * 3)
    assert frames_at(strip, [0.0])[0].shape == (96, 384, 3)


def test_times_that_are_none(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", stamped_frames(5))
    with pytest.raises(UsageError):
        frames_at(path, [math.nan])
    with pytest.raises(UsageError):
        frames_at(path, [0.0], height=0)
    with pytest.raises(VideoError):
        frames_at(tmp_path / "none.mp4", [0.0])
