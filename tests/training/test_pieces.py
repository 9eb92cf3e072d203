"""Pieces and their truth: what each frame shows, by hand, whatever was done to it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from toy_training import SIDE, footage, toy_model
from visil.training.pieces import (
    NOBODY,
    SAME,
    UNSURE,
    Piece,
    Plan,
    as_clip,
    copied,
    edited,
    joined,
    made,
    original,
    truth,
)


def piece(
    video: int, seconds: list[float], step: float = 1.0, other: tuple[int, float] | None = None
) -> Piece:
    """Frames that look different at every second of every video."""
    times = np.array(seconds, np.float64)
    shows = np.full((len(times), 2), NOBODY)
    shows[:, 0] = video
    both = np.stack([times, times], axis=1)
    if other is not None:
        shows[:, 1], both[:, 1] = other[0], other[1] + np.arange(len(times))
    thumbs = np.random.default_rng(video).random(6)[None] + times[:, None]
    return Piece(
        torch.zeros(len(times), 2, 4),
        shows,
        both,
        np.full(len(times), step),
        thumbs.astype(np.float32),
        np.zeros(len(times), bool),
    )


def whole(frames: int = 6) -> Piece:
    return piece(0, [float(k) for k in range(frames)])


def test_a_copy_of_the_middle_matches_along_a_diagonal_with_unsure_cells_beside_it() -> None:
    found = truth(piece(0, [2.2, 3.2]), whole())
    assert found.tolist() == [[0, UNSURE, SAME, UNSURE, 0, 0], [0, 0, UNSURE, SAME, UNSURE, 0]]


def test_a_copy_at_twice_the_speed_matches_two_frames_with_each() -> None:
    found = truth(piece(0, [0.5, 2.5], step=2.0), whole())
    assert (found == SAME).tolist() == [
        [True, True, False, False, False, False],
        [False, False, True, True, False, False],
    ]


def test_a_copy_at_half_the_speed_matches_one_frame_with_two() -> None:
    found = truth(piece(0, [1.0, 1.5, 2.0, 2.5], step=0.5), whole(4))
    assert (found == SAME).sum(axis=1).tolist() == [1, 2, 1, 2]
    assert (found[:, 0] != SAME).all()


def test_a_reversed_copy_matches_along_the_other_diagonal() -> None:
    found = truth(piece(0, [3.0, 2.0, 1.0]), whole(4))
    assert np.argwhere(found == SAME).tolist() == [[0, 3], [1, 2], [2, 1]]


def test_foreign_frames_match_nothing_and_a_second_copy_matches_again() -> None:
    query = joined([piece(0, [1.0]), piece(7, [1.0, 2.0]), piece(0, [1.0])])
    found = truth(query, whole(3))
    assert (found == SAME).tolist() == [[False, True, False], [False] * 3, [False] * 3, [False, True, False]]


def test_both_videos_of_a_composite_are_shown() -> None:
    query = piece(5, [0.0, 1.0], other=(0, 2.0))
    assert np.argwhere(truth(query, whole()) == SAME).tolist() == [[0, 2], [1, 3]]
    assert np.argwhere(truth(query, piece(5, [0.0, 1.0])) == SAME).tolist() == [[0, 0], [1, 1]]


def test_moments_that_look_the_same_are_unsure_and_blank_frames_say_nothing() -> None:
    still = whole(4)
    still.thumbs[:] = 0.5
    assert (truth(still, still) == UNSURE).sum() == 12
    assert (truth(still, still).diagonal() == SAME).all()
    still.blank[1] = True
    assert (truth(still, piece(9, [0.0]))[:, 0] == [0, UNSURE, 0, 0]).all()


def test_copies_lie_within_their_video_and_share_the_picture_with_another_one() -> None:
    lengths = [8.0, 3.0, 20.0]
    plans = [copied(i % 3, lengths, 1.0, np.random.default_rng(i)) for i in range(300)]
    for plan in plans:
        assert plan.seconds
        assert all(0 <= second < lengths[plan.video] for second in plan.seconds)
        assert (plan.other == NOBODY) == (plan.edit != "composite")
        assert plan.other != plan.video
    speeds = [abs(plan.seconds[1] - plan.seconds[0]) for plan in plans if len(plan.seconds) > 1]
    assert min(speeds) < 0.6
    assert max(speeds) > 2
    assert any(plan.seconds[0] > plan.seconds[-1] for plan in plans if len(plan.seconds) > 1)


def test_an_original_is_sampled_from_its_phase_on() -> None:
    assert original(3, 4.0, 1.0, 0.25, 64) == Plan(3, (0.25, 1.25, 2.25, 3.25))
    assert len(original(3, 90.0, 1.0, 0.25, 64).seconds) == 64


@pytest.mark.parametrize("edit", ["mild", "heavy", "composite"])
def test_edits_change_the_picture_and_are_the_same_each_time(edit: str) -> None:
    clip = as_clip(footage(2).images(0, range(4)))
    other = as_clip(footage(2).images(1, range(4))) if edit == "composite" else None
    plan = Plan(0, (0.0, 1.0, 2.0, 3.0), edit, seed=5, other=1 if other is not None else NOBODY)  # type: ignore[arg-type]
    once = edited(clip, plan, other)
    assert once.shape == (1, 4, 3, SIDE, SIDE)
    assert not torch.equal(once, clip)
    assert torch.equal(once, edited(clip, plan, other))


def test_pieces_are_what_the_model_makes_of_the_frames_on_display() -> None:
    model, videos = toy_model(), footage(3)
    plain, composed = made(
        model, videos, [Plan(1, (2.4, 3.4)), Plan(0, (0.5, 2.5), "composite", 3, other=2, other_start=4.0)]
    )
    expected = model.embed_frames(videos.images(1, [2, 3])).vectors.half()
    assert torch.equal(plain.vectors, expected)
    assert plain.seconds[:, 0].tolist() == [2.4, 3.4]
    assert composed.shows.tolist() == [[0, 2], [0, 2]]
    assert composed.seconds.tolist() == [[0.5, 4.0], [2.5, 5.0]]
    assert composed.step.tolist() == [2.0, 2.0]
