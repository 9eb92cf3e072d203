"""The logistic curve and its words, by hand."""

from __future__ import annotations

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from visil.matching.calibration import Calibration, verdict
from visil.matching.moves import Moves

CURVE = Calibration(bias=-2.0, score=4.0, stretch=0.5, stretch_cap=6.0)


def test_by_hand() -> None:
    # -2 + 4 · 0.25 + 0.5 · 3 = 0.5
    assert CURVE.confidence(0.25, 3.0) == pytest.approx(1 / (1 + exp(-0.5)))
    assert CURVE.confidence(0.5, 0.0) == pytest.approx(0.5)


def test_a_stretch_counts_up_to_its_cap_and_never_against() -> None:
    assert CURVE.confidence(0.1, 6.0) == CURVE.confidence(0.1, 6000.0)
    assert CURVE.confidence(0.1, -5.0) == CURVE.confidence(0.1, 0.0)


@given(st.floats(-1, 1), st.floats(-1, 1), st.floats(0, 50), st.floats(0, 50))
def test_more_evidence_never_lowers_it(a: float, b: float, gain_a: float, gain_b: float) -> None:
    low = CURVE.confidence(min(a, b), min(gain_a, gain_b))
    high = CURVE.confidence(max(a, b), max(gain_a, gain_b))
    assert 0 <= low <= high <= 1


@pytest.mark.parametrize("bias", [-1e6, -800.0, 800.0, 1e6])
def test_far_ends_do_not_overflow(bias: float) -> None:
    assert Calibration(bias, 1.0, 0.0, 1.0).confidence(0.0, 0.0) == pytest.approx(float(bias > 0))


@pytest.mark.parametrize(
    ("confidence", "word"),
    [
        (1.0, "copy"),
        (0.9, "copy"),
        (0.899, "related"),
        (0.5, "related"),
        (0.499, "unrelated"),
        (0.0, "unrelated"),
    ],
)
def test_verdict(confidence: float, word: str) -> None:
    assert verdict(confidence) == word
    assert CURVE.verdict(confidence) == word


def test_verdicts_follow_the_models_own_limits() -> None:
    strict = Calibration(0.0, 1.0, 0.0, 1.0, copy=0.99, related=0.7)
    assert [strict.verdict(c) for c in (0.99, 0.95, 0.7, 0.69)] == ["copy", "related", "related", "unrelated"]


def test_an_agreement_counts_as_far_as_it_is_proven_and_a_disagreement_in_full() -> None:
    curve = Calibration(0.0, 1.0, 0.0, 1.0, agreement=8.0, out_of_step=4.0)
    still = curve.evidence(0.0, 0.0, 100)
    for agreement, changes, share in ((1.0, 1.0, 0.5), (1.0, 5.0, 0.9), (0.0, 1.0, 1.0)):
        moved = Moves(agreement, 0.1, 24, 1.0, changes)
        worth = curve.evidence(0.0, 0.0, 100, moved) - still
        assert worth == pytest.approx(share * moved.weight * (8.0 * agreement - 4.0))
