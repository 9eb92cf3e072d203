"""A benchmark, its features, and every system by name: each row of a table is scored once, and its scores kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.evaluation.benchmark import Figures
from visil.evaluation.predictions import Predictions, read_predictions, write_predictions
from visil.evaluation.scoring import score_videos
from visil.paper.baselines.frame_features import FrameFeatures
from visil.paper.baselines.registry import QUICK, SYSTEMS, system
from visil.paper.baselines.system import ComparedSystem
from visil.paper.baselines.triplets import TripletSource
from visil.paper.baselines.visil_systems import POOLED, POOLINGS, ROWS, RefinedSystem, visil_system
from visil.paper.feature_bank import FeatureBank, Networks
from visil.paper.feature_kinds import VGG, split_kind
from visil.paper.short_training import ShortTrainer, ShortTraining
from visil.paper.videos import Videos
from visil.progress import Counted
from visil.video import Sampling

I3D = "I3D"
"""Its own features by dot product; not among the registry's systems, since its weights are nobody's to ship."""

NO_I3D = "needs the file of I3D's weights: --i3d-weights"

Tell = Callable[[str], None]


class Unavailable(UsageError):
    """A row that cannot be made here, and what is missing for it."""


class Experiment:
    """Rows by name, for all tables.

    Results go to ``out``; features, frames, scores and trained models stay there for the next table. ``models`` are
    finished models for rows of their own: {"ViSiL_v": model}. The row "model" is that of ``networks``.
    """

    def __init__(
        self,
        videos: Videos,
        networks: Networks,
        out: Path,
        sampling: Sampling,
        *,
        training: ShortTraining | None = None,
        models: Mapping[str, ViSiL] | None = None,
        on_videos: Counted | None = None,
        tell: Tell = lambda _: None,
    ) -> None:
        self.videos, self.networks, self.sampling, self.out = videos, networks, sampling, out
        self.models_folder, self._scores_folder = out / "models", out / "cache" / "scores"
        self.training = training or ShortTraining()
        self.models = dict(models or {})
        self.bank = FeatureBank(videos, out / "cache" / "features", networks, on_videos)
        frames = out / "cache" / f"frames-{sampling.fit}"
        self.trainer = ShortTrainer(self.bank, self.models_folder, sampling, cache=frames, tell=tell)
        self._tell = tell
        self._kept: dict[tuple[str, str | None], Predictions] = {}
        self._trained: dict[str, ViSiL] = {}

    def names(self) -> list[str]:
        """Every system that a table can have."""
        return [*SYSTEMS, I3D]

    def prepare(self, rows: Mapping[str, str | None]) -> None:
        """Make the features of many rows ({name: other features, or None}) in one pass."""
        kinds = []
        for name, reads in rows.items():
            kind = reads or self._reads(name)
            if kind is not None and not (split_kind(kind)[0] == "i3d" and self.networks.i3d_weights is None):
                kinds.append(kind)
        self.bank.prepare(kinds)

    def predictions(self, name: str, reads: str | None = None) -> Predictions:
        """Scores of a system, made now or before."""
        if (name, reads) not in self._kept:
            made, bank, of = self._system(name, reads)
            self._tell(f"comparing: {name}")
            self._kept[name, reads] = self._scored(made, bank, of)
        return self._kept[name, reads]

    def figures(self, name: str, reads: str | None = None) -> Figures:
        """The benchmark's figures of a system."""
        return self._evaluated(self.predictions(name, reads))

    def figures_of(self, model: ViSiL, name: str) -> Figures:
        """The benchmark's figures of a model on the benchmark's backbone."""
        return self._evaluated(self._scored(RefinedSystem(model, name), self.bank, _learned(model)))

    def trained(self, name: str, training: ShortTraining | None = None, folder: str | None = None) -> ViSiL:
        """A row of Table 3 or 9 as a model on the benchmark's backbone, trained where it has parts to train."""
        row, frames, videos = POOLED.get(name, (name, "MP-AP", "MP-AP"))
        config = ROWS[row].replaced(frame_pool=POOLINGS[frames], video_pool=POOLINGS[videos])
        if (frames, videos) == ("MP-AP", "MP-AP"):
            name = row
        folder = folder or name.replace(" ", "-").replace("/", "-")
        if folder not in self._trained:
            self._trained[folder] = self.trainer.model(folder, config, training or self.training)
        return self._trained[folder]

    def system(self, name: str, reads: str | None = None) -> ComparedSystem[Any]:
        """A system by name; what it learns by training with pictures is trained already."""
        return self._system(name, reads)[0]

    def _system(self, name: str, reads: str | None) -> tuple[ComparedSystem[Any], FeatureBank, str]:
        """The system, the features that it takes, and what it is beyond its name."""
        kind = reads or self._reads(name)
        if kind is not None and split_kind(kind)[0] == "i3d" and self.networks.i3d_weights is None:
            raise Unavailable(NO_I3D)
        if kind == VGG:
            reads = kind
        if name == I3D:
            return FrameFeatures(I3D, "i3d"), self.bank, ""
        if name in self.models:
            model = self.models[name]
            bank = FeatureBank(
                self.videos,
                self.bank.folder,
                replace(self.networks, model=model, _keys={}),
                self.bank.progress,
            )
            return visil_system(name, model), bank, model.fingerprint()
        if name == "model":
            if self.networks.model is None:
                raise Unavailable("needs a model: --model")
            made = system("model", model=self.networks.model)
            return made, self.bank, repr(self.networks.model.config)
        if reads is None and (name in ROWS or name in POOLED):
            model = self.trained(name)
            return RefinedSystem(model, name), self.bank, _learned(model)
        return system(name, reads=reads, **QUICK.get(name, {})), self.bank, ""

    def _scored(self, made: ComparedSystem[Any], bank: FeatureBank, of: str) -> Predictions:
        """Scores of a system, read back where they were computed from the same things before.

        ``of`` says what the system is beyond its name and features, such as how it was trained.
        """
        file = self._scores_folder / f"{_digest(made, bank, of, self.training.seed)}.json"
        if file.exists():
            return read_predictions(file)
        source = self.trainer.triplets(made.reads, self.training) if made.by_triplets else None
        found = score_system(made, bank, seed=self.training.seed, triplets=source)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_predictions(file, found)
        return found

    def _evaluated(self, predictions: Predictions) -> Figures:
        """The benchmark's figures; videos that could not be had are left out of the truth."""
        here = frozenset(self.bank.readable(self.bank.ids))
        return self.videos.benchmark.evaluate(predictions.scores, here)

    def _reads(self, name: str) -> str | None:
        if name == I3D:
            return "i3d"
        if name in self.models:
            return None
        if name == "model":
            return "model" if self.networks.model is not None else None
        if name in ROWS or name in POOLED:
            return "l3-imac"
        if name == "LBoW" and self.networks.vgg_weights is not None:
            return VGG
        return system(name).reads


