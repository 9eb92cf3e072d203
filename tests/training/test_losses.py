"""Eq. 7 to 9 and the contrastive terms against numbers worked out by hand."""

from __future__ import annotations

from math import e, exp, log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from visil.errors import UsageError
from visil.training.losses import (
    EPSILON,
    Pairs,
    distillation_loss,
    hard_negative,
    info_nce,
    s2vs_loss,
    self_similarity,
    similarity_regularisation,
    total,
    triplet_loss,
)

similarities = st.lists(st.floats(-1, 1), min_size=1, max_size=6)


def masks(text: str) -> Pairs:
    """From rows of + (positive), - (negative), = (itself) and . (neither)."""
    rows = text.split()
    return Pairs(*(torch.tensor([[c == sign for c in row] for row in rows]) for sign in "+-="))


def test_triplets_by_hand() -> None:
    positive = torch.tensor([0.9, 0.2, 0.5])
    negative = torch.tensor([0.1, 0.3, 0.0])
    # 0.1 - 0.9 + 0.5 < 0; 0.3 - 0.2 + 0.5 = 0.6; 0 - 0.5 + 0.5 = 0
    assert triplet_loss(positive, negative, 0.5).item() == pytest.approx(0.2)


def test_regularisation_sums_what_lies_outside() -> None:
    output = torch.tensor([[[1.5, -1.0], [-3.0, 0.2]], [[1.0, 0.0], [0.5, -0.5]]])
    assert similarity_regularisation(output).tolist() == [pytest.approx(0.5 + 2.0), 0.0]


def test_the_gradient_of_l_reg_pushes_back_what_lies_outside() -> None:
    """d L_reg / d S_v of Eq. 8: 1 above 1, -1 below -1, 0 between; in Eq. 9, r times as much."""
    output = torch.tensor([[1.5, -1.2, 0.9], [-3.0, 1.0001, -0.2]], dtype=torch.float64, requires_grad=True)
    slope = torch.tensor([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0]], dtype=torch.float64)
    similarity_regularisation(output).backward()
    assert output.grad is not None
    assert torch.equal(output.grad, slope)
    output.grad = None
    total(output.sum() * 0, similarity_regularisation(output), 0.1).backward()
    assert torch.allclose(output.grad, 0.1 * slope)  # type: ignore[arg-type]


def test_total_is_weighted() -> None:
    assert total(torch.tensor(0.6), torch.tensor(2.5), 0.1).item() == pytest.approx(0.85)


def test_info_nce_by_hand() -> None:
    # Rescaled: 1, 0.5, 0; at temperature 0.5 the exponents are 2, 1, 0. The last pair counts for nothing.
    similarity = torch.tensor([[1.0, 0.0, -1.0, 1.0]])
    expected = -log(exp(2) / (exp(2) + exp(1) + exp(0)))
    assert info_nce(similarity, masks("+--."), 0.5).item() == pytest.approx(expected, rel=1e-6)


def test_info_nce_takes_each_positive_alone() -> None:
    similarity = torch.tensor([[1.0, 0.0, -1.0]])
    first = -log(e**2 / (e**2 + 1))
    second = -log(e / (e + 1))
    assert info_nce(similarity, masks("++-"), 0.5).item() == pytest.approx((first + second) / 2, rel=1e-6)


def test_info_nce_without_negatives_is_nothing() -> None:
    similarity = torch.tensor([[0.3, 0.1]], requires_grad=True)
    loss = info_nce(similarity, masks("+."))
    loss.backward()
    assert loss.item() == 0
    assert similarity.grad is not None
    assert torch.isfinite(similarity.grad).all()


def test_hardest_negative_by_hand() -> None:
    similarity = torch.tensor([[0.9, 0.0, -0.5], [0.9, 0.8, 0.7]])
    # The second row has no negative; the first's hardest is 0, rescaled 0.5.
    assert hard_negative(similarity, masks("+-- +..")).item() == pytest.approx(log(2), rel=1e-5)


def test_self_similarity_by_hand() -> None:
    similarity = torch.tensor([[0.0, 0.9], [0.9, 1.0]])
    assert self_similarity(similarity, masks("=- -=")).item() == pytest.approx(log(2) / 2, rel=1e-5)


@pytest.mark.parametrize("loss", [hard_negative, self_similarity])
def test_a_loss_over_no_pair_is_zero(loss: object) -> None:
    assert callable(loss)
    assert loss(torch.zeros(1, 2), masks("+.")).item() == 0


def test_masks_must_agree() -> None:
    yes, no = torch.ones(1, 1, dtype=torch.bool), torch.zeros(1, 1, dtype=torch.bool)
    with pytest.raises(UsageError, match="share no pair"):
        Pairs(yes, yes, no)
    with pytest.raises(UsageError, match="one shape"):
        Pairs(yes, no, torch.zeros(1, 2, dtype=torch.bool))


