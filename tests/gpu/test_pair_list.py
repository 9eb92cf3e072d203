"""Queries with targets of their own: one launch for all, against the plain formula pair by pair."""

from __future__ import annotations

import pytest
import torch

from family import FAMILY, built, related
from visil.model.config import ViSiLConfig

BEST_FEW = FAMILY["best few"].replaced(comparator=None)


@pytest.mark.parametrize("config", [BEST_FEW, FAMILY["f"], FAMILY["v"]])
def test_scores_and_peaks_are_those_of_each_pair(
    config: ViSiLConfig, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    videos = [video.vectors for video in related((6, 9, 30, 1), 3, with_blank=False)]
    videos.append(torch.cat([video.flip(0) for video in videos * 3]))  # more than one tile
    asked = [(0, [1, 2, 3]), (2, [0]), (4, [1, 4, 2]), (3, [])]
    plain = built(config).scorer("fp32")
    monkeypatch.setattr("visil.kernels.devices.has_kernels", lambda _: True)
    scorer = built(config).to(device).scorer()
    assert scorer.on_gpu
    monkeypatch.setattr("visil.kernels.scoring.LISTED_FRAMES", 60)
    scores, peaks = scorer.first_pass(
        [videos[query] for query, _ in asked], [[videos[target] for target in some] for _, some in asked]
    )
    pairs = [(query, target) for query, some in asked for target in some]
    expected = [plain.matrices(videos[query], videos[target]) for query, target in pairs]
    assert scores == pytest.approx([plain.pair(videos[q], videos[t]) for q, t in pairs], abs=3e-3)
    assert peaks == pytest.approx([float(frames.max()) for frames, _ in expected], abs=3e-3)
