"""Sec. 3, 4.2 and 4.3 of the paper against explicit loops over frames and regions, in float64."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from visil.model.similarity import (
    Reduction,
    chamfer,
    frame_matrix,
    frame_similarity,
    pool,
    symmetric_chamfer,
    tensor_dot,
    video_similarity,
)

Array = NDArray[np.float64]
REDUCTIONS: tuple[Reduction, ...] = ("max", "mean", "top3")
COMBINATIONS = list(product(REDUCTIONS, REDUCTIONS, (False, True)))


# ---------------------------------------------------------------- the paper's equations, one number at a time


def dot(a: Array, b: Array) -> float:
    """One entry of Eq. 1."""
    total = 0.0
    for k in range(len(a)):
        total += float(a[k]) * float(b[k])
    return total


def summarised(values: Sequence[float], how: Reduction) -> float:
    if how == "max":
        largest = values[0]
        for value in values:
            if value > largest:
                largest = value
        return largest
    if how == "top3":
        values = sorted(values)[-3:]
    return sum(values) / len(values)


def pooled(
    similarity: Sequence[Sequence[float]], inner: Reduction, outer: Reduction, symmetric: bool
) -> float:
    """Eq. 2 (max, then mean) and its variants: rows are x, columns are y."""
    rows = [summarised(row, inner) for row in similarity]
    forward = summarised(rows, outer)
    if not symmetric:
        return forward
    columns = [summarised([row[j] for row in similarity], inner) for j in range(len(similarity[0]))]
    return (forward + summarised(columns, outer)) / 2


def frame_matrix_by_loops(
    query: Array, target: Array, inner: Reduction, outer: Reduction, symmetric: bool
) -> Array:
    """Eq. 5: Eq. 4 for every pair of frames."""
    matrix = np.empty((len(query), len(target)))
    for x, d in enumerate(query):
        for y, b in enumerate(target):
            regions = [[dot(d_i, b_j) for b_j in b] for d_i in d]
            matrix[x, y] = pooled(regions, inner, outer, symmetric)
    return matrix


# ---------------------------------------------------------------- what to try it on


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Two videos of ragged sizes: frames and regions differ, channels agree."""
    x, y = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    r, s = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    channels = draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return torch.from_numpy(rng.normal(size=(x, r, channels))), torch.from_numpy(
        rng.normal(size=(y, s, channels))
    )


def similarities(rows: int, columns: int, seed: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(rows, columns)))


def units(shape: tuple[int, ...], seed: int) -> Tensor:
    values = torch.from_numpy(np.random.default_rng(seed).normal(size=shape))
    return values / values.norm(dim=-1, keepdim=True)


# ---------------------------------------------------------------- tests


@settings(max_examples=15, deadline=None)
@given(pairs())
def test_tensor_dot_holds_every_region_against_every_region(pair: tuple[Tensor, Tensor]) -> None:
    query, target = pair
    result = tensor_dot(query, target)
    assert result.shape == (len(query), query.shape[1], target.shape[1], len(target))
    for x, r, s, y in np.ndindex(*result.shape):
        expected = dot(query[x, r].numpy(), target[y, s].numpy())
        assert float(result[x, r, s, y]) == pytest.approx(expected, abs=1e-12)


def test_chamfer_of_a_worked_example() -> None:
    similarity = torch.tensor([[0.1, 0.9, 0.3], [0.5, 0.2, 0.4]], dtype=torch.float64)
    # CS(x, y) = (0.9 + 0.5) / 2; CS(y, x) = (0.5 + 0.9 + 0.4) / 3.
    assert float(chamfer(similarity)) == pytest.approx(0.7)
    assert float(chamfer(similarity.T)) == pytest.approx(0.6)
    assert float(symmetric_chamfer(similarity)) == pytest.approx(0.65)


@pytest.mark.parametrize(("inner", "outer", "symmetric"), COMBINATIONS)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 6), (5, 1), (4, 7)])
def test_pool_combinations(
    inner: Reduction, outer: Reduction, symmetric: bool, rows: int, columns: int
) -> None:
    matrix = similarities(rows, columns, seed=rows * 10 + columns)
    expected = pooled(matrix.tolist(), inner, outer, symmetric)
    assert float(pool(matrix, inner, outer, symmetric)) == pytest.approx(expected, abs=1e-12)
    actual = video_similarity(matrix, symmetric=symmetric, inner=inner, outer=outer)
    assert float(actual) == pytest.approx(expected, abs=1e-12)


def test_pool_by_hand() -> None:
    """MP-AP is Chamfer, AP-AP the plain mean; MP-MP and AP-MP are what their names say."""
    matrix = torch.tensor([[1.0, 3.0], [5.0, 2.0], [0.0, 1.0]], dtype=torch.float64)
    assert float(pool(matrix, "max", "mean")) == pytest.approx((3 + 5 + 1) / 3)
    assert float(pool(matrix, "mean", "mean")) == pytest.approx(12 / 6)
    assert float(pool(matrix, "max", "max")) == 5.0
    assert float(pool(matrix, "mean", "max")) == 3.5


