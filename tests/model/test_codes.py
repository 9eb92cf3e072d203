"""Codes against numpy in float64: error bounds, norms, bits, and that a second round changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError
from visil.model.codes import KINDS, Coded, Codes, checked, decode, encode

# Of float16: half a step, relative for normal numbers and absolute for those under 2**-14.
RELATIVE, ABSOLUTE = 2.0**-11, 2.0**-25

Array = NDArray[np.float16]

any_vectors = arrays(
    np.float16,
    array_shapes(min_dims=1, max_dims=3, max_side=7),
    elements=st.floats(width=16, allow_nan=False, allow_infinity=False),
)
usual_vectors = arrays(
    np.float16, st.tuples(st.integers(1, 4), st.integers(1, 35)), elements=st.floats(-1, 1, width=16)
)
tiny_vectors = arrays(  # up to 2**-14, in the smallest steps that float16 has
    np.int16, st.tuples(st.integers(1, 4), st.integers(1, 9)), elements=st.integers(-1024, 1024)
).map(lambda steps: (steps * 2.0**-24).astype(np.float16))
vectors_of_any_size = st.one_of(any_vectors, usual_vectors, tiny_vectors)


def round_trip(vectors: Array, kind: Codes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What went in and what came out, in float64."""
    decoded = decode(encode(torch.from_numpy(vectors), kind))
    assert decoded.dtype == torch.float16
    assert decoded.shape == vectors.shape
    assert torch.isfinite(decoded).all()
    return vectors.astype(np.float64), decoded.numpy().astype(np.float64)


def same(a: Coded, b: Coded) -> bool:
    scales = a.scales is b.scales is None or (
        a.scales is not None and b.scales is not None and torch.equal(a.scales, b.scales)
    )
    return scales and torch.equal(a.values, b.values) and (a.kind, a.channels) == (b.kind, b.channels)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=80, deadline=None)
@given(vectors=vectors_of_any_size)
def test_a_second_round_changes_nothing(kind: Codes, vectors: Array) -> None:
    coded = encode(torch.from_numpy(vectors), kind)
    assert same(encode(decode(coded), kind), coded)


@settings(max_examples=80, deadline=None)
@given(vectors=vectors_of_any_size)
def test_int8_is_off_by_half_a_step_at_most(vectors: Array) -> None:
    before, after = round_trip(vectors, "int8")
    peaks = np.abs(before).max(axis=-1, keepdims=True)
    bound = peaks / 254 * (1 + 1e-5) + np.abs(after) * RELATIVE + ABSOLUTE
    assert (np.abs(after - before) <= bound).all()
    np.testing.assert_array_equal(np.abs(after).max(axis=-1, keepdims=True), peaks)


@settings(max_examples=80, deadline=None)
@given(vectors=vectors_of_any_size)
def test_binary_keeps_signs_and_norms(vectors: Array) -> None:
    before, after = round_trip(vectors, "binary")
    size = np.sqrt((before**2).mean(axis=-1, keepdims=True))
    # A hair more than half a step: the mean is taken in float32.
    np.testing.assert_allclose(
        np.abs(after), np.broadcast_to(size, after.shape), rtol=RELATIVE * 1.01, atol=ABSOLUTE * 1.01
    )
    kept = after != 0
    np.testing.assert_array_equal(np.sign(after)[kept], np.where(before >= 0, 1, -1)[kept])


@settings(max_examples=30, deadline=None)
@given(vectors=any_vectors)
def test_fp16_is_what_goes_in(vectors: Array) -> None:
    coded = encode(torch.from_numpy(vectors), "fp16")
    assert coded.scales is None
    assert coded.values.numpy().tobytes() == vectors.tobytes()
    assert decode(coded) is coded.values


def test_int8_of_the_smallest_numbers_is_settled_too() -> None:
    peaks = torch.arange(1, 1100) * 2.0**-24
    coded = encode(torch.linspace(-1, 1, 255) * peaks[:, None], "int8")
    assert same(encode(decode(coded), "int8"), coded)


def test_int8_by_hand() -> None:
    coded = encode(torch.tensor([[2.0, -1.0, 0.0, 0.5], [0.0, 0.0, -0.25, 0.125]]), "int8")
    assert coded.scales is not None
    assert coded.values.tolist() == [[127, -64, 0, 32], [0, 0, -127, 64]]  # -63.5 and 63.5 go to the even one
    assert coded.scales.tolist() == [2.0, 0.25]
    expected = np.array([2.0, -64 / 127 * 2, 0.0, 32 / 127 * 2], np.float16)
    assert decode(coded)[0].tolist() == expected.tolist()


