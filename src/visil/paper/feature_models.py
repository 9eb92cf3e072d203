"""ViSiL on I3D's features (Table 8): a recipe's whitening, attention and comparator, without a backbone.

Trained by the trainer of ``visil train`` on videos that are features (:mod:`visil.training.feature_footage`): annotated
pairs are stretches that show the same action; made positives are changed in time alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from visil.compare.visil import ViSiL
from visil.model.whitening import PCA
from visil.paper.feature_kinds import I3D_KIND, fitted, kind_model
from visil.training.feature_footage import FeatureFootage
from visil.training.recipes import Recipe
from visil.training.run import train_on_features
from visil.training.segments import SegmentPair, located, read_segments

VECTORS = 1_000_000
"""Vectors that the whitening is fitted on, at most about, spread evenly."""


def feature_model(
    recipe: Recipe,
    footage: FeatureFootage,
    folder: Path,
    *,
    annotations: str | os.PathLike[str] | None = None,
    seed: int = 0,
    device: str | torch.device = "cpu",
    tell: Callable[[str], None] = lambda _: None,
) -> ViSiL:
    """The outcome of a recipe on I3D's features of the videos to learn from: trained in ``folder``, or gone on with."""
    wanted = recipe.model()
    plain = kind_model(I3D_KIND, wanted.backbone, None, wanted.sampling).config
    if wanted.dim is None:
        return ViSiL(plain.replaced(name=wanted.name), with_backbone=False).to(device)
    whitening = fitted(_pca(footage), min(wanted.dim, plain_width(footage)), whiten=True)
    config = plain.replaced(
        name=wanted.name,
        dim=whitening.dim,
        attention=wanted.attention,
        comparator=wanted.comparator,
        symmetric=wanted.symmetric,
        video_pool=wanted.video_pool,
    )
    model = ViSiL(config, with_backbone=False)
    model.whitening = whitening
    if not recipe.trained:
        return model.to(device).eval()
    pairs = annotated_pairs(footage, annotations)
    settings = replace(
        recipe.config,
        data=replace(recipe.config.data, annotations=None if annotations is None else os.fspath(annotations)),
        seed=seed,
        out=os.fspath(folder),
        device=str(device),
    )
    tell(f"training {recipe.name} on features of {len(footage)} videos, {len(pairs)} annotated pairs")
    outcome = train_on_features(
        settings, model, footage, pairs, report=lambda fact: tell(fact) if isinstance(fact, str) else None
    )
    if outcome.stopped:  # the trainer catches Ctrl-C to write a checkpoint; here it ends everything
        raise KeyboardInterrupt
    return ViSiL.from_pretrained(folder).to(device).eval()


def annotated_pairs(
    footage: FeatureFootage, annotations: str | os.PathLike[str] | None
) -> list[SegmentPair[int]]:
    """The annotated pairs among some videos, by their numbers; none without an annotation."""
    return [] if annotations is None else located(read_segments(annotations), footage.names)[0]


def plain_width(footage: FeatureFootage) -> int:
    """Channels of the features."""
    return footage.vectors(0).shape[-1]


def _pca(footage: FeatureFootage) -> PCA:
    total = sum(len(footage.times(video)) for video in range(len(footage)))
    every = max(1, -(-total // VECTORS))
    pca = PCA()
    for video in range(len(footage)):
        pca.partial_fit(footage.vectors(video)[::every])
    return pca
