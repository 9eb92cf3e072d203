"""S_f from codes against the formulas in float64: what int8 codes decode to, the angles that bits stand for."""

from __future__ import annotations

import math
from unittest.mock import patch

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from visil.errors import UsageError
from visil.kernels import FrameMatrix, cpu_hamming, cpu_products
from visil.kernels.cpu_hamming import coded_matrix, coded_scores, differing_bits
from visil.kernels.frame_matrix import Joined
from visil.kernels.signs import signs_only
from visil.model.codes import STEPS, Coded, decode, encode
from visil.model.formula import Formula
from visil.model.similarity import Reduction, pool

REDUCTIONS: tuple[Reduction, ...] = ("max", "mean", "top3")


def video(frames: int, regions: int, channels: int, seed: int, even: bool = True) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    vectors = F.normalize(torch.randn(frames, regions, channels, generator=generator), dim=-1)
    return vectors if even else vectors * torch.rand(frames, regions, 1, generator=generator)


def similarities(query: Coded, target: Coded) -> Tensor:
    """[X, Y, R, S] in float64, one pair of vectors at a time."""
    assert query.scales is not None
    assert target.scales is not None
    (x, r), (y, s) = query.scales.shape, target.scales.shape
    found = torch.empty(x, y, r, s, dtype=torch.float64)
    for i, j, k, m in np.ndindex(x, y, r, s):
        one, other = query.values[i, k].numpy(), target.values[j, m].numpy()
        sizes = float(query.scales[i, k]) * float(target.scales[j, m])
        if query.kind == "int8":
            found[i, j, k, m] = int(one.astype(np.int64) @ other.astype(np.int64)) * sizes / STEPS**2
        else:
            differing = sum(bin(a ^ b).count("1") for a, b in zip(one.tolist(), other.tolist(), strict=True))
            found[i, j, k, m] = math.cos(math.pi * differing / query.channels) * sizes * query.channels
    return found


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(["int8", "binary"]),
    lengths=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    r=st.integers(1, 4),
    s=st.integers(1, 4),
    c=st.sampled_from([1, 8, 13, 64]),
    how=st.tuples(st.sampled_from(REDUCTIONS), st.sampled_from(REDUCTIONS), st.booleans()),
    even=st.booleans(),
    faiss=st.booleans(),
    seed=st.integers(0, 100),
)
def test_matrix_of_codes(
    kind: str,
    lengths: tuple[int, int],
    r: int,
    s: int,
    c: int,
    how: tuple[Reduction, Reduction, bool],
    even: bool,
    faiss: bool,
    seed: int,
) -> None:
    inner, outer, symmetric = how
    query = encode(video(lengths[0], r, c, seed, even), kind)  # type: ignore[arg-type]
    target = encode(video(lengths[1], s, c, seed + 1, even), kind)  # type: ignore[arg-type]
    expected = pool(similarities(query, target), inner, outer, symmetric)
    counts = cpu_hamming._counts_bits if faiss else lambda _: False
    with (
        patch.object(cpu_hamming, "TILE_ROWS", 2),
        patch.object(cpu_products, "PRODUCTS", 1),
        patch.object(cpu_hamming, "_counts_bits", counts),
    ):
        found = coded_matrix(query, target, Formula((inner, outer), symmetric=symmetric))
    # Sizes that are equal but for their rounding to float16 are taken for equal: one part in a thousand.
    torch.testing.assert_close(found.double(), expected, atol=2e-6, rtol=1.1e-3)


@given(
    rows=st.integers(1, 9),
    columns=st.integers(1, 9),
    width=st.sampled_from([1, 2, 7, 8, 32, 64]),
    seed=st.integers(0, 99),
)
def test_bits_that_differ(rows: int, columns: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = (rng.integers(0, 256, (n, width), dtype=np.uint8) for n in (rows, columns))
    expected = np.unpackbits(left[:, None] ^ right[None], axis=2).sum(axis=2)
    for counts in (True, False):
        with patch.object(cpu_hamming, "_counts_bits", lambda _, counts=counts: counts):
            out = torch.full((rows, columns), -7, dtype=torch.int32)
            differing_bits(torch.from_numpy(left), torch.from_numpy(right), out)
            assert np.array_equal(out.numpy(), expected)


def test_angles_are_told_from_bits() -> None:
    """Vectors at a known angle: the similarity from 4096 bits is their cosine, to within its standard deviations."""
    generator = torch.Generator().manual_seed(0)
    a, b = F.normalize(torch.randn(2, 4096, generator=generator), dim=1)
    b = F.normalize(b - (a @ b) * a, dim=0)
    for cosine in (-0.5, 0.0, 0.3, 0.532, 0.9, 1.0):
        other = cosine * a + (1 - cosine**2) ** 0.5 * b
        found = coded_matrix(encode(a[None, None], "binary"), encode(other[None, None], "binary"), Formula())
        assert abs(float(found) - cosine) < 0.07


def test_decoded_signs_are_compared_by_their_angles() -> None:
    """What a binary collection returns, beside whole vectors and beside its like: cosines as of whole vectors."""
    query, target = video(3, 1, 4096, 0), video(4, 1, 4096, 1)
    target[:3] = F.normalize(query + 0.6 * target[:3], dim=-1)
    target[3] = query[2]
    expected = FrameMatrix(query, target, Formula()).full()
    signs = [decode(encode(part, "binary")) for part in (query, target)]
    assert signs_only(signs[0])
    assert not signs_only(query)
    assert not signs_only(torch.ones(2, 1, 64))
    spread = 4 / 4096**0.5  # four standard deviations of a mean over the channels
    for left, right in ((query, signs[1]), (signs[0], target), (signs[0], signs[1])):
        found = FrameMatrix(left, right, Formula()).full()
        assert float((found - expected).abs().max()) < spread
        assert float(found.max()) <= 1 + 1e-3
    together = FrameMatrix(query, Joined([target[:2], signs[1][2:]]), Formula()).full()
    assert torch.equal(together[:, :2], expected[:, :2])
    assert float((together[:, 2:] - expected[:, 2:]).abs().max()) < spread


def test_scores_are_pooled_matrices() -> None:
    query = encode(video(5, 3, 64, 0), "binary")
    targets = [encode(video(n, 3, 64, n), "binary") for n in (1, 4, 9)]
    found = coded_scores(query, targets, Formula(("max", "top3"), ("max", "top3"), symmetric=True))
    expected = [
        float(pool(pool(similarities(query, t), "max", "top3", True), "max", "top3", True)) for t in targets
    ]
    np.testing.assert_allclose(found, expected, rtol=1.1e-3)
    assert coded_scores(query, [], Formula()).shape == (0,)


def test_refusals() -> None:
    good = encode(video(3, 2, 16, 0), "binary")
    for other in (encode(video(3, 2, 16, 0), "int8"), encode(video(3, 2, 24, 0), "binary")):
        with pytest.raises(UsageError, match="codes to compare must both"):
            coded_matrix(good, other, Formula())
    half = encode(video(3, 2, 16, 0), "fp16")
    with pytest.raises(UsageError, match="codes to compare must both"):
        coded_matrix(half, half, Formula())
    assert good.scales is not None
    broken = Coded("binary", good.values, good.scales.clone().fill_(torch.nan), 16)
    with pytest.raises(UsageError, match="NaN or infinity"):
        coded_matrix(broken, good, Formula())
    with pytest.raises(UsageError, match="frames, regions"):
        coded_matrix(Coded("binary", good.values[:0], good.scales[:0], 16), good, Formula())
