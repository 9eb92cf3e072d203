"""PCA seen once, in chunks, against numpy's eigenvectors of the whole covariance, and the authors' formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError
from visil.model.whitening import PCA, Whitening

Array = NDArray[np.float64]


def data(count: int, channels: int, seed: int = 0, offset: float = 0.0) -> Array:
    """Correlated vectors with well separated eigenvalues."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(channels, channels)))[0]
    scales = 3.0 * 0.6 ** np.arange(channels)
    return rng.normal(size=(count, channels)) * scales @ axes + offset + rng.normal(size=channels)


def eigen(vectors: Array) -> tuple[Array, Array, Array]:
    """Mean, and eigenvalues and eigenvectors of the covariance over N, largest first."""
    mean = vectors.mean(axis=0)
    centred = vectors - mean
    values, axes = np.linalg.eigh(centred.T @ centred / len(vectors))
    return mean, values[::-1], axes[:, ::-1]


def same_up_to_sign(actual: Array, expected: Array, tolerance: float) -> None:
    signs = np.sign((actual * expected).sum(axis=0))
    assert np.all(signs != 0)
    np.testing.assert_allclose(actual * signs, expected, atol=tolerance)


def chunked(vectors: Array, cuts: list[int]) -> list[Tensor]:
    return [torch.from_numpy(part.copy()) for part in np.split(vectors, sorted(cuts))]


# ---------------------------------------------------------------- learning


@settings(max_examples=30, deadline=None)
@given(
    channels=st.integers(1, 6),
    extra=st.integers(1, 40),
    cuts=st.lists(st.integers(0, 46), max_size=6),
    offset=st.sampled_from([0.0, 5.0, 1e4]),
    seed=st.integers(0, 1000),
)
def test_any_chunking_learns_the_covariance_of_the_whole(
    channels: int, extra: int, cuts: list[int], offset: float, seed: int
) -> None:
    vectors = data(channels + extra, channels, seed, offset)
    mean, values, axes = eigen(vectors)
    pca = PCA().fit(chunked(vectors, cuts))
    assert pca.count_ == len(vectors)
    assert pca.mean_ is not None
    assert pca.scatter_ is not None
    covariance = (pca.scatter_ / pca.count_).numpy()
    np.testing.assert_allclose(pca.mean_.numpy(), mean, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(covariance, axes * values @ axes.T, rtol=1e-7, atol=1e-8)


def test_the_layer_is_the_eigenvectors_over_root_eigenvalues() -> None:
    vectors = data(500, 6)
    mean, values, axes = eigen(vectors)
    layer = PCA().fit(chunked(vectors, [100, 101, 350])).whitening()
    assert layer.dim == 6
    assert layer.mean.dtype == layer.projection.dtype == torch.float32
    np.testing.assert_allclose(layer.mean.numpy(), mean, atol=1e-6)
    same_up_to_sign(layer.projection.numpy().astype(np.float64), axes / np.sqrt(values + 1e-7), 1e-4)


def test_whitened_data_has_identity_covariance_before_l2() -> None:
    vectors = data(2000, 5, offset=3.0)
    layer = PCA().fit(chunked(vectors, [700])).whitening().double()
    whitened = (vectors - layer.mean.numpy()) @ layer.projection.numpy()
    np.testing.assert_allclose(whitened.T @ whitened / len(vectors), np.eye(5), atol=1e-4)
    result = layer(torch.from_numpy(vectors)).numpy()
    np.testing.assert_allclose(result, whitened / np.linalg.norm(whitened, axis=1, keepdims=True), atol=1e-9)


def test_data_far_from_the_origin_loses_no_digits() -> None:
    """A sum of squares minus a squared mean would leave nothing here: 1e4² against a spread of 1e-3."""
    near = data(300, 4, seed=7) * 1e-3
    pca = PCA().fit(chunked(near + 1e4, [50, 120, 121, 290]))
    assert pca.scatter_ is not None
    _, values, _ = eigen(near)
    measured = np.linalg.eigvalsh((pca.scatter_ / pca.count_).numpy())[::-1]
    np.testing.assert_allclose(measured, values, rtol=1e-4)


def test_keeping_fewer_dimensions_keeps_the_strongest() -> None:
    vectors = data(400, 6)
    _, values, axes = eigen(vectors)
    pca = PCA().fit([torch.from_numpy(vectors)])
    layer = pca.whitening(2)
    assert layer.dim == 2
    same_up_to_sign(layer.projection.numpy().astype(np.float64), (axes / np.sqrt(values + 1e-7))[:, :2], 1e-5)
    assert layer(torch.from_numpy(vectors).float().view(4, 100, 6)).shape == (4, 100, 2)


def test_without_whitening_it_only_rotates_and_reduces() -> None:
    vectors = data(400, 6)
    _, _, axes = eigen(vectors)
    layer = PCA().fit([torch.from_numpy(vectors)]).whitening(3, whiten=False)
    projection = layer.projection.numpy().astype(np.float64)
    same_up_to_sign(projection, axes[:, :3], 1e-5)
    np.testing.assert_allclose(projection.T @ projection, np.eye(3), atol=1e-6)


def test_chunks_may_be_frames_by_regions() -> None:
    vectors = data(60, 4)
    flat = PCA().fit([torch.from_numpy(vectors)])
    stacked = PCA().fit([torch.from_numpy(vectors.reshape(5, 12, 4))])
    assert flat.count_ == stacked.count_ == 60
    assert flat.scatter_ is not None
    assert stacked.scatter_ is not None
    torch.testing.assert_close(flat.scatter_, stacked.scatter_)


def test_float32_and_float16_input() -> None:
    vectors = data(200, 4)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float16, 2e-2)):
        pca = PCA().fit([torch.from_numpy(vectors).to(dtype)])
        assert pca.mean_ is not None
        assert pca.mean_.dtype == torch.float64
        np.testing.assert_allclose(pca.mean_.numpy(), vectors.mean(axis=0), atol=tolerance)


