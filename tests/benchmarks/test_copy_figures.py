"""Figures of a ranked copy set against ranks worked out by hand."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(
    not BENCHMARKS.is_dir(), reason="benchmarks are not part of this distribution"
)


def test_figures_are_the_means_of_hand_counted_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    module = importlib.import_module("shared.copy_figures")
    copies = module.CopySet(
        database=["sitcom-1.mp4", "sitcom-2.mp4", "shorts-1.mp4", "shorts-2.mp4"],
        queries=["easy-0.mp4", "hard-0.mp4", "hard-1.mp4"],
        truth=[0, 1, 3],
        halves=["easy", "hard", "hard"],
        settings=["alone", "buried", "split-screen"],
        edits=[["crop"], ["crop"], ["blur"]],
    )
    scores = np.array(
        [
            [0.9, 0.1, 0.2, 0.3],  # first of all
            [0.4, 0.5, 0.8, 0.6],  # third of all, first of its source
            [0.9, 0.8, 0.7, 0.7],  # fourth of all, the tie against it; second of its source
        ]
    )
    found = module.figures(copies, scores)
    ranks = [1, 1 / 3, 1 / 4]
    assert found["easy"] == 1
    assert found["hard"] == pytest.approx((1 / 3 + 1 / 4) / 2, abs=1e-4)
    assert found["all"] == pytest.approx(sum(ranks) / 3, abs=1e-4)
    assert found["error"] == pytest.approx(np.std(ranks) / np.sqrt(3), abs=1e-4)
    assert found["look-alikes"] == pytest.approx((1 + 1 + 1 / 2) / 3, abs=1e-4)
    assert found["hard, split-screen"] == 0.25
