"""Fitting to vectors before anything learns: a whitening (Sec. 4.1), from video files or footage, and where a binary
code begins.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from visil.collection.discover import discover
from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.model.attention import BinaryCode
from visil.model.backbones import BACKBONES, channels_of
from visil.model.config import ViSiLConfig
from visil.model.whitening import PCA
from visil.progress import Counted
from visil.training.footage import Footage
from visil.training.sampled_frames import SampledFrames, spread

FRAMES = 64
"""Frames that go through the backbone together while a whitening is fitted."""

VECTORS = 1_000_000
"""Region vectors a whitening is fitted on, at most about: as many as the paper's."""


@dataclass(frozen=True)
class Fitted:
    """A model with a new whitening, and the data it was fitted on."""

    model: ViSiL
    videos: int
    vectors: int
    failed: list[tuple[str, str]]
    """Videos left out, each with the reason."""


def whitened_config(
    backbone: str, stages: tuple[int, ...] | None, levels: tuple[int, ...], dim: int | None
) -> ViSiLConfig:
    """ViSiL_f+W on a backbone; ``lite0`` is short for ``efficientnet-lite0``."""
    name = _full_name(backbone)
    channels = channels_of(name)
    if stages is None:
        # Of EfficientNet-Lite, as in the default model; of ResNet-50, all four, as in the paper.
        stages = (1, 2, 3) if name.startswith("efficientnet") else tuple(range(len(channels)))
    width = sum(channels[i] for i in stages if 0 <= i < len(channels))
    return ViSiLConfig(
        name=f"visil-{backbone}-f+w", backbone=name, stages=stages, levels=levels, dim=dim or width
    )


def recipe_config(name: str, backbone: str | None = None, dim: int | None = None) -> ViSiLConfig:
    """ViSiL_f+W as a recipe has it: what its attention and comparator are trained on."""
    from visil.training.recipes import recipe_called

    recipe = recipe_called(name)
    config = recipe.on(backbone and _full_name(backbone), None).model()
    if config.dim is None:
        raise UsageError(f"{name} is not whitened: choose paper, or another recipe that is")
    return config.replaced(
        name=f"{name}-whitening", attention=None, comparator=None, symmetric=False, dim=dim or config.dim
    )


def _full_name(backbone: str) -> str:
    name = backbone if backbone in BACKBONES else f"efficientnet-{backbone}"
    return name if name in BACKBONES else backbone


@torch.no_grad()
def fit_whitening(
    paths: Sequence[str | os.PathLike[str]],
    config: ViSiLConfig,
    device: torch.device,
    progress: Counted | None = None,
    *,
    weights: str | os.PathLike[str] | None = None,
    vectors: int = VECTORS,
) -> Fitted:
    """Fit on the videos named or below a folder named: on all frames, or ``vectors`` vectors spread evenly over them.

    What cannot be read is left out. ``weights`` is the file of the backbone's.
    """
    model = ViSiL(config, with_backbone=False).load_backbone(weights).to(device)
    files = list(discover(paths))
    pca = PCA()
    sampled = SampledFrames(files, config.sampling, max(1, vectors // _regions(config)), progress)
    for images in sampled:
        pca.partial_fit(model.region_vectors(images))
    failed = sampled.failed
    if len(failed) == len(files):
        raise UsageError(f"no video to fit on: {failed[0][1] if failed else 'none was found'}")
    model.whitening = pca.whitening(config.dim, whiten=config.whiten).to(device)
    return Fitted(model, len(files) - len(failed), pca.count_, failed)


@torch.no_grad()
def fit_on_footage(model: ViSiL, footage: Footage, vectors: int = VECTORS) -> None:
    """Fit the model's whitening on frames spread evenly over all videos."""
    counts = [len(footage.times(video)) for video in range(len(footage))]
    every = max(1.0, sum(counts) * _regions(model.config) / vectors)
    pca = PCA()
    for video, positions in enumerate(spread(counts, every)):
        for start in range(0, len(positions), FRAMES):
            images = footage.images(video, positions[start : start + FRAMES])
            pca.partial_fit(model.region_vectors(images))
    model.whitening = pca.whitening(model.config.dim, whiten=model.config.whiten).to(model.device)


def _regions(config: ViSiLConfig) -> int:
    """Vectors of one frame."""
    return sum(level**2 for level in config.levels) if config.pooling == "imac" else 1


ITERATIONS = 50

ROTATION_VECTORS = 50_000
"""Region vectors that are learned from, about."""


@torch.no_grad()
def fit_rotation(model: ViSiL, footage: Footage, vectors: int = ROTATION_VECTORS) -> None:
    """Turn the binary code of a model whose whitening is fitted, so that signs lose least of the training vectors."""
    assert isinstance(model.attention, BinaryCode)
    counts = [len(footage.times(video)) for video in range(len(footage))]
    first = model.region_vectors(footage.images(0, [0]))
    every = max(1, round(sum(counts) * first.shape[1] / vectors))
    parts = []
    for video, count in enumerate(counts):
        raw = model.region_vectors(footage.images(video, range(video % every, count, every) or [0]))
        parts.append(raw if model.whitening is None else model.whitening(raw))
    model.attention.rotation.copy_(itq(torch.cat(parts).flatten(0, 1)))


def itq(vectors: Tensor, iterations: int = ITERATIONS, seed: int = 0) -> Tensor:
    """A rotation R [C, C] that makes |sign(V R) - V R|² small, V vectors [N, C] of unit length.

    ITQ (Gong and Lazebnik, "Iterative quantization: a Procrustean approach to learning binary codes", CVPR 2011), which
    the authors of DnS begin with, too: in turn, the nearest signs of the rotated vectors, and the rotation nearest to
    those.
    """
    unit = F.normalize(vectors.double(), dim=-1)
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(unit.shape[1], unit.shape[1], generator=generator, dtype=torch.float64)
    rotation = torch.linalg.qr(start).Q.to(unit)
    for _ in range(iterations):
        signs = torch.sign(unit @ rotation)
        left, _, right = torch.linalg.svd(signs.T @ unit)
        rotation = right.T @ left.T
    return rotation
