"""Compared systems by name, each taught once in a run; what triplets have taught is kept beside the trained models."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from torch import Tensor

from visil.errors import FileError
from visil.files import make_folder, replacing_tensors
from visil.paper.baselines.expansion import QE
from visil.paper.baselines.registry import QUICK, SYSTEMS, system
from visil.paper.baselines.system import ComparedSystem, Keepable
from visil.paper.feature_kinds import split_kind
from visil.paper.trained_models import TrainedModels
from visil.training.recipes import Recipe

EXPANDED = "+QE"


class TaughtSystems:
    """Systems that learn from the videos and, by ``paper``'s triplets, with the annotation of a :class:`TrainedModels`.

    ``quick``: their trainings are short ones.
    """

    def __init__(self, trainer: TrainedModels, paper: Recipe, *, quick: bool) -> None:
        self.trainer, self.paper, self.quick = trainer, paper, quick
        self._made: dict[tuple[str, str | None], ComparedSystem[Any]] = {}
        self._taught: set[ComparedSystem[Any]] = set()

    def system(self, name: str, reads: str | None = None) -> ComparedSystem[Any]:
        """The system called ``name``; one with query expansion expands the very system that is called so without."""
        base = name.removesuffix(EXPANDED) if name in SYSTEMS else name
        if (base, reads) not in self._made:
            self._made[base, reads] = system(base, reads=reads, **self.options(name))
        made = self._made[base, reads]
        return made if base == name else QE(made)

    def options(self, name: str) -> dict[str, Any]:
        """The settings of a short training."""
        return QUICK.get(name.removesuffix(EXPANDED), {}) if self.quick else {}

    def learned_from(self, made: ComparedSystem[Any]) -> str:
        """Everything that a system, or its kind of features, learns from; empty where nothing is learned."""
        base, suffix = split_kind(made.reads)
        if made.by_triplets:
            return json.dumps(self.trainer.identity(self.paper, base), sort_keys=True)
        return self.trainer.learned_from(base) if made.learns or suffix else ""

    def teach(self, made: ComparedSystem[Any]) -> None:
        """Train a system, unless it was trained in this run or in one before."""
        learner = made.system if isinstance(made, QE) else made
        if not learner.learns or learner in self._taught:
            return
        if isinstance(learner, Keepable):
            file = self._file(learner)
            if file.exists():
                learner.restore(_read(file))
            else:
                self._learn(learner)
                _write(file, learner)
        else:
            self._learn(learner)
        self._taught.add(learner)

    def _learn(self, learner: ComparedSystem[Any]) -> None:
        trainer = self.trainer
        triplets = trainer.triplets(learner.reads, self.paper) if learner.by_triplets else None
        learner.learn(trainer.bank.to_learn(learner.reads), seed=trainer.seed, triplets=triplets)

    def _file(self, learner: ComparedSystem[Any]) -> Path:
        """Where its lessons are kept: named by all that decides about them."""
        lessons = repr((learner.reads, self.options(learner.name), self.learned_from(learner)))
        digest = hashlib.sha256(lessons.encode("utf-8", "surrogateescape")).hexdigest()[:8]
        return self.trainer.folder / f"{learner.name}-{digest}.safetensors"


def _write(file: Path, learner: Keepable) -> None:
    from safetensors.torch import save_file

    make_folder(file.parent, "the folder of models")
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in learner.learned().items()}
    with replacing_tensors(file) as fresh:
        save_file(tensors, fresh)


def _read(file: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(file)
    except (OSError, SafetensorError) as error:
        raise FileError(file, "is damaged: delete it and run again") from error
