"""ViSiL on features of moving windows: read at 25 frames a second, trained by the trainer, ranked by what happens."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from synthetic import moving_scene, write_video
from toy_bench import SMALL, write_clips
from visil.errors import ModelError
from visil.evaluation import Task
from visil.evaluation.scoring import score_videos
from visil.model.backbones.i3d import I3D
from visil.model.features import VideoFeatures
from visil.paper.baselines.visil_systems import RefinedSystem
from visil.paper.feature_bank import FeatureBank, Networks
from visil.paper.feature_models import feature_model
from visil.paper.videos import BuiltInVideos, DatasetVideos
from visil.training.feature_footage import FeatureFootage
from visil.training.recipes import Recipe, recipe_called

ACTIONS, FRAMES = 4, 24


def acted(videos: int = 16) -> tuple[dict[str, VideoFeatures], dict[str, object]]:
    """Videos in whose middle one of four actions happens, and ActivityNet's annotation of them."""
    generator = torch.Generator().manual_seed(0)
    actions = torch.randn(ACTIONS, 1024, generator=generator)
    found, database = {}, {}
    for number in range(videos):
        vectors = torch.randn(FRAMES, 1, 1024, generator=generator)
        vectors[6:18] += actions[number % ACTIONS]
        times = 0.5 * torch.arange(FRAMES, dtype=torch.float64)
        found[f"v_{number}.mp4"] = VideoFeatures(F.normalize(vectors, dim=-1), times)
        stretch = {"segment": [3.0, 9.0], "label": f"action {number % ACTIONS}"}
        database[str(number)] = {"annotations": [stretch]}
    return found, {"database": database}


def small(name: str) -> Recipe:
    return recipe_called(name).with_settings(
        name,
        data={"triplets": 8, "window": 16, "held_out": 0.25, "without_hard": "nearest"},
        optim={"epochs": 1, "lr": 1e-3},
    )


def test_a_recipe_is_trained_on_features(tmp_path: Path) -> None:
    videos, annotation = acted()
    (tmp_path / "activity_net.json").write_text(json.dumps(annotation), "utf-8")
    footage = FeatureFootage(list(videos), videos.__getitem__)
    told: list[str] = []
    model = feature_model(
        small("paper-sym"),
        footage,
        tmp_path / "sym",
        annotations=tmp_path / "activity_net.json",
        tell=told.append,
    )
    assert "48 annotated pairs" in told[0]
    assert (model.config.attention, model.config.comparator) == ("context", "replicate")
    assert model.config.symmetric
    assert (tmp_path / "sym" / "log.jsonl").exists()
    whitened = feature_model(small("paper-f+w"), footage, tmp_path / "f+w")
    raw = feature_model(small("paper-f"), footage, tmp_path / "f")
    assert (raw.whitening, whitened.attention, whitened.comparator) == (None, None, None)
    # Of each video the same action is found first, by what is there before any training already.
    for one in (whitened, model):
        system = RefinedSystem(one, "ViSiL", reads="i3d")
        ranked = score_videos(system, videos.__getitem__, list(videos), lambda query: set(videos) - {query})
        scores = ranked.predictions.scores
        first = {query: row.targets[int(row.values.argmax())] for query, row in scores.items()}
        hits = [int(a[2:-4]) % ACTIONS == int(b[2:-4]) % ACTIONS for a, b in first.items()]
        assert np.mean(hits) > 0.7
    with pytest.raises(ModelError, match=r"rgb_imagenet\.pt"):
        model.embed_frames(np.zeros((4, 64, 64, 3), np.uint8))


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        path = tmp_path_factory.mktemp("i3d") / "rgb_imagenet.pt"
        torch.save(I3D().state_dict(), path)
    return path


def test_windows_have_the_videos_own_rate(tmp_path: Path, weights: Path) -> None:
    """Three seconds at 25 frames a second are ten vectors, not one; another rate is read as if it were that."""
    tiny = replace(SMALL, resize=32, crop=32)
    for name, fps in (("a", 25), ("b", 50)):
        write_video(tmp_path / f"{name}.mp4", moving_scene(1, 3, fps=fps, size=(32, 32)), fps=fps)
    (tmp_path / "related.json").write_text("{}", "utf-8")
    videos = DatasetVideos(_task(tmp_path, ["a", "b"]), tmp_path, tiny)
    bank = FeatureBank(videos, tmp_path / "features", Networks(i3d_weights=str(weights)))
    bank.prepare(["imac", "i3d"])
    found = bank.features("a", "i3d")
    assert found.vectors.shape == (10, 1, 1024)
    assert found.timestamps.tolist() == pytest.approx([0.32 * i for i in range(10)])
    assert len(bank.features("a", "imac")) == 3
    frames = np.concatenate([batch.images for batch in videos.moving("a")])
    assert frames.shape == (75, 32, 32, 3)
    network = I3D.from_file(weights)
    expected = F.normalize(network.features(torch.from_numpy(frames)), dim=1)
    torch.testing.assert_close(found.vectors[:, 0], expected, rtol=2e-3, atol=1e-3)
    assert len(bank.features("b", "i3d")) == 10


def _task(folder: Path, names: list[str]) -> Task:
    import pickle

    path = folder / "activity_net.pickle"
    path.write_bytes(pickle.dumps({name: set(names) - {name} for name in names}))
    return Task("activitynet", path)


def test_copies_move_as_their_clips_do(tmp_path: Path) -> None:
    """Of the built-in benchmark: 25 frames for each second that a copy shows, of the clip's own pictures."""
    videos = BuiltInVideos(write_clips(tmp_path / "clips", 6), tmp_path / "cache", SMALL)
    copy = next(copy for copy in videos.plan.copies if copy.edit == "mild")
    rate = videos._clips[videos._names[copy.source]][2]
    batches = list(videos.moving(copy.name))
    times = np.concatenate([batch.timestamps for batch in batches])
    assert len(times) == pytest.approx(25 * len(copy.frames) / rate, abs=1)
    assert np.diff(times) == pytest.approx(1 / 25)
    still, _ = videos.frames(copy.name)
    # Two samples a second, four pictures a second: the first of a run is the sample itself.
    first = np.stack([batch.images[0] for batch in batches])
    assert np.abs(first.astype(int) - still.numpy().astype(int)).mean() < 12
    clip = videos._names[copy.source]
    assert sum(len(batch.images) for batch in videos.moving(clip)) == 125
