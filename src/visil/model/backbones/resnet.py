"""ResNet-50 (He et al. 2016), the paper's backbone, with torchvision's parameter names.

Takes torchvision's IMAGENET1K_V1 weights as they are (V2 was trained otherwise and does not fit the authors'
whitening). The stride of a block sits in its 3×3 convolution, as in torchvision.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from visil.model.backbones.folding import normed

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


class Bottleneck(nn.Module):
    """1×1, 3×3, 1×1 with a shortcut; the output is four times as wide as the middle."""

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or channels_in != 4 * width:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] to [B, 4·width, H/stride, W/stride]."""
        shortcut = x
        if self.downsample is not None:
            conv, norm = self.downsample
            assert isinstance(conv, nn.Conv2d)
            shortcut = normed(conv, norm, x)
        x = F.relu(normed(self.conv1, self.bn1, x))
        x = F.relu(normed(self.conv2, self.bn2, x))
        return F.relu(normed(self.conv3, self.bn3, x) + shortcut)


class ResNet50(nn.Module):
    """Stages layer1 to layer4: 256, 512, 1024 and 2048 channels at strides 4, 8, 16 and 32."""

    channels: tuple[int, ...] = (256, 512, 1024, 2048)
    unused_keys = ("fc.weight", "fc.bias")
    """In the checkpoint, but of the classifier that is not built here."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = _layer(64, 64, blocks=3, stride=1)
        self.layer2 = _layer(256, 128, blocks=4, stride=2)
        self.layer3 = _layer(512, 256, blocks=6, stride=2)
        self.layer4 = _layer(1024, 512, blocks=3, stride=2)

    def preprocess(self, frames: Tensor) -> Tensor:
        """RGB uint8 [B, H, W, 3] to [B, 3, H, W], scaled to [0, 1] and normalised by ImageNet's mean and deviation."""
        dtype = self.conv1.weight.dtype
        mean = torch.tensor(MEAN, dtype=dtype, device=frames.device)
        std = torch.tensor(STD, dtype=dtype, device=frames.device)
        return ((frames.to(dtype) / 255 - mean) / std).permute(0, 3, 1, 2)

    def stages(self, images: Tensor) -> list[Tensor]:
        """The four residual stages' outputs, after their last ReLU."""
        x = F.max_pool2d(F.relu(normed(self.conv1, self.bn1, images)), 3, 2, padding=1)
        outputs = []
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = layer(x)
            outputs.append(x)
        return outputs


def _layer(channels_in: int, width: int, blocks: int, stride: int) -> nn.Sequential:
    first = Bottleneck(channels_in, width, stride)
    return nn.Sequential(first, *(Bottleneck(4 * width, width, 1) for _ in range(blocks - 1)))
