"""VGG-16 (Simonyan and Zisserman 2015), with torchvision's parameter names: what LBoW's paper reads its words from.

Takes torchvision's IMAGENET1K_V1 weights (``vgg16-397923af.pth``) as they are. Layers are the 11 convolutions from
conv2_1 to conv5_3, after their ReLU: 4,096 channels in all, as in the released features of that paper.
"""

from __future__ import annotations

import os

import torch
from torch import Tensor, nn

from visil.errors import ModelError
from visil.model.backbones.resnet import MEAN, STD
from visil.model.backbones.weights import load_into, read_checkpoint

FILE = "vgg16-397923af.pth"
"""Name of torchvision's file of weights."""

BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Widths of the convolutions, a pooling between one block and the next."""


class VGG16(nn.Module):
    """Frames to the maps of its layers, without the classifier."""

    unused_keys = tuple(f"classifier.{i}.{part}" for i in (0, 3, 6) for part in ("weight", "bias"))
    channels: tuple[int, ...] = tuple(width for block in BLOCKS[1:] for width in block)

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = 3
        for block in BLOCKS:
            for wider in block:
                layers += [nn.Conv2d(width, wider, 3, padding=1), nn.ReLU()]
                width = wider
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)

    @classmethod
    def from_file(cls, weights: str | os.PathLike[str] | None) -> VGG16:
        """The network with torchvision's weights, ready for inference."""
        if weights is None:
            raise ModelError(f"VGG-16 needs weights: give torchvision's {FILE} as vgg_weights")
        network = cls()
        load_into(network, read_checkpoint(weights), os.fspath(weights), cls.unused_keys)
        return network.eval()

    def layers(self, frames: Tensor) -> list[Tensor]:
        """RGB uint8 [B, H, W, 3] to the maps of conv2_1 to conv5_3, [B, C_l, H_l, W_l] each."""
        weight = self.features[0].weight
        assert isinstance(weight, Tensor)
        mean, std = (torch.tensor(values, dtype=weight.dtype, device=weight.device) for values in (MEAN, STD))
        x = ((frames.to(weight) / 255 - mean) / std).permute(0, 3, 1, 2)
        found = []
        for layer in list(self.features.children())[:-1]:  # the last pooling leads to the classifier
            x = layer(x)
            if isinstance(layer, nn.ReLU):
                found.append(x)
        return found[len(BLOCKS[0]) :]
