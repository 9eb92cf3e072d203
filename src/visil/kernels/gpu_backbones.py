"""Frames to region vectors on a CUDA GPU: fused networks in half precision, regions by one kernel a stage.

Each convolution goes with its bias, its ReLU and the shortcut's addition as one call of cuDNN, so that maps are read
and written once a layer, which is most of the time of networks this small on a GPU this fast. cuDNN's fused call knows
ReLU, not ReLU6: what lies above six after a 1×1 convolution is cut off by the depthwise kernel that reads it
(:mod:`visil.kernels.triton_maps`), and by a clamp where none follows.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from visil.kernels.passed_checks import passed
from visil.kernels.triton_maps import depthwise_relu6, regional_max_into
from visil.model.backbones import Backbone
from visil.model.backbones.efficientnet_lite import (
    EfficientNetLite,
    InvertedResidual,
    SameConv2d,
    same_padding,
)
from visil.model.backbones.folding import folded
from visil.model.backbones.resnet import Bottleneck, ResNet50

AGREEMENT = 0.02
"""How far maps in half precision may lie from those in single, as a share of their norm."""


def fused(backbone: nn.Module, last: int) -> FusedResNet50 | FusedEfficientNetLite | None:
    """A copy for inference in half precision up to stage ``last``, where there is one and it computes the same here."""
    made: FusedResNet50 | FusedEfficientNetLite
    if isinstance(backbone, ResNet50):
        made = FusedResNet50(backbone, torch.float16, last).eval()
    elif isinstance(backbone, EfficientNetLite):
        made = FusedEfficientNetLite(backbone, torch.float16, last).eval()
    else:
        return None
    weights = (*backbone.parameters(), *backbone.buffers())
    device = weights[0].device
    agree = passed(lambda: _agree(made, backbone), f"{type(made).__name__}-{last}", device, weights)
    return made if agree else None


@torch.inference_mode()
def _agree(made: Backbone, backbone: ResNet50 | EfficientNetLite) -> bool:
    """Whether the copy's maps of a small picture are the network's: drivers and libraries differ, features must not."""
    device = next(backbone.parameters()).device
    picture = torch.randint(
        0, 256, (2, 96, 96, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )
    images = backbone.preprocess(picture.to(device)).contiguous(memory_format=torch.channels_last)
    try:
        pairs = zip(made.stages(images.half()), backbone.stages(images), strict=False)
        return all((a.float() - b).norm() <= AGREEMENT * b.norm() for a, b in pairs)
    except Exception:  # whatever a library raises that lacks an operation: the plain network takes over
        return False


def imac(maps: Sequence[Tensor], levels: Sequence[int]) -> Tensor:
    """:func:`visil.model.regions.imac` of half-precision maps, channels last: float32 [B, R, C]."""
    count = sum(level * level for level in levels)
    widths = [stage.shape[1] for stage in maps]
    pooled = torch.empty(len(maps[0]), count, sum(widths), dtype=maps[0].dtype, device=maps[0].device)
    left = 0
    for stage, width in zip(maps, widths, strict=True):
        stage = stage.contiguous(memory_format=torch.channels_last)
        top = 0
        for level in levels:
            regional_max_into(stage, level, pooled[:, top : top + level * level, left : left + width])
            top += level * level
        left += width
    parts = [F.normalize(part.float(), dim=-1) for part in pooled.split(widths, dim=-1)]
    return F.normalize(torch.cat(parts, dim=-1), dim=-1)


class FusedResNet50(nn.Module):
    """A :class:`ResNet50` for inference on a GPU, in half precision."""

    channels = ResNet50.channels

    def __init__(self, network: ResNet50, dtype: torch.dtype, last: int = 3) -> None:
        super().__init__()
        self.last = last
        self.network = folded(network).to(dtype=dtype)

    def preprocess(self, frames: Tensor) -> Tensor:
        """As :meth:`ResNet50.preprocess`."""
        return self.network.preprocess(frames)

    def stages(self, images: Tensor) -> list[Tensor]:
        """As :meth:`ResNet50.stages`, up to stage ``last``."""
        network = self.network
        x = F.max_pool2d(convolved_relu(network.conv1, images), 3, 2, padding=1)
        outputs = []
        layers = (network.layer1, network.layer2, network.layer3, network.layer4)
        for layer in layers[: self.last + 1]:
            for block in layer:
                x = _bottleneck(block, x)
            outputs.append(x)
        return outputs


def _bottleneck(block: nn.Module, x: Tensor) -> Tensor:
    assert isinstance(block, Bottleneck)
    shortcut = x if block.downsample is None else block.downsample[0](x)
    x = convolved_relu(block.conv2, convolved_relu(block.conv1, x))
    conv = block.conv3
    assert not isinstance(conv.padding, str)
    result: Tensor = torch.cudnn_convolution_add_relu(
        x, conv.weight, shortcut, 1.0, conv.bias, conv.stride, conv.padding, conv.dilation, conv.groups
    )
    return result


def convolved_relu(conv: nn.Conv2d, x: Tensor) -> Tensor:
    """ReLU of a convolution with bias, in one call."""
    assert not isinstance(conv.padding, str)
    result: Tensor = torch.cudnn_convolution_relu(
        x, conv.weight, conv.bias, conv.stride, conv.padding, conv.dilation, conv.groups
    )
    return result


class FusedEfficientNetLite(nn.Module):
    """An :class:`EfficientNetLite` for inference on a GPU."""

    def __init__(self, network: EfficientNetLite, dtype: torch.dtype, last: int = 4) -> None:
        super().__init__()
        self.last = last
        self.network = folded(network).to(dtype=dtype)
        self.channels = network.channels
        self.taps = nn.ParameterList(_taps(block.depthwise) for block in self.network.blocks)

    def preprocess(self, frames: Tensor) -> Tensor:
        """As :meth:`EfficientNetLite.preprocess`."""
        return self.network.preprocess(frames)

    def stages(self, images: Tensor) -> list[Tensor]:
        """As :meth:`EfficientNetLite.stages`, up to stage ``last``."""
        network = self.network
        x = F.relu6(network.stem(images))
        outputs = []
        for i, (block, taps) in enumerate(zip(network.blocks, self.taps, strict=True)):
            x = _inverted_residual(block, taps, x)
            if i in network.stage_ends:
                outputs.append(x)
                if len(outputs) > self.last:
                    return outputs
        outputs.append(convolved_relu(network.head, x).clamp_(max=6.0))
        return outputs


def _taps(conv: SameConv2d) -> nn.Parameter:
    """[C, 1, k, k] as [k · k, C]: a line of channels for each tap."""
    taps = conv.weight.detach()[:, 0].permute(1, 2, 0).flatten(0, 1)
    return nn.Parameter(taps.contiguous(), requires_grad=False)


def _inverted_residual(block: InvertedResidual, taps: Tensor, x: Tensor) -> Tensor:
    y = convolved_relu(block.expand, x) if block.expands else x
    conv = block.depthwise
    (kernel, _), (stride, _) = conv.kernel_size, conv.stride
    pads = [same_padding(size, kernel, stride)[0] for size in y.shape[-2:]]
    rows, columns = (-(-size // stride) for size in y.shape[-2:])
    assert conv.bias is not None  # the batch norm's, folded
    y = depthwise_relu6(y, taps, conv.bias, kernel, stride, (pads[0], pads[1]), (rows, columns))
    y = block.project(y)
    return y.add_(x) if block.shortcut else y
