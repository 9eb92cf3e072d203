"""Batch norms that keep their statistics are a scale and a shift: folded into the convolution before them.

For inference once and for all, while a network learns anew in every step: the same results and gradients, without the
memory traffic, which is most of the time of a small network on a GPU.
"""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

Network = TypeVar("Network", bound=nn.Module)


def folded(network: Network) -> Network:
    """A copy for inference that computes the same, faster: no batch norms, channels last.

    Relies on a definition listing each batch norm right after its convolution, as ours do.
    """
    copy = deepcopy(network).eval()
    for module in list(copy.modules()):
        for (conv_name, conv), (norm_name, norm) in pairwise(list(module.named_children())):
            if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                setattr(module, conv_name, fuse_conv_bn_eval(conv, norm))
                setattr(module, norm_name, nn.Identity())
    for parameter in copy.parameters():
        parameter.requires_grad_(False)
    return copy.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def normed(conv: nn.Conv2d, norm: nn.Module, x: Tensor) -> Tensor:
    """norm(conv(x)), with the norm inside the convolution's weights where its statistics stand."""
    if not isinstance(norm, nn.BatchNorm2d):
        return conv(x)  # folded for good
    if norm.training or norm.running_var is None or norm.running_mean is None:
        return norm(conv(x))
    scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
    bias = norm.bias - norm.running_mean * scale
    if conv.bias is not None:
        bias = bias + conv.bias * scale
    return conv._conv_forward(x, conv.weight * scale[:, None, None, None], bias)
