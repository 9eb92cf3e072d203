"""Named recipes: a model and how it is trained, as data. ``train``, ``evaluate``, ``fit-whitening`` and ``tables`` know
them by the same names; a row of a table is one of these, or one of these with a single setting changed.

``paper`` is the paper (Sec. 4, 5.2); the word after a dash names what one of its tables changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from visil.compare.loading import load, preset_config
from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.model.config import PRESETS, Attention, ViSiLConfig
from visil.training.config import DataConfig, LossConfig, ModelConfig, OptimConfig, TrainConfig
from visil.training.starting_model import changed_config


@dataclass(frozen=True)
class Recipe:
    """A training run but for its videos, under the name it is asked for by."""

    name: str
    title: str
    config: TrainConfig

    @property
    def trained(self) -> bool:
        """Whether a network has to be trained for it; the whitening alone is fitted."""
        model, optim = self.config.model, self.config.optim
        return {model.attention, model.comparator} != {"none"} and optim.epochs > 0

    def with_settings(self, name: str, **sections: dict[str, Any]) -> Recipe:
        """The same under another name, with some settings changed: ``loss={"margin": 1.0}``."""
        parts = {part: replace(getattr(self.config, part), **values) for part, values in sections.items()}
        return Recipe(name, f"{self.title}, changed", replace(self.config, **parts, recipe=name))

    def on(self, backbone: str | None, weights: str | None, stages: tuple[int, ...] | None = None) -> Recipe:
        """The same on another backbone, or with a file of its weights; under the same name."""
        given: dict[str, Any] = {"backbone": backbone, "backbone_weights": weights, "stages": stages}
        model = replace(self.config.model, **{k: v for k, v in given.items() if v is not None})
        return replace(self, config=replace(self.config, model=model))

    def model(self) -> ViSiLConfig:
        """The configuration of the trained model; only of recipes that start from a preset of the paper."""
        start = self.config.model.start
        if start not in PRESETS:
            raise UsageError(f"the recipe {self.name} starts from {start}, which says what its model is")
        return changed_config(self.config, preset_config(start, self.config.model.backbone))


def _paper(name: str, title: str, **sections: dict[str, Any]) -> Recipe:
    """Sec. 5.2 to the letter, but for what ``sections`` change."""
    whole: dict[str, Any] = {
        "data": DataConfig(window=64, triplets=1000, without_hard="skip"),
        "model": ModelConfig(start="visil-v", name=name, attention="context", comparator="replicate"),
        "loss": LossConfig(kind="triplet", margin=0.5, regularisation=0.1),
        "optim": OptimConfig(epochs=100, batch=1, lr=1e-5, trainable=("attention", "comparator")),
    }
    parts = {part: replace(value, **sections.get(part, {})) for part, value in whole.items()}
    return Recipe(name, title, TrainConfig(**parts, augmentation="paper", recipe=name))


def _student(name: str, title: str, attention: Attention, loss: LossConfig, **sections: Any) -> Recipe:
    """A recipe of the family: 512 dimensions, zeros around the matrix, as the released students have."""
    model = ModelConfig(start="visil-v", name=name, dim=512, attention=attention, comparator="zeros")
    return Recipe(name, title, TrainConfig(model=model, loss=loss, **sections, recipe=name))


_S2VS = LossConfig(kind="infonce", temperature=0.03, hard_negative=3.0, regularisation=1.0)
_DNS = LossConfig(kind="distillation", teacher="default", regularisation=1e-3)
_DNS_STEPS: dict[str, Any] = {
    "data": DataConfig(window=64, triplets=1000),
    "optim": OptimConfig(epochs=300, batch=32, lr=1e-4),
}

_NOTHING: dict[str, Any] = {"attention": "none", "comparator": "none"}

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "default",
            "attention and comparator on the default model's features",
            TrainConfig(recipe="default"),
        ),
        _paper("paper", "ViSiL_v"),
        _paper("paper-f", "ViSiL_f: nothing is learned", model=_NOTHING | {"start": "visil-f"}),
        _paper("paper-f+w", "ViSiL_f+W: whitened", model=_NOTHING | {"start": "visil-f+w"}),
        _paper(
            "paper-f+w+a",
            "ViSiL_f+W+A: whitened, with attention",
            model={"comparator": "none"},
            optim={"trainable": ("attention",)},
        ),
        _paper("paper-sym", "ViSiL_sym: symmetric Chamfer similarity", model={"symmetric": True}),
        _paper("paper-without-reg", "ViSiL_v without L_reg (r = 0), Table 4", loss={"regularisation": 0.0}),
        _student(
            "s2vs",
            "from unlabelled videos: InfoNCE over heavily edited copies (S2VS)",
            "hidden",
            _S2VS,
            data=DataConfig(window=32, triplets=6400, negatives="batch"),
            optim=OptimConfig(
                epochs=300, batch=64, lr=5e-5, schedule="cosine", warmup=1000, weight_decay=0.01
            ),
            augmentation="heavy",
        ),
        _student("dns-small", "what a teacher says, in 512 dimensions (DnS)", "hidden", _DNS, **_DNS_STEPS),
        _student("dns-binary", "what a teacher says, in bits (DnS)", "binary", _DNS, **_DNS_STEPS),
        _paper("paper-512", "ViSiL_v of 512 dimensions: features small enough to store", model={"dim": 512}),
    )
}


def recipe_called(name: str) -> Recipe:
    """The recipe of that name."""
    try:
        return RECIPES[name]
    except KeyError:
        raise UsageError(f"unknown recipe {name!r}: choose one of {', '.join(RECIPES)}") from None


SETTINGS = (
    *("backbone", "stages", "pooling", "levels", "dim", "whiten", "attention", "comparator", "symmetric"),
    *("frame_pool", "video_pool", "sampling"),
)
"""The settings that a model must share with its recipe."""


def finished_model(recipe: Recipe, name: str | None = None) -> ViSiL:
    """A model that is an outcome of a recipe: ``name`` (a folder or hub id), or as it is where nothing is learned."""
    wanted, weights = recipe.model(), recipe.config.model.backbone_weights
    if name is None:
        if recipe.trained or wanted.dim is not None:
            how = "visil train" if recipe.trained else "visil fit-whitening"
            raise UsageError(
                f"{recipe.name} has to be learned first: give the --model that {how} --recipe {recipe.name} writes"
            )
        name = recipe.config.model.start
        model = load(name, backbone=recipe.config.model.backbone, backbone_weights=weights)
        model.config = model.config.replaced(name=recipe.name)
    else:
        model = load(name, backbone_weights=weights)
    for setting in SETTINGS:
        asked, found = getattr(wanted, setting), getattr(model.config, setting)
        if asked != found:
            raise UsageError(f"{name}: is no {recipe.name}: its {setting} is {found}, not {asked}")
    return model


QUICK: dict[str, dict[str, Any]] = {
    "data": {"triplets": 100, "held_out": 0.2, "without_hard": "nearest"},
    "optim": {"epochs": 2, "lr": 1e-3},
}
"""The settings that make a toy of a recipe: hundreds of triplets stand for the paper's 200,000."""


