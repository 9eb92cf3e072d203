"""The engine over streams of targets against the plain formulas in float64."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError
from visil.kernels import Scorer
from visil.kernels.gpu_engine import GpuEngine
from visil.kernels.precision import Precision
from visil.model.codes import decode, encode
from visil.model.comparator import Comparator, Padding, repeated
from visil.model.formula import Formula
from visil.model.similarity import Reduction, frame_matrix, video_similarity

TOLERANCE = 2e-3
QUERIES, TARGETS = (1, 9, 20), (3, 30, 8, 41, 1)


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no GPU, the interpreter stands for one."""
    monkeypatch.setattr("visil.kernels.devices.has_kernels", lambda _: True)
    monkeypatch.setattr("visil.kernels.gpu_engine.CHUNK_FRAMES", 40)
    monkeypatch.delenv("VISIL_PRECISION", raising=False)


def all_scores(engine: GpuEngine, targets: Iterable[Tensor]) -> NDArray[np.float64]:
    return np.hstack([found for _, found in engine.scores(targets)])


def videos(lengths: tuple[int, ...], seed: int, channels: int = 64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [F.normalize(torch.randn(n, 5, channels, generator=generator), dim=-1).half() for n in lengths]


def plain(
    queries: list[Tensor], targets: list[Tensor], module: Comparator | None, symmetric: bool, outer: Reduction
) -> NDArray[np.float64]:
    network = None if module is None else module.double()

    def score(query: Tensor, target: Tensor) -> float:
        q, t = (repeated(video.double(), network) for video in (query, target))
        matrix = frame_matrix(q, t, symmetric=symmetric, outer=outer)
        if network is not None:
            matrix = network(matrix).clamp(-1, 1)
        return float(video_similarity(matrix, symmetric=symmetric))

    return np.array([[score(q, t) for t in targets] for q in queries])


@pytest.mark.parametrize(
    ("padding", "symmetric", "outer"),
    [("replicate", False, "mean"), ("zeros", True, "mean"), (None, True, "top3"), (None, False, "max")],
)
def test_all_scores(device: torch.device, padding: Padding | None, symmetric: bool, outer: Reduction) -> None:
    torch.manual_seed(0)
    module = None if padding is None else Comparator(padding).eval().requires_grad_(False)
    queries, targets = videos(QUERIES, 0), videos(TARGETS, 1)
    formula = Formula(("max", outer), symmetric=symmetric, comparator=module)
    found = all_scores(GpuEngine(queries, formula, device=device), iter(targets))
    assert np.abs(found - plain(queries, targets, module, symmetric, outer)).max() < TOLERANCE


@pytest.mark.parametrize("precision", ["fp16", "bf16", "fp8"])
def test_every_precision_is_near(device: torch.device, precision: Precision) -> None:
    if precision == "bf16" and device.type != "cuda":
        pytest.skip("Triton's interpreter has no bfloat16")
    queries, targets = videos(QUERIES, 0), videos(TARGETS, 1)
    scorer = Scorer(Formula(), device, precision)
    assert scorer.on_gpu
    allowed = {"fp16": TOLERANCE, "bf16": 6e-3, "fp8": 0.06}[precision]
    for query, row in zip(queries, plain(queries, targets, None, False, "mean"), strict=True):
        assert np.abs(scorer.scores(query, targets) - row).max() < allowed


@pytest.mark.parametrize("by_kernels", [True, False])
def test_the_best_few_in_order_and_what_is_missing(
    device: torch.device, by_kernels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visil.kernels.devices.has_kernels", lambda _: by_kernels)
    queries, targets = videos(QUERIES, 0), videos(TARGETS, 1)
    best = Scorer(Formula(), device).best(queries, iter(targets), 7)
    expected = plain(queries, targets, None, False, "mean")
    for row in range(len(queries)):
        order = np.argsort(-expected[row])
        assert best.targets[row].tolist() == [*order.tolist(), -1, -1]
        assert best.scores[row][:5] == pytest.approx(expected[row][order], abs=TOLERANCE)
    assert np.isneginf(best.scores[:, 5:]).all()
    assert best.matrices is None


@pytest.mark.parametrize("by_kernels", [True, False])
def test_matrices_of_the_best(
    device: torch.device, by_kernels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visil.kernels.devices.has_kernels", lambda _: by_kernels)
    queries, targets = videos(QUERIES, 0), videos(TARGETS, 1)
    scorer = Scorer(Formula(symmetric=True), device)
    best = scorer.best(queries, iter(targets), 2, matrices=True)
    assert best.matrices is not None
    for query, row, matrices in zip(queries, best.targets.tolist(), best.matrices, strict=True):
        assert len(matrices) == 2
        for number, found in zip(row, matrices, strict=True):
            expected = frame_matrix(query.double(), targets[number].double(), symmetric=True)
            assert np.abs(found - expected.numpy()).max() < TOLERANCE
    fewer = scorer.best(queries, targets[:1], 2, matrices=True).matrices
    assert fewer is not None
    assert [len(row) for row in fewer] == [1, 1, 1]
    assert scorer.best(queries, [], 2, matrices=True).matrices == [[], [], []]


@pytest.mark.parametrize("limit", [41, 8])
def test_what_the_engine_does_not_take_keeps_its_place(
    device: torch.device, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Targets that are too long, or were kept as signs, come out where they went in."""
    monkeypatch.setattr("visil.kernels.scoring.GPU_FRAMES", limit)
    queries, targets = videos(QUERIES, 0), videos(TARGETS, 1)
    targets[2] = decode(encode(targets[2], "binary"))
    parts = list(Scorer(Formula(), device).stream(queries, iter(targets)))
    assert [len(target) for some, _ in parts for target in some] == list(TARGETS)
    found = np.hstack([scores for _, scores in parts])
    exact = Scorer(Formula(), device, "fp32")
    for query, row in zip(queries, found, strict=True):
        np.testing.assert_allclose(row, exact.scores(query, targets), atol=TOLERANCE)


def test_targets_are_read_as_they_are_needed(device: torch.device) -> None:
    read: list[int] = []

    def stream() -> Iterator[Tensor]:
        for number in range(1000):
            read.append(number)
            yield videos((30,), number)[0]

    engine = GpuEngine(videos((5,), 0), Formula(), device=device)
    for _ in engine.scores(stream()):
        break
    assert len(read) < 20


def test_more_queries_than_fit_at_once(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visil.kernels.gpu_engine.MATRIX_CELLS", 40 * 10)
    queries, targets = videos(QUERIES, 0), videos(TARGETS, 1)
    found = all_scores(GpuEngine(queries, Formula(), device=device), targets)
    assert np.abs(found - plain(queries, targets, None, False, "mean")).max() < TOLERANCE


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_what_is_no_number_is_named(device: torch.device, wrong: float) -> None:
    queries, targets = videos(QUERIES, 0), videos(TARGETS, 1)
    targets[2][3, 1, 7] = wrong
    with pytest.raises(UsageError, match=r"target 2's features contain NaN or infinity"):
        all_scores(GpuEngine(queries, Formula(), device=device), targets)
    queries[0][0, 0, 0] = wrong
    with pytest.raises(UsageError, match="a query's features contain NaN"):
        GpuEngine(queries, Formula(), device=device)


def test_what_does_not_fit(device: torch.device) -> None:
    queries = videos(QUERIES, 0)
    with pytest.raises(UsageError, match=r"target 0 has features \[4, 5, 128\], not \[frames, 5, 64\]"):
        all_scores(GpuEngine(queries, Formula(), device=device), videos((4,), 0, channels=128))
    with pytest.raises(UsageError, match="at least one frame"):
        GpuEngine([], Formula(), device=device)
    with pytest.raises(UsageError, match="precision must be one of"):
        Scorer(Formula(), device, "int4")  # type: ignore[arg-type]
    averaged = Formula(frame_pool=("mean", "mean"))
    assert not Scorer(averaged, device).on_gpu
    with pytest.raises(UsageError, match="no pooling"):
        GpuEngine(queries, averaged, device=device)
