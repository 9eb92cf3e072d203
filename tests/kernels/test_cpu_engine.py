"""The engine of a processor against the plain formulas in float64, on ragged batches, in every arithmetic.

Tolerances, for ℓ2-normalised vectors: float32 1e-5; bfloat16 0.006 a cell, which is what rounding two factors and their
product to 8 bits can add up to; int8 0.006 a cell, five times the standard deviation that the engine allows a product.
Scores of videos read off S_f, with 128 channels or more: 0.002 in all of them (``precision.TOLERANCE``); with a
comparator of random weights 0.01 in bfloat16 and 0.02 in int8.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from unittest.mock import patch

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from visil.errors import UsageError
from visil.kernels import FrameMatrix, Scorer, cpu_products
from visil.kernels import precision as precisions
from visil.kernels.cpu_comparator import FastComparator, fast_comparator, passes
from visil.kernels.frame_matrix import Joined
from visil.kernels.pooling import pooled_spans
from visil.kernels.precision import ON_CPU, TOLERANCE, Arithmetic, Precision, arithmetic, check_precision
from visil.model.comparator import Comparator, Padding, repeated
from visil.model.formula import Formula
from visil.model.similarity import Reduction, frame_matrix, pool

CELL = {"fp32": 1e-5, "bf16": 6e-3, "int8": 6e-3}
REDUCTIONS: tuple[Reduction, ...] = ("max", "mean", "top3")
COMBINATIONS = list(product(REDUCTIONS, REDUCTIONS, (False, True)))
shapes = st.lists(st.integers(1, 23), min_size=1, max_size=5)


def video(frames: int, regions: int, channels: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(frames, regions, channels, generator=generator), dim=-1)


def network(padding: Padding, seed: int = 3) -> Comparator:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        comparator = Comparator(padding)
        for parameter in comparator.parameters():
            std = (2.0 / parameter[0].numel()) ** 0.5 if parameter.ndim > 1 else 0.1
            torch.nn.init.normal_(parameter, std=std)
    return comparator.eval()


def plain_score(query: Tensor, target: Tensor, symmetric: bool, comparator: Comparator | None) -> float:
    """CS_v by the formulas as written, in float64."""
    q, t = repeated(query.double(), comparator), repeated(target.double(), comparator)
    matrix = frame_matrix(q, t, symmetric=symmetric)
    if comparator is not None:
        wide = Comparator(comparator.padding).double()
        wide.load_state_dict(comparator.state_dict())
        with torch.no_grad():
            matrix = wide(matrix).clamp(-1, 1)
    return float(pool(matrix, symmetric=symmetric))


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """Fresh memory is full of NaN (of the largest number, where there is none): what is not written shows."""
    plain = torch.empty

    def poisoned(*sizes: object, **options: object) -> Tensor:
        made: Tensor = plain(*sizes, **options)  # type: ignore[call-overload]
        return made.fill_(torch.nan if made.is_floating_point() else torch.iinfo(made.dtype).max)

    vars(cpu_products._of_thread).clear()  # or memory that was written before would be used again
    with patch.object(torch, "empty", poisoned):
        yield
    vars(cpu_products._of_thread).clear()


# ---------------------------------------------------------------- S_f


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.tuples(st.integers(1, 13), st.integers(1, 40)),
    r=st.integers(1, 5),
    s=st.integers(1, 5),
    c=st.sampled_from([1, 7, 128, 200]),
    how=st.sampled_from(COMBINATIONS),
    chosen=st.sampled_from(ON_CPU),
    products=st.sampled_from([1, 1 << 9, 1 << 20]),
    seed=st.integers(0, 1000),
)
def test_frame_matrix_in_every_arithmetic(
    lengths: tuple[int, int],
    r: int,
    s: int,
    c: int,
    how: tuple[Reduction, Reduction, bool],
    chosen: Arithmetic,
    products: int,
    seed: int,
) -> None:
    inner, outer, symmetric = how
    query, target = video(lengths[0], r, c, seed), video(lengths[1], s, c, seed + 1)
    formula = Formula((inner, outer), symmetric=symmetric)
    expected = formula.frame_matrix(query.double(), target.double())
    with patch.object(cpu_products, "PRODUCTS", products), poisoned_memory():
        found = FrameMatrix(query, target.half(), formula, chosen).full()
    torch.testing.assert_close(
        found.double(), expected, atol=CELL[chosen] + 1e-3, rtol=0
    )  # half: 2^-11 a channel


@pytest.mark.parametrize("chosen", ON_CPU)
def test_equal_frames_are_alike_all_over(chosen: Arithmetic) -> None:
    same = video(1, 4, 128, 0).expand(9, 4, 128)
    found = FrameMatrix(same, same, Formula(), chosen).full()
    torch.testing.assert_close(found, torch.ones(9, 9), atol=CELL[chosen], rtol=0)
    torch.testing.assert_close(found, found[:1, :1].expand(9, 9))


@pytest.mark.parametrize("chosen", ON_CPU)
def test_vectors_of_zeros(chosen: Arithmetic) -> None:
    nothing = torch.zeros(5, 3, 16)
    assert (FrameMatrix(nothing, nothing, Formula(), chosen).full() == 0).all()


def test_a_channel_that_stands_out_is_not_rounded_coarsely() -> None:
    """One channel of 0.99 would make the steps of all the others as large as they are."""
    query, target = video(4, 2, 256, 0) * 0.14, video(5, 2, 256, 1) * 0.14
    query[..., 0], target[..., 0] = 0.99, 0.99
    expected = frame_matrix(query.double(), target.double())
    found = FrameMatrix(query, target, Formula(), "int8").full()
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=0)


def test_float64_stays_float64() -> None:
    query, target = video(3, 2, 130, 0).double(), video(4, 2, 130, 1).double()
    found = FrameMatrix(query, target, Formula(), "int8").full()
    torch.testing.assert_close(found, frame_matrix(query, target), atol=1e-14, rtol=0)


# ---------------------------------------------------------------- scores of ragged batches


@settings(max_examples=40, deadline=None)
@given(
    query=st.integers(1, 23),
    lengths=shapes,
    padding=st.sampled_from([None, "replicate", "zeros"]),
    symmetric=st.booleans(),
    chosen=st.sampled_from(ON_CPU),
    columns=st.sampled_from([1, 1024]),
    seed=st.integers(0, 1000),
)
def test_scores_of_many_targets(
    query: int,
    lengths: list[int],
    padding: Padding | None,
    symmetric: bool,
    chosen: Arithmetic,
    columns: int,
    seed: int,
) -> None:
    comparator = None if padding is None else network(padding, seed)
    q = video(query, 3, 160, seed)
    targets = [video(length, 3, 160, seed + i + 1) for i, length in enumerate(lengths)]
    targets[0][0] = q[0]
    expected = [plain_score(q, target, symmetric, comparator) for target in targets]
    with patch("visil.kernels.cpu_comparator.PASS_COLUMNS", columns), poisoned_memory():
        found = Scorer(Formula(symmetric=symmetric, comparator=comparator), precision=chosen).scores(
            q, targets
        )
    allowed = {"fp32": 1e-5, "bf16": TOLERANCE, "int8": TOLERANCE}[chosen]
    if comparator is not None:  # three random layers magnify what S_f differs by
        allowed = {"fp32": 1e-5, "bf16": 0.01, "int8": 0.02}[chosen]
    np.testing.assert_allclose(found, expected, atol=allowed, rtol=0)


def test_threads_change_nothing() -> None:
    q = video(30, 3, 160, 0)
    targets = [video(40 + i, 3, 160, i + 1) for i in range(20)]
    scorer = Scorer(Formula(comparator=network("replicate")))
    alone = scorer.scores(q, targets)
    try:
        torch.set_num_threads(3)
        together = scorer.scores(q, targets)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)
    np.testing.assert_allclose(together, alone, atol=1e-6)


@pytest.mark.parametrize("chosen", ON_CPU)
@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_is_refused(chosen: Arithmetic, wrong: float) -> None:
    good, bad = video(5, 3, 16, 0), video(6, 3, 16, 1)
    bad[4, 1, 7] = wrong
    for query, targets in ((good, [good, bad]), (bad, [good])):
        with pytest.raises(UsageError, match="NaN or infinity"):
            Scorer(Formula(), precision=chosen).scores(query, targets)


def test_no_frames_and_no_targets() -> None:
    good = video(5, 3, 16, 0)
    assert Scorer(Formula()).scores(good, []).shape == (0,)
    with pytest.raises(UsageError, match="no frames"):
        Scorer(Formula()).scores(good, [good, good[:0]])


# ---------------------------------------------------------------- the comparator


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(4, 21),
    lengths=st.lists(st.integers(4, 30), min_size=1, max_size=6),
    padding=st.sampled_from(["replicate", "zeros"]),
    seed=st.integers(0, 100),
)
def test_side_by_side_as_if_alone(rows: int, lengths: list[int], padding: Padding, seed: int) -> None:
    comparator = network(padding, seed).double()
    matrices = [
        torch.randn(rows, n, generator=torch.Generator().manual_seed(n), dtype=torch.float64) for n in lengths
    ]
    fast = FastComparator(comparator, "fp32")
    output, spans = fast.many(torch.cat(matrices, dim=1), lengths)
    with torch.no_grad():
        for matrix, (start, stop) in zip(matrices, spans, strict=True):
            torch.testing.assert_close(output[:, start:stop], comparator(matrix), atol=1e-10, rtol=1e-10)


def test_the_copy_leaves_the_original_and_the_generator_alone() -> None:
    comparator = network("replicate")
    before, state = comparator.conv2.weight.detach().clone(), torch.get_rng_state()
    fast = FastComparator(comparator, "bf16")
    assert fast.conv2.weight.dtype == torch.bfloat16
    assert comparator.conv2.weight.dtype == torch.float32
    assert torch.equal(comparator.conv2.weight, before)
    assert comparator.conv2.weight.requires_grad
    assert torch.equal(torch.get_rng_state(), state)


def test_the_copy_is_kept_until_weights_change() -> None:
    comparator = network("replicate")
    fast = fast_comparator(comparator, "fp32")
    assert fast_comparator(comparator, "fp32") is fast
    with torch.no_grad():
        comparator.fconv.weight.mul_(2)
    torch.testing.assert_close(fast_comparator(comparator, "fp32").fconv.weight, comparator.fconv.weight)
    comparator.load_state_dict(network("replicate", 9).state_dict())
    assert torch.equal(fast_comparator(comparator, "fp32").conv1.weight, comparator.conv1.weight)


@given(lengths=st.lists(st.integers(1, 3000), max_size=9), rows=st.integers(1, 500))
def test_passes_take_every_target_once(lengths: list[int], rows: int) -> None:
    runs = passes(lengths, rows)
    assert [i for run in runs for i in range(run.start, run.stop)] == list(range(len(lengths)))
    assert all(run.stop > run.start for run in runs)


# ---------------------------------------------------------------- side by side


@settings(max_examples=80, deadline=None)
@given(
    parts=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3)), min_size=1, max_size=5),
    rows=st.integers(1, 6),
    how=st.sampled_from(COMBINATIONS),
    seed=st.integers(0, 100),
)
def test_pooled_spans(
    parts: list[tuple[int, int]], rows: int, how: tuple[Reduction, Reduction, bool], seed: int
) -> None:
    inner, outer, symmetric = how
    spans, at = [], 0
    for length, gap in parts:
        spans.append((at, at + length))
        at += length + gap
    values = torch.randn(rows, at, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    read = torch.full_like(values, torch.nan)
    for start, stop in spans:
        read[:, start:stop] = values[:, start:stop]  # what lies between must not be looked at
    found = pooled_spans(read, spans, Formula(video_pool=(inner, outer), symmetric=symmetric))
    expected = [float(pool(values[:, a:b], inner, outer, symmetric)) for a, b in spans]
    np.testing.assert_allclose(found, expected, atol=1e-12)


@given(lengths=shapes, data=st.data())
def test_joined_videos(lengths: list[int], data: st.DataObject) -> None:
    videos = list(torch.arange(sum(lengths)).view(-1, 1, 1).split(lengths))
    joined = Joined(videos)
    start = data.draw(st.integers(0, sum(lengths) - 1))
    stop = data.draw(st.integers(start + 1, sum(lengths)))
    assert torch.cat(joined.pieces(start, stop)).flatten().tolist() == list(range(start, stop))
    assert [b - a for a, b in joined.spans] == lengths
    assert joined.shape == (sum(lengths), 1, 1)


# ---------------------------------------------------------------- the choice


CPU = torch.device("cpu")


def test_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(precisions.VARIABLE, raising=False)
    assert arithmetic(None, CPU) == "fp32"
    assert arithmetic("int8", CPU) == "int8"
    monkeypatch.setenv(precisions.VARIABLE, "bf16")
    assert arithmetic(None, CPU) == "bf16"
    assert arithmetic("fp32", CPU) == "fp32"
    monkeypatch.setattr(precisions, "fastest", lambda: "int8")
    assert arithmetic("auto", CPU) == "int8"
    monkeypatch.setenv(precisions.VARIABLE, "fp8")
    line = "VISIL_PRECISION must be one of auto, fp32, bf16, int8 on cpu, not 'fp8'"
    with pytest.raises(UsageError, match=line):
        arithmetic(None, CPU)


def test_choice_on_a_gpu_with_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(precisions.VARIABLE, raising=False)
    monkeypatch.setattr("visil.kernels.devices.has_kernels", lambda _: True)
    choices: tuple[Precision | None, ...] = (None, "auto", "fp16", "bf16", "fp8", "fp32")
    assert [arithmetic(choice, CPU) for choice in choices] == ["fp16", "fp16", "fp16", "bf16", "fp8", "fp32"]
    with pytest.raises(UsageError, match="precision must be one of auto, fp32, fp16, bf16, fp8 on"):
        check_precision("int8", CPU)


def test_a_gpu_without_kernels_is_plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(precisions.VARIABLE, raising=False)
    monkeypatch.setattr("visil.kernels.devices.why_no_kernels", lambda _: "Triton is not installed")
    gpu = torch.device("cuda", 0)
    assert (arithmetic(None, gpu), arithmetic("auto", gpu)) == ("fp32", "fp32")
    with pytest.raises(UsageError, match=r"auto, fp32 on cuda:0, not 'fp16' \(.*Triton is not installed\)"):
        check_precision("fp16", gpu)


@pytest.mark.parametrize(
    ("speeds", "expected"),
    [
        ({"fp32": 100.0, "bf16": 90.0}, "fp32"),
        ({"fp32": 100.0, "bf16": 200.0, "int8": 400.0}, "int8"),
        ({"fp32": 100.0, "bf16": 125.0, "int8": 110.0}, "fp32"),  # not worth a difference
    ],
)
def test_fastest(speeds: dict[Arithmetic, float], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precisions, "measured", lambda: speeds)
    assert precisions.fastest.__wrapped__() == expected


def test_int8_that_saturates_is_found_out_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor without the instructions: the same numbers, by way of float64."""
    query, target = video(6, 3, 200, 0), video(7, 3, 200, 1)
    with_instructions = FrameMatrix(query, target, Formula(), "int8").full()

    def saturating(left: Tensor, right: Tensor, *, out: Tensor | None = None) -> Tensor:
        return (left.float() @ right.float()).clamp(-32768, 32767).int()

    precisions.has_int8.cache_clear()
    try:
        monkeypatch.setattr(torch, "_int_mm", saturating)
        assert not precisions.has_int8()
        assert torch.equal(FrameMatrix(query, target, Formula(), "int8").full(), with_instructions)
    finally:
        monkeypatch.undo()
        precisions.has_int8.cache_clear()
