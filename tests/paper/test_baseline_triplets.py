"""The triplets of the learned baselines: ViSiL's own, frame by frame, in vectors of another kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import toy_training
from synthetic import moving_scene
from visil.compare.visil import ViSiL
from visil.edits.clips import PaperPositive
from visil.errors import UsageError
from visil.model.config import ViSiLConfig
from visil.model.features import VideoFeatures
from visil.model.whitening import PCA, Whitening
from visil.paper.baselines.triplets import SnippetTriplets, common_shift, lesson
from visil.training.config import DataConfig, ModelConfig, OptimConfig, TrainConfig
from visil.training.dataset import split
from visil.training.embedding import SnippetEmbedder
from visil.training.feature_footage import FeatureEmbedder, FeatureFootage
from visil.training.footage import read_frames
from visil.training.pools import ArtificialPool
from visil.training.snippets import Snippet
from visil.training.triplets import TripletSampler
from visil.video import Sampling
from visil.video.writer import write_video


class Counted(SnippetEmbedder):
    """Counts the snippets that it embeds."""

    count = 0

    def __call__(self, snippets: object, pictures: object) -> list[Tensor]:
        self.count += len(snippets)  # type: ignore[arg-type]
        return super().__call__(snippets, pictures)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def imac() -> ViSiL:
    config = ViSiLConfig("imac", "efficientnet-lite0", (0, 1), levels=(1,))
    return ViSiL(config, with_backbone=False).load_backbone()


def sampler() -> TripletSampler:
    footage = toy_training.footage()
    every = range(len(footage))
    negatives = [[other for other in every if other != video] for video in every]
    times = [footage.times(video) for video in every]
    return TripletSampler([ArtificialPool(list(every), negatives)], times, 10, 8, seed=3)


def test_they_are_those_of_the_trainer(imac: ViSiL) -> None:
    footage = toy_training.footage()
    embed = Counted(imac, footage, PaperPositive())
    source = SnippetTriplets(sampler(), embed, step=0.5, epochs=2)
    drawn = [source.draw() for _ in range(25)]
    expected = [*sampler().epoch(1), *sampler().epoch(2), *sampler().epoch(1)]
    for found, triplet in zip(drawn, expected, strict=False):
        for vectors, snippet in ((found.anchor, triplet.anchor), (found.negative, triplet.negative)):
            plain = imac.region_vectors(read_frames(footage, snippet.frames))
            torch.testing.assert_close(vectors, plain, rtol=1e-4, atol=1e-5)
        assert len(found.positive) == len(triplet.positive.frames)
        shift = common_shift(triplet.anchor, triplet.positive)
        assert found.shift == (None if shift is None else shift / 2)
    assert any(found.shift is not None for found in drawn)
    assert embed.count == 3 * 20  # what comes again was kept
    # The positive's pictures are edited by the snippet's own seed.
    pictures = read_frames(footage, expected[0].positive.frames)
    again = embed([expected[0].positive], [pictures])[0]
    torch.testing.assert_close(drawn[0].positive, again, rtol=1e-4, atol=1e-5)


def test_a_whitening_on_the_same_vectors(imac: ViSiL) -> None:
    embed = Counted(imac, toy_training.footage(), PaperPositive())
    source = SnippetTriplets(sampler(), embed, epochs=1)
    raw = [source.draw() for _ in range(10)]
    whitening = PCA().fit([d.anchor for d in raw]).whitening(12)
    seen = embed.count
    whitened = source.whitened(whitening)
    for found in raw:
        torch.testing.assert_close(whitened.draw().positive, whitening(found.positive))
    assert embed.count == seen
    with pytest.raises(UsageError, match="1 epoch or more"):
        SnippetTriplets(sampler(), embed, epochs=0)


def test_a_whitening_goes_where_the_vectors_are(imac: ViSiL) -> None:
    class OnAnotherDevice(SnippetEmbedder):
        def __call__(self, snippets: object, pictures: object) -> list[Tensor]:
            return [vectors.to("meta") for vectors in super().__call__(snippets, pictures)]  # type: ignore[arg-type]

    source = SnippetTriplets(sampler(), OnAnotherDevice(imac, toy_training.footage(), PaperPositive()))
    whitening = Whitening.unfitted(imac.dim, 12)
    whitened = source.whitened(whitening)
    drawn = [whitened.draw() for _ in range(2)]
    assert {part.device.type for d in drawn for part in (d.anchor, d.positive, d.negative)} == {"meta"}
    assert drawn[0].positive.shape[1:] == (1, 12)
    assert whitening.mean.device.type == "cpu"  # the one that features are whitened with stays


def test_the_shift_of_a_stretch() -> None:
    anchor = Snippet(tuple((4, place) for place in range(10)))
    assert common_shift(anchor, Snippet(((9, 0), (4, 3), (4, 4), (4, 5)), 1)) == -2
    assert common_shift(anchor, Snippet(((4, 3), (4, 5), (4, 7)), 1)) is None  # another speed
    assert common_shift(anchor, Snippet(((7, 3), (7, 4)))) is None  # nothing in common


def features(videos: int = 8, frames: int = 20) -> dict[str, VideoFeatures]:
    generator = torch.Generator().manual_seed(0)
    return {
        f"video {i}": VideoFeatures(
            torch.randn(frames, 1, 1024, generator=generator),
            0.32 * torch.arange(frames, dtype=torch.float64),
        )
        for i in range(videos)
    }


def settings(out: Path) -> TrainConfig:
    return TrainConfig(
        data=DataConfig(window=8, triplets=6),
        model=ModelConfig(),
        optim=OptimConfig(epochs=2),
        out=str(out),
        device="cpu",
    )


def test_triplets_of_features(tmp_path: Path) -> None:
    """I3D's windows have no pictures: anchors and negatives are rows of features, positives the same in other order."""
    videos = features()
    footage = FeatureFootage(list(videos), videos.__getitem__)
    model = ViSiL(ViSiLConfig("i3d", "i3d", (0,), levels=(1,)), with_backbone=False)
    data = split(footage, [], 0.25)
    source = lesson(settings(tmp_path), model, data)
    rows = {tuple(row.tolist()): name for name, v in videos.items() for row in v.vectors[:, 0, :3]}
    for _ in range(12):
        drawn = source.draw()
        names = [
            {rows[tuple(row.tolist())] for row in part[:, 0, :3]}
            for part in (drawn.anchor, drawn.positive, drawn.negative)
        ]
        assert names[0] <= names[1]
        assert names[0].isdisjoint(names[2])
        assert drawn.step == pytest.approx(0.32)
    with pytest.raises(UsageError, match="features only"):
        footage.images(0, [0])
    with pytest.raises(UsageError, match="cannot learn from features"):
        FeatureEmbedder(model, footage, ["backbone"])


def test_triplets_of_videos(tmp_path: Path, imac: ViSiL) -> None:
    """Through the run's own settings, from files on."""
    folder = tmp_path / "videos"
    folder.mkdir()
    for seed in range(6):
        write_video(folder / f"{seed}.mp4", moving_scene(seed, 12, fps=2, size=(64, 64)), 2)
    config = settings(tmp_path / "out")
    config = replace(config, data=replace(config.data, videos=(str(folder),), held_out=0.34))
    small = ViSiL(imac.config.replaced(sampling=Sampling(fps=2, resize=64, crop=64)), with_backbone=False)
    small.load_backbone()
    first, again = (lesson(config, small).draw() for _ in range(2))
    torch.testing.assert_close(first.positive, again.positive)
    assert first.anchor.shape[1:] == (1, sum(imac.backbone.channels[:2]) if imac.backbone else 0)
    assert first.step == pytest.approx(0.5)
