"""Every name of the tables gives a working system: learned from a few videos, it finds the copy among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from drawn_triplets import PartsOfVideos
from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.model.config import ViSiLConfig
from visil.model.features import VideoFeatures
from visil.paper.baselines.lamv import LamvTraining
from visil.paper.baselines.registry import QUICK, SYSTEMS, system
from visil.paper.baselines.visil_systems import RAW
from visil.paper.feature_kinds import split_kind

NAMES = [
    *("MAC", "SPoC", "R-MAC", "GeM", "iMAC", "L2-iMAC", "L3-iMAC"),
    *("MAC +PCA", "SPoC +PCA", "R-MAC +PCA", "GeM +PCA", "iMAC +PCA", "L2-iMAC +PCA", "L3-iMAC +PCA"),
    *("DP", "TN", "Hough", "LBoW", "DML", "CTE", "TMK", "LAMV", "LAMV+QE", "VReL"),
]

SMALL: dict[str, dict[str, Any]] = {
    "DML": {"layers": (16, 8), "triplets": 60, "epochs": 10, "batch": 16, "learning_rate": 1e-2},
    "VReL": {"width": 8, "steps": 2, "batch": 4},
    "LBoW": {"size": 8},
    "LAMV": {"training": LamvTraining(steps=2, batch=4)},
    "LAMV+QE": {"neighbours": 1, "training": LamvTraining(steps=2, batch=4)},
}


def videos(count: int, frames: int, regions: int) -> list[VideoFeatures]:
    generator = torch.Generator().manual_seed(0)
    theme = torch.randn(count, 1, regions, 16, generator=generator)
    drawn = torch.randn(count, frames, regions, 16, generator=generator)
    vectors = F.normalize(theme + drawn, dim=-1)
    return [VideoFeatures(v, torch.arange(frames, dtype=torch.float64)) for v in vectors]


@pytest.mark.parametrize("name", NAMES)
def test_every_system_finds_the_copy(name: str) -> None:
    made = system(name, **SMALL.get(name, {}))
    assert made.name == name
    base, _ = split_kind(made.reads)
    collection = videos(6, 24, {"l2-imac": 4, "l3-imac": 9, "layers": 3}.get(base, 1))
    made.learn(collection, seed=0, triplets=PartsOfVideos(collection))
    described = [made.describe(video) for video in collection]
    part = VideoFeatures(collection[3].vectors[6:18], torch.arange(12, dtype=torch.float64))
    scores = made.scores(made.describe(part), described)
    assert scores.shape == (6,)
    assert scores.dtype == np.float64
    assert np.isfinite(scores).all()
    if name != "VReL":  # two steps teach it nothing; its own test trains it
        assert scores.argmax() == 3


def test_any_model() -> None:
    model = ViSiL(ViSiLConfig(name="mine", backbone="efficientnet-lite0", stages=(0,), dim=16))
    made = system("model", model=model)
    assert (made.name, made.reads) == ("mine", "model")
    first, second = videos(2, 5, 2)
    expected = model.compare(first, second).score
    assert made.scores(made.describe(first), [made.describe(second)]) == pytest.approx([expected], abs=2e-6)
    assert system("ViSiL_f+W", model=model).name == "ViSiL_f+W"


def test_other_features() -> None:
    assert system("DML", reads="i3d").reads == "i3d"
    assert system("DP", reads="i3d").reads == "i3d"
    assert system("DP").reads != "i3d"


def test_equal_footing() -> None:
    """DP and TN read what ViSiL_f reads; short trainings are of systems that are there."""
    assert system("DP").reads == system("TN").reads == RAW == "l3-imac"
    for name, options in QUICK.items():
        assert system(name, **options).by_triplets


def test_unknown_names_and_options() -> None:
    with pytest.raises(UsageError, match=r"unknown system 'ViSiL'.*L3-iMAC.*ViSiL_v.*VReL.*LAMV\+QE"):
        system("ViSiL")
    with pytest.raises(UsageError, match=r"DML: .*'wings'"):
        system("DML", wings=2)
    with pytest.raises(UsageError, match=r"MAC: .*'wings'"):
        system("MAC", wings=2)
    assert set(NAMES) <= set(SYSTEMS)
