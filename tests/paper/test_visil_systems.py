"""ViSiL's rows against the product's own scores and the plain formulas, and learned parts on sets to learn by heart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from drawn_triplets import PartsOfVideos
from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.model.config import ViSiLConfig
from visil.model.features import VideoFeatures
from visil.paper.baselines.visil_systems import (
    NAMES,
    POOLINGS,
    ROWS,
    ViSiLFromFeatures,
    ViSiLSystem,
    fit_whitening,
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
    system = visil_system(f"ViSiL_f {frames}/{videos}")
    query, target = random_video(4, 3, 8, 0), random_video(6, 3, 8, 1)
    q, t = query.vectors.double().numpy(), target.vectors.double().numpy()
    regions = np.einsum("xrc,ysc->xyrs", q, t)
    matrix = (regions.max(axis=3) if frames == "MP-AP" else regions.mean(axis=3)).mean(axis=2)
    expected = (matrix.max(axis=1) if videos == "MP-AP" else matrix.mean(axis=1)).mean()
    found = system.scores(system.describe(query), [system.describe(target)])
    assert found == pytest.approx([expected], abs=1e-6)
    model = small_model(comparator="replicate")
    pooled = visil_system(f"ViSiL_v {frames}/{videos}", model)
    same = small_model(comparator="replicate", frame_pool=POOLINGS[frames], video_pool=POOLINGS[videos])
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
        visil_system("ViSiL_x")
    assert len(NAMES) == 13


# ---------------------------------------------------------------- from features


def test_visil_f_is_the_preset_on_raw_vectors() -> None:
    system = visil_system("ViSiL_f")
    assert system.reads == "l3-imac"
    model = ViSiL(ViSiLConfig(backbone="efficientnet-lite0", stages=(0,)), with_backbone=False)
    a, b = random_video(5, 9, 24, 1), random_video(7, 9, 24, 2)
    system.learn([])
    found = system.scores(system.describe(a), [system.describe(b)])
    assert found == pytest.approx([model.compare(a, b).score], abs=2e-6)


def test_whitening_is_learned_from_the_videos() -> None:
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(6, 6, generator=generator)
    videos = [video(torch.randn(40, 2, 6, generator=generator) @ mixing + 3) for _ in range(5)]
    system = visil_system("ViSiL_f+W")
    with pytest.raises(UsageError, match="call learn"):
        system.describe(videos[0])
    system.learn(videos)
    vectors = np.concatenate([v.vectors.flatten(0, 1).double().numpy() for v in videos])
    values, axes = np.linalg.eigh(np.cov(vectors.T, bias=True))
    plain = (vectors - vectors.mean(axis=0)) @ (axes / np.sqrt(values))
    plain /= np.linalg.norm(plain, axis=1, keepdims=True)
    mine = torch.cat([system.describe(v).flatten(0, 1) for v in videos]).double().numpy()
    # Axes may be turned round, so the dot products are what must agree.
    np.testing.assert_allclose(mine @ mine[:20].T, plain @ plain[:20].T, atol=1e-4)
    fewer = fit_whitening([v.vectors for v in videos], 3, most=50)
    assert fewer.dim == 3


def test_attention_learns_what_does_not_tell_videos_apart() -> None:
    """Region 0 shows one of three pictures that all videos have, region 1 their own: the second should count more."""
    generator = torch.Generator().manual_seed(1)
    stock = F.normalize(torch.randn(3, 16, generator=generator), dim=1)
    videos = []
    for _ in range(6):
        vectors = F.normalize(torch.randn(10, 2, 16, generator=generator), dim=-1)
        vectors[:, 0] = stock[torch.randint(3, (10,), generator=generator)]
        videos.append(video(vectors))
    system = ViSiLFromFeatures(ROWS["ViSiL_f+W+A"], steps=60, learning_rate=1e-2)
    system.learn(videos, seed=2, triplets=PartsOfVideos(videos))
    assert system.attention_ is not None
    assert float(system.attention_.context_vector.weight.norm()) == pytest.approx(1, abs=1e-5)
    lengths = torch.cat([system.describe(v).norm(dim=-1) for v in videos]).mean(dim=0)
    assert float(lengths[1]) > float(lengths[0]) + 0.1


@pytest.mark.parametrize("name", ["ViSiL_v", "ViSiL_sym"])
def test_comparator_learns_a_small_set_by_heart(name: str) -> None:
    generator = torch.Generator().manual_seed(1)
    videos = [video(F.normalize(torch.randn(12, 2, 16, generator=generator), dim=-1)) for _ in range(6)]
    system = ViSiLFromFeatures(ROWS[name], name, steps=40, learning_rate=3e-3)
    system.learn(videos, seed=2, triplets=PartsOfVideos(videos))
    described = [system.describe(v) for v in videos]
    scores = np.stack([system.scores(d, described) for d in described])
    own, others = np.diag(scores), scores[~np.eye(6, dtype=bool)]
    assert own.min() > others.max() + 0.3


def test_the_same_seed_learns_the_same() -> None:
    videos = [random_video(8, 2, 6, seed) for seed in range(3)]
    found = []
    for seed in (1, 1, 2):
        system = ViSiLFromFeatures(ROWS["ViSiL_v"], steps=2)
        system.learn(videos, seed=seed, triplets=PartsOfVideos(videos))
        found.append(system.scores(system.describe(videos[0]), [system.describe(videos[1])])[0])
    assert found[0] == found[1] != found[2]
