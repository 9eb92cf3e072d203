"""Frames written as video files: whole, readable, the same each time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from synthetic import moving_scene
from visil.errors import UsageError
from visil.video import Image, frames_at, probe, read_frames
from visil.video.writer import write_video

SMALL = (128, 72)


def shots(seconds: float = 1.0) -> list[Image]:
    """Ten frames a second."""
    return list(moving_scene(0, seconds, fps=10, size=(SMALL[1], SMALL[0])))


def difference(a: Image, b: Image) -> float:
    return float(np.abs(a.astype(int) - b.astype(int)).mean())


def test_a_written_video_can_be_read(tmp_path: Path) -> None:
    frames = shots(3)
    path = write_video(tmp_path / "clip.mp4", frames, 10)
    info = probe(path)
    assert (info.width, info.height) == SMALL
    assert info.fps == pytest.approx(10)
    assert info.duration == pytest.approx(3.0, abs=0.01)
    assert info.codec == "h264"
    assert len(read_frames(path)) == 3
    assert difference(frames_at(path, [2.0], SMALL[1])[0], frames[20]) < 12
    assert [entry.name for entry in tmp_path.iterdir()] == ["clip.mp4"]


@pytest.mark.parametrize("size", [SMALL, (98, 146), (320, 180)])
def test_the_same_frames_give_the_same_file(tmp_path: Path, size: tuple[int, int]) -> None:
    """With AVX-512 x264 gives other files from time to time."""
    frames = shots(3)
    made = {write_video(tmp_path / "a.mp4", frames, 10, size=size).read_bytes() for _ in range(6)}
    assert len(made) == 1


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def failing() -> Iterator[Image]:
        yield from shots()
        raise RuntimeError("the camera broke")

    with pytest.raises(RuntimeError, match="camera"):
        write_video(tmp_path / "a.mp4", failing(), 10)
    with pytest.raises(UsageError, match="at least one frame"):
        write_video(tmp_path / "a.mp4", [], 10)
    with pytest.raises(UsageError, match="even width and height"):
        write_video(tmp_path / "a.mp4", [np.zeros((5, 6, 3), np.uint8)], 10)
    with pytest.raises(UsageError, match="frame 1 is 4×4×3, the first was 8×8×3"):
        write_video(tmp_path / "a.mp4", [np.zeros((n, n, 3), np.uint8) for n in (8, 4)], 10)
    with pytest.raises(UsageError, match=r"cannot be written as \.nonsense"):
        write_video(tmp_path / "a.nonsense", shots(), 10)
    with pytest.raises(UsageError, match="its folder does not exist"):
        write_video(tmp_path / "nowhere" / "a.mp4", shots(), 10)
    assert not list(tmp_path.iterdir())


def test_frames_of_an_odd_size_are_scaled_to_the_one_asked_for(tmp_path: Path) -> None:
    frames = [frame[:71, :127] for frame in shots()]
    info = probe(write_video(tmp_path / "a.mp4", frames, 10, size=(64, 36), threads=1))
    assert (info.width, info.height) == (64, 36)
