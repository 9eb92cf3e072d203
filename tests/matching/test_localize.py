"""Matrices whose matches are known: what is found, where it ends, and that strips make no difference."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from visil.errors import UsageError
from visil.matching import localize as localize_module
from visil.matching.localize import LocalizeConfig, Localizer, Path, localize

Matrix = NDArray[np.float64]
Box = tuple[int, int, int, int]
"""First and last query frame, first and last target frame."""


def noise(rows: int, columns: int, seed: int = 0, mean: float = 0.2, spread: float = 0.06) -> Matrix:
    return np.random.default_rng(seed).normal(mean, spread, (rows, columns)).clip(-1, 1)


def draw(matrix: Matrix, top: int, left: int, steps: Sequence[float], value: float = 0.9) -> Box:
    """A match from (top, left): each query frame moves the target on by one of ``steps``. Returns its box."""
    position = float(left)
    row = top
    for row, step in enumerate(steps, start=top):
        # A copy played faster skips frames of its original; the frame on screen is still this one.
        matrix[row, int(position)] = value
        last = int(position)
        position += step
    return top, row, left, last


def boxes(paths: Sequence[Path]) -> list[Box]:
    return [(*p.query, *p.target) for p in paths]


def close(box: Box, truth: Box, tolerance: int) -> bool:
    return all(abs(a - b) <= tolerance for a, b in zip(box, truth, strict=True))


# ---------------------------------------------------------------- one match


def test_a_diagonal_in_noise() -> None:
    matrix = noise(40, 50)
    truth = draw(matrix, 5, 12, [1] * 20)
    (path,) = localize(matrix)
    assert boxes([path]) == [truth]
    assert path.cells == 20
    assert path.score == pytest.approx(0.9, abs=1e-6)
    assert path.gain == pytest.approx(20 * (0.9 - 0.5), abs=1e-4)


@pytest.mark.parametrize("speed", [0.5, 0.75, 1.0, 1.5, 2.0])
def test_a_copy_at_another_speed(speed: float) -> None:
    matrix = noise(60, 90)
    truth = draw(matrix, 10, 20, [speed] * 30)
    (path,) = localize(matrix)
    assert close(boxes([path])[0], truth, tolerance=2)
    assert path.score > 0.8


def test_a_change_of_speed_in_the_middle_is_one_match() -> None:
    matrix = noise(70, 90)
    truth = draw(matrix, 8, 5, [1.0] * 15 + [2.0] * 12 + [0.5] * 16)
    (path,) = localize(matrix)
    assert close(boxes([path])[0], truth, tolerance=2)


@pytest.mark.parametrize(("shape", "top", "left", "length"), [((12, 80), 0, 44, 12), ((80, 12), 51, 0, 12)])
def test_a_clip_inside_a_longer_video(shape: tuple[int, int], top: int, left: int, length: int) -> None:
    matrix = noise(*shape)
    truth = draw(matrix, top, left, [1] * length)
    assert boxes(localize(matrix)) == [truth]


def test_the_whole_of_both() -> None:
    matrix = noise(25, 25)
    assert boxes(localize(_with_diagonal(matrix))) == [(0, 24, 0, 24)]


def _with_diagonal(matrix: Matrix) -> Matrix:
    np.fill_diagonal(matrix, 1.0)
    return matrix


def test_a_reversed_copy_is_no_rising_line() -> None:
    matrix = noise(30, 30)
    matrix[np.arange(30), np.arange(30)[::-1]] = 0.9
    assert localize(matrix) == []


# ---------------------------------------------------------------- several


def test_two_matches_in_one_pair() -> None:
    matrix = noise(80, 80)
    first = draw(matrix, 5, 40, [1] * 18)
    second = draw(matrix, 50, 4, [1] * 14)
    paths = localize(matrix)
    assert boxes(paths) == [first, second]  # the longer, and so stronger, first
    assert paths[0].gain > paths[1].gain


def test_one_stretch_of_the_query_in_two_places_of_the_target() -> None:
    matrix = noise(40, 120)
    first = draw(matrix, 10, 5, [1] * 20)
    second = draw(matrix, 10, 70, [1] * 20, value=0.85)
    assert boxes(localize(matrix)) == [first, second]


def test_a_loop_played_three_times() -> None:
    matrix = noise(45, 15)
    truths = [draw(matrix, start, 0, [1] * 15) for start in (0, 15, 30)]
    assert sorted(boxes(localize(matrix))) == truths


@pytest.mark.parametrize("frames", [12, 30])
def test_a_static_scene_is_one_match_over_everything(frames: int) -> None:
    paths = localize(np.full((frames, frames), 0.9))
    assert boxes(paths) == [(0, frames - 1, 0, frames - 1)]


@pytest.mark.parametrize("seed", range(5))
def test_noise_holds_no_match(seed: int) -> None:
    assert localize(noise(120, 150, seed, mean=0.25, spread=0.08)) == []


# ---------------------------------------------------------------- gaps


def test_one_bad_frame_is_bridged() -> None:
    matrix = noise(50, 50)
    truth = draw(matrix, 10, 10, [1] * 25)
    matrix[22] = 0.05
    assert boxes(localize(matrix)) == [truth]


def test_a_long_gap_splits() -> None:
    matrix = noise(60, 60)
    first = draw(matrix, 5, 5, [1] * 18)
    second = draw(matrix, 33, 33, [1] * 18)
    assert sorted(boxes(localize(matrix))) == [first, second]


def test_a_path_ends_where_it_stood_highest() -> None:
    """A tail that is worse than the threshold belongs to no match, however short."""
    matrix = np.zeros((8, 8))
    for i, value in enumerate([0.9, 0.9, 0.9, 0.9, 0.9, 0.45, 0.45, 0.45]):
        matrix[i, i] = value
    (path,) = localize(matrix)
    assert boxes([path]) == [(0, 4, 0, 4)]
    assert path.cells == 5


# ---------------------------------------------------------------- settings


def test_threshold_and_minimum() -> None:
    matrix = np.zeros((10, 10))
    draw(matrix, 2, 2, [1] * 4, value=0.7)  # gains 4 · 0.2 at 0.5
    assert len(localize(matrix)) == 1
    assert localize(matrix, LocalizeConfig(threshold=0.6)) == []
    assert localize(matrix, LocalizeConfig(min_gain=0.81)) == []
    assert len(localize(matrix, LocalizeConfig(threshold=0.6, min_gain=0.39))) == 1


def test_defaults() -> None:
    assert LocalizeConfig().threshold == 0.5


def test_bends_cost() -> None:
    matrix = np.zeros((6, 12))
    for i in range(6):
        matrix[i, 2 * i] = 1.0
    (path,) = localize(matrix, LocalizeConfig(bend=0.05))
    assert path.gain == pytest.approx(6 * 0.5 - 5 * 0.05)
    (free,) = localize(matrix, LocalizeConfig(bend=0.0))
    assert free.gain == pytest.approx(3.0)


# ---------------------------------------------------------------- shapes


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 9), (9, 1), (2, 2), (1, 3), (3, 1)])
def test_smallest_matrices(rows: int, columns: int) -> None:
    assert localize(np.zeros((rows, columns))) == []
    matrix = np.zeros((rows, columns))
    matrix[-1, -1] = 1.0
    assert boxes(localize(matrix, LocalizeConfig(min_gain=0.4))) == [
        (rows - 1, rows - 1, columns - 1, columns - 1)
    ]


@pytest.mark.parametrize("similarity", [1.0, np.nextafter(np.float32(1), np.float32(0)), 1 - 1e-6])
def test_a_still_picture_matches_itself(similarity: float) -> None:
    """One frame against one: rounding in the last digit decides nothing."""
    assert boxes(localize(np.array([[similarity]]))) == [(0, 0, 0, 0)]


def test_strips_must_have_the_width_they_were_announced_with() -> None:
    localizer = Localizer(5)
    for strip in (np.zeros((2, 4)), np.zeros((2, 6)), np.zeros(5), np.zeros((1, 1, 5))):
        with pytest.raises(UsageError, match="rows of 5 frames"):
            localizer.feed(strip)


def test_a_target_without_frames_is_refused() -> None:
    with pytest.raises(UsageError):
        localize(np.zeros((3, 0)))


def test_no_rows_no_matches() -> None:
    assert Localizer(7).paths() == []
    assert localize(np.zeros((0, 7))) == []


def test_paths_may_be_asked_for_more_than_once() -> None:
    localizer = Localizer(30)
    matrix = noise(30, 30)
    draw(matrix, 3, 3, [1] * 20)
    localizer.feed(matrix[:15])
    early = localizer.paths()
    localizer.feed(matrix[15:])
    assert boxes(early) == [(3, 14, 3, 14)]
    assert localizer.paths() == localizer.paths() == localize(matrix)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 30),
    columns=st.integers(1, 30),
    heights=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    seed=st.integers(0, 1000),
    pending=st.sampled_from([1, 7, 1 << 18]),
)
def test_strips_of_any_height_give_the_same(
    rows: int, columns: int, heights: list[int], seed: int, pending: int
) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(0.0, 0.8, (rows, columns))
    draw(matrix, 0, 0, [1] * min(rows, columns))
    whole = localize(matrix)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(localize_module, "MAX_PENDING", pending)
        localizer = Localizer(columns)
        start = 0
        while start < rows:
            height = heights[start % len(heights)]
            localizer.feed(matrix[start : start + height])
            start += height
        assert localizer.paths() == whole


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 25), columns=st.integers(1, 25), seed=st.integers(0, 1000))
def test_what_every_path_must_be(rows: int, columns: int, seed: int) -> None:
    """Inside the matrix, rising no steeper than 4 to 1, worth its gain, strongest first."""
    matrix = np.random.default_rng(seed).uniform(0, 1, (rows, columns))
    paths = localize(matrix)
    assert [p.gain for p in paths] == sorted((p.gain for p in paths), reverse=True)
    for path in paths:
        (top, bottom), (left, right) = path.query, path.target
        assert 0 <= top <= bottom < rows
        assert 0 <= left <= right < columns
        assert bottom - top <= 4 * (right - left)
        assert right - left <= 4 * (bottom - top)
        assert 1 <= path.cells <= 1 + min(bottom - top, right - left)
        assert LocalizeConfig().min_gain <= path.gain <= path.cells * (path.score - 0.5) + 1e-3
        assert path.score <= 1


def test_either_video_may_be_the_query() -> None:
    matrix = noise(50, 70)
    draw(matrix, 6, 9, [1] * 20)
    draw(matrix, 30, 40, [1] * 12)
    flipped = [(path.target, path.query) for path in localize(matrix.T.copy())]
    assert flipped == [(path.query, path.target) for path in localize(matrix)]


# ---------------------------------------------------------------- against plain thresholding


def thresholded(matrix: Matrix, threshold: float = 0.5, smallest: int = 3) -> list[Box]:
    """The obvious way: cells over the threshold, joined with their eight neighbours; each group's bounding box."""
    high = matrix >= threshold
    seen = np.zeros_like(high)
    found = []
    for start in zip(*np.nonzero(high), strict=True):
        if seen[start]:
            continue
        seen[start] = True
        group, queue = [], deque([start])
        while queue:
            row, column = queue.popleft()
            group.append((int(row), int(column)))
            for i in range(max(row - 1, 0), min(row + 2, len(matrix))):
                for j in range(max(column - 1, 0), min(column + 2, matrix.shape[1])):
                    if high[i, j] and not seen[i, j]:
                        seen[i, j] = True
                        queue.append((i, j))
        rows, columns = zip(*group, strict=True)
        if len(group) >= smallest:
            found.append((min(rows), max(rows), min(columns), max(columns)))
    return found


