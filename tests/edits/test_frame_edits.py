"""Edits of frames one at a time: that they do what they say."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("skimage")

from synthetic import difference, same_frames
from visil.demo import photograph, render_scene
from visil.edits.frames import (
    banner,
    between,
    blur,
    border,
    colour,
    crop,
    cut,
    disc,
    edited,
    framed,
    inset,
    mirror,
    overlay,
    perspective,
    recode,
    resize,
    rotation,
    speed,
    tint,
    window,
)
from visil.errors import UsageError
from visil.video import Image


def shots(seconds: float = 1.0) -> list[Image]:
    return list(render_scene(photograph("coffee"), seconds, 10, (128, 72)))


def numbered(count: int) -> list[Image]:
    """Frames that can be told apart by their value."""
    return [np.full((4, 6, 3), i, np.uint8) for i in range(count)]


def numbers(frames: Iterator[Image]) -> list[int]:
    return [int(frame[0, 0, 0]) for frame in frames]


def test_mirror_swaps_left_and_right_and_twice_is_nothing() -> None:
    frames = shots()
    flipped = list(edited(frames, mirror()))
    assert np.array_equal(flipped[0][:, 0], frames[0][:, -1])
    assert same_frames(list(edited(flipped, mirror())), frames)


def test_cut_keeps_what_lies_between_two_times() -> None:
    assert numbers(edited(numbered(20), cut(0.5, 1.2, 10))) == [5, 6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize(
    ("factor", "kept"), [(2, [0, 2, 4]), (1, [0, 1, 2, 3, 4, 5]), (0.5, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5])]
)
def test_speed_leaves_frames_out_or_repeats_them(factor: float, kept: list[int]) -> None:
    assert numbers(edited(numbered(6), speed(factor))) == kept


def test_speed_changes_the_length_by_its_factor() -> None:
    assert len(list(edited(numbered(250), speed(1.25)))) == 200


def test_between_puts_footage_around() -> None:
    assert numbers(edited(numbered(3)[1:], between(numbered(1), numbered(2)))) == [0, 1, 2, 0, 1]


def test_crop_enlarges_a_part() -> None:
    frame = np.zeros((40, 80, 3), np.uint8)
    frame[:20, :40] = 200
    (corner,) = edited([frame], crop(0.5, 0, 0))
    assert corner.shape == frame.shape
    assert corner[:38, :78].min() == 200
    (other,) = edited([frame], crop(0.4, 1, 1))
    assert other.max() == 0
    assert same_frames(list(edited([frame], crop(1.0))), [frame])


def test_colour_grades() -> None:
    frame = shots()[0]
    (dark,) = edited([frame], colour(brightness=0.5))
    assert abs(dark.mean() - frame.mean() / 2) < 1
    (grey,) = edited([frame], colour(saturation=0))
    assert np.ptp(grey, axis=-1).max() == 0
    (flat,) = edited([frame], colour(contrast=0.5))
    assert flat.std() < frame.std()
    assert same_frames(list(edited([frame], colour())), [frame])


def test_overlay_covers_a_box_and_nothing_else() -> None:
    frame = np.full((100, 300, 3), 77, np.uint8)
    (covered,) = edited([frame], overlay("HELLO", 0, 1, height=0.2, fill=(10, 20, 200)))
    changed = (covered != frame).any(axis=-1)
    rows, columns = np.nonzero(changed)
    assert (rows.min(), rows.max(), columns.min()) == (80, 99, 0)
    assert 20 < columns.max() < 200
    assert (covered[80:, : columns.max()] > 240).all(axis=-1).any()  # its letters
    assert (frame == 77).all()
    (narrow,) = edited([frame[:, :10]], overlay("much too long for this", height=0.2))
    assert narrow.shape == (100, 10, 3)


def test_border_frames_the_picture() -> None:
    frame = np.full((50, 100, 3), 90, np.uint8)
    (framed,) = edited([frame], border(0.2, (1, 2, 3)))
    assert framed[0, 0].tolist() == [1, 2, 3]
    assert (framed[5:45, 10:90] == 90).all()
    assert (framed[:5] == (1, 2, 3)).all()


def test_inset_shows_one_video_inside_another() -> None:
    around = [np.zeros((50, 100, 3), np.uint8)] * 3
    shown = list(edited([np.full((20, 20, 3), 255, np.uint8)] * 9, inset(around, 0.4, 1, 0)))
    assert len(shown) == 3
    assert (shown[0][:20, 60:] == 255).all()
    assert shown[0].mean() == pytest.approx(255 * 0.16)


def test_recode_keeps_every_frame_and_loses_detail_with_the_bits() -> None:
    frames = shots(2)
    fine, coarse = list(edited(frames, recode(2_000_000, 10))), list(edited(frames, recode(15_000, 10)))
    assert len(fine) == len(coarse) == len(frames)
    for i in (1, 10, 19):
        assert difference(fine[i], frames[i]) < difference(coarse[i], frames[i])
        assert difference(fine[i], frames[i]) < 5
        assert difference(coarse[i], frames[i]) < difference(coarse[i], frames[(i + 10) % 20])


def test_a_window_is_cut_out_by_the_pixel() -> None:
    frame = shots()[0]
    (part,) = edited([frame], window(10, 20, 30, 40))
    assert np.array_equal(part, frame[20:60, 10:40])


def test_rotation_turns_and_a_quarter_turn_swaps_the_sides() -> None:
    frame = shots()[0]
    (quarter,) = edited([frame], rotation(90))
    assert np.array_equal(quarter, np.rot90(frame))
    (tilted,) = edited([frame], rotation(20))
    assert tilted.shape == frame.shape
    assert tilted[0, 0].tolist() == [0, 0, 0]


def test_perspective_moves_the_corners_inwards() -> None:
    frame = np.full((40, 80, 3), 200, np.uint8)
    (still,) = edited([frame], perspective([0.0] * 8))
    assert np.abs(still.astype(int) - frame).mean() < 1
    (leaning,) = edited([frame], perspective([0.25, 0.25, *[0.0] * 6]))
    assert leaning[2, 4].tolist() == [0, 0, 0]
    assert leaning[20, 40].tolist() == [200, 200, 200]
    assert leaning[35, 75].tolist() == [200, 200, 200]


def test_blur_and_tint() -> None:
    frame = shots()[0]
    (soft,) = edited([frame], blur(3))
    assert (
        np.abs(np.diff(soft.astype(int), axis=1)).mean() < np.abs(np.diff(frame.astype(int), axis=1)).mean()
    )
    (red,) = edited([frame], tint(np.array([1.0, 0.5, 0.0])))
    assert np.array_equal(red, np.stack([frame[..., 0], frame[..., 1] // 2, 0 * frame[..., 2]], axis=-1))


def test_a_banner_and_a_disc_cover_what_they_say() -> None:
    frame = np.full((100, 200, 3), 77, np.uint8)
    (covered,) = edited(
        [frame],
        banner("HELLO", 80, 99, (10, 20, 200), (255, 255, 255), text_top=81, size=14),
        disc(20, 10, 30, (0, 255, 0)),
    )
    assert (covered[81:98, 190] == (10, 20, 200)).all()
    assert (covered[80:] > 200).all(axis=-1).any()  # its letters
    assert covered[25, 35].tolist() == [0, 255, 0]
    assert (covered[60:79] == 77).all()
    assert (frame == 77).all()


def test_framed_puts_the_picture_where_it_is_told() -> None:
    frame = np.full((40, 80, 3), 90, np.uint8)
    (middle,) = edited([frame], framed(40, 20, (1, 2, 3)))
    assert (middle[10:30, 20:60] == 90).all()
    assert (middle[:10] == (1, 2, 3)).all()
    (corner,) = edited([frame], framed(40, 20, (1, 2, 3), at=(0, 0), fine=False))
    assert (corner[:20, :40] == 90).all()
    assert corner[30, 70].tolist() == [1, 2, 3]


def test_a_frame_shown_twice_is_resized_once() -> None:
    first, second = shots()[:2]
    small = list(edited([first, first, second], resize(64, 36)))
    assert [frame.shape for frame in small] == [(36, 64, 3)] * 3
    assert small[0] is small[1]
    assert small[1] is not small[2]


def test_recode_by_quality_comes_back_at_the_old_size() -> None:
    frames = shots()
    fine, coarse = (list(edited(frames, recode(fps=10, crf=q, short_side=48))) for q in (20, 45))
    assert [frame.shape for frame in coarse] == [frame.shape for frame in frames]
    assert difference(fine[5], frames[5]) < difference(coarse[5], frames[5])
    with pytest.raises(UsageError, match="a bit rate or a quality"):
        recode()


def test_edits_take_frames_one_at_a_time() -> None:
    taken = 0

    def source() -> Iterator[Image]:
        nonlocal taken
        for frame in shots(2):
            taken += 1
            yield frame

    chain = edited(source(), crop(0.8), mirror(), colour(0.9), overlay("x"), border(0.1), speed(1.5))
    assert taken == 0
    next(chain)
    assert taken == 1


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: crop(0),
        lambda: crop(1.5),
        lambda: crop(0.5, -1),
        lambda: speed(0),
        lambda: cut(3, 2),
        lambda: border(1.0),
        lambda: colour(-1),
        lambda: overlay("x", height=0),
        lambda: recode(0),
    ],
)
def test_edits_that_cannot_be_meant_are_refused(wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(UsageError):
        wrong()
