"""ViSiL's learned rows, trained for a few minutes on the videos to learn from, with the product's own trainer.

All models share the backbone, frozen, and one whitening fitted on the same videos, so that a row's features are made
from the raw L3-iMAC vectors that the other systems use, too. Hundreds of triplets stand for the paper's 200,000:
the order of rows is what such a table can show, not the height of its figures.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.files import replacing
from visil.model.config import ViSiLConfig
from visil.model.presets import VISIL_V
from visil.paper.ablation import Setting
from visil.paper.baselines.lessons import lesson
from visil.paper.baselines.triplets import SnippetTriplets, TripletSource
from visil.paper.baselines.visil_systems import RAW as BASE
from visil.paper.feature_bank import FeatureBank
from visil.paper.feature_kinds import I3D_KIND, kind_model, split_kind, stages_of
from visil.training.config import DataConfig, LossConfig, ModelConfig, OptimConfig, Part, TrainConfig
from visil.training.dataset import split
from visil.training.feature_footage import FeatureFootage
from visil.video import Sampling

DONE = "lesson.json"
"""In the folder of a finished model: the settings that it was trained with."""


@dataclass(frozen=True)
class ShortTraining:
    """Settings of a short training; γ (margin), r (regularisation) and W (window) are the paper's."""

    epochs: int = 2
    triplets: int = 100
    learning_rate: float = 1e-3
    batch: int = 1
    margin: float = 0.5
    regularisation: float = 0.1
    window: int = 64
    fps: float = 1.0
    seed: int = 0

    def with_setting(self, setting: Setting, value: float) -> ShortTraining:
        """The same with another γ, r or W."""
        match setting:
            case "margin":
                return replace(self, margin=value)
            case "regularisation":
                return replace(self, regularisation=value)
            case "window":
                return replace(self, window=round(value))


class ShortTrainer:
    """Trains models on the learning part of a benchmark, each once: kept below ``folder``."""

    def __init__(
        self,
        bank: FeatureBank,
        folder: Path,
        sampling: Sampling,
        *,
        cache: Path | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.bank, self.folder, self.sampling = bank, folder, sampling
        self.cache = cache or folder / "frames"
        self.tell = tell
        self._lessons: dict[tuple[str, ShortTraining], SnippetTriplets] = {}

    def model(self, name: str, row: ViSiLConfig, training: ShortTraining | None = None) -> ViSiL:
        """The row of a table as a model: as it is where it has nothing to train, else trained by ``training``.

        ``row`` says which parts it has and how it pools; backbone, regions and width are the benchmark's. ``name`` is
        that of its folder; the same name with other settings is trained anew.
        """
        training = training or ShortTraining()
        start = self._start(row, training.fps)
        if row.attention is None and row.comparator is None:
            return start
        folder = self.folder / name
        wanted = {**asdict(training), "row": row.to_json(), "of": self._identity()}
        if _settings_in(folder) == wanted:
            return ViSiL.from_pretrained(folder).eval()
        self.tell(f"training {name}")
        self._train(folder, start, row, training)
        with replacing(folder / DONE) as fresh:
            fresh.write_text(json.dumps(wanted), "utf-8")
        return ViSiL.from_pretrained(folder).eval()

    def triplets(self, kind: str, training: ShortTraining | None = None) -> TripletSource:
        """The triplets that such a training sees, as features of a kind."""
        training = training or ShortTraining()
        base, suffix = split_kind(kind)
        if (base, training) not in self._lessons:
            config = replace(self._config(VISIL_V, training), out=str(self.folder / f"triplets-{base}"))
            networks, sampling = self.bank.networks, replace(self.sampling, fps=training.fps)
            model = kind_model(base, networks.backbone, networks.backbone_weights, sampling, networks.device)
            data = None
            if base == I3D_KIND:  # nothing but features is kept of its windows
                self.bank.prepare([base])
                names = self.bank.readable(self.bank.videos.learning)
                footage = FeatureFootage(names, lambda name: self.bank.features(name, base))
                data = split(footage, [], config.data.held_out)
            self._lessons[base, training] = lesson(config, model, data, tell=self.tell)
        return self._lessons[base, training].whitened(self.bank.layer(kind) if suffix else None)

    def _train(self, folder: Path, start: ViSiL, row: ViSiLConfig, training: ShortTraining) -> None:
        from visil.training.run import train

        start.save_pretrained(folder / "start")
        config = self._config(row, training)
        outcome = train(
            replace(config, model=replace(config.model, start=str(folder / "start")), out=str(folder)),
            resume=False,
            report=lambda fact: self.tell(fact) if isinstance(fact, str) else None,
        )
        if outcome.stopped:  # the trainer catches Ctrl-C to write a checkpoint; here it ends everything
            raise KeyboardInterrupt

    def _config(self, row: ViSiLConfig, training: ShortTraining) -> TrainConfig:
        files = self.bank.videos.learning_files
        if len(files) < 4:
            raise UsageError(
                f"training needs at least 4 videos to learn from, found {len(files)}: give --training"
            )
        trained: tuple[Part, ...] = ("attention", "comparator") if row.comparator else ("attention",)
        return TrainConfig(
            data=DataConfig(
                videos=tuple(files),
                held_out=0.2,
                window=training.window,
                triplets=training.triplets,
                words=200,
                cache=str(self.cache),
            ),
            model=ModelConfig(name=row.name, attention=None, comparator=None),
            loss=LossConfig(margin=training.margin, regularisation=training.regularisation),
            optim=OptimConfig(
                epochs=training.epochs, batch=training.batch, lr=training.learning_rate, trainable=trained
            ),
            seed=training.seed,
            device=str(self.bank.networks.device),
        )

    def _start(self, row: ViSiLConfig, fps: float) -> ViSiL:
        """The row on the benchmark's backbone, with the whitening of the videos to learn from."""
        networks = self.bank.networks
        config = row.replaced(
            backbone=networks.backbone,
            stages=stages_of(networks.backbone),
            levels=(3,),
            dim=None,
            sampling=replace(self.sampling, fps=fps),
        )
        if row.dim is None:
            return ViSiL(config, with_backbone=False)
        self.bank.prepare([BASE])
        whitening = self.bank.whitening(BASE, row.dim)
        model = ViSiL(config.replaced(dim=whitening.dim), with_backbone=False)
        model.whitening = whitening
        model.load_backbone(networks.backbone_weights)
        return model.to(networks.device).eval()

    def _identity(self) -> str:
        """The videos learned from and the backbone."""
        videos = self.bank.videos
        return repr((self.bank.networks.key(BASE), [videos.key(name) for name in videos.learning]))


def _settings_in(folder: Path) -> dict[str, object] | None:
    try:
        found = json.loads((folder / DONE).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
