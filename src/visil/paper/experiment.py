"""A benchmark, its features, and every system by name: each row of a table is scored once, and its scores kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.evaluation.benchmark import Figures
from visil.evaluation.predictions import Predictions
from visil.evaluation.scoring import score_videos
from visil.paper.ablation import RECIPE_OF, row_recipe
from visil.paper.baselines.frame_features import FrameFeatures
from visil.paper.baselines.registry import SYSTEMS, system
from visil.paper.baselines.system import ComparedSystem, PlacedSystem
from visil.paper.baselines.visil_systems import POOLED, RefinedSystem, visil_system
from visil.paper.feature_bank import FeatureBank, Networks
from visil.paper.feature_kinds import I3D_KIND, VGG, split_kind, stages_of
from visil.paper.kept_scores import KeptScores
from visil.paper.streamed_tables import stream_systems, streamable
from visil.paper.taught_systems import TaughtSystems
from visil.paper.trained_models import TrainedModels
from visil.paper.videos import DatasetVideos, Videos
from visil.progress import Counted
from visil.training.recipes import RECIPES, Recipe, quick
from visil.training.segments import read_segments_of
from visil.video import Sampling

I3D = "I3D"
"""Its own features by dot product; not among the registry's systems, since its weights are nobody's to ship."""

NO_I3D = "needs the file of I3D's weights: --i3d-weights"

Tell = Callable[[str], None]


class Unavailable(UsageError):
    """A row that cannot be made here, and the inputs that are missing for it."""


@dataclass(frozen=True)
class Changes:
    """Changes to the recipes of all rows."""

    base: str = "paper"
    """The recipe that rows are variants of: ``paper``, or ``paper-512``."""
    quick: bool = False
    """Toys of the recipes (:func:`visil.training.recipes.quick`)."""
    settings: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """Of sections of a training configuration, such as {"optim": {"epochs": 1}}."""

    def applied(self, recipe: Recipe, backbone: str, weights: str | None) -> Recipe:
        """A row's recipe as it is run here."""
        dim = RECIPES[self.base].config.model.dim
        if dim is not None and recipe.model().dim is not None:
            recipe = recipe.with_settings(f"{recipe.name}, {dim}", model={"dim": dim})
        recipe = quick(recipe) if self.quick else recipe
        if self.settings:
            recipe = recipe.with_settings(f"{recipe.name}, changed", **self.settings)
        return recipe.on(backbone, weights, stages_of(backbone))


@dataclass(frozen=True)
class Setup:
    """The settings of all rows, known before any video is read."""

    networks: Networks
    models: Mapping[str, ViSiL]
    changes: Changes
    learning: bool
    """Whether there are videos to learn from."""
    annotated: bool
    """Whether it is known which stretches of them show the same, or nobody has to know."""

    def __post_init__(self) -> None:
        for row, model in self.models.items():
            visil_system(row, model)  # refuses a model that is not the row it is to stand for

    def names(self) -> list[str]:
        """Every system that a table can have."""
        return [*SYSTEMS, I3D]

    def given(self, row: str | Recipe) -> str | None:
        """The row whose model was given for this one: itself, or another by the same recipe."""
        if isinstance(row, str):
            if row in self.models or not is_ours(row):
                return row if row in self.models else None
            row = row_recipe(row)
        return next((name for name in self.models if row_recipe(name) == row), None)

    def recipe_name(self, row: str | Recipe) -> str | None:
        """The origin of a row of ViSiL's: its recipe, or the model that was given for it."""
        given = self.given(row)
        if given is not None:
            return f"given: {self.models[given].config.name}"
        return self.recipe(row).name if isinstance(row, Recipe) or is_ours(row) else None

    def recipe(self, row: str | Recipe) -> Recipe:
        """The recipe of a row of ViSiL's, as it is run here."""
        recipe = row if isinstance(row, Recipe) else row_recipe(row)
        return self.changes.applied(recipe, self.networks.backbone, self.networks.backbone_weights)

    def missing(self, rows: Mapping[str | Recipe, str | None]) -> list[str]:
        """Options that the rows ({row: other features, or None}) need and that were not given, without any work."""
        found: dict[str, None] = {}
        for row, reads in rows.items():
            if self.given(row) is not None:
                continue
            kind = reads or (self.reads(row) if isinstance(row, str) else "l3-imac")
            base, suffix = split_kind(kind) if kind is not None else ("", "")
            if base == "i3d" and self.networks.i3d_weights is None:
                found["--i3d-weights FILE"] = None
            if base not in ("", "i3d", "model") and not self.networks.backbone_at_hand():
                found[f"--backbone-weights FILE ({self.networks.backbone})"] = None
            learns, by_triplets = bool(suffix), False
            if isinstance(row, Recipe) or is_ours(row):
                recipe = self.recipe(row)
                learns, by_triplets = recipe.model().dim is not None, recipe.trained
            elif row != I3D:
                compared = system(row)
                learns, by_triplets = learns or compared.learns, compared.by_triplets
            if learns and not self.learning:
                found["--training DIR"] = None
            if by_triplets and not self.annotated and not self.changes.quick:
                found["--training-annotations FILE"] = None
        return list(found)

    def reads(self, name: str) -> str | None:
        """The features that a row takes; None: those of a model that was given for it, or that is missing."""
        if name == I3D:
            return "i3d"
        if self.given(name) is not None:
            return None
        if name == "model":
            return "model" if self.networks.model is not None else None
        if is_ours(name):
            return "l3-imac"
        if name == "LBoW" and self.networks.vgg_weights is not None:
            return VGG
        return system(name).reads


