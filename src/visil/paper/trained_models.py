"""Models of recipes for the rows of tables: trained once by ``visil train``'s own trainer, kept, and used again.

All rows share the frozen backbone and one whitening, fitted on a million region vectors spread evenly over the videos
to learn from, so that each row's features are made from the raw L3-iMAC vectors that the other systems use, too. A
folder is named by its recipe and by everything that decides about the outcome; a training that was stopped goes on.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch

from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.files import replacing
from visil.model.whitening import PCA
from visil.paper.baselines.triplets import SnippetTriplets, TripletSource, lesson
from visil.paper.baselines.visil_systems import RAW as BASE
from visil.paper.feature_bank import FITTED_ON, FeatureBank
from visil.paper.feature_kinds import I3D_KIND, fitted, kind_model, split_kind, stages_of
from visil.paper.feature_models import annotated_pairs, feature_model
from visil.training.config import TrainConfig
from visil.training.dataset import split
from visil.training.feature_footage import FeatureFootage
from visil.training.recipes import Recipe, described
from visil.training.sampled_frames import SampledFrames
from visil.training.segments import read_segments
from visil.video import Sampling

DONE = "lesson.json"
"""In the folder of a finished model: the settings that it was trained with."""

FEWEST = 4
"""Videos that a training needs."""


class TrainedModels:
    """Recipes as models, on the backbone and the learning part of a benchmark; kept below ``folder``."""

    def __init__(
        self,
        bank: FeatureBank,
        folder: Path,
        sampling: Sampling,
        *,
        annotations: str | os.PathLike[str] | None = None,
        cache: Path | None = None,
        seed: int = 0,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.bank, self.folder, self.sampling, self.seed = bank, folder, sampling, seed
        self.annotations = None if annotations is None else os.fspath(annotations)
        self.cache = cache or folder / "frames"
        self.tell = tell
        self._models: dict[str, ViSiL] = {}
        self._lessons: dict[tuple[str, Recipe], SnippetTriplets] = {}

    def model(self, recipe: Recipe) -> ViSiL:
        """The outcome of a recipe: as it is where nothing is trained, else trained now or before."""
        key = _slug(recipe, self.identity(recipe))
        if key not in self._models:
            self._models[key] = self._trained(recipe, key) if recipe.trained else self._start(recipe)
        return self._models[key]

    def config(self, recipe: Recipe, start: Path, out: Path) -> TrainConfig:
        """The training run of a recipe on these videos, from a whitened model in ``start``."""
        paths = self.bank.videos.learning_paths
        if not paths:
            raise UsageError("training needs videos to learn from: give --training")
        settings = recipe.config
        return replace(
            settings,
            data=replace(
                settings.data, videos=tuple(paths), annotations=self.annotations, cache=str(self.cache)
            ),
            model=replace(
                settings.model, start=str(start), backbone=None, backbone_weights=None, stages=None, dim=None
            ),
            seed=self.seed,
            out=str(out),
            device=str(self.bank.networks.device),
        )

    def triplets(self, kind: str, recipe: Recipe) -> TripletSource:
        """The triplets that the training of a recipe sees, as features of a kind."""
        base, suffix = split_kind(kind)
        if (base, recipe) not in self._lessons:
            identity = json.dumps(self.identity(recipe, base), sort_keys=True)
            out = self.folder / f"triplets-{base}-{_digest(identity)}"
            config = self.config(recipe, out, out)
            networks = self.bank.networks
            model = kind_model(
                base, networks.backbone, networks.backbone_weights, self.sampling, networks.device
            )
            data = None
            if base == I3D_KIND:
                footage = self._moving()
                pairs = annotated_pairs(footage, self.annotations)
                data = split(footage, pairs, config.data.held_out, most=config.data.held_out_most)
            self._lessons[base, recipe] = lesson(config, model, data, tell=self.tell)
        return self._lessons[base, recipe].whitened(self.bank.layer(kind) if suffix else None)

    def on_features(self, recipe: Recipe) -> ViSiL:
        """The outcome of a recipe on I3D's features of the videos to learn from (Table 8)."""
        key = f"i3d-{_slug(recipe, self.identity(recipe, I3D_KIND))}"
        if key not in self._models:
            self._models[key] = feature_model(
                recipe,
                self._moving(),
                self.folder / key,
                annotations=self.annotations,
                seed=self.seed,
                device=self.bank.networks.device,
                tell=self.tell,
            )
        return self._models[key]

    def _moving(self) -> FeatureFootage:
        """I3D's features of the videos to learn from: of windows, nothing but features is kept."""
        self.bank.prepare([I3D_KIND], self.bank.videos.learning)
        names = self.bank.readable(self.bank.videos.learning)
        return FeatureFootage(names, lambda name: self.bank.features(name, I3D_KIND))

    def _trained(self, recipe: Recipe, key: str) -> ViSiL:
        from visil.training.run import train

        folder, wanted = self.folder / key, self.identity(recipe)
        if _settings_in(folder) != wanted:
            start = self._start(recipe)
            config = self.config(recipe, self._whitened(recipe), folder)
            self.tell(described(config, recipe.model().replaced(dim=start.config.dim)))
            outcome = train(config, report=lambda fact: self.tell(fact) if isinstance(fact, str) else None)
            if outcome.stopped:  # the trainer catches Ctrl-C to write a checkpoint; here it ends everything
                raise KeyboardInterrupt
            with replacing(folder / DONE) as fresh:
                fresh.write_text(json.dumps(wanted), "utf-8")
        return ViSiL.from_pretrained(folder).to(self.bank.networks.device).eval()

    def _start(self, recipe: Recipe) -> ViSiL:
        """The recipe without its trained parts: on the benchmark's backbone, whitened where the recipe is."""
        networks, wanted = self.bank.networks, recipe.model()
        config = wanted.replaced(
            backbone=networks.backbone,
            stages=stages_of(networks.backbone),
            sampling=self.sampling,
            attention=None,
            comparator=None,
        )
        if wanted.dim is None:
            return ViSiL(config, with_backbone=False)
        kept = self._whitened(recipe)
        if (kept / "config.json").exists():
            found = ViSiL.from_pretrained(kept)
            found.config = config.replaced(dim=found.config.dim)
            return found.to(networks.device).eval()
        model = ViSiL(config.replaced(dim=None), with_backbone=False)
        model.load_backbone(networks.backbone_weights).to(networks.device)
        whitening = fitted(self._pca(model), wanted.dim, whiten=True)
        made = ViSiL(config.replaced(dim=whitening.dim), with_backbone=False)
        made.whitening, made.backbone, made.why_no_backbone = whitening, model.backbone, model.why_no_backbone
        made.save_pretrained(kept)
        return made.to(networks.device).eval()

    def _whitened(self, recipe: Recipe) -> Path:
        """Where the whitened model lies that recipes of this width start from."""
        return self.folder / f"whitened-{recipe.model().dim}-{_digest(self.learned_from())}"

    @torch.no_grad()
    def _pca(self, model: ViSiL) -> PCA:
        files = [Path(file) for file in self.bank.videos.learning_files]
        if len(files) < FEWEST:
            raise UsageError(
                f"training needs at least {FEWEST} videos to learn from, found {len(files)}: give --training"
            )
        self.tell("fitting the whitening")
        regions = sum(level**2 for level in model.config.levels)
        sampling = replace(self.sampling, fps=self.bank.videos.learning_fps)
        pca = PCA()
        for images in SampledFrames(files, sampling, FITTED_ON // regions, self.bank.progress):
            pca.partial_fit(model.region_vectors(images))
        return pca

    def learned_from(self, base: str = BASE) -> str:
        """The videos learned from, the network that features of a kind come from, and how frames are seen."""
        videos = self.bank.videos
        return repr((self.bank.networks.key(base), self.sampling, [videos.key(n) for n in videos.learning]))

    def identity(self, recipe: Recipe, base: str = BASE) -> dict[str, object]:
        """Everything that the outcome of a recipe on features of a kind depends on."""
        settings = {k: v for k, v in recipe.config.decisive().items() if k != "model.backbone_weights"}
        return {
            **json.loads(json.dumps(settings)),
            "seed": self.seed,
            "annotations": self._annotated,
            "of": _digest(self.learned_from(base)) if recipe.trained else "",
        }

    @cached_property
    def _annotated(self) -> str | None:
        """Tells annotations apart by the pairs that they hold, wherever they lie."""
        return None if self.annotations is None else _digest(repr(read_segments(self.annotations)))


def _slug(recipe: Recipe, identity: dict[str, object]) -> str:
    return f"{re.sub(r'[^A-Za-z0-9+.=-]+', '-', recipe.name)}-{_digest(json.dumps(identity, sort_keys=True))}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:8]


def _settings_in(folder: Path) -> dict[str, object] | None:
    try:
        found = json.loads((folder / DONE).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