def test_leading_dimensions_are_a_batch() -> None:
    batch = torch.stack(
        [torch.stack([similarities(3, 5, seed) for seed in (1, 2)]), similarities(6, 5, 3).view(2, 3, 5)]
    )
    for function in (chamfer, symmetric_chamfer):
        result = function(batch)
        assert result.shape == (2, 2)
        for i, j in np.ndindex(2, 2):
            assert float(result[i, j]) == pytest.approx(float(function(batch[i, j])), abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(pairs(), st.sampled_from(COMBINATIONS))
def test_frame_matrix_is_eq_4_for_every_pair(
    pair: tuple[Tensor, Tensor], how: tuple[Reduction, Reduction, bool]
) -> None:
    query, target = pair
    inner, outer, symmetric = how
    expected = frame_matrix_by_loops(query.numpy(), target.numpy(), inner, outer, symmetric)
    actual = frame_matrix(query, target, symmetric=symmetric, inner=inner, outer=outer)
    np.testing.assert_allclose(actual.numpy(), expected, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(pairs())
def test_frame_similarity_is_one_entry_of_the_frame_matrix(pair: tuple[Tensor, Tensor]) -> None:
    query, target = pair
    matrix = frame_matrix_by_loops(query.numpy(), target.numpy(), "max", "mean", False)
    for x, y in np.ndindex(*matrix.shape):
        assert float(frame_similarity(query[x], target[y])) == pytest.approx(matrix[x, y], abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 7), st.integers(1, 9), st.integers(1, 8), st.booleans(), st.integers(0, 2**32 - 1))
def test_identical_unit_vectors_have_similarity_one(
    frames: int, regions: int, channels: int, symmetric: bool, seed: int
) -> None:
    video = units((frames, regions, channels), seed)
    matrix = frame_matrix(video, video, symmetric=symmetric)
    torch.testing.assert_close(matrix.diagonal(), torch.ones(frames, dtype=torch.float64))
    assert float(matrix.max()) <= 1 + 1e-12
    assert float(video_similarity(matrix, symmetric=symmetric)) == pytest.approx(1.0)


@settings(max_examples=25, deadline=None)
@given(pairs(), st.booleans(), st.integers(0, 1000))
def test_the_order_of_regions_does_not_matter(
    pair: tuple[Tensor, Tensor], symmetric: bool, seed: int
) -> None:
    query, target = pair
    generator = torch.Generator().manual_seed(seed)
    shuffled_query = query[:, torch.randperm(query.shape[1], generator=generator)]
    shuffled_target = target[:, torch.randperm(target.shape[1], generator=generator)]
    torch.testing.assert_close(
        frame_matrix(shuffled_query, shuffled_target, symmetric=symmetric),
        frame_matrix(query, target, symmetric=symmetric),
    )


@settings(max_examples=25, deadline=None)
@given(pairs())
def test_symmetric_is_symmetric_under_swap(pair: tuple[Tensor, Tensor]) -> None:
    query, target = pair
    forward, backward = (frame_matrix(*p, symmetric=True) for p in ((query, target), (target, query)))
    torch.testing.assert_close(forward, backward.T)
    assert float(video_similarity(forward, symmetric=True)) == pytest.approx(
        float(video_similarity(backward, symmetric=True)), abs=1e-12
    )


def test_plain_chamfer_is_not_symmetric() -> None:
    """A query contained in a longer target is fully covered; the longer one is not."""
    part = units((2, 1, 6), seed=0)
    other = torch.zeros(3, 1, 6, dtype=torch.float64)
    whole = torch.cat([part, other])
    assert float(video_similarity(frame_matrix(part, whole))) == pytest.approx(1.0)
    # Two frames meet themselves, three black ones meet nothing.
    assert float(video_similarity(frame_matrix(whole, part))) == pytest.approx(2 / 5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_any_float_type(dtype: torch.dtype) -> None:
    query, target = units((3, 4, 5), 1), units((2, 6, 5), 2)
    result = frame_matrix(query.to(dtype), target.to(dtype))
    assert result.dtype == dtype
    tolerance = {torch.float16: 5e-3, torch.float32: 1e-6, torch.float64: 1e-12}[dtype]
    torch.testing.assert_close(result.double(), frame_matrix(query, target), atol=tolerance, rtol=0)


def test_gradients_flow() -> None:
    query = units((3, 4, 5), 1).requires_grad_()
    target = units((2, 6, 5), 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda q, t: video_similarity(frame_matrix(q, t)), (query, target))
