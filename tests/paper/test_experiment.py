"""What rows are made of, and what their kept scores depend on: videos to learn from, annotations, models, devices."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from synthetic import moving_scene, write_video
from toy_bench import QUICK, SMALL
from visil.compare.visil import ViSiL
from visil.errors import ModelError
from visil.evaluation import Task
from visil.evaluation.scoring import FeatureReader
from visil.model.config import ViSiLConfig
from visil.model.features import VideoFeatures
from visil.paper.ablation import CURVES, curve_recipe
from visil.paper.experiment import Changes, Experiment, Setup
from visil.paper.feature_bank import Networks
from visil.paper.figures import figure_5
from visil.paper.tables import noted
from visil.paper.trained_models import TrainedModels
from visil.paper.videos import DatasetVideos
from visil.training.recipes import RECIPES, Recipe

QUERY = "q"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of one query and three videos, and two folders to learn from."""
    root = tmp_path_factory.mktemp("data")

    def write(place: str, seed: int) -> None:
        (root / place).parent.mkdir(exist_ok=True)
        write_video(root / place, moving_scene(seed, 4, fps=2, size=(64, 64), shot=2), fps=2)

    for name, seed in {QUERY: 0, "same": 0, "b": 1, "c": 2}.items():
        write(f"videos/{name}.mp4", seed)
    for folder, first in {"VCDB": 10, "another": 20}.items():
        for seed in range(first, first + 4):
            write(f"{folder}/{seed}.mp4", seed)
    (root / "fivr.json").write_text(json.dumps({QUERY: {"ND": ["same"]}}))
    (root / "ids.json").write_text(json.dumps({"query": [QUERY], "database": ["same", "b", "c"]}))
    return root


def experiment(data: Path, training: str, out: Path, **options: Any) -> Experiment:
    task = Task("fivr-5k", data / "fivr.json", data / "ids.json")
    videos = DatasetVideos(task, data / "videos", SMALL, training=data / training)
    networks = options.pop("networks", Networks())
    return Experiment(videos, networks, out, SMALL, changes=QUICK, **options)


def with_comparator(**changes: Any) -> ViSiL:
    """A model of one stage, untrained."""
    config = ViSiLConfig("own", "efficientnet-lite0", (1,), levels=(2,), dim=8, attention="context")
    config = config.replaced(comparator="replicate", sampling=SMALL, **changes)
    return ViSiL(config, with_backbone=False).load_backbone()


