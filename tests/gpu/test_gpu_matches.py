"""Matches from the GPU's engine, matrices included, against those of the processor in float32."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from family import FAMILY, built, related
from visil.kernels.precision import Precision

LENGTHS = (1, 3, 7)
TOLERANCE = 3e-3


@pytest.mark.parametrize(
    ("name", "precision"), [("v", None), ("zeros", None), ("best few", "fp8"), ("average", None)]
)
def test_as_on_a_processor(
    name: str, precision: Precision | None, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, *targets = related((6, *LENGTHS), 3, with_blank=True)
    expected = list(built(FAMILY[name]).compare_many(query, targets, precision="fp32"))
    monkeypatch.setattr("visil.kernels.devices.has_kernels", lambda _: True)
    model = built(FAMILY[name]).to(device)
    assert model.scorer(precision).on_gpu == (name != "average")
    together = list(model.compare_many(query, targets, precision=precision))
    alone = [model.compare(query, targets[-1], precision=precision)]
    allowed = 0.06 if precision == "fp8" else TOLERANCE
    for truth, found in ((expected, together), (expected[-1:], alone)):
        for one, other in zip(truth, found, strict=True):
            assert other.score == pytest.approx(one.score, abs=allowed)
            assert other.evidence == pytest.approx(one.evidence, abs=4 * allowed)
            assert other.frame_matrix.shape == one.frame_matrix.shape
            assert other.output_matrix.shape == one.output_matrix.shape
            assert np.abs(other.frame_matrix - one.frame_matrix).max() < allowed
            assert np.abs(other.output_matrix - one.output_matrix).max() < 4 * allowed


def test_a_pair_too_long_for_one_matrix(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    query, target = related((20, 30), 3, with_blank=False)
    expected = built(FAMILY["v"]).compare(query, target, precision="fp32")
    monkeypatch.setattr("visil.kernels.devices.has_kernels", lambda _: True)
    monkeypatch.setattr("visil.kernels.scoring.GPU_WIDE", 100)
    monkeypatch.setattr("visil.kernels.scoring.GPU_FRAMES", 10)
    monkeypatch.setattr("visil.kernels.scoring.GPU_CELLS", 100)
    model = built(FAMILY["v"]).to(device)
    (found,) = model.compare_many(query, [target])
    assert found.score == pytest.approx(expected.score, abs=TOLERANCE)
    assert model.scores(query, [target]) == pytest.approx([expected.score], abs=TOLERANCE)
    assert np.abs(found.frame_matrix - expected.frame_matrix).max() < TOLERANCE
    assert [(s.query, s.target) for s in found.segments] == [(s.query, s.target) for s in expected.segments]
