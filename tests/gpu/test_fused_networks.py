"""The networks made for a GPU, against the modules they are copies of."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from visil.kernels.gpu_backbones import FusedEfficientNetLite, FusedResNet50
from visil.model.backbones.efficientnet_lite import EfficientNetLite
from visil.model.backbones.resnet import ResNet50


@pytest.fixture(autouse=True)
def cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convolutions in float32, not TF32; where there is no cuDNN, its two fused calls by what they stand for."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    if torch.cuda.is_available():
        return

    def relu(x: Tensor, weight: Tensor, bias: Tensor, *how: Any) -> Tensor:
        return F.relu(F.conv2d(x, weight, bias, *how))

    def add_relu(x: Tensor, weight: Tensor, other: Tensor, share: float, bias: Tensor, *how: Any) -> Tensor:
        return F.relu(F.conv2d(x, weight, bias, *how) + share * other)

    monkeypatch.setattr(torch, "cudnn_convolution_relu", relu)
    monkeypatch.setattr(torch, "cudnn_convolution_add_relu", add_relu)


def lively(network: nn.Module) -> nn.Module:
    """Batch norms as training leaves them: fresh ones let the deep maps fade away."""
    generator = torch.Generator().manual_seed(0)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.weight.data.uniform_(1.0, 3.0, generator=generator)
            module.bias.data.uniform_(-1.0, 1.0, generator=generator)
            module.running_mean.uniform_(-0.1, 0.1, generator=generator)  # type: ignore[union-attr]
    return network


def test_efficientnet_lite(device: torch.device) -> None:
    torch.manual_seed(0)
    network = EfficientNetLite(0.1, 0.1)  # the interpreter takes its time
    lively(network).eval().to(device)
    images = torch.rand(1, 3, 17, 22, device=device).contiguous(memory_format=torch.channels_last)
    with torch.inference_mode():
        found = FusedEfficientNetLite(network, torch.float32).eval().to(device).stages(images)
        expected = network.stages(images)
    for one, other in zip(found, expected, strict=True):
        assert other.abs().max() > 0.1, "maps that are all but zero would show nothing"
        assert (one - other).norm() < 1e-4 * other.norm()


@pytest.mark.parametrize("last", [0, 3])
def test_resnet(device: torch.device, last: int) -> None:
    torch.manual_seed(0)
    network = ResNet50()
    lively(network).eval().to(device)
    images = torch.rand(1, 3, 64, 48, device=device).contiguous(memory_format=torch.channels_last)
    with torch.inference_mode():
        found = FusedResNet50(network, torch.float32, last).eval().to(device).stages(images)
        expected = network.stages(images)
    assert len(found) == last + 1
    for one, other in zip(found, expected, strict=False):
        assert (one - other).norm() < 1e-4 * other.norm()
