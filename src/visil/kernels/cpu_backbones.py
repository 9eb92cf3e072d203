"""A backbone for inference on a processor: each convolution with its activation in one pass, a few frames at a time.

Activations of two frames stay near the processor, where those of thirty-two go to memory and back after every layer.
The float32 copy computes what the network does, batch norms folded; the bfloat16 one rounds after every layer and
sums in float32, but for its first layers: nearly all of an EfficientNet's error comes from rounding the weights of its
first depthwise convolution, which costs next to nothing. Stages beyond the last one wanted are not computed.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from visil.kernels.cores import on_all_cores
from visil.kernels.cpu_convolution import Activation, convolved
from visil.model.backbones.efficientnet_lite import EfficientNetLite, same_padding
from visil.model.backbones.folding import folded
from visil.model.backbones.resnet import Bottleneck, ResNet50

FRAMES = 2
"""Frames that go through the layers together."""


class FastBackbone:
    """A copy of a network for inference: ``preprocess`` and ``stages`` as its own, up to stage ``last``."""

    training = False
    step = FRAMES
    """Batches are filled up to a multiple of this: the library meets no other size."""

    def __init__(
        self, network: ResNet50 | EfficientNetLite, last: int, dtype: torch.dtype = torch.float32
    ) -> None:
        self.channels = network.channels
        self.last = last
        self.dtype = dtype
        self._exact = folded(network)
        self._network = self._exact if dtype == torch.float32 else folded(network).to(dtype)
        forward = _efficientnet if isinstance(network, EfficientNetLite) else _resnet
        self._forward: Callable[[nn.Module, nn.Module, Tensor, int], list[Tensor]] = forward

    def preprocess(self, frames: Tensor) -> Tensor:
        """RGB uint8 [B, H, W, 3] to what the network was trained on, [B, 3, H, W] float32."""
        return self._exact.preprocess(frames)

    @torch.no_grad()
    def stages(self, images: Tensor) -> list[Tensor]:
        """Feature maps of stages 0 to ``last``, float32 [B, C_k, H_k, W_k]."""
        parts = images.contiguous(memory_format=torch.channels_last).split(FRAMES)
        found: list[list[Tensor]] = [[] for _ in parts]

        def one(place: int) -> None:
            with torch.no_grad():  # of this thread
                maps = self._forward(self._exact, self._network, parts[place], self.last)
                found[place] = [stage.float() for stage in maps]

        on_all_cores(one, range(len(parts)), on=images.device)
        return [torch.cat(stage) for stage in zip(*found, strict=True)]


def fast(network: nn.Module, last: int, dtype: torch.dtype = torch.float32) -> FastBackbone | None:
    """A faster copy of a network in float32 on a processor; None for any other."""
    first = next(network.parameters())
    if first.device.type != "cpu" or first.dtype != torch.float32:
        return None
    return FastBackbone(network, last, dtype) if isinstance(network, ResNet50 | EfficientNetLite) else None


def _efficientnet(exact: nn.Module, network: nn.Module, images: Tensor, last: int) -> list[Tensor]:
    """The stem and the first block by ``exact``, the rest by ``network``."""
    assert isinstance(exact, EfficientNetLite)
    assert isinstance(network, EfficientNetLite)
    x = _same(exact.stem, images, "relu6")
    outputs: list[Tensor] = []
    for i, block in enumerate([*exact.blocks[:1], *network.blocks[1:]]):
        x = x.to(block.project.weight.dtype)
        y = _same(block.expand, x, "relu6") if block.expands else x
        y = _same(block.project, _same(block.depthwise, y, "relu6"), "none")
        x = y.add_(x) if block.shortcut else y
        if i in network.stage_ends:
            outputs.append(x)
            if len(outputs) > last:
                return outputs
    return [*outputs, _same(network.head, x, "relu6")]


def _same(layer: nn.Conv2d, x: Tensor, activation: Activation) -> Tensor:
    """A layer that pads as TensorFlow does."""
    (top, bottom), (left, right) = (
        same_padding(size, kernel, stride)
        for size, kernel, stride in zip(x.shape[-2:], layer.kernel_size, layer.stride, strict=True)
    )
    padding = (top, left)
    if top != bottom or left != right:
        x, padding = F.pad(x, (left, right, top, bottom)), (0, 0)
    return convolved(x, layer.weight, layer.bias, activation, layer.stride, padding, layer.groups)


def _resnet(exact: nn.Module, network: nn.Module, images: Tensor, last: int) -> list[Tensor]:
    """The first convolution by ``exact``, the rest by ``network``."""
    assert isinstance(exact, ResNet50)
    assert isinstance(network, ResNet50)
    x = F.max_pool2d(_padded(exact.conv1, images, "relu"), 3, 2, padding=1).to(network.conv1.weight.dtype)
    outputs: list[Tensor] = []
    for layer in (network.layer1, network.layer2, network.layer3, network.layer4)[: last + 1]:
        for block in layer:
            assert isinstance(block, Bottleneck)
            shortcut = x
            if block.downsample is not None:
                conv = block.downsample[0]
                assert isinstance(conv, nn.Conv2d)
                shortcut = _padded(conv, x, "none")
            x = _padded(block.conv2, _padded(block.conv1, x, "relu"), "relu")
            x = F.relu_(_padded(block.conv3, x, "none").add_(shortcut))
        outputs.append(x)
    return outputs


def _padded(layer: nn.Conv2d, x: Tensor, activation: Activation) -> Tensor:
    assert not isinstance(layer.padding, str)
    return convolved(x, layer.weight, layer.bias, activation, layer.stride, layer.padding)
