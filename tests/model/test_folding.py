"""Batch norms inside convolutions: the same values and the same gradients as one after the other."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from visil.model.backbones.efficientnet_lite import SameConv2d
from visil.model.backbones.folding import normed


def pair(bias: bool, stride: int = 1) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    torch.manual_seed(0)
    conv = nn.Conv2d(4, 6, 3, stride, bias=True) if bias else SameConv2d(4, 6, 3, stride)
    norm = nn.BatchNorm2d(6)
    with torch.no_grad():
        for tensor in (norm.weight, norm.bias, norm.running_mean):
            assert tensor is not None
            tensor.normal_()
        assert norm.running_var is not None
        norm.running_var.uniform_(0.2, 3)
    return conv.double(), norm.double()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("stride", [1, 2])
def test_values_and_gradients(bias: bool, stride: int) -> None:
    conv, norm = pair(bias, stride)
    norm.eval()
    learning = [*conv.parameters(), *norm.parameters()]
    x = torch.randn(2, 4, 9, 8, dtype=torch.float64, requires_grad=True)

    def gradients(y: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad((y * torch.arange(y.numel()).view_as(y).sin()).sum(), [x, *learning])

    plain, inside = norm(conv(x)), normed(conv, norm, x)
    torch.testing.assert_close(inside, plain)
    for a, b in zip(gradients(inside), gradients(plain), strict=True):
        torch.testing.assert_close(a, b)


def test_a_norm_that_learns_its_statistics_is_left_alone() -> None:
    conv, norm = pair(False)
    x = torch.randn(2, 4, 9, 8, dtype=torch.float64)
    before = norm.running_mean.clone() if norm.running_mean is not None else None
    result = normed(conv, norm, x)
    torch.testing.assert_close(result.mean(dim=(0, 2, 3)), norm.bias)
    assert not torch.equal(torch.as_tensor(norm.running_mean), torch.as_tensor(before))
