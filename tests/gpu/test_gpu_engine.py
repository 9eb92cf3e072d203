"""The engine over streams of targets against the plain formulas in float64."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError
from visil.kernels.gpu_engine import GpuEngine
from visil.kernels.gpu_pools import supports
from visil.model.comparator import Comparator, Padding, repeated
from visil.model.similarity import Reduction, frame_matrix, video_similarity

TOLERANCE = 2e-3
QUERIES, TARGETS = (1, 9, 20), (3, 30, 8, 41, 1)


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
    engine = GpuEngine(
        queries, module, symmetric=symmetric, frame_pool=("max", outer), device=device, chunk_frames=40
    )
    found = engine.all_scores(iter(targets))
    assert np.abs(found - plain(queries, targets, module, symmetric, outer)).max() < TOLERANCE


def test_the_best_few_in_order_and_what_is_missing(device: torch.device) -> None:
    queries, targets = videos(QUERIES, 0), videos(TARGETS, 1)
    seen: list[int] = []
    engine = GpuEngine(queries, device=device, chunk_frames=40)
    best = engine.best(targets, 7, seen.append)
    expected = plain(queries, targets, None, False, "mean")
    assert seen[-1] == len(targets)
    assert seen == sorted(seen)
    for row in range(len(queries)):
        order = np.argsort(-expected[row])
        assert best.targets[row].tolist() == [*order.tolist(), -1, -1]
        assert best.scores[row][:5] == pytest.approx(expected[row][order], abs=TOLERANCE)
    assert np.isneginf(best.scores[:, 5:]).all()


def test_matrices_of_the_best(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visil.kernels.gpu_engine.MATRIX_CELLS", 40 * 10)  # queries in groups
    queries, targets = videos(QUERIES, 0), videos(TARGETS, 1)
    engine = GpuEngine(queries, device=device, symmetric=True, chunk_frames=40)
    best = engine.best(targets, 2, matrices=True)
    assert best.matrices is not None
    for query, row, matrices in zip(queries, best.targets.tolist(), best.matrices, strict=True):
        assert len(matrices) == 2
        for number, found in zip(row, matrices, strict=True):
            expected = frame_matrix(query.double(), targets[number].double(), symmetric=True)
            assert found.shape == expected.shape
            assert (found.double() - expected).abs().max() < TOLERANCE
    fewer = engine.best(targets[:1], 2, matrices=True).matrices
    assert fewer is not None
    assert [len(row) for row in fewer] == [1, 1, 1]
    assert engine.best(targets, 2).matrices is None


def test_targets_are_read_as_they_are_needed(device: torch.device) -> None:
    read: list[int] = []

    def stream() -> Iterator[Tensor]:
        for number in range(1000):
            read.append(number)
            yield videos((30,), number)[0]

    engine = GpuEngine(videos((5,), 0), device=device, chunk_frames=40)
    for _ in engine.scores(stream()):
        break
    assert len(read) < 20


def test_more_queries_than_fit_at_once(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visil.kernels.gpu_engine.MATRIX_CELLS", 40 * 10)
    queries, targets = videos(QUERIES, 0), videos(TARGETS, 1)
    found = GpuEngine(queries, device=device, chunk_frames=40).all_scores(targets)
    assert np.abs(found - plain(queries, targets, None, False, "mean")).max() < TOLERANCE


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_what_is_no_number_is_named(device: torch.device, wrong: float) -> None:
    queries, targets = videos(QUERIES, 0), videos(TARGETS, 1)
    targets[2][3, 1, 7] = wrong
    with pytest.raises(UsageError, match=r"target 2's features contain NaN or infinity"):
        GpuEngine(queries, device=device, chunk_frames=40).all_scores(targets)
    queries[0][0, 0, 0] = wrong
    with pytest.raises(UsageError, match="a query's features contain NaN"):
        GpuEngine(queries, device=device)


def test_what_does_not_fit(device: torch.device) -> None:
    queries = videos(QUERIES, 0)
    with pytest.raises(UsageError, match=r"target 0 has features \[4, 5, 128\], not \[frames, 5, 64\]"):
        GpuEngine(queries, device=device).all_scores(videos((4,), 0, channels=128))
    with pytest.raises(UsageError, match="at least one frame"):
        GpuEngine([], device=device)
    with pytest.raises(UsageError, match="precision must be one of"):
        GpuEngine(queries, precision="int4", device=device)  # type: ignore[arg-type]
    assert not supports(("mean", "mean"), ("max", "mean"))
    with pytest.raises(UsageError, match="no pooling"):
        GpuEngine(queries, frame_pool=("mean", "mean"), device=device)
