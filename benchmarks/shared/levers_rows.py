"""The rows of the table that chose the default model: a base, and one change each."""

from __future__ import annotations

from dataclasses import dataclass, replace

from visil.model.config import ViSiLConfig
from visil.training.config import FrameStage
from visil.video import Sampling

BASE = ViSiLConfig(
    name="lever",
    backbone="efficientnet-lite0",
    stages=(1, 2, 3),
    levels=(1, 2, 3),
    dim=256,
    symmetric=True,
    frame_pool=("max", "top3"),
    sampling=Sampling(resize=224, crop=224, fit="whole"),
)
STAGE = FrameStage(
    steps=2000, batch=256, lr=5e-4, twice=0.25, shift=0.5, composite=0.55, scale=(0.25, 0.7), keep=0.998
)
"""As in the training of the default model."""
SIDE = 320
"""Frames are decoded once at this size; a row that sees less has them scaled down."""


@dataclass(frozen=True)
class Row:
    """One model of the table."""

    config: ViSiLConfig
    stage: FrameStage


def row(stage: FrameStage = STAGE, **changes: object) -> Row:
    """The base with something changed."""
    return Row(BASE.replaced(**changes), stage)


ROWS = {
    "base": row(),
    "lite1": row(backbone="efficientnet-lite1"),
    "lite2": row(backbone="efficientnet-lite2"),
    "L3": row(levels=(3,)),
    "L1+L3": row(levels=(1, 3)),
    "L1+2+3+4": row(levels=(1, 2, 3, 4)),
    "top1": row(frame_pool=("max", "max")),
    "top2": row(frame_pool=("max", "top2")),
    "top5": row(frame_pool=("max", "top5")),
    "mean": row(frame_pool=("max", "mean")),
    "one way": row(symmetric=False),
    "width 128": row(dim=128),
    "width 384": row(dim=384),
    "stages 2,3": row(stages=(2, 3)),
    "stages 2,3,4": row(stages=(2, 3, 4), dim=256),
    "stages 1,2,3,4": row(stages=(1, 2, 3, 4), dim=256),
    "stages 1,2,3,4, width 512": row(stages=(1, 2, 3, 4), dim=512),
    "batch 128": row(replace(STAGE, batch=128)),
    "batch 512": row(replace(STAGE, batch=512)),
    "hot 0.1": row(replace(STAGE, temperature=0.1)),
    "cold 0.03": row(replace(STAGE, temperature=0.03)),
    "lr 1e-3": row(replace(STAGE, lr=1e-3)),
    "no composite": row(replace(STAGE, composite=0.0)),
    "composite 0.8": row(replace(STAGE, composite=0.8)),
    "strength 0.6": row(replace(STAGE, strength=0.6)),
    "strength 1.3": row(replace(STAGE, strength=1.3)),
    "projection alone": row(replace(STAGE, learn=("whitening",))),
    "triplets": row(replace(STAGE, margin=0.2)),
    "spread": row(replace(STAGE, spread=0.1)),
    "one moment a video": row(replace(STAGE, twice=0.0)),
    "no shift": row(replace(STAGE, shift=0.0)),
    "small pictures": row(replace(STAGE, scale=(0.2, 0.7))),
    "no running mean": row(replace(STAGE, keep=0.0)),
    "side 256": row(sampling=Sampling(resize=256, crop=256, fit="whole")),
    "side 288": row(sampling=Sampling(resize=288, crop=288, fit="whole")),
    "side 320": row(sampling=Sampling(resize=320, crop=320, fit="whole")),
}
