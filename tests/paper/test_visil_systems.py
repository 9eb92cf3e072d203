"""ViSiL's rows against the product's own scores and the plain formulas, and learned parts on sets to learn by heart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.model.config import ViSiLConfig
from visil.model.features import VideoFeatures
from visil.paper.baselines.visil_systems import (
    NAMES,
    POOLINGS,
    ViSiLSystem,
    visil_system,
)

LENGTHS = (1, 3, 5, 26)


def video(vectors: Tensor) -> VideoFeatures:
    return VideoFeatures(vectors, torch.arange(len(vectors), dtype=torch.float64))


def random_video(frames: int, regions: int, channels: int, seed: int) -> VideoFeatures:
    drawn = torch.randn(frames, regions, channels, generator=torch.Generator().manual_seed(seed))
    return video(F.normalize(drawn, dim=-1))


def small_model(**changes: object) -> ViSiL:
    """Eight channels of a small backbone's first stage, everything else as in the paper."""
    config = ViSiLConfig(name="small", backbone="efficientnet-lite0", stages=(0,), dim=8, attention="context")
    with torch.random.fork_rng(devices=[]):
        return ViSiL(config.replaced(**changes), with_backbone=False)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"comparator": "replicate"},
        {"comparator": "zeros", "symmetric": True},
        {"frame_pool": ("max", "top3"), "symmetric": True},
        {"frame_pool": ("mean", "mean"), "comparator": "replicate"},
        {"video_pool": ("mean", "mean")},
    ],
)
def test_same_score_as_compare(changes: dict[str, object]) -> None:
    model = small_model(**changes)
    videos = [random_video(n, 4, 8, n) for n in LENGTHS]
    system = ViSiLSystem(model)
    described = [system.describe(v) for v in videos]
    for query, description in zip(videos, described, strict=True):
        found = system.scores(description, described)
        assert found.dtype == np.float64
        assert found == pytest.approx([model.compare(query, t).score for t in videos], abs=2e-6)
        assert found == pytest.approx(model.scores(query, videos), abs=2e-6)


@pytest.mark.parametrize("frames", ["MP-AP", "AP-AP"])
@pytest.mark.parametrize("videos", ["MP-AP", "AP-AP"])
def test_poolings_of_table_9(frames: str, videos: str) -> None:
    plain = ViSiL(ViSiLConfig(backbone="efficientnet-lite0", stages=(0,), levels=(1,)), with_backbone=False)
    system = visil_system(f"ViSiL_f {frames}/{videos}", plain)
    query, target = random_video(4, 3, plain.dim, 0), random_video(6, 3, plain.dim, 1)
    q, t = query.vectors.double().numpy(), target.vectors.double().numpy()
    regions = np.einsum("xrc,ysc->xyrs", q, t)
    matrix = (regions.max(axis=3) if frames == "MP-AP" else regions.mean(axis=3)).mean(axis=2)
    expected = (matrix.max(axis=1) if videos == "MP-AP" else matrix.mean(axis=1)).mean()
    found = system.scores(system.describe(query), [system.describe(target)])
    assert found == pytest.approx([expected], abs=1e-6)
    model = small_model(comparator="replicate", dim=plain.dim)
    pooled = visil_system(f"ViSiL_v {frames}/{videos}", model)
    same = small_model(
        comparator="replicate", dim=plain.dim, frame_pool=POOLINGS[frames], video_pool=POOLINGS[videos]
    )
    same.load_state_dict(model.state_dict())
    score = pooled.scores(pooled.describe(query), [pooled.describe(target)])
    assert score == pytest.approx([same.compare(query, target).score], abs=2e-6)


def test_a_trained_folder(tmp_path: Path) -> None:
    model = small_model(comparator="replicate")
    model.save_pretrained(tmp_path / "trained")
    system = visil_system("ViSiL_v", tmp_path / "trained")
    assert (system.name, system.reads) == ("ViSiL_v", "model")
    a, b = random_video(9, 4, 8, 1), random_video(12, 4, 8, 2)
    found = system.scores(system.describe(a), [system.describe(b)])
    assert found == pytest.approx([model.compare(a, b).score], abs=2e-6)


def test_a_model_must_be_what_its_row_says() -> None:
    with pytest.raises(UsageError, match="ViSiL_v is a model with comparator, which small is not"):
        visil_system("ViSiL_v", small_model())
    with pytest.raises(UsageError, match="ViSiL_f is a model without whitening"):
        visil_system("ViSiL_f", small_model())
    with pytest.raises(UsageError, match="ViSiL_sym is a model with symmetric"):
        visil_system("ViSiL_sym", small_model(comparator="replicate"))
    assert visil_system("ViSiL_f+W+A", small_model()).name == "ViSiL_f+W+A"
    with pytest.raises(UsageError, match=r"'ViSiL_x'.*ViSiL_f\+W"):
        visil_system("ViSiL_x", small_model())
    assert len(NAMES) == 13