class Experiment:
    """Rows by name, for all tables.

    Results go to ``out``; features, frames, scores and trained models stay there for the next table. ``models`` are
    finished models for rows of their own: {"ViSiL_v": model}. The row "model" is that of ``networks``.
    ``annotations`` are those of the videos to learn from: which stretches show the same.
    """

    def __init__(
        self,
        videos: Videos,
        networks: Networks,
        out: Path,
        sampling: Sampling,
        *,
        changes: Changes | None = None,
        annotations: Path | None = None,
        seed: int = 0,
        models: Mapping[str, ViSiL] | None = None,
        streaming: bool = False,
        on_videos: Counted | None = None,
        tell: Tell = lambda _: None,
    ) -> None:
        self.videos, self.networks, self.sampling, self.out = videos, networks, sampling, out
        self.models_folder = out / "models"
        self.changes, self.seed = changes or Changes(), seed
        self.models = dict(models or {})
        if annotations is not None:
            read_segments_of(
                annotations, videos.learning_files
            )  # found out now, not after hours of embedding
        annotated = annotations is not None or not isinstance(videos, DatasetVideos)
        self.setup = Setup(networks, self.models, self.changes, bool(videos.learning_files), annotated)
        networks.check()
        self.bank = FeatureBank(videos, out / "cache" / "features", networks, on_videos)
        self._kept = KeptScores(out / "cache" / "scores", self.bank)
        self.trainer = TrainedModels(
            self.bank,
            self.models_folder,
            sampling,
            annotations=annotations,
            cache=out / "cache" / f"frames-{sampling.fit}",
            seed=seed,
            tell=tell,
        )
        self._systems = TaughtSystems(self.trainer, self.setup.recipe("ViSiL_v"), quick=self.changes.quick)
        self._tell, self._on_videos = tell, on_videos
        self._streaming = streaming
        self._predictions: dict[tuple[str, str | None], Predictions] = {}

    def prepare(self, rows: Mapping[str, str | None]) -> None:
        """Make the features of many rows ({name: other features, or None}) in one pass; or, streaming, their scores."""
        if self._streaming:
            rows = self._streamed(rows)
        kinds = []
        for name, reads in rows.items():
            kind = reads or self.setup.reads(name)
            if kind is not None and not (split_kind(kind)[0] == "i3d" and self.networks.i3d_weights is None):
                kinds.append(kind)
        self.bank.prepare(kinds)

    def _streamed(self, rows: Mapping[str, str | None]) -> dict[str, str | None]:
        """Score rows in one pass in which no features are kept; returned are those that need stored features."""
        systems: dict[str, ComparedSystem[Any]] = {}
        left: dict[str, str | None] = {}
        for name, reads in rows.items():
            try:
                made, bank, of = self.placed(name, reads)
            except Unavailable:
                continue
            digest = self._digest(made, bank, of)
            if digest in self._kept:
                self._kept.recall(digest)
                continue
            if not self._passes(made, bank):
                self._tell(f"{name} cannot be streamed: its features are kept")
                left[name] = reads
                continue
            systems[digest] = made
        self._stream(systems)
        return left

    def _passes(self, made: ComparedSystem[Any], bank: FeatureBank) -> bool:
        """Whether a system is scored in a pass that keeps no features."""
        shared = bank is self.bank and split_kind(made.reads)[0] != I3D_KIND
        return self._streaming and shared and streamable(made)

    def _stream(self, systems: Mapping[str, ComparedSystem[Any]]) -> None:
        """One pass for systems, each under its digest, that have no scores yet."""
        for made in systems.values():
            self.teach(made)
        if systems:
            self._tell(f"one pass: {', '.join(made.name for made in systems.values())}")
            folder = self.out / "cache" / "streams"
            stream_systems(systems, self.bank, folder, self._kept.write, self._on_videos)

    def prepare_outcomes(self, recipes: Mapping[str, Recipe]) -> None:
        """Train recipes {name: recipe} and, streaming, score all that come of them in one pass."""
        models = {name: self.trained(own) for name, own in recipes.items() if self.setup.given(own) is None}
        if self._streaming:
            made = [(RefinedSystem(model, name), _learned(model)) for name, model in models.items()]
            systems = {self._digest(system, self.bank, of): system for system, of in made}
            self._stream({key: one for key, one in systems.items() if key not in self._kept})

    def _digest(self, made: ComparedSystem[Any], bank: FeatureBank, of: str) -> str:
        """Tells scores apart by all that they depend on: what was learned from is part of it where anything was."""
        key = bank.networks.key(split_kind(made.reads)[0])
        text = [made.name, made.reads, of, str(self.seed), key, self._systems.learned_from(made)]
        text += self._stamps
        return hashlib.sha256("\n".join(text).encode("utf-8", "surrogateescape")).hexdigest()[:32]

    @cached_property
    def _stamps(self) -> list[str]:
        """Every video with what tells that it has not changed: looked up once, of 200,000 files over a network."""
        return [f"{name} {self.videos.key(name)}" for name in self.bank.ids]

    def teach(self, made: ComparedSystem[Any]) -> None:
        """Train a system on the videos to learn from."""
        self._systems.teach(made)

    def predictions(self, name: str, reads: str | None = None) -> Predictions:
        """Scores of a system, made now or before."""
        if (name, reads) not in self._predictions:
            made, bank, of = self.placed(name, reads)
            self._tell(f"comparing: {name}")
            self._predictions[name, reads] = self._scored(made, bank, of)
        return self._predictions[name, reads]

    def figures(self, name: str, reads: str | None = None) -> Figures:
        """The benchmark's figures of a system."""
        return self._evaluated(self.predictions(name, reads))

    def figures_of(self, recipe: Recipe, name: str) -> Figures:
        """The benchmark's figures of a recipe's outcome: of the model that was given for it, or of one trained here."""
        given = self.setup.given(recipe)
        if given is not None:
            return self.figures(given)
        model = self.trained(recipe)
        return self._evaluated(self._scored(RefinedSystem(model, name), self.bank, _learned(model)))

    def trained(self, row: str | Recipe) -> ViSiL:
        """A row of ViSiL's as a model: the one that was given for it, or the outcome of its recipe."""
        given = self.setup.given(row)
        return self.trainer.model(self.setup.recipe(row)) if given is None else self.models[given]

    def shares_features(self, model: ViSiL) -> bool:
        """Whether a model works on the raw L3-iMAC vectors that the other systems read: of the same frozen backbone."""
        config, networks = model.config, self.networks
        same = (networks.backbone, stages_of(networks.backbone), "imac", (3,), self.sampling)
        if (config.backbone, config.stages, config.pooling, config.levels, config.sampling) != same:
            return False
        if model.backbone is None or not networks.backbone_at_hand():
            return False
        plain = ViSiL(config.replaced(dim=None, attention=None, comparator=None), with_backbone=False)
        own = plain.load_backbone(networks.backbone_weights).backbone
        assert own is not None
        ours, theirs = own.state_dict(), model.backbone.state_dict()
        return all(torch.equal(value, theirs[name].cpu()) for name, value in ours.items() if name in theirs)

    def system(self, name: str, reads: str | None = None) -> ComparedSystem[Any]:
        """A system by name; what it learns by training with pictures is trained already."""
        return self.placed(name, reads)[0]

    def placed(self, name: str, reads: str | None = None) -> tuple[ComparedSystem[Any], FeatureBank, str]:
        """The system, placed where networks are if it can be, its features, and what it is beyond its name."""
        made, bank, of = self._made(name, reads)
        if isinstance(made, PlacedSystem):
            made.place(self.networks.device)
        return made, bank, of

    def _made(self, name: str, reads: str | None) -> tuple[ComparedSystem[Any], FeatureBank, str]:
        kind = reads or self.setup.reads(name)
        if kind is not None and split_kind(kind)[0] == "i3d" and self.networks.i3d_weights is None:
            raise Unavailable(NO_I3D)
        if kind == VGG:
            reads = kind
        if name == I3D:
            return FrameFeatures(I3D, "i3d"), self.bank, ""
        given = self.setup.given(name)
        if given is not None:
            model = self.models[given]
            own = visil_system(given, model)
            if self.shares_features(model):
                return RefinedSystem(model, given), self.bank, _learned(model)
            networks = replace(self.networks, model=model, _keys={})
            bank = FeatureBank(self.videos, self.bank.folder, networks, self.bank.progress)
            bank.unreadable = self.bank.unreadable
            return own, bank, _learned(model)
        if name == "model":
            if self.networks.model is None:
                raise Unavailable("needs a model: --model")
            made = system("model", model=self.networks.model)
            return made, self.bank, _learned(self.networks.model)
        if reads is None and is_ours(name):
            model = self.trained(name)
            return RefinedSystem(model, name), self.bank, _learned(model)
        if reads == I3D_KIND and is_ours(name):
            model = self.trainer.on_features(self.setup.recipe(name))
            return RefinedSystem(model, name, reads=reads), self.bank, _learned(model)
        return self._systems.system(name, reads), self.bank, repr(self._systems.options(name))

    def _scored(self, made: ComparedSystem[Any], bank: FeatureBank, of: str) -> Predictions:
        """Scores of a system, read back where they were computed from the same things before.

        ``of`` says what the system is beyond its name and features, such as how it was trained.
        """
        digest = self._digest(made, bank, of)
        if digest not in self._kept and self._passes(made, bank):
            self._stream({digest: made})
        if digest in self._kept:
            return self._kept.read(digest)
        self.teach(made)
        found = score_system(made, bank)
        self._kept.write(digest, found)
        return found

    def _evaluated(self, predictions: Predictions) -> Figures:
        """The benchmark's figures; videos that could not be had are left out of the truth."""
        here = frozenset(self.bank.readable(self.bank.ids))
        return self.videos.benchmark.evaluate(predictions.scores, here)


def is_ours(row: str) -> bool:
    """Whether a row is ViSiL itself."""
    return row in RECIPE_OF or row in POOLED


def _learned(model: ViSiL) -> str:
    """Tells two models of the same row apart: their settings and every number beyond the backbone's."""
    digest = hashlib.sha256(repr(model.config).encode())
    for name, tensor in sorted(model.state_dict().items()):
        if not name.startswith("backbone."):
            digest.update(name.encode())
            digest.update(tensor.cpu().float().numpy().tobytes())
    return digest.hexdigest()


def score_system(made: ComparedSystem[Any], bank: FeatureBank) -> Predictions:
    """Score every query with all that counts for it, as ``visil evaluate`` does."""
    benchmark = bank.videos.benchmark
    bank.prepare([made.reads])
    answers = score_videos(
        made,
        lambda name: bank.features(name, made.reads),
        bank.readable(benchmark.queries),
        lambda query: bank.readable(benchmark.candidates(query)),
    )
    return answers.predictions
