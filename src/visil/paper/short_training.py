"""ViSiL's learned rows, trained for a few minutes on the videos to learn from, with the product's own trainer.

All models share the backbone, frozen, and one whitening fitted on the same videos, so that a row's features are made
from the raw L3-iMAC vectors that the other systems use, too. Hundreds of triplets stand for the paper's 200,000:
the order of rows is what such a table can show, not the height of its figures.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.files import replacing
from visil.model.config import ViSiLConfig
from visil.model.features import VideoFeatures
from visil.paper.baselines.system import Scores
from visil.paper.baselines.visil_systems import ViSiLSystem
from visil.paper.feature_bank import FeatureBank
from visil.paper.features import stages_of
from visil.training.config import DataConfig, LossConfig, ModelConfig, OptimConfig, Part, TrainConfig
from visil.video import Sampling

BASE = "l3-imac"
"""Raw features that these models start from."""

DONE = "lesson.json"
"""What a finished model in its folder was trained with."""


@dataclass(frozen=True)
class Lesson:
    """A short training; γ, r and W are the paper's."""

    epochs: int = 2
    triplets: int = 100
    learning_rate: float = 1e-3
    batch: int = 1
    margin: float = 0.5
    regularisation: float = 0.1
    window: int = 64
    fps: float = 1.0
    seed: int = 0


class Refined:
    """A finished model on the raw region vectors of its backbone; nothing more is learned."""

    def __init__(self, model: ViSiL, name: str) -> None:
        self.name, self.reads, self.model = name, BASE, model
        self._system = ViSiLSystem(model, name)

    def learn(self, videos: Sequence[VideoFeatures], *, seed: int = 0) -> None:
        """Nothing: the model is finished."""

    @torch.inference_mode()
    def describe(self, video: VideoFeatures) -> Tensor:
        """Region vectors, whitened and weighted as the model does."""
        return self.model.refine(video.vectors.float().to(self.model.device)).cpu()

    def scores(self, query: Tensor, targets: Sequence[Tensor]) -> Scores:
        """CS_v with each target."""
        return self._system.scores(query, targets)


class School:
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

    def model(self, name: str, row: ViSiLConfig, lesson: Lesson | None = None) -> ViSiL:
        """The row of a table as a model: as it is where it has nothing to train, else trained by ``lesson``.

        ``row`` says which parts it has and how it pools; backbone, regions and width are the benchmark's. ``name`` is
        that of its folder; the same name with other settings is trained anew.
        """
        lesson = lesson or Lesson()
        start = self._start(row, lesson.fps)
        if row.attention is None and row.comparator is None:
            return start
        folder = self.folder / name
        wanted = {**asdict(lesson), "row": row.to_json(), "of": self._identity()}
        if _lesson(folder) == wanted:
            return ViSiL.from_pretrained(folder).eval()
        self.tell(f"training {name}")
        self._train(folder, start, row, lesson)
        with replacing(folder / DONE) as fresh:
            fresh.write_text(json.dumps(wanted), "utf-8")
        return ViSiL.from_pretrained(folder).eval()

    def _train(self, folder: Path, start: ViSiL, row: ViSiLConfig, lesson: Lesson) -> None:
        from visil.training.run import train

        files = self.bank.videos.learning_files
        if len(files) < 4:
            raise UsageError(
                f"training needs at least 4 videos to learn from, found {len(files)}: give --training"
            )
        start.save_pretrained(folder / "start")
        trained: tuple[Part, ...] = ("attention", "comparator") if row.comparator else ("attention",)
        outcome = train(
            TrainConfig(
                data=DataConfig(
                    videos=tuple(files),
                    held_out=0.2,
                    window=lesson.window,
                    triplets=lesson.triplets,
                    words=200,
                    cache=str(self.cache),
                ),
                model=ModelConfig(
                    start=str(folder / "start"), name=row.name, attention=None, comparator=None
                ),
                loss=LossConfig(margin=lesson.margin, regularisation=lesson.regularisation),
                optim=OptimConfig(
                    epochs=lesson.epochs, batch=lesson.batch, lr=lesson.learning_rate, trainable=trained
                ),
                seed=lesson.seed,
                out=str(folder),
                device=str(self.bank.networks.device),
            ),
            resume=False,
            report=lambda fact: self.tell(fact) if isinstance(fact, str) else None,
        )
        if outcome.stopped:  # the trainer catches Ctrl-C to write a checkpoint; here it ends everything
            raise KeyboardInterrupt

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


def _lesson(folder: Path) -> dict[str, object] | None:
    try:
        found = json.loads((folder / DONE).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