def _learned(model: ViSiL) -> str:
    """Tells two models of the same row apart: their settings and the sums of what was trained."""
    parts = [p for part in (model.attention, model.comparator) if part is not None for p in part.parameters()]
    return " ".join([repr(model.config), *(f"{float(p.detach().double().sum()):.9g}" for p in parts)])


def score_system(
    made: ComparedSystem[Any], bank: FeatureBank, *, seed: int = 0, triplets: TripletSource | None = None
) -> Predictions:
    """Let a system learn, then score every query with all that counts for it, as ``visil evaluate`` does."""
    benchmark = bank.videos.benchmark
    bank.prepare([made.reads])
    if made.learns:
        made.learn(bank.to_learn(made.reads), seed=seed, triplets=triplets)
    answers = score_videos(
        made,
        lambda name: bank.features(name, made.reads),
        bank.readable(benchmark.queries),
        lambda query: bank.readable(benchmark.candidates(query)),
    )
    return answers.predictions


def _digest(made: ComparedSystem[Any], bank: FeatureBank, of: str, seed: int) -> str:
    base = made.reads.partition("+")[0]
    text = [made.name, made.reads, of, str(seed), bank.networks.key(base)]
    text += [f"{name} {bank.videos.key(name)}" for name in bank.ids]
    return hashlib.sha256("\n".join(text).encode("utf-8", "surrogateescape")).hexdigest()[:32]
