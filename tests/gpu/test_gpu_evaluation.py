"""A benchmark scored by the GPU's engine, against one pair at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from family import FAMILY, LENGTHS, built, related
from visil.evaluation import scoring
from visil.evaluation.scoring import score_videos
from visil.kernels import Scorer
from visil.model.features import VideoFeatures

TOLERANCE = 3e-3


@pytest.fixture
def videos(monkeypatch: pytest.MonkeyPatch) -> dict[str, VideoFeatures]:
    monkeypatch.setattr("visil.kernels.devices.has_kernels", lambda _: True)
    monkeypatch.setattr("visil.kernels.gpu_engine.CHUNK_FRAMES", 40)
    queries = related((20, 3), 5, with_blank=False)
    targets = related(LENGTHS, 6, with_blank=True)
    return {f"q{i}": v for i, v in enumerate(queries)} | {f"t{i}": v for i, v in enumerate(targets)}


def candidates(query: str) -> list[str]:
    return ["t3", "t0", "q0", "t1", "missing", "t5", "t6"] if query == "q0" else [f"t{i}" for i in range(9)]


def expected(name: str, videos: dict[str, VideoFeatures], query: str, targets: list[str]) -> list[float]:
    """By the plain formulas in float64."""
    model = built(FAMILY[name]).double()
    with torch.no_grad():
        found = [model(videos[query].vectors.double(), videos[target].vectors.double()) for target in targets]
    return [float(score) for score in found]


@pytest.mark.parametrize("name", ["f", "v"])
@pytest.mark.parametrize("worth", [0.5, 0.9])
def test_as_one_pair_at_a_time(
    name: str,
    worth: float,
    device: torch.device,
    videos: dict[str, VideoFeatures],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where most pairs are wanted all at once, else pair by pair: of these, 16 of 22."""
    monkeypatch.setattr(scoring, "WORTH", worth)
    model = built(FAMILY[name]).to(device)
    streamed: list[int] = []
    original = Scorer.stream

    def watched(self: Scorer, *arguments: Any) -> Iterator[Any]:
        streamed.append(1)
        yield from original(self, *arguments)

    monkeypatch.setattr(Scorer, "stream", watched)
    told: list[tuple[int, int, int]] = []
    answers = score_videos(
        model, videos.get, ["q0", "q1", "gone"], candidates, lambda *state: told.append(state)
    )
    assert len(streamed) == (worth == 0.5)
    assert answers.unreadable == {"gone", "missing"}
    for query, row in answers.predictions.scores.items():
        assert sorted(row.targets) == sorted(target for target in candidates(query) if target in videos)
        assert np.abs(row.values - expected(name, videos, query, list(row.targets))).max() < TOLERANCE
    assert told[-1][2] == 6 + 9
