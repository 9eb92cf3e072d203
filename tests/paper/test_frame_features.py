"""Table 2's systems against Eq. 5 and Chamfer similarity in float64 loops, and against the product's own score."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from visil.errors import UsageError
from visil.kernels import Scorer, torch_engine
from visil.model.features import VideoFeatures
from visil.model.formula import Formula
from visil.paper.baselines.frame_features import FRAME_SYSTEMS, FrameFeatures


def unit_vectors(frames: int, regions: int, channels: int, seed: int) -> Tensor:
    drawn = torch.randn(frames, regions, channels, generator=torch.Generator().manual_seed(seed))
    return F.normalize(drawn, dim=-1)


def video(vectors: Tensor) -> VideoFeatures:
    return VideoFeatures(vectors, torch.arange(len(vectors), dtype=torch.float64), path="a.mp4")


def chamfer_by_hand(query: Tensor, target: Tensor) -> float:
    """Eq. 4 for each pair of frames, Eq. 2 over the frames, in plain loops."""
    q, t = query.double().numpy(), target.double().numpy()
    best_frames = []
    for frame in q:
        alike = [np.mean([max(float(r @ s) for s in other) for r in frame]) for other in t]
        best_frames.append(max(alike))
    return float(np.mean(best_frames))


@settings(max_examples=20, deadline=None)
@given(
    regions=st.sampled_from([1, 4]),
    query=st.integers(1, 5),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    seed=st.integers(0, 1000),
)
def test_scores_by_hand(regions: int, query: int, lengths: list[int], seed: int) -> None:
    system = FrameFeatures("MAC", "mac")
    q = system.describe(video(unit_vectors(query, regions, 6, seed)))
    targets = [
        system.describe(video(unit_vectors(n, regions, 6, seed + 1 + i))) for i, n in enumerate(lengths)
    ]
    found = system.scores(q, targets)
    assert found.dtype == np.float64
    assert found == pytest.approx([chamfer_by_hand(q, target) for target in targets], abs=1e-6)


def test_long_pairs_and_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    query = unit_vectors(5, 2, 4, 0)
    targets = [unit_vectors(n, 2, 4, n) for n in (3, 9, 1, 1, 12, 2)]
    whole = Scorer(Formula()).scores(query, targets)
    monkeypatch.setattr(torch_engine, "WIDE_CELLS", 30)  # six frames side by side; 9 and 12 by themselves
    monkeypatch.setattr(torch_engine, "WIDE_FRAMES", 4)
    assert Scorer(Formula()).scores(query, targets) == pytest.approx(whole, abs=1e-6)
    assert Scorer(Formula()).scores(query, []).shape == (0,)


def test_a_copy_comes_first() -> None:
    system = FRAME_SYSTEMS["R-MAC"]()
    videos = [unit_vectors(8, 1, 16, seed) for seed in range(4)]
    found = system.scores(videos[2][1:5], videos)
    assert found.argmax() == 2
    assert found[2] == pytest.approx(1.0, abs=1e-6)


def test_names_and_what_they_read() -> None:
    assert len(FRAME_SYSTEMS) == 21
    assert FRAME_SYSTEMS["GeM"]().reads == "gem"
    system = FRAME_SYSTEMS["L3-iMAC +PCA"]()
    assert (system.name, system.reads) == ("L3-iMAC +PCA", "l3-imac+pca")
    assert FRAME_SYSTEMS["L2-iMAC reduced"]().reads == "l2-imac+reduced"


def test_bad_features() -> None:
    broken = unit_vectors(3, 1, 4, 0)
    broken[1, 0, 2] = torch.nan
    with pytest.raises(UsageError, match=r"a\.mp4.*NaN"):
        FRAME_SYSTEMS["MAC"]().describe(video(broken))
    with pytest.raises(UsageError, match="same regions and channels"):
        Scorer(Formula()).scores(unit_vectors(3, 1, 4, 0), [unit_vectors(3, 1, 5, 0)])
