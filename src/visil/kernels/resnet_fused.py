"""ResNet-50 for a CUDA GPU: each convolution with its bias, its ReLU and the shortcut's addition as one call of cuDNN.

Maps are read and written once a layer, which is most of the time of a network this small on a GPU this fast.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from visil.model.backbones.folding import folded
from visil.model.backbones.resnet import Bottleneck, ResNet50


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
                x = _block(block, x)
            outputs.append(x)
        return outputs


def _block(block: nn.Module, x: Tensor) -> Tensor:
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
