"""A training run small enough for a test: made footage, a small model, the real sampler and transforms."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from array_footage import ArrayFootage
from synthetic import moving_scene
from visil.compare.visil import ViSiL
from visil.edits.clips import PaperPositive
from visil.model.config import ViSiLConfig
from visil.training.config import DataConfig, LossConfig, OptimConfig, TrainConfig
from visil.training.distributed import Processes
from visil.training.embedding import SnippetEmbedder
from visil.training.pools import ArtificialPool
from visil.training.trainable import learning_parts
from visil.training.trainer import Trainer
from visil.training.triplets import TripletSampler
from visil.training.validation import Validation, edited_copies
from visil.training.videos import Batch, VideoObjective, video_trainer
from visil.training.whitening import fit_on_footage

SIDE, FRAMES, WINDOW = 32, 12, 8


@cache
def footage(videos: int = 8, first: int = 0) -> ArrayFootage:
    """Videos of a few small frames, a second apart."""
    scenes = [
        np.stack(list(moving_scene(first + seed, FRAMES, fps=1, size=(SIDE, SIDE)))) for seed in range(videos)
    ]
    return ArrayFootage(scenes)


@cache
def _prototype() -> ViSiL:
    config = ViSiLConfig(
        backbone="efficientnet-lite0",
        stages=(0, 1),
        levels=(2,),
        dim=24,
        attention="context",
        comparator="replicate",
    )
    model = ViSiL(config, with_backbone=False).load_backbone()
    fit_on_footage(model, footage(8, 200))
    return model


def toy_model() -> ViSiL:
    """Two stages of a pretrained backbone, four regions, an untrained head; the same each time."""
    prototype = _prototype()
    model = ViSiL(prototype.config)
    model.load_state_dict(prototype.state_dict())
    return model


def toy_config(out: Path, **optim: Any) -> TrainConfig:
    settings = replace(OptimConfig(epochs=2, batch=4, lr=2e-3), **optim)
    return TrainConfig(
        data=DataConfig(window=WINDOW, triplets=12),
        loss=LossConfig(),
        optim=settings,
        out=str(out),
        device="cpu",
    )


def toy_trainer(
    config: TrainConfig, model: ViSiL, processes: Processes | None = None, *, videos: int = 8, edits: int = 1
) -> Trainer[Batch]:
    """A trainer on some videos, validated on as many others, edited by their own seed."""
    learned, held = footage(videos), footage(videos, 100)
    every = range(len(learned))
    negatives = [[other for other in every if other != video] for video in every]
    sampler = TripletSampler(
        [ArtificialPool(list(every), negatives)],
        [learned.times(video) for video in every],
        config.data.triplets,
        config.data.window,
        seed=config.seed,
    )
    learning = learning_parts(model, config.optim.trainable)
    embedder = SnippetEmbedder(model, learned, PaperPositive(), learning)
    judged = SnippetEmbedder(model, held, PaperPositive(), learning)
    validation = Validation(judged, *edited_copies(held, config.data.window, edits))
    return video_trainer(VideoObjective(config, model, embedder, sampler, validation, processes=processes))
