"""The closer look, with vectors for videos: what it sets right, what it costs, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from family import FAMILY, built
from visil.compare import matches
from visil.compare.judge import Judged, Pair, answer
from visil.compare.refinement import MOST_FRAMES, FramesAt, refined
from visil.compare.visil import ViSiL
from visil.matching.calibration import Calibration
from visil.matching.localize import Segment
from visil.model.features import VideoFeatures

CURVE = Calibration(-4.0, 0.0, 8.0, 2.0, agreement=6.0, in_step=0.5, out_of_step=6.0, untold=3.0)


def footage(seconds: float, seed: int, place: int | None = None) -> Tensor:
    """Vectors of twenty frames a second that change all the time; of one place, they stay around it."""
    noise = torch.Generator().manual_seed(seed)
    count = int(seconds * 20)
    keys = torch.randn(count // 40 + 2, 9, 16, generator=noise)
    at = torch.arange(count) / 40
    share = (at % 1)[:, None, None]
    moving = keys[at.long()] * (1 - share) + keys[at.long() + 1] * share
    if place is not None:
        ground = torch.randn(9, 16, generator=torch.Generator().manual_seed(place))
        moving = 3.0 * ground + moving
    return F.normalize(moving, dim=-1)


def looked(vectors: Tensor, blank: Tensor | None = None) -> tuple[VideoFeatures, FramesAt, list[int]]:
    """A frame a second of such footage, and how to see more of it; the frames asked for are counted."""
    asked: list[int] = []
    seconds = len(vectors) / 20

    def seen(times: Tensor) -> VideoFeatures:
        places = (times * 20).round().long().clamp(max=len(vectors) - 1)
        return VideoFeatures(vectors[places], times, seconds, blank=None if blank is None else blank[places])

    def look(times: Sequence[float]) -> VideoFeatures:
        asked.append(len(times))
        return seen(torch.tensor(times, dtype=torch.float64))

    return seen(torch.arange(0, seconds, 1.0, dtype=torch.float64)), look, asked


@pytest.fixture(scope="module")
def model() -> ViSiL:
    model = built(FAMILY["f"])
    model.config = replace(model.config, calibration=CURVE)
    return model


def compared(model: ViSiL, one: Tensor, other: Tensor) -> tuple[Pair, list[Judged], list[int]]:
    (query, see_query, _), (target, see_target, asked) = looked(one), looked(other)
    pair, found = matches.measured(model, model.scorer(), query, target)
    return pair, refined(pair, found, (see_query, see_target)), asked


def spans(found: Sequence[Judged]) -> list[tuple[float, ...]]:
    return sorted((*one.segment.query, *one.segment.target) for one in found)


def test_ends_are_right_to_half_a_second(model: ViSiL) -> None:
    original = footage(20, 1)
    copy = torch.cat([footage(4.35, 2), original[int(6.3 * 20) : int(14.7 * 20)], footage(5, 3)])
    pair, found, _ = compared(model, original, copy)
    assert spans(found) == [pytest.approx((6.3, 14.7, 4.35, 12.75), abs=0.5)]
    assert answer(pair, found).verdict == "copy"


def test_a_cut_makes_two(model: ViSiL) -> None:
    original = footage(11, 4)
    copy = torch.cat([original[: int(4.4 * 20)], original[int(6.9 * 20) :]])
    _, found, _ = compared(model, original, copy)
    truth = [(0, 4.4, 0, 4.4), (6.9, 11, 4.4, 8.5)]
    assert spans(found) == [pytest.approx(one, abs=0.5) for one in truth]


@pytest.mark.parametrize("speed", [0.5, 0.8, 1.25, 2.0])
def test_another_speed_is_one_stretch(model: ViSiL, speed: float) -> None:
    original = footage(11, 10)
    copy = original[(torch.arange(0, len(original) - 1, speed)).long()]
    _, found, _ = compared(model, original, torch.cat([copy, footage(4, 11)]))
    assert spans(found) == [pytest.approx((0, 11, 0, 11 / speed), abs=0.5)]


def test_another_moment_at_the_same_place_is_no_copy(model: ViSiL) -> None:
    pair, found, _ = compared(model, footage(9, 5, place=1), footage(9, 6, place=1))
    assert found
    assert answer(pair, found).verdict != "copy"
    pair, found, _ = compared(model, footage(9, 5, place=1), footage(9, 5, place=1)[7:])
    assert answer(pair, found).verdict == "copy"


def black(seconds: float) -> Tensor:
    """Frames of one colour: the same in every video."""
    return footage(0.05, 0).expand(int(seconds * 20), -1, -1)


def test_black_that_two_videos_share_is_no_footage(model: ViSiL) -> None:
    one, other = (torch.cat([footage(5, seed, place=1), black(4)]) for seed in (12, 13))
    dark = torch.arange(len(one)) >= 5 * 20
    (query, see_query, _), (target, see_target, _) = looked(one, dark), looked(other, dark)
    pair, found = matches.measured(model, model.scorer(), query, target)
    assert found  # one place at another moment: worth a closer look, which sees the black as well
    closely = refined(pair, found, (see_query, see_target))
    assert answer(pair, closely).verdict != "copy"


def test_a_fade_that_was_copied_belongs_to_the_copy(model: ViSiL) -> None:
    original = torch.cat([footage(6, 14), black(2)])
    dark = torch.arange(len(original)) >= 6 * 20
    (query, see_query, _), (target, see_target, _) = looked(original, dark), looked(original[40:], dark[40:])
    pair, found = matches.measured(model, model.scorer(), query, target)
    closely = refined(pair, found, (see_query, see_target))
    assert spans(closely) == [pytest.approx((2, 8, 0, 6), abs=0.5)]


def test_black_on_one_side_alone_ends_a_stretch(model: ViSiL) -> None:
    """The original begins and ends in black; the copy goes from one footage to the next."""
    shown = footage(8, 15)
    original, copy = (
        torch.cat([black(1.5), shown, black(1.8)]),
        torch.cat([footage(5, 16), shown, footage(5, 17)]),
    )
    dark = (original == black(0.05)).flatten(1).all(dim=1)
    (query, see_query, _), (target, see_target, _) = (
        looked(copy, dark.new_zeros(len(copy))),
        looked(original, dark),
    )
    pair, found = matches.measured(model, model.scorer(), query, target)
    closely = refined(pair, found, (see_query, see_target))
    assert spans(closely) == [pytest.approx((5, 13, 1.5, 9.5), abs=0.5)]


def test_the_work_is_bounded(model: ViSiL) -> None:
    long = footage(900, 7)
    _, found, asked = compared(model, long, long[30:])
    assert spans(found) == [pytest.approx((1.5, 900, 0, 898.5), abs=0.5)]
    assert sum(asked) < 40
    (query, see_query, _), (target, see_target, asked) = looked(long), looked(long)
    pair, _ = matches.measured(model, model.scorer(), query, target)
    many = [
        Judged(Segment((s, s + 9.0), (s, s + 9.0), 0.9), 3.0, 1.0, found[0].moves)
        for s in np.arange(0, 800, 100.0)
    ]
    refined(pair, many, (see_query, see_target))
    assert sum(asked) <= MOST_FRAMES


def test_frames_at_hand_are_not_embedded_again(model: ViSiL) -> None:
    original = footage(6, 8)
    _, _, asked = compared(model, original, original)
    assert sum(asked) == 18  # of 24 a fourth are there


def test_nothing_is_looked_at_without_files(model: ViSiL) -> None:
    features, _, _ = looked(footage(8, 9))
    assert model.look(features) is None
    assert model.look(replace(features, path="gone.mp4")) is None
    assert (
        model.compare(features, features).segments == model.compare(features, features, refine=False).segments
    )
