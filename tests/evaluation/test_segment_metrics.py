"""Measures of segments against numbers worked out by hand, and against time counted second by second."""

from __future__ import annotations

from math import sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from visil.errors import UsageError
from visil.evaluation.predictions import Pair
from visil.evaluation.segment_metrics import (
    coverage_figures,
    covered,
    hit_figures,
    matching_average_precision,
    pair_coverage,
    shared,
)
from visil.matching.localize import Segment

AB: Pair = ("a", "b")
AC: Pair = ("a", "c")


def seg(q0: float, q1: float, t0: float, t1: float, score: float = 1.0) -> Segment:
    return Segment((q0, q1), (t0, t1), score)


SPANS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda s: (min(s), max(s))), max_size=5
)
SEGMENTS = st.lists(
    st.builds(
        lambda q, ql, t, tl, s: seg(q, q + ql, t, t + tl, s),
        *(st.integers(0, 10), st.integers(1, 6), st.integers(0, 10), st.integers(1, 6), st.integers(0, 2)),
    ),
    max_size=4,
)


def seconds(spans: list[tuple[int, int]]) -> set[int]:
    return {second for start, end in spans for second in range(start, end)}


@given(SPANS, SPANS)
@settings(max_examples=60, deadline=None)
def test_lengths_second_by_second(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    assert covered(a) == len(seconds(a))
    assert shared(a, b) == len(seconds(a) & seconds(b))


def meet(a: Segment, b: Segment) -> bool:
    return all(seconds([getattr(a, axis)]) & seconds([getattr(b, axis)]) for axis in ("query", "target"))


def by_seconds(these: list[Segment], those: list[Segment]) -> float:
    """Share of the time of ``these``, each by itself, that ``those`` overlapping it on both axes cover."""
    result = 1.0
    for axis in ("query", "target"):
        inside, whole = 0, 1e-6
        for one in these:
            meets = [other for other in those if meet(one, other)]
            own = seconds([getattr(one, axis)])
            inside += len(own & seconds([getattr(other, axis) for other in meets]))
            whole += len(own)
        result *= inside / whole
    return result


@given(SEGMENTS, SEGMENTS)
@settings(max_examples=100, deadline=None)
def test_coverage_second_by_second(predicted: list[Segment], truth: list[Segment]) -> None:
    found = pair_coverage(predicted, truth)
    both = bool(predicted and truth)
    assert found.precision == pytest.approx(by_seconds(predicted, truth) if both else float(not predicted))
    assert found.recall == pytest.approx(by_seconds(truth, predicted) if both else float(not truth))


def test_coverage_by_hand() -> None:
    # Half of the prediction is inside on the query axis, all of it on the target axis.
    found = pair_coverage([seg(0, 10, 0, 5)], [seg(5, 15, 0, 10)])
    assert found.precision == pytest.approx(5 / 10 * 5 / 5, rel=1e-5)
    assert found.recall == pytest.approx(5 / 10 * 5 / 10, rel=1e-5)


def test_coverage_figures_by_hand() -> None:
    half = seg(0, 10, 0, 10), seg(0, 5, 0, 10)
    pairs = {
        AB: pair_coverage([half[0]], [half[1]]),  # precision 1/2, recall 1
        AC: pair_coverage([], [half[0]]),  # missed
        ("d", "b"): pair_coverage([half[0]], []),  # false alarm
        ("d", "c"): pair_coverage([], []),
    }
    figures = coverage_figures(pairs)
    assert figures["precision"] == pytest.approx((1 / 2 + 0) / 2, rel=1e-5)
    assert figures["recall"] == pytest.approx((1 + 0) / 2, rel=1e-5)
    # Over queries: a has precision (1/2 + 1)/2 and recall (1 + 0)/2, d has (0 + 1)/2 and (1 + 1)/2.
    assert figures["macro_precision"] == pytest.approx((3 / 4 + 1 / 2) / 2, rel=1e-5)
    assert figures["macro_recall"] == pytest.approx((1 / 2 + 1) / 2, rel=1e-5)
    assert figures["F1"] == pytest.approx(2 * 0.25 * 0.5 / 0.75, rel=1e-5)
    assert (figures["false_rejections"], figures["false_alarms"]) == (0.5, 0.5)
    with pytest.raises(UsageError, match="no pair"):
        coverage_figures({})


def test_hits_by_hand() -> None:
    truth = {AB: [seg(0, 10, 0, 10), seg(20, 30, 20, 30)], AC: [seg(0, 5, 0, 5)]}
    predicted = {
        AB: [
            seg(9, 12, 9, 12, 0.9),
            seg(0, 5, 25, 30, 0.8),
            seg(0, 5, 0, 5, 0.3),
        ],  # right, wrong, right again
        ("b", "c"): [seg(0, 5, 0, 5, 0.2)],  # wrong
    }
    figures = hit_figures(predicted, truth)
    assert figures["precision"] == pytest.approx(2 / 4)
    assert figures["recall"] == pytest.approx(1 / 3)
    # Best with the first alone: precision 1, recall 1/3.
    assert figures["best_F1"] == pytest.approx(2 * 1 / 3 / (4 / 3))
    assert figures["best_threshold"] == 0.9
    assert hit_figures({}, truth)["best_F1"] == 0


@given(SEGMENTS, SEGMENTS, SEGMENTS)
@settings(max_examples=60, deadline=None)
def test_best_f1_is_the_best_of_all_thresholds(
    a: list[Segment], b: list[Segment], truth: list[Segment]
) -> None:
    predicted = {AB: a, AC: b}
    best = 0.0
    for threshold in (0, 1, 2):
        kept = {pair: [s for s in some if s.score >= threshold] for pair, some in predicted.items()}
        best = max(best, hit_figures(kept, {AB: truth})["F1"])
    assert hit_figures(predicted, {AB: truth})["best_F1"] == pytest.approx(best)


def test_matching_by_hand() -> None:
    truth = {AB: [seg(0, 10, 0, 10)], AC: [seg(0, 10, 0, 10)]}
    assert matching_average_precision(truth, truth) == pytest.approx(1)
    # First half of one true segment, exactly: P = 1, R = 5/20. Then ten seconds of nothing: no more recall.
    predicted = {AB: [seg(0, 5, 0, 5, 0.9)], ("x", "y"): [seg(0, 10, 0, 10, 0.5)]}
    assert matching_average_precision(predicted, truth) == pytest.approx(1 / 4)
    # Both at once: P = 5/15.
    tied = {AB: [seg(0, 5, 0, 5, 0.9)], ("x", "y"): [seg(0, 10, 0, 10, 0.9)]}
    assert matching_average_precision(tied, truth) == pytest.approx(1 / 3 * 1 / 4)
    with pytest.raises(UsageError, match="no segment"):
        matching_average_precision(predicted, {})


@given(SEGMENTS, SEGMENTS, SEGMENTS, SEGMENTS)
@settings(max_examples=80, deadline=None)
def test_matching_second_by_second(
    a: list[Segment], b: list[Segment], true_a: list[Segment], true_b: list[Segment]
) -> None:
    truth, predicted = {AB: true_a, AC: true_b}, {AB: a, AC: b}
    if not true_a + true_b:
        return
    recall = expected = 0.0
    for threshold in sorted({s.score for s in a + b}, reverse=True):
        inside, total, whole = ({"query": 0, "target": 0} for _ in range(3))
        for pair, true in truth.items():
            taken = [s for s in predicted[pair] if s.score >= threshold]
            met = [t for t in true if any(meet(t, s) for s in taken)]
            for axis in inside:
                mine = seconds([getattr(s, axis) for s in taken])
                inside[axis] += len(mine & seconds([getattr(t, axis) for t in met]))
                total[axis] += len(mine)
                whole[axis] += len(seconds([getattr(t, axis) for t in true]))
        reached = sqrt(inside["query"] * inside["target"] / (whole["query"] * whole["target"]))
        precision = sqrt(inside["query"] * inside["target"] / (total["query"] * total["target"]))
        expected += precision * (reached - recall)
        recall = reached
    assert matching_average_precision(predicted, truth) == pytest.approx(expected)
