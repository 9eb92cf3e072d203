"""Frames that only one of two files has, however short they are, and copies with fewer frames that have none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from footage.scenes import Frames, watched
from synthetic import moving_scene, write_video
from visil.footage.proof import File, Proof, Prover

FPS = 24
SECONDS = 5
FILM: Frames = list(moving_scene(21, SECONDS, FPS, (72, 96), shot=1.7))
TALK: Frames = watched(4, 15)


def proved(folder: Path, one: Frames, two: Frames, fps: tuple[float, float] = (FPS, FPS)) -> Proof:
    files = []
    for name, frames, rate, crf in (("one", one, fps[0], "23"), ("two", two, fps[1], "28")):
        path = write_video(folder / f"{name}.mp4", frames, rate, options={"crf": crf})
        files.append(File(str(path), len(frames) / rate, path.stat().st_size))
    spans = (0.0, files[0].seconds), (0.0, files[1].seconds)
    return Prover().prove(files[0], files[1], [spans])


def with_flash(frames: Frames, at: int, count: int = 1) -> Frames:
    changed = list(frames)
    changed[at : at + count] = [np.ascontiguousarray(255 - frames[0][::-1])] * count
    return changed


@pytest.mark.parametrize("at", [0, 30, 61, 62, 63, 119])
def test_one_frame_that_is_another_keeps_both(at: int, tmp_path: Path) -> None:
    found = proved(tmp_path, FILM, with_flash(FILM, at))
    assert not found.first_in_second.whole
    assert not found.second_in_first.whole
    assert found.second_in_first.seconds > SECONDS - 0.5


def test_a_frame_over_black_is_no_blank(tmp_path: Path) -> None:
    black = [np.zeros_like(FILM[0])] * 3 * FPS
    lit = [*black[: FPS + 3], FILM[9], *black[FPS + 4 :]]
    found = proved(tmp_path, FILM + lit, FILM + black)
    assert not found.first_in_second.whole
    assert found.second_in_first.whole, "nothing of it is missing"


@pytest.mark.parametrize("times", [2, 3, 4])
def test_frames_that_are_held_are_fewer_frames(times: int, tmp_path: Path) -> None:
    held = [FILM[number // times * times] for number in range(len(FILM))]
    found = proved(tmp_path, FILM, held)
    assert not found.first_in_second.whole or found.first_only == "moves more smoothly"
    assert found.second_only is None


@pytest.mark.parametrize("fps", [12, 20, 25, 30, 48])
def test_a_copy_at_another_frame_rate_may_go(fps: int, tmp_path: Path) -> None:
    again = [FILM[min(len(FILM) - 1, int(number * FPS / fps))] for number in range(SECONDS * fps)]
    found = proved(tmp_path, FILM, again, (FPS, fps))
    assert found.second_in_first.whole


@pytest.mark.parametrize("start", [0, 7, 31])
def test_a_copy_that_begins_later_may_go(start: int, tmp_path: Path) -> None:
    assert proved(tmp_path, FILM, FILM[start:]).second_in_first.whole


def test_grain_and_small_moves_are_no_flashes(tmp_path: Path) -> None:
    found = proved(tmp_path, TALK, TALK, (8, 8))
    assert found.first_in_second.whole
    assert found.second_in_first.whole
