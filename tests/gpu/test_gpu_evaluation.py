"""A benchmark scored by the GPU's engine, against one pair at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from family import FAMILY, LENGTHS, built, related
from visil.evaluation import gpu_scoring
from visil.evaluation.scoring import score_videos
from visil.model.codes import decode, encode
from visil.model.features import VideoFeatures

TOLERANCE = 3e-3


@pytest.fixture
def videos(monkeypatch: pytest.MonkeyPatch) -> dict[str, VideoFeatures]:
    monkeypatch.setattr("visil.kernels.gpu.usable", lambda _: True)
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
def test_as_one_pair_at_a_time(
    name: str, device: torch.device, videos: dict[str, VideoFeatures], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_scoring, "LONGEST", max(LENGTHS) - 1)  # longer ones are for the ordinary path
    model = built(FAMILY[name]).to(device)
    used: list[int] = []
    original = gpu_scoring.score

    def watched(*arguments: object) -> list[str]:
        aside = original(*arguments)  # type: ignore[arg-type]
        used.append(len(aside))
        return aside

    monkeypatch.setattr(gpu_scoring, "score", watched)
    told: list[tuple[int, int, int]] = []
    answers = score_videos(
        model, videos.get, ["q0", "q1", "gone"], candidates, lambda *state: told.append(state)
    )
    assert used == [LENGTHS.count(max(LENGTHS))]
    assert answers.unreadable == {"gone", "missing"}
    for query, row in answers.predictions.scores.items():
        assert sorted(row.targets) == sorted(target for target in candidates(query) if target in videos)
        assert np.abs(row.values - expected(name, videos, query, list(row.targets))).max() < TOLERANCE
    assert told[-1][2] == 6 + 9


def test_signs_and_few_candidates_are_for_the_ordinary_path(
    device: torch.device, videos: dict[str, VideoFeatures]
) -> None:
    model = built(FAMILY["f"]).to(device)
    held = [("q0", videos["q0"].vectors)]
    assert gpu_scoring.suits(model.formula, device, held, {"q0": frozenset("ab")}, 3)
    assert not gpu_scoring.suits(model.formula, device, held, {"q0": frozenset("a")}, 3)
    generator = torch.Generator().manual_seed(0)
    signs = decode(encode(torch.randn(4, 9, 64, generator=generator), "binary"))
    assert not gpu_scoring.suits(model.formula, device, [("q", signs)], {"q": frozenset("ab")}, 2)
    other = replace(model.config, video_pool=("mean", "mean"))
    model.config = other
    assert not gpu_scoring.suits(model.formula, device, held, {"q0": frozenset("ab")}, 3)
