"""From a configuration to footage, pools and a model to start from."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import visil
from array_footage import ArrayFootage
from synthetic import moving_scene, write_video
from toy_training import footage, toy_config, toy_model
from visil.errors import ModelError, UsageError
from visil.model.whitening import PCA
from visil.training.config import DataConfig, ModelConfig, TrainConfig
from visil.training.dataset import NEGATIVES, Split, drawn_from, read_footage, split, triplet_sampler
from visil.training.distributed import Processes
from visil.training.footage import RememberedFootage
from visil.training.pools import AnnotatedPool, ArtificialPool
from visil.training.segments import SegmentPair
from visil.training.starting_model import starting_model
from visil.training.triplets import TripletSampler
from visil.training.whitening import fit_on_footage
from visil.video import Sampling


def pair(query: int, target: int) -> SegmentPair[int]:
    return SegmentPair(query, (0.0, 6.0), target, (2.0, 8.0))


def test_related_videos_stay_on_one_side() -> None:
    pairs = [pair(0, 1), pair(1, 2), pair(5, 6)]
    for seed in range(20):
        parts = split(footage(), pairs, 0.3, seed)
        held = {int(name.split()[1]) for name in parts.validation.names}
        learned = {int(name.split()[1]) for name in parts.training.names}
        assert held | learned == set(range(8))
        assert not held & learned
        assert 2 <= len(held) <= 4
        for together in ({0, 1, 2}, {5, 6}):
            assert together <= held or together <= learned
        for footage_, found in ((parts.training, parts.pairs), (parts.validation, parts.validation_pairs)):
            for p in found:
                names = (footage_.names[p.query], footage_.names[p.target])
                assert names in {("video 0", "video 1"), ("video 1", "video 2"), ("video 5", "video 6")}
                assert p.query_span == (0.0, 6.0)
        assert len(parts.pairs) + len(parts.validation_pairs) == 3


def test_validation_is_bounded_by_number_and_has_its_share_of_annotated_videos() -> None:
    many = ArrayFootage([footage().images(0, [0])] * 100)
    pairs = [pair(2 * number, 2 * number + 1) for number in range(10)]
    parts = split(many, pairs, 0.2, most=8)
    assert (len(parts.training), len(parts.validation)) == (92, 8)
    assert len(parts.validation_pairs) == 2, "a fifth of twenty annotated videos are two pairs"
    assert len(split(many, pairs, 0.2).validation) == 20


def test_an_annotated_pair_with_a_byte_identical_file_is_kept(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 1), ("c", 2), ("d", 3)):
        write_video(tmp_path / f"{name}.mp4", moving_scene(seed, 1, fps=2, size=(32, 32)), fps=2)
    shutil.copy(tmp_path / "b.mp4", tmp_path / "copy.mp4")
    labels = tmp_path / "pairs.csv"
    labels.write_text("query,query_start,query_end,target,target_start,target_end\ncopy,0,6,d,0,6\n")
    data = read_footage(
        DataConfig(videos=(str(tmp_path),), annotations=str(labels), held_out=0.5),
        Sampling(resize=32, crop=32),
        tmp_path / "cache",
        lambda _: None,
    )
    assert len(data.training) + len(data.validation) == 4
    (found,) = data.pairs + data.validation_pairs
    names = (data.training if data.pairs else data.validation).names
    assert [Path(names[video]).name for video in (found.query, found.target)] == ["b.mp4", "d.mp4"]


def test_parts_show_their_videos() -> None:
    parts = split(footage(), [], 0.25)
    for number, name in enumerate(parts.validation.names):
        video = int(name.split()[1])
        assert torch.equal(parts.validation.images(number, [3, 1]), footage().images(video, [3, 1]))
        assert torch.equal(parts.validation.times(number), footage().times(video))


def test_how_many_positives_can_be_drawn_is_told() -> None:
    """Of two annotated pairs one has a hard negative, of the videos three; none at all without annotation."""
    data = Split(footage(), footage(8, 100), [pair(0, 1), pair(2, 3)], [])
    times = [data.training.times(video) for video in range(len(data.training))]
    annotated = AnnotatedPool(data.pairs, [(4,), ()])
    artificial = ArtificialPool([0, 1, 2], [(4,), (5,), (6,)])
    count = len(data.training)
    both = TripletSampler([annotated, artificial], times, 1, 4)
    assert drawn_from(both, data) == f"triplets are drawn from 1 of 2 annotated pairs and 3 of {count} videos"
    alone = TripletSampler([artificial], times, 1, 4)
    assert drawn_from(alone, replace(data, pairs=[])) == f"triplets are drawn from 3 of {count} videos"


def test_negatives_are_mined_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = toy_config(tmp_path)
    config = replace(config, data=replace(config.data, words=4, cache=str(tmp_path / "frames")))
    data = Split(footage(), footage(8, 100), [pair(0, 1)], [])
    model = toy_model()
    sampler, related = triplet_sampler(config, model, data, Processes(), anew=False)
    assert len(sampler.pools) == 2
    assert related[0] >= {0, 1}
    triplets = sampler.epoch(1)
    assert len(triplets) == 12 + 12 * bool(len(sampler.pools[0]))
    for triplet in triplets:
        shown = {video for video, _ in triplet.anchor.frames}
        assert shown.isdisjoint(video for video, _ in triplet.negative.frames)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("mined again")

    monkeypatch.setattr("visil.training.dataset.footage_words", never)
    for out in (tmp_path, tmp_path / "another row"):
        again, _ = triplet_sampler(replace(config, out=str(out)), model, data, Processes(), anew=False)
        assert again.epoch(1) == triplets
    trained = toy_model()
    assert trained.backbone is not None
    with torch.no_grad():
        next(trained.backbone.parameters()).mul_(2)
    for network, videos in ((trained, data), (model, replace(data, pairs=[pair(0, 2)]))):
        with pytest.raises(AssertionError, match="mined again"):
            triplet_sampler(config, network, videos, Processes(), anew=False)
    other = replace(config, data=replace(config.data, words=5))
    for changed, anew in ((config, True), (other, False)):
        with pytest.raises(AssertionError, match="mined again"):
            triplet_sampler(changed, model, data, Processes(), anew=anew)
    (mined,) = (tmp_path / "frames").glob(NEGATIVES.format("*"))
    mined.write_text(json.dumps({"key": 3})[:-1])
    with pytest.raises(AssertionError, match="mined again"):
        triplet_sampler(config, model, data, Processes(), anew=False)


def test_identity_tells_collections_apart() -> None:
    a = Split(footage(), footage(8, 100), [], []).identity()
    assert a == Split(footage(), footage(8, 100), [], []).identity()
    shorter = ArrayFootage([footage().images(v, range(12 - (v == 3))) for v in range(8)])
    assert a != Split(shorter, footage(8, 100), [], []).identity()


def test_remembered_footage_is_read_once() -> None:
    asked: list[int] = []

    class Counted(ArrayFootage):
        def images(self, video: int, positions: object) -> torch.Tensor:
            asked.append(video)
            return super().images(video, list(positions))  # type: ignore[call-overload]

    source = Counted([footage().images(v, range(12)) for v in range(3)])
    size = footage().images(0, range(12)).nbytes
    remembered = RememberedFootage(source, room=2 * size)
    for _ in range(3):
        for video in range(3):
            found = remembered.images(video, [5, 2, 2])
            assert torch.equal(found, footage().images(video, [5, 2, 2]))
    # The first two are read for the answer and then whole; the third has no room and is read each time.
    assert asked == [0, 0, 1, 1, 2, 2, 2]


def start(**settings: Any) -> TrainConfig:
    return replace(TrainConfig(), model=replace(ModelConfig(), **settings))


def test_the_default_model_gets_the_papers_head() -> None:
    found = starting_model(start())
    shipped = visil.load()
    assert not found.fit_whitening
    config = found.model.config
    assert (config.attention, config.comparator, config.calibration) == ("context", "replicate", None)
    assert config.replaced(
        name=shipped.config.name,
        attention=shipped.config.attention,
        comparator=shipped.config.comparator,
        calibration=shipped.config.calibration,
        reader=shipped.config.reader,
        background=shipped.config.background,
        localize=shipped.config.localize,
    ) == (shipped.config)
    assert found.model.whitening is not None
    assert shipped.whitening is not None
    assert torch.equal(found.model.whitening.mean, shipped.whitening.mean)


def test_what_changes_the_width_needs_a_new_whitening() -> None:
    assert starting_model(start(dim=16)).fit_whitening
    assert starting_model(start(stages=(0, 1))).fit_whitening
    assert not starting_model(start(levels=(1, 2))).fit_whitening
    preset = starting_model(start(start="visil-sym", backbone="efficientnet-lite0", stages=(0,)))
    assert preset.fit_whitening
    assert (preset.model.config.dim, preset.model.config.symmetric) == (24, True)
    plain = starting_model(start(start="visil-f", backbone="efficientnet-lite0", attention="none"))
    assert not plain.fit_whitening
    assert plain.model.attention is None
    with pytest.raises(ModelError, match="a backbone can be chosen for a preset"):
        starting_model(start(backbone="resnet50"))


def test_parts_that_fit_are_taken_over(tmp_path: Path) -> None:
    model = toy_model()
    assert model.comparator is not None
    model.comparator.conv1.weight.data.fill_(0.25)
    model.save_pretrained(tmp_path)
    again = starting_model(start(start=str(tmp_path))).model
    assert again.comparator is not None
    assert (again.comparator.conv1.weight == 0.25).all()
    assert again.config.name == "visil-trained"
    hidden = starting_model(start(start=str(tmp_path), attention="hidden")).model
    assert type(hidden.attention).__name__ == "HiddenAttention"


def test_a_whitening_is_fitted_on_frames_spread_over_all() -> None:
    model = toy_model()
    fit_on_footage(model, footage())
    with torch.no_grad():
        vectors = torch.cat([model.region_vectors(footage().images(v, range(12))) for v in range(8)])
        exact = PCA().partial_fit(vectors).whitening(24)
    assert model.whitening is not None
    torch.testing.assert_close(model.whitening.mean, exact.mean)
    model = toy_model()
    fit_on_footage(model, footage(), vectors=192)  # of 384: every second frame
    with torch.no_grad():
        half = torch.cat([model.region_vectors(footage().images(v, range(0, 12, 2))) for v in range(8)])
    assert model.whitening is not None
    torch.testing.assert_close(
        model.whitening.mean, half.reshape(-1, half.shape[-1]).double().mean(0).float()
    )


def test_too_few_videos(tmp_path: Path) -> None:
    from visil.training.dataset import read_footage

    with pytest.raises(UsageError, match="no videos to learn from"):
        read_footage(TrainConfig().data, toy_model().config.sampling, tmp_path, print)