def test_the_input_is_left_alone() -> None:
    vectors = torch.from_numpy(data(20, 3))
    copy = vectors.clone()
    layer = PCA().fit([vectors, vectors]).whitening()
    layer.double()(vectors)
    assert torch.equal(vectors, copy)


# ---------------------------------------------------------------- what cannot be meant


def test_nothing_seen() -> None:
    with pytest.raises(UsageError, match="fit the PCA"):
        PCA().whitening()
    with pytest.raises(UsageError, match="fit the PCA"):
        PCA().fit([torch.zeros(0, 4)]).whitening()


@pytest.mark.parametrize("count", [1, 4, 5])
def test_too_few_vectors_to_whiten(count: int) -> None:
    pca = PCA().fit([torch.from_numpy(data(count, 5))])
    with pytest.raises(UsageError, match=f"more than 5 vectors, got {count}"):
        pca.whitening()


def test_one_vector_more_than_channels_is_enough() -> None:
    layer = PCA().fit([torch.from_numpy(data(6, 5))]).whitening()
    assert torch.isfinite(layer.projection).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused_and_not_taken_in(bad: float) -> None:
    vectors = torch.from_numpy(data(20, 3))
    pca = PCA().fit([vectors])
    broken = vectors.clone()
    broken[7, 1] = bad
    with pytest.raises(UsageError, match="NaN or infinity"):
        pca.partial_fit(broken)
    assert pca.count_ == 20
    assert pca.scatter_ is not None
    assert torch.isfinite(pca.scatter_).all()


def test_channels_must_agree() -> None:
    pca = PCA().fit([torch.from_numpy(data(20, 3))])
    with pytest.raises(UsageError, match="expected vectors of 3 channels, got 4"):
        pca.partial_fit(torch.from_numpy(data(20, 4)))
    with pytest.raises(UsageError, match="takes 3 channels, got 5"):
        pca.whitening()(torch.zeros(2, 9, 5))


@pytest.mark.parametrize("dim", [-1, 4])
def test_dimensions_that_are_not_there(dim: int) -> None:
    with pytest.raises(UsageError, match=f"cannot keep {dim} of 3"):
        PCA().fit([torch.from_numpy(data(20, 3))]).whitening(dim)


def test_mean_and_projection_must_fit_each_other() -> None:
    with pytest.raises(UsageError, match="mean"):
        Whitening(torch.zeros(3), torch.zeros(4, 2))
    with pytest.raises(UsageError, match="mean"):
        Whitening(torch.zeros(3), torch.zeros(3))


# ---------------------------------------------------------------- the authors' formula


@settings(max_examples=25, deadline=None)
@given(channels=st.integers(1, 7), seed=st.integers(0, 1000), whiten=st.booleans(), part=st.floats(0, 1))
def test_from_eigen_sorts_and_adds_epsilon(channels: int, seed: int, whiten: bool, part: float) -> None:
    """y = l2((x - mean) · V[:, order] / sqrt(d[order] + 1e-7)), vector by vector and axis by axis."""
    dim = max(1, round(part * channels))
    rng = np.random.default_rng(seed)
    mean, vectors = rng.normal(size=channels), rng.normal(size=(channels, channels))
    values = rng.permutation(np.array([10.0 ** -(i * 1.3) for i in range(channels)]))
    x = rng.normal(size=(4, channels))

    order = sorted(range(channels), key=lambda i: -values[i])[:dim]
    expected = np.empty((4, dim))
    for n in range(4):
        for k, axis in enumerate(order):
            total = sum((x[n, c] - mean[c]) * vectors[c, axis] for c in range(channels))
            expected[n, k] = total / np.sqrt(values[axis] + 1e-7) if whiten else total
        expected[n] /= np.sqrt((expected[n] ** 2).sum())

    tensors = (torch.from_numpy(mean), torch.from_numpy(values), torch.from_numpy(vectors))
    layer = Whitening.from_eigen(*tensors, dim=dim, whiten=whiten)
    np.testing.assert_allclose(layer(torch.from_numpy(x)).numpy(), expected, atol=1e-9)


def test_from_eigen_takes_a_mean_with_a_leading_one() -> None:
    layer = Whitening.from_eigen(torch.ones(1, 3), torch.ones(3), torch.eye(3), 3)
    assert layer.mean.shape == (3,)


def test_a_dead_direction_stays_finite() -> None:
    """Eigenvalues of zero, and a hair below it as rounding leaves them."""
    layer = Whitening.from_eigen(torch.zeros(3), torch.tensor([1.0, 0.0, -1e-6]), torch.eye(3), 3)
    assert torch.isfinite(layer(torch.eye(3))).all()


def test_unfitted_keeps_dot_products() -> None:
    vectors = torch.nn.functional.normalize(
        torch.randn(5, 8, generator=torch.Generator().manual_seed(0)), dim=-1
    )
    torch.testing.assert_close(Whitening.unfitted(8, 8)(vectors), vectors)
    reduced = Whitening.unfitted(8, 3).projection
    torch.testing.assert_close(reduced.T @ reduced, torch.eye(3))
