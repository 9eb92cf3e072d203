"""EfficientNet-Lite for a CUDA GPU: each convolution with its bias and activation as one kernel, in half precision.

cuDNN's fused call knows ReLU, not ReLU6. What lies above six after a 1×1 convolution is therefore cut off by the
depthwise kernel that reads it (:mod:`visil.kernels.triton_maps`), and by a clamp where none follows.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from visil.kernels.resnet_fused import convolved_relu
from visil.model.backbones.efficientnet_lite import (
    EfficientNetLite,
    InvertedResidual,
    SameConv2d,
    same_padding,
)
from visil.model.backbones.folding import folded


class FusedEfficientNetLite(nn.Module):
    """An :class:`EfficientNetLite` for inference on a GPU."""

    def __init__(self, network: EfficientNetLite, dtype: torch.dtype, last: int = 4) -> None:
        super().__init__()
        self.last = last
        self.network = folded(network).to(dtype=dtype)
        self.channels = network.channels
        self.taps = nn.ParameterList(_taps(block._depthwise_conv) for block in _blocks(self.network))

    def preprocess(self, frames: Tensor) -> Tensor:
        """As :meth:`EfficientNetLite.preprocess`."""
        return self.network.preprocess(frames)

    def stages(self, images: Tensor) -> list[Tensor]:
        """As :meth:`EfficientNetLite.stages`, up to stage ``last``."""
        network = self.network
        x = F.relu6(network._conv_stem(images))
        outputs = []
        for i, (block, taps) in enumerate(zip(_blocks(network), self.taps, strict=True)):
            x = _block(block, taps, x)
            if i in network.stage_ends:
                outputs.append(x)
                if len(outputs) > self.last:
                    return outputs
        outputs.append(convolved_relu(network._conv_head, x).clamp_(max=6.0))
        return outputs


def _blocks(network: EfficientNetLite) -> list[InvertedResidual]:
    return [block for block in network._blocks if isinstance(block, InvertedResidual)]


def _taps(conv: SameConv2d) -> nn.Parameter:
    """[C, 1, k, k] as [k · k, C]: a line of channels for each tap."""
    taps = conv.weight.detach()[:, 0].permute(1, 2, 0).flatten(0, 1)
    return nn.Parameter(taps.contiguous(), requires_grad=False)


def _block(block: InvertedResidual, taps: Tensor, x: Tensor) -> Tensor:
    from visil.kernels.triton_maps import depthwise_relu6

    y = convolved_relu(block._expand_conv, x) if block.expands else x
    conv = block._depthwise_conv
    (kernel, _), (stride, _) = conv.kernel_size, conv.stride
    pads = [same_padding(size, kernel, stride)[0] for size in y.shape[-2:]]
    rows, columns = (-(-size // stride) for size in y.shape[-2:])
    assert conv.bias is not None  # the batch norm's, folded
    y = depthwise_relu6(y, taps, conv.bias, kernel, stride, (pads[0], pads[1]), (rows, columns))
    y = block._project_conv(y)
    return y.add_(x) if block.shortcut else y