def overlap(a: tuple[int, int], b: tuple[int, int]) -> float:
    """Intersection over union of two runs of frames, ends included."""
    common = max(0, min(a[1], b[1]) - max(a[0], b[0]) + 1)
    return common / (a[1] - a[0] + 1 + b[1] - b[0] + 1 - common)


def f1(found: Sequence[Box], truths: Sequence[Box]) -> float:
    """A segment counts when it covers at least half of one true segment's union on both axes, each true one once."""
    left = list(truths)
    for box in found:
        hit = next(
            (t for t in left if overlap(box[:2], t[:2]) >= 0.5 and overlap(box[2:], t[2:]) >= 0.5), None
        )
        if hit is not None:
            left.remove(hit)
    return 2 * (len(truths) - len(left)) / (len(found) + len(truths))


def scene(seed: int) -> tuple[Matrix, list[Box]]:
    """Noise, patches of chance resemblance, and one to three copies at several speeds with bad frames in them."""
    rng = np.random.default_rng(seed)
    rows, columns = (int(n) for n in rng.integers(90, 140, 2))
    matrix = noise(rows, columns, seed, mean=0.25, spread=0.08)
    for _ in range(6):
        top, left = int(rng.integers(0, rows - 4)), int(rng.integers(0, columns - 4))
        height, width = (int(n) for n in rng.integers(1, 4, 2))
        matrix[top : top + height, left : left + width] = rng.uniform(0.5, 0.62, (height, width))
    truths: list[Box] = []
    bands = 1 + seed % 3
    for band in range(bands):
        length = int(rng.integers(14, 24))
        speed = float(rng.choice([0.5, 0.8, 1.0, 1.25, 1.6, 2.0]))
        top = band * rows // bands + int(rng.integers(0, max(1, rows // bands - length)))
        left = int(rng.integers(0, columns - int(length * speed) - 1))
        truths.append(draw(matrix, top, left, [speed] * length))
        position = float(left)
        for row in range(top, top + length):
            bad = rng.random() < 0.12 and top < row < top + length - 1
            matrix[row, int(position)] = rng.uniform(0.3, 0.45) if bad else rng.normal(0.75, 0.06)
            position += speed
    return matrix, truths


def test_it_beats_plain_thresholding() -> None:
    scenes = [scene(seed) for seed in range(12)]
    aligned = [f1(boxes(localize(matrix)), truths) for matrix, truths in scenes]
    plain = [f1(thresholded(matrix), truths) for matrix, truths in scenes]
    assert np.mean(aligned) > 0.85
    assert np.mean(aligned) > np.mean(plain) + 0.2
    assert all(a >= b for a, b in zip(aligned, plain, strict=True))


def test_plain_thresholding_is_given_a_fair_chance() -> None:
    """Guards the comparison: on a clean diagonal the obvious way is perfect too."""
    matrix = noise(40, 50, mean=0.1)
    truth = draw(matrix, 5, 12, [1] * 20)
    assert f1(thresholded(matrix), [truth]) == f1(boxes(localize(matrix)), [truth]) == 1.0
