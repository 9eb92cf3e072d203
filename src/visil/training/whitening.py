"""Fitting a whitening (Sec. 4.1): frames through a backbone into a PCA, from video files or from footage."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from visil.collection.discover import discover
from visil.compare.visil import ViSiL
from visil.errors import UsageError, VideoError
from visil.model.backbones import BACKBONES, backbone_spec
from visil.model.config import ViSiLConfig
from visil.model.whitening import PCA
from visil.progress import Counted
from visil.training.footage import Footage
from visil.video import stream_frames

FRAMES = 64
"""Frames that go through the backbone together while a whitening is fitted."""

VECTORS = 1_000_000
"""Region vectors a whitening is fitted on, at most about: as many as the paper's."""


@dataclass(frozen=True)
class Fitted:
    """A model with a new whitening, and what it was fitted on."""

    model: ViSiL
    videos: int
    vectors: int
    failed: list[tuple[str, str]]
    """Videos left out, each with the reason."""


def whitened_config(
    backbone: str, stages: tuple[int, ...] | None, levels: tuple[int, ...], dim: int | None
) -> ViSiLConfig:
    """ViSiL_f+W on a backbone; ``lite0`` is short for ``efficientnet-lite0``."""
    name = backbone if backbone in BACKBONES else f"efficientnet-{backbone}"
    spec = backbone_spec(name if name in BACKBONES else backbone)
    channels = spec.build().channels
    if stages is None:
        # Of EfficientNet-Lite, as in the default model; of ResNet-50, all four, as in the paper.
        stages = (1, 2, 3) if name.startswith("efficientnet") else tuple(range(len(channels)))
    width = sum(channels[i] for i in stages if 0 <= i < len(channels))
    return ViSiLConfig(
        name=f"visil-{backbone}-f+w", backbone=name, stages=stages, levels=levels, dim=dim or width
    )


@torch.no_grad()
def fit_whitening(
    paths: Sequence[str | os.PathLike[str]],
    config: ViSiLConfig,
    device: torch.device,
    progress: Counted | None = None,
) -> Fitted:
    """Fit on every frame of every video named or below a folder named; what cannot be read is left out."""
    model = ViSiL(config, with_backbone=False).load_backbone().to(device)
    files = list(discover(paths))
    pca = PCA()
    failed: list[tuple[str, str]] = []
    for number, file in enumerate(files, start=1):
        try:
            with stream_frames(file, config.sampling) as stream:
                for batch in stream:
                    pca.partial_fit(model.region_vectors(batch.images))
        except VideoError as error:
            failed.append((os.fspath(file), error.reason))
        if progress is not None:
            progress(number, len(files), os.fspath(file))
    if len(failed) == len(files):
        raise UsageError(f"no video to fit on: {failed[0][1] if failed else 'none was found'}")
    model.whitening = pca.whitening(config.dim, whiten=config.whiten).to(device)
    return Fitted(model, len(files) - len(failed), pca.count_, failed)


@torch.no_grad()
def fit_on_footage(model: ViSiL, footage: Footage, vectors: int = VECTORS) -> None:
    """Fit the model's whitening on frames spread evenly over all videos."""
    counts = [len(footage.times(video)) for video in range(len(footage))]
    regions = model.region_vectors(footage.images(0, [0])).shape[1]
    every = max(1, round(sum(counts) * regions / vectors))
    pca = PCA()
    for video, count in enumerate(counts):
        for start in range(0, count, FRAMES * every):
            images = footage.images(video, range(start, min(start + FRAMES * every, count), every))
            pca.partial_fit(model.region_vectors(images))
    model.whitening = pca.whitening(model.config.dim, whiten=model.config.whiten).to(model.device)
