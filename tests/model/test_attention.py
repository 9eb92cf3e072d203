"""Eq. 3 by loops, and the students' attention with a hidden layer."""

from __future__ import annotations

from math import erf, exp, tanh

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from visil.model.attention import BinaryCode, ContextAttention, HiddenAttention


def regions(shape: tuple[int, ...], seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(shape, dtype=torch.float64, generator=generator), dim=-1)


def test_eq_3() -> None:
    attention = ContextAttention(6).double()
    u = attention.context_vector.weight[0].tolist()
    vectors = regions((2, 3, 6))
    with torch.no_grad():
        actual, weights = attention(vectors), attention.weights(vectors)
    assert actual.shape == vectors.shape
    assert weights.shape == (2, 3, 1)
    for t in range(2):
        for i in range(3):
            r = vectors[t, i].tolist()
            alpha = sum(u[k] * r[k] for k in range(6))
            weight = alpha / 2 + 0.5
            assert float(weights[t, i, 0]) == pytest.approx(weight, abs=1e-12)
            assert actual[t, i].tolist() == pytest.approx([weight * v for v in r], abs=1e-12)


def test_binary_codes_by_hand() -> None:
    """Signs of the rotated vector over √bits: a dot product is the equal bits less the unequal ones, over all bits."""
    code = BinaryCode(8).double().requires_grad_(False)
    vectors = 3 * regions((2, 8))  # their length does not count
    found = code(vectors)
    signs = []
    for vector in vectors.tolist():
        length = sum(v * v for v in vector) ** 0.5
        rotated = [sum(vector[i] / length * float(code.rotation[i, k]) for i in range(8)) for k in range(8)]
        signs.append([1 if value > 0 else -1 for value in rotated])
    assert found.tolist() == [pytest.approx([bit / 8**0.5 for bit in row], abs=1e-12) for row in signs]
    equal = sum(a == b for a, b in zip(*signs, strict=True))
    assert float(found[0] @ found[1]) == pytest.approx((2 * equal - 8) / 8)


def test_binary_codes_have_a_gradient_while_they_learn() -> None:
    code = BinaryCode(4).double()
    near = torch.tensor([[1.0, 1e-3, 0.0, 0.0]], dtype=torch.float64)
    code.rotation.data = torch.eye(4, dtype=torch.float64)
    found = code(near)[0] * 2
    assert found.tolist() == pytest.approx([1, erf(1e-3 / (2 * 1e-6) ** 0.5), 0, 0], abs=1e-6)
    found.sum().backward()
    assert code.rotation.grad is not None
    assert code.rotation.grad.abs().sum() > 0
    with torch.no_grad():
        assert (code(near)[0] * 2).tolist() == [1, 1, 0, 0]


def test_aligned_opposite_and_orthogonal_regions() -> None:
    attention = ContextAttention(3).double()
    with torch.no_grad():
        attention.context_vector.weight.copy_(torch.tensor([[0.0, 1.0, 0.0]]))
        weights = attention.weights(
            torch.tensor([[0.0, 1.0, 0.0], [0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]).double()
        )
    assert weights[:, 0].tolist() == [1.0, 0.0, 0.5]


@settings(max_examples=30, deadline=None)
@given(dim=st.integers(1, 32), seed=st.integers(0, 1000))
def test_context_is_a_unit_vector_and_weights_lie_in_0_1(dim: int, seed: int) -> None:
    attention = ContextAttention(dim).double()
    assert float(attention.context_vector.weight.detach().norm()) == pytest.approx(1.0, abs=1e-6)
    attention.constrain_()
    vectors = regions((4, 9, dim), seed)
    with torch.no_grad():
        weights = attention.weights(vectors)
        weighted = attention(vectors)
    assert float(weights.min()) >= -1e-12
    assert float(weights.max()) <= 1 + 1e-12
    # Direction stays, the norm becomes the weight.
    torch.testing.assert_close(weighted.norm(dim=-1), weights[..., 0].clamp(min=0))


def test_weights_are_not_normalised_over_regions() -> None:
    attention = ContextAttention(5).double()
    vectors = regions((1, 9, 5))
    with torch.no_grad():
        torch.testing.assert_close(attention(vectors)[:, 4:5], attention(vectors[:, 4:5]))


def test_forward_uses_u_as_it_stands_and_constrain_restores_it() -> None:
    attention = ContextAttention(4).double()
    unit = attention.context_vector.weight.detach().clone()
    vectors = regions((3, 4))
    with torch.no_grad():
        attention.context_vector.weight.mul_(3.0)
        torch.testing.assert_close(attention.weights(vectors), 3 * vectors @ unit.T / 2 + 0.5)
    attention.constrain_()
    torch.testing.assert_close(attention.context_vector.weight.detach(), unit, rtol=0, atol=1e-6)
    assert attention.context_vector.weight.requires_grad


def test_constrain_after_an_optimiser_step() -> None:
    attention = ContextAttention(4).double()
    optimiser = torch.optim.SGD(attention.parameters(), lr=10.0)
    attention(regions((5, 4)))[..., 0].sum().backward()
    optimiser.step()
    assert float(attention.context_vector.weight.detach().norm()) != pytest.approx(1.0, abs=1e-3)
    attention.constrain_()
    assert float(attention.context_vector.weight.detach().norm()) == pytest.approx(1.0, abs=1e-12)


def test_hidden_attention() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        attention = HiddenAttention(4).double()
    w, b = attention.transform.weight.tolist(), attention.transform.bias.tolist()
    c = attention.context_vector.weight[0].tolist()
    vectors = regions((2, 3, 4)) * 2
    with torch.no_grad():
        actual = attention(vectors)
    for t in range(2):
        for i in range(3):
            r = vectors[t, i].tolist()
            hidden = [tanh(sum(w[h][k] * r[k] for k in range(4)) + b[h]) for h in range(4)]
            weight = 1 / (1 + exp(-sum(c[h] * hidden[h] for h in range(4))))
            assert actual[t, i].tolist() == pytest.approx([weight * v for v in r], abs=1e-12)


def test_hidden_attention_has_no_constraint() -> None:
    attention = HiddenAttention(4)
    before = {k: v.clone() for k, v in attention.state_dict().items()}
    attention.constrain_()
    assert all(torch.equal(v, before[k]) for k, v in attention.state_dict().items())


def test_parameters_carry_the_authors_names() -> None:
    assert {k: tuple(v.shape) for k, v in ContextAttention(8).state_dict().items()} == {
        "context_vector.weight": (1, 8)
    }
    assert {k: tuple(v.shape) for k, v in HiddenAttention(8).state_dict().items()} == {
        "transform.weight": (8, 8),
        "transform.bias": (8,),
        "context_vector.weight": (1, 8),
    }
