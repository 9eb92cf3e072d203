"""Maps whose stretches are known: jumps, speeds, repeats, reversal, still shots, and what moves in step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from visil.matching import stretches as module
from visil.matching.localize import LocalizeConfig, Localizer
from visil.matching.stretches import Stretch, block_of, grown, stretches

Matrix = NDArray[np.float64]
Spans = tuple[int, int, int, int]


def noise(rows: int, columns: int, seed: int = 0, mean: float = 0.2, spread: float = 0.05) -> Matrix:
    return np.random.default_rng(seed).normal(mean, spread, (rows, columns)).clip(-1, 1)


def line(matrix: Matrix, top: int, left: int, frames: int, speed: float = 1.0, value: float = 0.9) -> Spans:
    """A line of so many query frames; backwards, ``left`` is where it ends."""
    columns = [int(left + (i if speed > 0 else i - frames + 1) * speed) for i in range(frames)]
    matrix[np.arange(top, top + frames), columns] = value
    return top, top + frames - 1, min(columns), max(columns)


def spans(found: list[Stretch]) -> list[Spans]:
    return sorted((*one.query, *one.target) for one in found)


def close(found: list[Stretch], truths: list[Spans], tolerance: int = 1) -> bool:
    pairs = zip(spans(found), sorted(truths), strict=True)
    return all(abs(a - b) <= tolerance for one, true in pairs for a, b in zip(one, true, strict=True))


def localized(matrix: Matrix, config: LocalizeConfig | None = None) -> list[Stretch]:
    """The stretches of a whole map [X, Y], the strongest first."""
    config = config or LocalizeConfig()
    forwards, backwards = (Localizer(matrix.shape[1], config) for _ in range(2))
    forwards.feed(matrix)
    backwards.feed(matrix[:, ::-1])
    shape = (len(matrix), matrix.shape[1])
    return stretches(forwards.paths(), backwards.paths(), block_of(matrix), shape, config)


def test_a_diagonal() -> None:
    matrix = noise(40, 50)
    truth = line(matrix, 5, 12, 20)
    (found,) = localized(matrix)
    assert spans([found]) == [truth]
    assert found.score == pytest.approx(0.9)
    assert not found.reversed
    assert found.strength(0.5) == pytest.approx(0.4 * np.log2(21))


@pytest.mark.parametrize("speed", [0.25, 0.5, 0.75, 1.5, 2.0, 3.0, 4.0])
def test_one_stretch_at_any_speed(speed: float) -> None:
    matrix = noise(50, 90)
    truth = line(matrix, 4, 5, 40 if speed < 1 else 20, speed)
    found = localized(matrix)
    assert len(found) == 1
    assert close(found, [truth], tolerance=3)


def test_backwards() -> None:
    matrix = noise(40, 50)
    truth = line(matrix, 8, 10, 20, -1.0)
    (found,) = localized(matrix)
    assert found.reversed
    assert spans([found]) == [truth]
    assert (np.diff(found.cells[:, 0]) > 0).all()
    assert (np.diff(found.cells[:, 1]) < 0).all()


@pytest.mark.parametrize("cut", [2, 3, 6])
def test_seconds_cut_out_are_a_jump_not_a_slant(cut: int) -> None:
    matrix = noise(40, 40)
    first = line(matrix, 3, 5, 12)
    second = line(matrix, 15 + cut, 17, 12)
    assert close(localized(matrix), [first, second])


@pytest.mark.parametrize("inserted", [2, 4])
def test_seconds_put_in_are_a_jump(inserted: int) -> None:
    matrix = noise(40, 40)
    first = line(matrix, 3, 5, 12)
    second = line(matrix, 15, 17 + inserted, 12)
    assert close(localized(matrix), [first, second])


def test_footage_that_occurs_twice_is_found_twice() -> None:
    matrix = noise(30, 60)
    first = line(matrix, 5, 10, 12)
    second = line(matrix, 5, 22, 12, value=0.89)
    assert spans(localized(matrix)) == [first, second]


def test_a_loop_played_three_times() -> None:
    matrix = noise(45, 15)
    truths = [line(matrix, start, 0, 15) for start in (0, 15, 30)]
    assert spans(localized(matrix)) == truths


@pytest.mark.parametrize(("rows", "columns"), [(20, 20), (20, 40), (40, 20)])
def test_a_still_shot_is_one_stretch(rows: int, columns: int) -> None:
    """Nothing tells which part of the longer one is meant: the shorter one is found whole, once."""
    matrix = noise(60, 60, mean=0.1)
    matrix[5 : 5 + rows, 10 : 10 + columns] = 0.9
    (found,) = localized(matrix)
    assert not found.reversed
    assert min(found.query[1] - found.query[0], found.target[1] - found.target[0]) >= 18


def test_neighbours_in_the_same_shot_are_no_stretches_of_their_own() -> None:
    """A shot of 10 frames of which 5 were copied: the copy resembles the other five too, but less."""
    matrix = noise(30, 40)
    matrix[10:20, 8:13] = 0.7
    truth = line(matrix, 15, 8, 5, value=0.95)
    assert close(localized(matrix), [truth])


def test_a_still_shot_shown_again_after_something_else_is_found_again() -> None:
    matrix = noise(20, 60)
    matrix[4:14, 5:15] = 0.9
    matrix[4:14, 35:45] = 0.9
    found = localized(matrix)
    assert sorted(one.target[0] // 20 for one in found) == [0, 1]


@pytest.mark.parametrize("seed", range(4))
def test_noise_holds_nothing(seed: int) -> None:
    assert localized(noise(120, 150, seed, mean=0.25, spread=0.08)) == []


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 25), columns=st.integers(1, 25), seed=st.integers(0, 1000))
def test_what_every_stretch_must_be(rows: int, columns: int, seed: int) -> None:
    """Inside the map, frames of the target all one way, above the threshold, strongest first."""
    matrix = np.random.default_rng(seed).uniform(0, 1, (rows, columns))
    found = localized(matrix)
    strengths = [one.strength(0.5) for one in found]
    assert strengths == sorted(strengths, reverse=True)
    for one in found:
        assert (one.cells >= 0).all()
        assert (one.cells < (rows, columns)).all()
        np.testing.assert_allclose(one.values, matrix[one.cells[:, 0], one.cells[:, 1]], rtol=1e-6)
        assert one.score > 0.5
        steps = np.diff(one.cells, axis=0)
        assert (steps[:, 0] >= 0).all()
        assert len({int(step) for step in np.sign(steps[:, 1])} - {0}) <= 1


def test_a_path_too_large_to_be_walked_stays_as_it_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = noise(40, 50)
    truth = line(matrix, 5, 12, 20)
    monkeypatch.setattr(module, "MOST_CELLS", 10)
    assert spans(localized(matrix)) == [truth]


def test_what_changes_decides_where_all_is_alike() -> None:
    """A slow shot is a plateau; a ridge a little above it is the true line, wherever the plateau's own diagonal is."""
    matrix = np.full((24, 30), 0.9)
    truth = line(matrix, 0, 5, 24, value=0.95)
    config = LocalizeConfig()
    forwards, backwards = (Localizer(30, config) for _ in range(2))
    forwards.feed(matrix)
    backwards.feed(matrix[:, ::-1])
    changes = np.full(24, 0.05, np.float32), np.full(30, 0.05, np.float32)
    (found,) = stretches(
        forwards.paths(), backwards.paths(), block_of(matrix), (24, 30), config, lambda: changes
    )
    assert close([found], [truth])


def test_blank_frames_on_both_sides_belong_to_the_copy() -> None:
    cells = np.stack([np.arange(3, 6), np.arange(4, 7)], axis=1)
    stretch = Stretch(cells, np.ones(3, np.float32))
    query = np.array([0, 1, 1, 0, 0, 0, 1, 0], bool)
    target = np.array([0, 0, 1, 1, 0, 0, 0, 1], bool)
    assert grown(stretch, query, target) == ((1, 6), (2, 7))
    assert grown(stretch, None, target) == ((3, 5), (4, 6))