def quick(recipe: Recipe) -> Recipe:
    """The toy of a recipe: minutes instead of days, good for trying commands out."""
    return recipe.with_settings(f"{recipe.name}, quick", **QUICK)


def described(config: TrainConfig, model: ViSiLConfig) -> str:
    """A recipe in one line: the model and its training."""
    regions = " + ".join(f"L{level}" for level in model.levels)
    width = "" if model.dim is None else f", whitened to {model.dim:,} dimensions"
    parts = [f"{model.backbone}, {regions}-{'iMAC' if model.pooling == 'imac' else model.pooling}{width}"]
    if model.attention is not None:
        parts.append("binary codes" if model.attention == "binary" else "attention")
    parts += ["comparator"] if model.comparator else []
    words = f"recipe {config.recipe or 'of a file'}: {', '.join(parts)}"
    words += ", symmetric" if model.symmetric else ""
    if not config.optim.epochs or (model.attention is None and model.comparator is None):
        return words
    loss, optim, data = config.loss, config.optim, config.data
    losses = {
        "triplet": f"γ {loss.margin:g}",
        "infonce": f"infonce τ {loss.temperature:g}",
        "distillation": f"distillation of {loss.teacher}",
    }[loss.kind]
    without = "are left out" if data.without_hard == "skip" else "have the nearest"
    mined = f"positives without hard negatives {without}"
    if data.negatives == "batch":
        mined = "each against the rest of its batch"
    epochs = f"{optim.epochs} epoch{'' if optim.epochs == 1 else 's'}"
    return (
        f"{words}; {losses}, r {loss.regularisation:g}, W {data.window}; Adam {optim.lr:g}, {epochs} of "
        f"{data.triplets:,} triplets a pool, {optim.batch} a step; {mined}"
    )
