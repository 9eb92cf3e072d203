"""The axes of a drawn matrix: thin lines stay, cells lie where their frames are, ticks are round."""

from __future__ import annotations

import numpy as np
import pytest

from visil.model import comparator
from visil.plots.axes import Axis, lanes, shrink, ticks
from visil.plots.match_figure import STRIDE


@pytest.mark.parametrize("shape", [(3000, 3000), (700, 5000), (3001, 750)])
def test_a_thin_diagonal_survives_shrinking(shape: tuple[int, int]) -> None:
    rows, columns = (Axis.of(np.arange(float(n))).bins() for n in shape)
    assert max(len(rows), len(columns)) <= 720
    length = min(shape)
    matrix = np.zeros(shape, np.float32)
    matrix[np.arange(length), np.arange(length)] = 1
    small = shrink(matrix, rows, columns)
    for step in range(0, length, 7):
        at = [next(i for i, bin_ in enumerate(bins) if bin_.stop > step) for bins in (rows, columns)]
        assert small[at[0], at[1]] == 1
    assert small.mean() < 0.02


def test_small_matrices_are_drawn_cell_by_cell() -> None:
    bins = Axis.of(np.arange(720.0)).bins()
    assert bins == [slice(i, i + 1) for i in range(720)]
    matrix = np.random.default_rng(0).random((720, 5)).astype(np.float32)
    assert np.array_equal(shrink(matrix, bins, [slice(i, i + 1) for i in range(5)]), matrix)


def test_uneven_frames_are_drawn_for_as_long_as_they_last() -> None:
    axis = Axis.of(np.array([0.0, 1.0, 2.0, 10.0]))
    assert axis.end == 11.0
    bins = axis.bins(limit=11)
    assert [bin_.start for bin_ in bins] == [0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3]
    assert all(bin_.stop == bin_.start + 1 for bin_ in bins)


def test_the_cells_of_s_v_stand_for_four_frames_each() -> None:
    axis = Axis.of(np.arange(10.0)).grouped(2, 4)
    assert axis.starts.tolist() == [0, 4]
    assert axis.end == 8
    short = Axis.of(np.arange(3.0)).grouped(1, 4)
    assert (short.start, short.end) == (0, 3)


def test_the_drawn_stride_is_the_comparators() -> None:
    assert STRIDE == comparator.STRIDE


def test_ticks_are_round_and_few() -> None:
    assert ticks(Axis.of(np.arange(60.0)), 7)[1] == ["0:00", "0:10", "0:20", "0:30", "0:40", "0:50", "1:00"]
    assert ticks(Axis.of(np.arange(3.0)), 9)[1] == ["0:00", "0:01", "0:02", "0:03"]
    assert ticks(Axis.of(np.arange(5) / 10), 9)[1][:2] == ["0:00.0", "0:00.1"]
    assert len(ticks(Axis.of(np.arange(0.0, 1e6, 10)), 7)[0]) <= 8


def test_stretches_that_overlap_go_into_lanes_of_their_own() -> None:
    assert lanes([(0, 10), (5, 8), (10, 12), (6, 7)], 3) == [0, 1, 0, 2]
    assert max(lanes([(0, 10)] * 5, 3)) == 2
