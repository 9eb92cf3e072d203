"""Scores of many pairs at once against one pair at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from family import FAMILY, LENGTHS, built, related
from visil.errors import UsageError
from visil.evaluation import scoring
from visil.evaluation.scoring import find_segments, score_videos
from visil.kernels import torch_engine
from visil.model.features import VideoFeatures

QUERIES = ["q0", "q1", "gone"]


@pytest.fixture(scope="module")
def videos() -> dict[str, VideoFeatures]:
    queries = related((20, 3), 5, with_blank=False)
    targets = related(LENGTHS, 6, with_blank=True)
    return {f"q{i}": v for i, v in enumerate(queries)} | {f"t{i}": v for i, v in enumerate(targets)}


def candidates(query: str) -> list[str]:
    return ["t3", "t0", "q0", "t1", "missing", "t5", "t6"] if query == "q0" else [f"t{i}" for i in range(9)]


@pytest.mark.parametrize(
    ("query_frames", "block", "cells"), [(1 << 15, 4096, 1 << 22), (20, 13, 1 << 22), (1, 40, 150)]
)
@pytest.mark.parametrize("name", FAMILY)
def test_as_model_scores(
    name: str,
    query_frames: int,
    block: int,
    cells: int,
    videos: dict[str, VideoFeatures],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = built(FAMILY[name])
    frame = 4 * videos["q0"].vectors[0].numel()
    monkeypatch.setattr(scoring, "QUERY_BYTES", query_frames * frame)
    monkeypatch.setattr(scoring, "BLOCK_BYTES", block * frame)
    monkeypatch.setattr(torch_engine, "WIDE_CELLS", cells)
    told: list[tuple[int, int, int]] = []
    answers = score_videos(model, videos.get, QUERIES, candidates, lambda *state: told.append(state))
    assert answers.unreadable == {"gone", "missing"}
    assert set(answers.predictions.scores) == {"q0", "q1"}
    for query, row in answers.predictions.scores.items():
        wanted = sorted(target for target in candidates(query) if target in videos)
        assert list(row.targets) == wanted
        expected = model.scores(videos[query], [videos[target] for target in wanted])
        np.testing.assert_allclose(row.values, expected, atol=1e-5)
    assert told[-1][2] == 6 + 9


def test_segments_as_compare_finds_them(videos: dict[str, VideoFeatures]) -> None:
    model = built(FAMILY["f"])
    answers = find_segments(model, videos.get, QUERIES, candidates)
    assert answers.unreadable == {"gone", "missing"}
    assert answers.predictions.segments is not None
    assert any(answers.predictions.segments.values())
    for query, row in answers.predictions.scores.items():
        for target, value in zip(row.targets, row.values, strict=True):
            match = model.compare(videos[query], videos[target])
            assert value == pytest.approx(match.score, abs=1e-5)
            assert answers.predictions.segments[query, target] == match.segments


def test_features_of_another_model(videos: dict[str, VideoFeatures]) -> None:
    model = built(FAMILY["f"])
    narrow = {name: VideoFeatures(v.vectors[..., :5], v.timestamps) for name, v in videos.items()}
    with pytest.raises(UsageError, match="channels"):
        score_videos(model, narrow.get, ["q0"], candidates)


@pytest.mark.parametrize(("free", "held"), [(128 << 30, 16 << 30), (1 << 30, 1 << 29)])
def test_a_gpu_holds_as_many_queries_as_it_has_room_for(
    free: int, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EVVE's 503 in 3,840 dimensions are 17 GB: of half a gigabyte at a time, all targets were read thirty times."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free, 140 << 30))
    assert scoring.query_bytes(torch.device("cuda", 0)) == held
    assert scoring.query_bytes(torch.device("cpu")) == 1 << 29
