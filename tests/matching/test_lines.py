"""The place, the speed and the ends of a line, on maps with four frames a second."""

from __future__ import annotations

import numpy as np
import pytest

from visil.matching.lines import PER_SECOND, Line, Seen, bounds, ends, fitted
from visil.matching.localize import Segment


def seen(query: float, target: float, line: Line) -> Seen:
    """A map of two videos of so many seconds that is worth something along a line, and costs elsewhere."""
    rows, columns = (np.arange(0, seconds, 1 / PER_SECOND) for seconds in (query, target))
    there = line.at(rows)
    inside = (rows >= line.start) & (rows < line.end)
    apart = np.abs(columns[None, :] - there[:, None])
    worth = np.where(inside[:, None], np.maximum(0.8 - 2 * apart, -0.2), -0.2)
    return Seen(rows, columns, worth)


@pytest.mark.parametrize(
    "line",
    [
        Line(2.0, 9.0, 4.25, 11.25),
        Line(1.25, 8.75, 3.0, 6.75),
        Line(2.0, 9.0, 3.0, 14.5),
        Line(3.0, 9.0, 12.0, 6.0),
    ],
    ids=["equal speed", "half", "faster", "backwards"],
)
def test_a_line_seen_roughly_is_found_exactly(line: Line) -> None:
    block = seen(12, 18, line)
    rough = Line(line.start + 0.4, line.end - 0.3, line.first + 0.7, line.last - 0.6)
    found = fitted(block, rough)
    found = found.between(*ends(block, found, 12, 18))
    assert (found.start, found.end) == pytest.approx((line.start, line.end), abs=0.3)
    assert (found.first, found.last) == pytest.approx((line.first, line.last), abs=0.4)


def test_a_stretch_that_reaches_the_edge_ends_with_the_video() -> None:
    line = Line(0.0, 7.9, 2.0, 9.9)
    block = seen(7.9, 14, line)
    assert ends(block, line, 7.9, 14) == (0.0, 7.9)


def test_bounds_are_where_both_run() -> None:
    assert bounds(Line(2, 6, 1, 5), 10, 6) == (1, 7)
    assert bounds(Line(2, 6, 5, 1), 10, 6) == (1, 7)


def test_a_line_of_a_segment() -> None:
    assert Line.of(Segment((1, 3), (5, 9), 1.0)).at(np.array([2.0]))[0] == 7
    assert Line.of(Segment((1, 3), (5, 9), 1.0, reversed=True)).at(np.array([1.0, 3.0])).tolist() == [9, 5]
