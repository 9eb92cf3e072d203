"""Where trained models are kept: under everything that they were learned from."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from toy_bench import SMALL, small_model, write_clips
from visil.compare.visil import ViSiL
from visil.model.backbones.i3d import I3D
from visil.paper import trained_models
from visil.paper.feature_bank import FeatureBank, Networks
from visil.paper.trained_models import TrainedModels
from visil.paper.videos import BuiltInVideos
from visil.training.recipes import recipe_called

PAIR = "query,query_start,query_end,target,target_start,target_end\n0.mp4,0,{end},1.mp4,0,{end}\n"


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> BuiltInVideos:
    root = tmp_path_factory.mktemp("clips")
    return BuiltInVideos(write_clips(root / "clips", 6), root / "cache", SMALL)


def test_annotations_count_by_what_they_say(videos: BuiltInVideos, tmp_path: Path) -> None:
    def identity(file: Path) -> dict[str, object]:
        bank = FeatureBank(videos, tmp_path / "features", Networks())
        trainer = TrainedModels(bank, tmp_path / "models", SMALL, annotations=file)
        return trainer.identity(recipe_called("paper"))

    file = tmp_path / "pairs.csv"
    file.write_text(PAIR.format(end=6))
    first = identity(file)
    moved = Path(shutil.copy(file, tmp_path / "moved.csv"))
    assert identity(moved) == first
    file.write_text(PAIR.format(end=7))
    assert identity(file) != first


def test_models_on_features_are_those_of_the_weights_of_i3d(
    videos: BuiltInVideos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[str] = []

    def feature_model(_: Any, __: Any, folder: Path, **___: Any) -> ViSiL:
        folders.append(folder.name)
        return small_model()

    monkeypatch.setattr(trained_models, "feature_model", feature_model)
    monkeypatch.setattr(TrainedModels, "_moving", lambda _: None)
    file = tmp_path / "i3d.pt"
    for seed in (0, 1, 0):  # files of one size and one name
        torch.manual_seed(seed)
        torch.save(I3D().state_dict(), file)
        bank = FeatureBank(videos, tmp_path / "features", Networks(i3d_weights=str(file)))
        TrainedModels(bank, tmp_path / "models", SMALL).on_features(recipe_called("paper"))
    assert folders[0] == folders[2] != folders[1]
