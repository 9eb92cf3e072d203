"""Where tables are made: a benchmark, its features, and every system by name, each run once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.evaluation.benchmark import Figures
from visil.evaluation.predictions import Predictions
from visil.paper.baselines.frame_features import FrameFeatures
from visil.paper.baselines.registry import SYSTEMS, system
from visil.paper.baselines.system import System
from visil.paper.baselines.visil_systems import POOLED, POOLINGS, ROWS, visil_system
from visil.paper.compared import OnTargets, judge, kept_scores
from visil.paper.feature_bank import FeatureBank, Networks, OnVideos
from visil.paper.features import split_kind
from visil.paper.short_training import Lesson, Refined, School
from visil.paper.sources import Videos
from visil.video import Sampling

I3D = "I3D"
"""Its own features by dot product; not among the registry's systems, since its weights are nobody's to ship."""

NO_I3D = "needs the file of I3D's weights: --i3d-weights"

Tell = Callable[[str], None]


class Unavailable(UsageError):
    """A row that cannot be made here, and what is missing for it."""


@dataclass(frozen=True)
class Place:
    """Folders of a workbench: results, and what is kept for the next table."""

    out: Path

    @property
    def cache(self) -> Path:
        """What can be made again."""
        return self.out / "cache"

    @property
    def models(self) -> Path:
        """Trained models."""
        return self.out / "models"


class Workbench:
    """Rows by name, for all tables.

    ``models`` are finished models for rows of their own: {"ViSiL_v": model}. The row "model" is that of ``networks``.
    """

    def __init__(
        self,
        videos: Videos,
        networks: Networks,
        out: Path,
        sampling: Sampling,
        *,
        lesson: Lesson | None = None,
        models: Mapping[str, ViSiL] | None = None,
        on_videos: OnVideos | None = None,
        on_targets: OnTargets | None = None,
        tell: Tell = lambda _: None,
    ) -> None:
        self.videos, self.networks, self.sampling = videos, networks, sampling
        self.place = Place(out)
        self.lesson = lesson or Lesson()
        self.models = dict(models or {})
        self.bank = FeatureBank(videos, self.place.cache / "features", networks, on_videos)
        self.school = School(
            self.bank,
            self.place.models,
            sampling,
            cache=self.place.cache / f"frames-{sampling.fit}",
            tell=tell,
        )
        self._on_targets, self._tell = on_targets, tell
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
            self._kept[name, reads] = kept_scores(
                made, bank, self.place.cache / "scores", of, seed=self.lesson.seed, progress=self._on_targets
            )
        return self._kept[name, reads]

    def figures(self, name: str, reads: str | None = None) -> Figures:
        """The benchmark's figures of a system."""
        return judge(self.bank, self.predictions(name, reads))

    def judged(self, model: ViSiL, name: str) -> Figures:
        """The benchmark's figures of a model on the benchmark's backbone."""
        made = Refined(model, name)
        scores = self.place.cache / "scores"
        return judge(self.bank, kept_scores(made, self.bank, scores, _learned(model), seed=self.lesson.seed))

    def trained(self, name: str, lesson: Lesson | None = None, folder: str | None = None) -> ViSiL:
        """A row of Table 3 or 9 as a model on the benchmark's backbone, trained where it has parts to train."""
        row, frames, videos = POOLED.get(name, (name, "MP-AP", "MP-AP"))
        config = ROWS[row].replaced(frame_pool=POOLINGS[frames], video_pool=POOLINGS[videos])
        if (frames, videos) == ("MP-AP", "MP-AP"):
            name = row
        folder = folder or name.replace(" ", "-").replace("/", "-")
        if folder not in self._trained:
            self._trained[folder] = self.school.model(folder, config, lesson or self.lesson)
        return self._trained[folder]

    def system(self, name: str, reads: str | None = None) -> System[Any]:
        """A system by name; what it learns by training with pictures is trained already."""
        return self._system(name, reads)[0]

    def _system(self, name: str, reads: str | None) -> tuple[System[Any], FeatureBank, str]:
        """The system, the features that it takes, and what it is beyond its name."""
        kind = reads or self._reads(name)
        if kind is not None and split_kind(kind)[0] == "i3d" and self.networks.i3d_weights is None:
            raise Unavailable(NO_I3D)
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
            return Refined(model, name), self.bank, _learned(model)
        return system(name, reads=reads), self.bank, ""

    def _reads(self, name: str) -> str | None:
        if name == I3D:
            return "i3d"
        if name in self.models:
            return None
        if name == "model":
            return "model" if self.networks.model is not None else None
        if name in ROWS or name in POOLED:
            return "l3-imac"
        return system(name).reads


def _learned(model: ViSiL) -> str:
    """Tells two models of the same row apart: their settings and the sums of what was trained."""
    parts = [p for part in (model.attention, model.comparator) if part is not None for p in part.parameters()]
    return " ".join([repr(model.config), *(f"{float(p.detach().double().sum()):.9g}" for p in parts)])
