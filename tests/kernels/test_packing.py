"""Runs of items that fit a budget."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from visil.kernels.packing import runs, slices

sizes = st.lists(st.integers(0, 20))


@given(sizes=sizes, most=st.integers(0, 40))
def test_every_item_once_in_order_and_within_the_budget(sizes: list[int], most: int) -> None:
    found = list(runs(iter(sizes), lambda size: size, most))
    assert [size for run in found for size in run] == sizes
    assert all(run and (len(run) == 1 or sum(run) <= most) for run in found)
    assert [sizes[place] for place in slices(sizes, most)] == found


@given(sizes=sizes, most=st.integers(0, 40))
def test_a_run_ends_only_where_the_next_item_would_not_fit(sizes: list[int], most: int) -> None:
    found = list(runs(sizes, lambda size: size, most))
    for run, following in pairwise(found):
        assert sum(run) + following[0] > most


def test_items_are_taken_as_they_are_needed() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    assert next(runs(items(), lambda _: 1, 3)) == [0, 1, 2]
    assert len(taken) == 4
