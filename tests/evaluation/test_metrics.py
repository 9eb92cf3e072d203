"""Average precision against numbers worked out by hand, plain loops, and the mean over all orders of equal scores."""

from __future__ import annotations

import math
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from visil.errors import UsageError
from visil.evaluation.metrics import (
    average_precision,
    harmonic_mean,
    interpolated_precision,
    mean,
    stepwise_average_precision,
    trapezoid_average_precision,
)

RANKINGS = st.lists(st.tuples(st.integers(0, 40), st.booleans()), min_size=1, max_size=30)


def loop_ap(order: list[bool], total: int) -> float:
    hits, result = 0, 0.0
    for rank, relevant in enumerate(order, 1):
        if relevant:
            hits += 1
            result += hits / rank
    return result / total


def loop_trapezoid(order: list[bool], total: int) -> float:
    hits, result = 0, 0.0
    for above, relevant in enumerate(order):
        if relevant:
            left = hits / above if above else 1.0
            hits += 1
            result += (left + hits / (above + 1)) / 2 / total
    return result


def loop_steps(items: list[tuple[int, bool]], total: int) -> float:
    result, recall = 0.0, 0.0
    for threshold in sorted({score for score, _ in items}, reverse=True):
        taken = [relevant for score, relevant in items if score >= threshold]
        reached = sum(taken) / total
        result += sum(taken) / len(taken) * (reached - recall)
        recall = reached
    return result


def split(items: list[tuple[int, bool]]) -> tuple[list[int], list[bool]]:
    return [score for score, _ in items], [relevant for _, relevant in items]


def test_by_hand() -> None:
    scores, relevant = [0.9, 0.8, 0.7, 0.6], [True, False, True, False]
    assert average_precision(scores, relevant) == pytest.approx((1 / 1 + 2 / 3) / 2)
    assert average_precision(scores, relevant, 4) == pytest.approx((1 + 2 / 3) / 4)
    assert average_precision(scores, relevant, 2, first=2) == pytest.approx(1 / 2)
    # Trapezoids: (1 + 1)/2 for the first hit, (1/2 + 2/3)/2 for the second.
    assert trapezoid_average_precision(scores, relevant) == pytest.approx((1 + 7 / 12) / 2)
    assert stepwise_average_precision(scores, relevant) == pytest.approx((1 + 2 / 3) / 2)


def test_equal_scores_by_hand() -> None:
    # One relevant among three equal: places 1, 2 and 3 are as likely.
    assert average_precision([1, 1, 1], [False, True, False]) == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert trapezoid_average_precision([1, 1, 1], [False, True, False]) == pytest.approx(
        (1 + (0 + 1 / 2) / 2 + (0 + 1 / 3) / 2) / 3
    )
    assert stepwise_average_precision([1, 1, 1], [False, True, False]) == pytest.approx(1 / 3)


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_equal_scores_are_the_mean_over_all_orders(items: list[tuple[int, bool]], unseen: int) -> None:
    scores, relevant = split(items)
    total = sum(relevant) + unseen
    if not total:
        return
    orders = [
        [relevant[i] for i in order]
        for order in permutations(range(len(items)))
        if all(scores[a] >= scores[b] for a, b in pairwise(order))
    ]
    plain = np.mean([loop_ap(order, total) for order in orders])
    assert average_precision(scores, relevant, total) == pytest.approx(plain)
    cut = np.mean([loop_ap(order[:2], total) for order in orders])
    assert average_precision(scores, relevant, total, first=2) == pytest.approx(cut)
    areas = np.mean([loop_trapezoid(order, total) for order in orders])
    assert trapezoid_average_precision(scores, relevant, total) == pytest.approx(areas)


@given(RANKINGS, st.integers(0, 5))
@settings(max_examples=100, deadline=None)
def test_against_loops(items: list[tuple[int, bool]], unseen: int) -> None:
    scores, relevant = split(items)
    distinct = list(np.random.default_rng(sum(scores)).permutation(len(items)))
    total = sum(relevant) + unseen
    if not total:
        assert average_precision(scores, relevant) == 0
        return
    order = [relevant[i] for i in sorted(range(len(items)), key=lambda i: -distinct[i])]
    assert average_precision(distinct, relevant, total) == pytest.approx(loop_ap(order, total))
    assert trapezoid_average_precision(distinct, relevant, total) == pytest.approx(
        loop_trapezoid(order, total)
    )
    assert stepwise_average_precision(scores, relevant, total) == pytest.approx(loop_steps(items, total))


@given(RANKINGS, st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_order_of_items_does_not_matter(items: list[tuple[int, bool]], seed: int) -> None:
    shuffled = [items[i] for i in np.random.default_rng(seed).permutation(len(items))]
    for measure in (average_precision, trapezoid_average_precision, stepwise_average_precision):
        assert measure(*split(items)) == pytest.approx(measure(*split(shuffled)))
        value = measure(
            [3 * score - 7 for score in split(items)[0]], split(items)[1]
        )  # only the order counts
        assert value == pytest.approx(measure(*split(items)))
        assert 0 <= value <= 1 + 1e-12


def test_interpolated_precision() -> None:
    # Recall 1/2 at precision 1, recall 1 at precision 2/3.
    curve = interpolated_precision([0.9, 0.8, 0.7], [True, False, True], points=5)
    assert curve == pytest.approx([1, 1, 1, 2 / 3, 2 / 3])
    assert interpolated_precision([0.9], [True], 2, points=3) == pytest.approx([1, 1, 0])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_no_ranking_by_what_is_no_number(bad: float) -> None:
    for measure in (average_precision, trapezoid_average_precision, stepwise_average_precision):
        with pytest.raises(UsageError, match="NaN or infinity"):
            measure([0.1, bad], [True, False])
    with pytest.raises(UsageError, match="shape"):
        average_precision([0.1], [True, False])


def test_means() -> None:
    assert mean([0.25, 0.75]) == 0.5
    with pytest.raises(UsageError, match="nothing to average"):
        mean([])
    assert harmonic_mean(0.5, 1.0) == pytest.approx(2 / 3)
    assert harmonic_mean(0.0, 0.0) == 0