@given(similarities, similarities, st.floats(0, 2))
@settings(max_examples=60, deadline=None)
def test_triplets_stay_in_bounds(positive: list[float], negative: list[float], margin: float) -> None:
    count = min(len(positive), len(negative))
    p = torch.tensor(positive[:count], dtype=torch.float64, requires_grad=True)
    n = torch.tensor(negative[:count], dtype=torch.float64, requires_grad=True)
    loss = triplet_loss(p, n, margin)
    assert 0 <= loss.item() <= 2 + margin + 1e-12
    loss.backward()
    for tensor, sign in ((p, -1), (n, 1)):
        assert tensor.grad is not None
        assert all(g in (0, pytest.approx(sign / count)) for g in tensor.grad.tolist())


@given(st.integers(0, 10_000), st.floats(0.02, 1), st.floats(0, 5))
@settings(max_examples=40, deadline=None)
def test_the_loss_of_s2vs_against_its_formula(seed: int, temperature: float, weight: float) -> None:
    """Eq. 1 to 3 of S2VS over videos and their copies, number by number."""
    count = 3
    random = torch.Generator().manual_seed(seed)
    similarity = torch.rand(2 * count, 2 * count, generator=random, dtype=torch.float64) * 1.8 - 0.9
    same = torch.arange(2 * count)[:, None] % count == torch.arange(2 * count) % count
    itself = torch.eye(2 * count, dtype=torch.bool)
    nce, hard, own = 0.0, 0.0, 0.0
    for i, row in enumerate(similarity.tolist()):
        s = [value / 2 + 0.5 for value in row]
        others = [s[j] for j in range(2 * count) if j % count != i % count]
        copy = s[(i + count) % (2 * count)]
        nce -= log(
            exp(copy / temperature) / (exp(copy / temperature) + sum(exp(o / temperature) for o in others))
        )
        hard -= log(1 - max(others))
        own -= log(s[i])
    expected = (nce + weight * (hard + own)) / (2 * count)
    found = s2vs_loss(similarity, Pairs(same & ~itself, ~same, itself), temperature, weight)
    assert found.item() == pytest.approx(expected, rel=1e-4)


def test_distillation_by_hand() -> None:
    student = torch.tensor([0.5, -0.25, 1.0], dtype=torch.float64, requires_grad=True)
    teacher = torch.tensor([0.75, -0.25, 0.0])
    loss = distillation_loss(student, teacher)
    assert loss.item() == pytest.approx(1.25 / 3)
    loss.backward()
    assert student.grad is not None
    assert student.grad.tolist() == pytest.approx([-1 / 3, 0, 1 / 3])


@given(st.integers(0, 10_000), st.floats(0.02, 2))
@settings(max_examples=60, deadline=None)
def test_info_nce_against_the_formula(seed: int, temperature: float) -> None:
    random = torch.Generator().manual_seed(seed)
    similarity = torch.rand(3, 5, generator=random, dtype=torch.float64) * 2 - 1
    kinds = torch.randint(3, (3, 5), generator=random)
    pairs = Pairs(kinds == 0, kinds == 1, torch.zeros(3, 5, dtype=torch.bool))
    terms = []
    for row, kind in zip(similarity.tolist(), kinds.tolist(), strict=True):
        powers = [exp((s / 2 + 0.5) / temperature) for s in row]
        negatives = sum(p for p, k in zip(powers, kind, strict=True) if k == 1)
        terms += [-log(p / (p + negatives)) for p, k in zip(powers, kind, strict=True) if k == 0]
    expected = sum(terms) / max(len(terms), 1)
    assert info_nce(similarity, pairs, temperature).item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@given(st.lists(st.floats(-1, 1), min_size=6, max_size=6))
@settings(max_examples=60, deadline=None)
def test_contrastive_gradients_point_the_right_way(values: list[float]) -> None:
    """More similarity of positives and of a video with itself never costs; of negatives it never pays."""
    similarity = torch.tensor(values, dtype=torch.float64).reshape(2, 3).requires_grad_()
    pairs = masks("+-= -+=")
    loss = info_nce(similarity, pairs) + hard_negative(similarity, pairs) + self_similarity(similarity, pairs)
    assert loss.item() >= 0
    assert loss.item() <= 1 / 0.03 + log(3) + 2 * -log(EPSILON / (1 + EPSILON)) + 1
    loss.backward()
    gradient: Tensor | None = similarity.grad
    assert gradient is not None
    assert torch.isfinite(gradient).all()
    assert (gradient[pairs.positive] <= 0).all()
    assert (gradient[pairs.itself] <= 0).all()
    assert (gradient[pairs.negative] >= 0).all()


@given(st.lists(st.floats(-5, 5), min_size=4, max_size=4))
@settings(max_examples=60, deadline=None)
def test_regularisation_is_the_distance_to_the_clipped(values: list[float]) -> None:
    output = torch.tensor(values, dtype=torch.float64).reshape(2, 2)
    expected = sum(abs(v - min(max(v, -1), 1)) for v in values)
    assert similarity_regularisation(output).item() == pytest.approx(expected, abs=1e-12)
