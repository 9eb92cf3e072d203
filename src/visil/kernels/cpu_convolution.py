"""A convolution and its activation in one pass over memory, where this build of torch has that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Activation = Literal["none", "relu", "relu6"]


def convolved(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    activation: Activation = "none",
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    groups: int = 1,
) -> Tensor:
    """activation(conv2d(x)): no gradients; on a processor the same numbers as the two steps."""
    fused = _fused() if x.device.type == "cpu" and x.dtype in (torch.float32, torch.bfloat16) else None
    if fused is not None:
        name, bounds = ("hardtanh", [0.0, 6.0]) if activation == "relu6" else (activation, [])
        result: Tensor = fused(x, weight, bias, list(padding), list(stride), [1, 1], groups, name, bounds, "")
        return result
    y = F.conv2d(x, weight, bias, list(stride), list(padding), groups=groups)
    if activation == "relu":
        return F.relu_(y)
    return y.clamp_(0, 6) if activation == "relu6" else y


@lru_cache(maxsize=1)
def _fused() -> Callable[..., Tensor] | None:
    """torch's convolution with an activation, if it is there and right; it is no public function of torch's."""
    try:
        found: Callable[..., Tensor] = torch.ops.mkldnn._convolution_pointwise
        x = torch.linspace(-30, 30, 200).reshape(2, 4, 5, 5).contiguous(memory_format=torch.channels_last)
        weight = torch.linspace(-1, 1, 24).reshape(6, 4, 1, 1)
        for name, bounds, expected in (
            ("hardtanh", [0.0, 6.0], F.relu6(F.conv2d(x, weight))),
            ("relu", [], F.relu(F.conv2d(x, weight))),
            ("none", [], F.conv2d(x, weight)),
        ):
            made = found(x, weight, None, [0, 0], [1, 1], [1, 1], 1, name, bounds, "")
            if not torch.allclose(made, expected, atol=1e-4):
                return None
    except (RuntimeError, AttributeError, NotImplementedError, TypeError):
        return None
    return found
