"""The kernels on feature maps, against torch's own operations."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from visil.kernels.gpu_backbones import imac
from visil.kernels.triton_maps import depthwise_relu6, regional_max_into
from visil.model.regions import imac as plain_imac
from visil.model.regions import regional_max


@pytest.mark.parametrize(
    ("kernel", "stride", "height", "width", "channels", "pad"),
    [(3, 1, 5, 5, 70, (1, 1)), (5, 2, 8, 11, 20, (1, 2)), (3, 2, 7, 7, 64, (0, 0)), (5, 1, 1, 1, 3, (2, 2))],
)
def test_depthwise_convolution(
    device: torch.device,
    kernel: int,
    stride: int,
    height: int,
    width: int,
    channels: int,
    pad: tuple[int, int],
) -> None:
    torch.manual_seed(0)
    x = torch.rand(2, channels, height, width).mul(8)  # some of it above six
    weight, bias = torch.randn(channels, 1, kernel, kernel), torch.randn(channels)
    size = -(-height // stride), -(-width // stride)
    padded = F.pad(x.clamp(max=6), (pad[1], kernel, pad[0], kernel))
    expected = F.relu6(F.conv2d(padded, weight, bias, stride=stride, groups=channels))[
        ..., : size[0], : size[1]
    ]
    taps = weight[:, 0].permute(1, 2, 0).flatten(0, 1).contiguous()
    found = depthwise_relu6(
        x.to(device, memory_format=torch.channels_last),
        taps.to(device),
        bias.to(device),
        kernel,
        stride,
        pad,
        size,
    )
    assert found.shape == expected.shape
    assert (found.cpu() - expected).abs().max() < 1e-4


@pytest.mark.parametrize(
    ("level", "height", "width"), [(3, 5, 36), (2, 9, 13), (3, 7, 7), (1, 5, 5), (3, 2, 2)]
)
def test_regional_maxima_are_exact(device: torch.device, level: int, height: int, width: int) -> None:
    torch.manual_seed(0)
    stage = torch.randn(2, 70, height, width)
    out = torch.full((2, level * level, 100), float("nan"), device=device)
    regional_max_into(stage.to(device, memory_format=torch.channels_last), level, out[:, :, 10:80])
    assert torch.equal(out[:, :, 10:80].cpu(), regional_max(stage, level).flatten(2).transpose(1, 2))
    assert out[:, :, :10].isnan().all(), "nothing beside it is written"
    assert out[:, :, 80:].isnan().all(), "nothing beside it is written"


def test_imac_of_several_stages_and_levels(device: torch.device) -> None:
    torch.manual_seed(0)
    maps = [torch.rand(3, 20, 14, 14).half(), torch.rand(3, 33, 7, 7).half()]
    found = imac([stage.to(device) for stage in maps], (1, 2, 3)).cpu()
    expected = plain_imac([stage.double() for stage in maps], (1, 2, 3))
    assert found.shape == (3, 14, 53)
    assert (found - expected).abs().max() < 1e-6
