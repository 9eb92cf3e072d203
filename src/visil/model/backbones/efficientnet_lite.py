"""EfficientNet-Lite 0, 1 and 2 (Liu 2020; after Tan and Le 2019): the default backbone, small enough for a laptop.

Inverted residual blocks without squeeze-and-excitation, ReLU6 throughout, stem and head of fixed width. Parameters
carry the names of the published checkpoints. Convolutions pad as TensorFlow's "SAME" does, where the weights come
from: with stride 2 the extra row and column go to the bottom and right.
"""

from __future__ import annotations

from math import ceil

import torch.nn.functional as F
from torch import Tensor, nn

from visil.model.backbones.folding import normed

# kernel, stride, expansion, channels out, repeats: EfficientNet-B0's table.
BLOCKS = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)
STAGE_ENDS = (1, 2, 4, 6)
"""Rows of the table after which the resolution halves next (or the network ends): strides 4, 8, 16, 32."""


class SameConv2d(nn.Conv2d):
    """A convolution without bias whose output is ceil(size / stride), padded as TensorFlow pads."""

    def __init__(
        self, channels_in: int, channels_out: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__(channels_in, channels_out, kernel, stride, groups=groups, bias=False)

    def _conv_forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """[B, C, H, W] to [B, C', ceil(H/stride), ceil(W/stride)]."""
        (top, bottom), (left, right) = (
            same_padding(size, kernel, stride)
            for size, kernel, stride in zip(x.shape[-2:], self.kernel_size, self.stride, strict=True)
        )
        if top == bottom and left == right:  # cheaper without a padded copy
            return F.conv2d(x, weight, bias, self.stride, (top, left), groups=self.groups)
        x = F.pad(x, (left, right, top, bottom))
        return F.conv2d(x, weight, bias, self.stride, groups=self.groups)


class InvertedResidual(nn.Module):
    """Expand, depthwise, project (linear); a shortcut where the shape stays."""

    def __init__(self, channels_in: int, channels_out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = channels_in * expansion
        self.expands = expansion != 1
        if self.expands:
            self._expand_conv = SameConv2d(channels_in, width, 1)
            self._bn0 = _batch_norm(width)
        self._depthwise_conv = SameConv2d(width, width, kernel, stride, groups=width)
        self._bn1 = _batch_norm(width)
        self._project_conv = SameConv2d(width, channels_out, 1)
        self._bn2 = _batch_norm(channels_out)
        self.shortcut = stride == 1 and channels_in == channels_out

    @property
    def expand(self) -> SameConv2d:
        """The 1×1 convolution that widens; only where the block ``expands``."""
        return self._expand_conv

    @property
    def depthwise(self) -> SameConv2d:
        """The convolution of each channel by itself."""
        return self._depthwise_conv

    @property
    def project(self) -> SameConv2d:
        """The 1×1 convolution that narrows again, with no activation after it."""
        return self._project_conv

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] to [B, C', H/stride, W/stride]."""
        y = F.relu6(normed(self._expand_conv, self._bn0, x)) if self.expands else x
        y = F.relu6(normed(self._depthwise_conv, self._bn1, y))
        y = normed(self._project_conv, self._bn2, y)
        return x + y if self.shortcut else y


class EfficientNetLite(nn.Module):
    """Stages at strides 4, 8, 16, 32 (linear, no ReLU after them), and the head's 1280 channels as a fifth."""

    unused_keys = ("_fc.weight", "_fc.bias")

    def __init__(self, width: float, depth: float) -> None:
        super().__init__()
        self._conv_stem = SameConv2d(3, 32, 3, 2)
        self._bn0 = _batch_norm(32)
        blocks: list[InvertedResidual] = []
        ends: list[int] = []
        channels_in = 32
        for row, (kernel, stride, expansion, channels, repeats) in enumerate(BLOCKS):
            channels_out = _round_channels(channels * width)
            # The first and last rows keep their depth in the Lite networks.
            count = repeats if row in (0, len(BLOCKS) - 1) else ceil(repeats * depth)
            for i in range(count):
                blocks.append(
                    InvertedResidual(channels_in, channels_out, kernel, stride if i == 0 else 1, expansion)
                )
                channels_in = channels_out
            if row in STAGE_ENDS:
                ends.append(len(blocks) - 1)
        self._blocks = nn.ModuleList(blocks)
        self.stage_ends = tuple(ends)
        self._conv_head = SameConv2d(channels_in, 1280, 1)
        self._bn1 = _batch_norm(1280)
        self.channels: tuple[int, ...] = (*(blocks[end]._bn2.num_features for end in ends), 1280)

    @property
    def stem(self) -> SameConv2d:
        """The first convolution."""
        return self._conv_stem

    @property
    def blocks(self) -> list[InvertedResidual]:
        """All blocks, first to last; ``stage_ends`` counts them."""
        return [block for block in self._blocks if isinstance(block, InvertedResidual)]

    @property
    def head(self) -> SameConv2d:
        """The last convolution."""
        return self._conv_head

    def preprocess(self, frames: Tensor) -> Tensor:
        """RGB uint8 [B, H, W, 3] to [B, 3, H, W] in about [-1, 1]."""
        return ((frames.to(self._conv_stem.weight.dtype) - 127) / 128).permute(0, 3, 1, 2)

    def stages(self, images: Tensor) -> list[Tensor]:
        """Four stages and the head."""
        x = F.relu6(normed(self._conv_stem, self._bn0, images))
        outputs = []
        for i, block in enumerate(self._blocks):
            x = block(x)
            if i in self.stage_ends:
                outputs.append(x)
        outputs.append(F.relu6(normed(self._conv_head, self._bn1, x)))
        return outputs


def _batch_norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


def _round_channels(channels: float, divisor: int = 8) -> int:
    """To a multiple of eight, never more than a tenth below what was asked."""
    rounded = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Padding that TensorFlow adds before and after an axis, so that the output is ceil(size / stride)."""
    total = max((ceil(size / stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2
