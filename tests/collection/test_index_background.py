"""Frames that look like much of a collection count for less, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from visil.collection import background as background_module
from visil.collection.background import LEAST, MOST, NEAREST, Background
from visil.collection.catalogue import NewVideo
from visil.collection.identity import Stamp
from visil.collection.index import Index
from visil.compare.visil import ViSiL
from visil.matching.calibration import Calibration
from visil.model.config import VISIL_F_W
from visil.model.features import VideoFeatures

DIM = 32
CONFIG = VISIL_F_W.replaced(
    backbone="efficientnet-lite0",
    dim=DIM,
    calibration=Calibration(bias=-5, score=5, stretch=5, stretch_cap=3, copy=0.9, related=0.5),
)


@pytest.fixture(scope="module")
def model() -> ViSiL:
    return ViSiL(CONFIG, with_backbone=False)


def unit(shape: tuple[int, ...], seed: int) -> Tensor:
    return F.normalize(torch.randn(shape, generator=torch.Generator().manual_seed(seed)), dim=-1)


def video(vectors: Tensor, blank: Tensor | None = None) -> VideoFeatures:
    return VideoFeatures(vectors, torch.arange(len(vectors), dtype=torch.float64), blank=blank)


def collection(common: Tensor, videos: int = 60) -> list[VideoFeatures]:
    """Half of the videos look nearly like one frame, the others like nothing else."""
    made = []
    for i in range(videos):
        vectors = unit((3, 9, DIM), 100 + i)
        if i % 2:
            vectors = F.normalize(common + 0.3 * vectors, dim=-1)
        made.append(video(vectors))
    return made


def test_a_common_frame_loses_and_a_rare_one_does_not(model: ViSiL) -> None:
    common = unit((1, 9, DIM), 0)
    background = Background.of(model, collection(common))
    query = video(torch.cat([common, unit((1, 9, DIM), 1)]))
    off = background.beyond_typical(query)
    assert off is not None
    assert off.dtype == np.float32
    assert off[0] == pytest.approx(MOST)
    assert off[1] == 0


def test_by_hand(model: ViSiL) -> None:
    videos = collection(unit((1, 9, DIM), 0), LEAST)
    background = Background.of(model, videos)
    middles = [v.vectors[1].double() for v in videos]

    def alike(a: Tensor, b: Tensor) -> float:  # Eq. 4
        return float((a @ b.T).amax(dim=1).mean())

    def common(frame: Tensor, others: list[Tensor]) -> float:
        return float(np.mean(sorted(alike(frame, other) for other in others)[-NEAREST:]))

    own = [common(m, [o for o in middles if o is not m]) for m in middles]
    assert background.typical == pytest.approx(float(np.median(own)), abs=1e-5)
    query = video(unit((4, 9, DIM), 7))
    expected = [min(max(common(f.double(), middles) - background.typical, 0), MOST) for f in query.vectors]
    found = background.beyond_typical(query)
    assert found is not None
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_small_collection_says_nothing(model: ViSiL) -> None:
    few = collection(unit((1, 9, DIM), 0), LEAST - 1)
    assert Background.of(model, few).beyond_typical(few[0]) is None
    assert Background.of(model, []).beyond_typical(few[0]) is None


def test_blank_frames_are_not_sampled(model: ViSiL) -> None:
    blank = torch.ones(3, dtype=torch.bool)
    videos = [video(v.vectors, blank) for v in collection(unit((1, 9, DIM), 0))]
    assert Background.of(model, videos).beyond_typical(videos[0]) is None


@pytest.mark.parametrize("cells", [1 << 22, 1])
def test_what_is_taken_off_lowers_confidence_and_nothing_else(
    model: ViSiL, monkeypatch: pytest.MonkeyPatch, cells: int
) -> None:
    from visil.kernels import torch_engine

    monkeypatch.setattr(torch_engine, "WIDE_CELLS", cells)  # 1: each pair by itself, strip by strip
    vectors = unit((12, 9, DIM), 3)
    query = video(vectors)
    target = video(F.normalize(vectors + 0.15 * unit((12, 9, DIM), 4), dim=-1))
    (plain,) = model.compare_many(query, [target])
    (lowered,) = model.compare_many(query, [target], common=np.full(12, 0.2, np.float32))
    assert lowered.score == pytest.approx(plain.score, abs=1e-6)
    np.testing.assert_allclose(lowered.frame_matrix, plain.frame_matrix, atol=1e-6)
    assert lowered.evidence < plain.evidence
    assert [(s.query, s.target) for s in lowered.segments] == [(s.query, s.target) for s in plain.segments]
    assert lowered.segments[0].score == pytest.approx(plain.segments[0].score, abs=1e-5)
    (same,) = model.compare_many(query, [target], common=np.zeros(12, np.float32))
    assert same.evidence == pytest.approx(plain.evidence, abs=1e-6)


def test_a_plain_copy_is_a_copy_however_common(model: ViSiL) -> None:
    query = video(unit((12, 9, DIM), 3))
    (match,) = model.compare_many(query, [query], common=np.full(12, MOST, np.float32))
    assert match.verdict == "copy"
    assert [(s.query, s.target) for s in match.segments] == [((0, 12), (0, 12))]


def put(index: Index, number: int) -> None:
    name = f"{number * 7919 % 1009:032x}"
    writer = index.store.writer(name)
    writer.append(unit((2, 9, DIM), number), np.arange(2.0), torch.zeros(2, dtype=torch.bool))
    writer.finish(2.0)
    index.catalogue.add(NewVideo(name, 2, 2.0, 64, 64, "", None, 0, 0), f"/{number}", Stamp(0, 0))


def test_the_order_in_which_videos_came_makes_no_difference(
    model: ViSiL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_module, "LEAST", 5)
    monkeypatch.setattr(background_module, "SAMPLE", 12)
    found = []
    for name, numbers in (("a", range(40)), ("b", reversed(range(40)))):
        with Index(tmp_path / name, model=model) as index:
            for number in numbers:
                put(index, number)
            found.append(index.common_here())
    query = video(unit((6, 9, DIM), 99))
    assert found[0].typical == pytest.approx(found[1].typical, abs=1e-6)
    one, other = (background.beyond_typical(query) for background in found)
    assert one is not None
    assert other is not None
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_collection_that_grows_is_sampled_anew(
    model: ViSiL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Index(tmp_path / "videos.visil", model=model)
    for number in range(20):
        put(index, number)
    monkeypatch.setattr(background_module, "LEAST", 5)
    first = index.common_here()
    put(index, 20)
    assert index.common_here() is first
    for number in range(21, 25):
        put(index, number)
    assert index.common_here() is not first