def test_binary_by_hand() -> None:
    vector = torch.tensor([3.0, -4.0, 0.0, 0.0, -5.0, 1.0, 1.0, -1.0, -2.0, 2.0])
    coded = encode(vector, "binary")
    assert coded.scales is not None
    assert coded.values.tolist() == [0b01101101, 0b00000010]
    assert coded.values.tolist() == np.packbits(vector.numpy() >= 0, bitorder="little").tolist()
    assert coded.scales.item() == np.float16(np.sqrt(6.1))
    assert decode(coded).sign().tolist() == [1, -1, 1, 1, -1, 1, 1, -1, -1, 1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("channels", [1, 7, 8, 9, 384])
def test_zero_vectors_stay_zero(kind: Codes, channels: int) -> None:
    vectors = torch.zeros(3, channels)
    vectors[1] = 1
    vectors[2] = -0.0
    decoded = decode(encode(vectors, kind))
    assert decoded.shape == vectors.shape
    assert (decoded == vectors).all()


@pytest.mark.parametrize("kind", KINDS)
def test_one_channel_is_kept_exactly(kind: Codes) -> None:
    vectors = torch.tensor([[0.3], [-7.0], [0.0], [65504.0]]).half()
    assert torch.equal(decode(encode(vectors, kind)), vectors)


@pytest.mark.parametrize(("kind", "bytes_a_vector"), [("fp16", 768), ("int8", 386), ("binary", 50)])
def test_sizes(kind: Codes, bytes_a_vector: int) -> None:
    coded = encode(torch.randn(2, 5, 384, generator=torch.Generator().manual_seed(0)), kind)
    assert coded.values.nbytes + (0 if coded.scales is None else coded.scales.nbytes) == 10 * bytes_a_vector


def test_how_near_the_codes_of_random_directions_are() -> None:
    """The cosine to the original: nearly 1 for int8, √(2/π) for the signs of normal numbers."""
    vectors = torch.randn(200, 512, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for kind, cosine, tolerance in (("int8", 1.0, 1e-4), ("binary", (2 / np.pi) ** 0.5, 0.005)):
        decoded = decode(encode(vectors, checked(kind))).double()
        measured = torch.nn.functional.cosine_similarity(vectors, decoded).mean()
        assert float(measured) == pytest.approx(cosine, abs=tolerance)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 65520.0, -1e9])
def test_what_16_bits_cannot_hold_is_refused(kind: Codes, bad: float) -> None:
    vectors = torch.ones(2, 3, 4)
    vectors[1, 2, 3] = bad
    with pytest.raises(UsageError, match="16 bits"):
        encode(vectors, kind)


@pytest.mark.parametrize("vectors", [torch.tensor(1.0), torch.ones(3, 0), torch.ones(3, 4, dtype=torch.int8)])
def test_what_is_no_vector_is_refused(vectors: Tensor) -> None:
    with pytest.raises(UsageError, match="floats"):
        encode(vectors, "int8")


@pytest.mark.parametrize(
    "wrong",
    [
        Coded("int8", torch.zeros(2, 4, dtype=torch.int8), None, 4),
        Coded("int8", torch.zeros(2, 4, dtype=torch.int8), torch.ones(3).half(), 4),
        Coded("int8", torch.zeros(2, 4, dtype=torch.int8), torch.ones(2), 4),
        Coded("int8", torch.zeros(2, 4, dtype=torch.uint8), torch.ones(2).half(), 4),
        Coded("binary", torch.zeros(2, 4, dtype=torch.uint8), torch.ones(2).half(), 33),
        Coded("binary", torch.zeros(2, 4, dtype=torch.uint8), torch.ones(2).half(), 24),
        Coded("fp16", torch.zeros(2, 4), None, 4),
    ],
)
def test_parts_that_do_not_fit_are_refused(wrong: Coded) -> None:
    with pytest.raises(UsageError, match="codes"):
        decode(wrong)


def test_names() -> None:
    assert [checked(kind) for kind in ("fp16", "int8", "binary")] == list(KINDS)
    with pytest.raises(UsageError, match="fp16, int8, binary, not 'int4'"):
        checked("int4")
    with pytest.raises(UsageError, match="not 'int4'"):
        encode(torch.ones(2), "int4")  # type: ignore[arg-type]