def test_scores_follow_the_videos_learned_from(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one folder: whitening, reduction, codebooks and thresholds of other videos give other scores, MAC the same."""
    rows = ("MAC", "ViSiL_f+W", "L3-iMAC reduced", "LBoW", "CTE", "TMK", "DP")

    def scores(training: str) -> dict[str, list[float]]:
        made = experiment(data, training, tmp_path)
        return {name: made.predictions(name).scores[QUERY].values.tolist() for name in rows}

    first, other = scores("VCDB"), scores("another")
    assert [name for name in rows if first[name] == other[name]] == ["MAC"]
    monkeypatch.setattr("visil.paper.experiment.score_system", lambda *_: pytest.fail("scored again"))
    assert (scores("VCDB"), scores("another")) == (first, other)


def test_scores_follow_the_annotation_where_triplets_are_learned_from(data: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.csv"

    def digests(end: int) -> list[str]:
        header = "query,query_start,query_end,target,target_start,target_end"
        pairs.write_text(f"{header}\n10.mp4,0,{end},11.mp4,0,{end}\n")
        made = experiment(data, "VCDB", tmp_path, annotations=pairs)
        return [made._digest(*made.placed(name)) for name in ("DML", "LAMV+QE", "DP")]

    first, other = digests(3), digests(4)
    assert [one == two for one, two in zip(first, other, strict=True)] == [False, False, True]
    assert digests(3) == first


def test_scores_follow_what_is_behind_the_features(data: Path, tmp_path: Path) -> None:
    """Two models whose features are the same and whose comparators differ."""
    scores = []
    for weight in (0.0, 0.5):
        model = with_comparator(dim=None, attention=None)
        assert model.comparator is not None
        torch.nn.init.constant_(model.comparator.fconv.weight, weight)
        made = experiment(data, "VCDB", tmp_path, networks=Networks(model=model))
        scores.append(made.predictions("model").scores[QUERY].values.tolist())
    assert scores[0] != scores[1]


@pytest.mark.parametrize("name", ["ViSiL_f", "MAC", "L3-iMAC", "DP"])
def test_vectors_are_compared_where_the_networks_are(name: str, data: Path, tmp_path: Path) -> None:
    """On a device that torch has without a GPU; ViSiL_f has no tensors to be told its device by."""
    made = experiment(data, "VCDB", tmp_path, networks=Networks(device="meta")).system(name)
    assert made.device.type == "meta"
    assert name == "DP" or (made.scorer is not None and made.scorer.device.type == "meta")
    video = VideoFeatures(torch.ones(3, 9, 4), torch.arange(3.0, dtype=torch.float64))
    ((_, description),) = FeatureReader(made, lambda _: video).described([QUERY])
    assert description.device.type == "meta"


@pytest.mark.parametrize("row", ["ViSiL_v", "with L_reg"])
def test_a_given_model_stands_for_every_row_of_its_recipe(
    row: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables 3, 4, 9 and Figure 5 have the paper's own ViSiL_v, under a name of each."""
    model = with_comparator()
    made = experiment(data, "VCDB", tmp_path, models={row: model})
    monkeypatch.setattr(TrainedModels, "model", lambda *_: pytest.fail("trained all the same"))
    figures = made.figures(row)
    for name in ("ViSiL_v", "with L_reg", "ViSiL_v MP-AP/MP-AP"):
        assert made.trained(name) is model
        assert made.figures(name) == figures
        assert made.setup.recipe_name(name) == "given: own"
    curve = figure_5("gamma", made, [0.5])
    (point,) = curve.rows
    assert (point.recipe, point.ours["DSVR"]) == ("given: own", figures["DSVR"])
    assert f"Given by --model: {row} (own)." in curve.note
    others: list[str | Recipe] = [
        "without L_reg",
        "ViSiL_v AP-AP/MP-AP",
        "DP",
        curve_recipe(CURVES["gamma"], 1.0),
    ]
    assert [made.setup.given(name) for name in others] == [None] * 4
    assert f"Given by --model: {row} (own)." in noted(made, ["ViSiL_f", "ViSiL_v"])
    assert "Given" not in noted(made, others)


def test_a_table_says_what_is_not_as_in_the_paper(data: Path, tmp_path: Path) -> None:
    plain = experiment(data, "VCDB", tmp_path, networks=Networks("resnet50"))
    assert "LBoW reads resnet50, not VGG-16 as in the paper" in noted(plain, ["LBoW", "DP"])
    assert "LBoW" not in noted(plain, ["DP"])
    assert "recipe" not in noted(plain, ["DP"]).replace("Not as the recipes have it", "")
    plain.changes = Changes("paper-512")
    assert noted(plain, ["DP"]) == "Variants of the recipe paper-512."
    plain.networks = Networks("resnet50", vgg_weights="vgg16.pth")
    assert "LBoW reads VGG-16." in noted(plain, ["LBoW"])
    with pytest.raises(ModelError, match=r"vgg16\.pth: no such file"):  # before any row is made
        experiment(data, "VCDB", tmp_path, networks=plain.networks)


def test_nothing_is_missing_for_a_row_whose_model_was_given_under_another_name() -> None:
    bare = Setup(Networks("resnet50"), {}, Changes(), learning=False, annotated=False)
    assert "--training DIR" in bare.missing({"with L_reg": None, RECIPES["paper"]: None})
    given = replace(bare, models={"ViSiL_v": with_comparator()})
    assert given.missing({"with L_reg": None, "ViSiL_v MP-AP/MP-AP": None, RECIPES["paper"]: None}) == []
