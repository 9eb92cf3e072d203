"""Named recipes: ``paper`` is what Sec. 5.2 says, its variants differ in one thing, and files can change them."""

from __future__ import annotations

from pathlib import Path

import pytest

from visil.compare.visil import ViSiL
from visil.errors import ModelError, UsageError
from visil.training.config import DataConfig, LossConfig, TrainConfig
from visil.training.config_file import train_config
from visil.training.recipes import RECIPES, described, finished_model, quick, recipe_called


def differences(a: TrainConfig, b: TrainConfig) -> set[str]:
    one, other = a.decisive(), b.decisive()
    return {name for name in one if one[name] != other[name]} - {"model.name"}


def test_paper_is_the_paper() -> None:
    config, model = RECIPES["paper"].config, RECIPES["paper"].model()
    assert (model.backbone, model.stages, model.levels, model.dim) == ("resnet50", (0, 1, 2, 3), (3,), 3840)
    assert (model.attention, model.comparator, model.symmetric) == ("context", "replicate", False)
    assert (model.frame_pool, model.video_pool) == (("max", "mean"), ("max", "mean"))
    assert (model.sampling.fps, model.sampling.resize, model.sampling.crop, model.sampling.fit) == (
        *(1.0, 256, 224, "crop"),
    )
    assert (config.loss.kind, config.loss.margin, config.loss.regularisation) == ("triplet", 0.5, 0.1)
    assert (config.data.window, config.data.triplets, config.data.without_hard) == (64, 1000, "skip")
    assert (config.optim.epochs, config.optim.batch, config.optim.lr) == (100, 1, 1e-5)
    assert (config.optim.schedule, config.optim.weight_decay, config.augmentation) == (
        "constant",
        0.0,
        "paper",
    )
    assert config.optim.trainable == ("attention", "comparator")
    assert described(config, model) == (
        "recipe paper: resnet50, L3-iMAC, whitened to 3,840 dimensions, attention, comparator; γ 0.5, r 0.1, W 64; "
        "Adam 1e-05, 100 epochs of 1,000 triplets a pool, 1 a step; positives without hard negatives are left out"
    )
    short = RECIPES["paper"].with_settings("short", optim={"epochs": 1})
    assert "Adam 1e-05, 1 epoch of 1,000 triplets" in described(short.config, model)


def test_each_variant_changes_what_its_name_says() -> None:
    paper = RECIPES["paper"].config
    assert differences(paper, RECIPES["paper-sym"].config) == {"model.symmetric"}
    assert differences(paper, RECIPES["paper-without-reg"].config) == {"loss.regularisation"}
    assert differences(paper, RECIPES["paper-512"].config) == {"model.dim"}
    assert differences(paper, RECIPES["paper-f+w+a"].config) == {"model.comparator", "optim.trainable"}
    assert [name for name, recipe in RECIPES.items() if name.startswith("paper") and not recipe.trained] == [
        "paper-f",
        "paper-f+w",
    ]
    assert RECIPES["paper-f"].model().dim is None
    toy = quick(RECIPES["paper"])
    assert toy.name == toy.config.recipe == "paper, quick"
    assert differences(paper, toy.config) == {
        *("data.triplets", "data.held_out", "data.without_hard", "optim.epochs", "optim.lr")
    }
    with pytest.raises(UsageError, match=r"unknown recipe 'papr': choose one of default, paper, paper-f,"):
        recipe_called("papr")


def test_a_file_may_change_a_recipe() -> None:
    config = train_config({"recipe": "paper", "loss": {"margin": 1}, "optim": {"epochs": 3}})
    assert differences(RECIPES["paper"].config, config) == {"loss.margin", "optim.epochs"}
    assert config.recipe == "paper"
    with pytest.raises(UsageError, match=r"unknown setting loss\.margn"):
        train_config({"recipe": "paper", "loss": {"margn": 1}})


def test_another_backbone_is_as_wide_as_it_is() -> None:
    small = RECIPES["paper"].on("efficientnet-lite0", None, (1, 2, 3)).model()
    assert (small.stages, small.dim) == ((1, 2, 3), 40 + 112 + 320)


def test_a_model_is_checked_against_its_recipe(tmp_path: Path) -> None:
    lite = RECIPES["paper-f"].on("efficientnet-lite0", None)
    assert finished_model(lite).config.backbone == "efficientnet-lite0"
    with pytest.raises(UsageError, match="paper has to be learned first: give the --model that visil train"):
        finished_model(RECIPES["paper"])
    ViSiL(lite.model().replaced(symmetric=True)).save_pretrained(tmp_path, include_backbone=False)
    with pytest.raises(UsageError, match=r"is no paper-f: its symmetric is True, not False"):
        finished_model(lite, str(tmp_path))


def test_a_missing_file_of_weights_is_asked_for_by_an_option_that_commands_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from typer.main import get_command

    from visil.cli.app import app

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(ModelError, match="--backbone-weights"):
        finished_model(RECIPES["paper-f"])
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for name in ("train", "evaluate", "fit-whitening", "tables"):
        options = {option for parameter in commands[name].params for option in parameter.opts}
        assert {"--recipe", "--backbone-weights"} <= options


@pytest.mark.parametrize("name", ["s2vs", "dns-small", "dns-binary"])
def test_recipes_of_the_family(name: str) -> None:
    """Settings of the released code: 512 dimensions, zeros around the matrix, their losses and rates."""
    recipe = recipe_called(name)
    model, config = recipe.model(), recipe.config
    assert (model.dim, model.comparator, model.symmetric) == (512, "zeros", False)
    assert model.attention == ("binary" if name == "dns-binary" else "hidden")
    line = described(config, model)
    if name == "s2vs":
        assert (config.loss.kind, config.loss.temperature, config.loss.hard_negative) == (
            "infonce",
            0.03,
            3.0,
        )
        assert (config.optim.lr, config.optim.weight_decay, config.optim.batch) == (5e-5, 0.01, 64)
        assert config.optim.epochs * config.data.triplets // config.optim.batch == 30_000
        assert (config.data.window, config.data.negatives, config.augmentation) == (32, "batch", "heavy")
        assert line.endswith("each against the rest of its batch")
    else:
        assert (config.loss.kind, config.loss.regularisation, config.optim.lr) == ("distillation", 1e-3, 1e-4)
        assert "distillation of default" in line


def test_what_goes_together() -> None:
    with pytest.raises(UsageError, match="negatives: batch goes with"):
        TrainConfig(data=DataConfig(negatives="batch"))
    with pytest.raises(UsageError, match=r"teacher and .* go together"):
        TrainConfig(loss=LossConfig(kind="distillation"))
    with pytest.raises(UsageError, match="go together"):
        TrainConfig(loss=LossConfig(teacher="default"))
