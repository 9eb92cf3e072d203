"""Backbones for inference on a processor: the same maps as the network itself, at any size and number of frames."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from visil.compare.visil import ViSiL
from visil.kernels import cpu_convolution
from visil.kernels.cpu_backbones import FastBackbone, fast
from visil.kernels.cpu_convolution import convolved
from visil.model.backbones import EfficientNetLite, ResNet50
from visil.model.config import ViSiLConfig
from visil.video import Sampling


def network(kind: str) -> ResNet50 | EfficientNetLite:
    torch.manual_seed(0)
    made = ResNet50() if kind == "resnet50" else EfficientNetLite(1.0, 1.0)
    for module in made.modules():
        if isinstance(module, nn.BatchNorm2d):  # statistics that do something
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(module.weight, 0.8, 1.2)
            nn.init.normal_(module.bias, 0, 0.1)
    return made.eval()


@pytest.mark.parametrize(
    ("kind", "last"), [("resnet50", 3), ("efficientnet-lite0", 3), ("efficientnet-lite0", 4)]
)
@pytest.mark.parametrize("fused", [True, False])
def test_the_same_maps(kind: str, last: int, fused: bool) -> None:
    """In float32, to 1e-4 of the largest activation; in bfloat16 to a cosine of 0.99 for every map."""
    made = network(kind)
    images = torch.randn(5, 3, 70, 66)
    with torch.no_grad():
        expected = made.stages(images)
    one_pass = cpu_convolution._fused if fused else lambda: None
    with patch.object(cpu_convolution, "_fused", one_pass):
        found = FastBackbone(made, last).stages(images)
        rounded = FastBackbone(made, last, torch.bfloat16).stages(images)
    assert len(found) == last + 1
    for stage, exact, rough in zip(expected, found, rounded, strict=False):
        assert exact.dtype == rough.dtype == torch.float32
        torch.testing.assert_close(exact, stage, atol=1e-4 * float(stage.abs().max()), rtol=0)
        assert float(F.cosine_similarity(rough.flatten(), stage.flatten(), dim=0)) > 0.99


@pytest.mark.parametrize("activation", ["none", "relu", "relu6"])
@pytest.mark.parametrize("groups", [1, 4])
def test_one_pass_as_two(activation: cpu_convolution.Activation, groups: int) -> None:
    x, weight, bias = torch.randn(2, 4, 9, 8) * 5, torch.randn(8, 4 // groups, 3, 3), torch.randn(8)
    plain = F.conv2d(x.double(), weight.double(), bias.double(), (2, 1), (1, 0), groups=groups)
    expected = {"none": plain, "relu": F.relu(plain), "relu6": F.relu6(plain)}[activation]
    for one_pass in (cpu_convolution._fused, lambda: None):
        with patch.object(cpu_convolution, "_fused", one_pass), torch.no_grad():
            found = convolved(x, weight, bias, activation, (2, 1), (1, 0), groups)
        torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=1e-5)


def test_only_what_is_known_and_in_float32() -> None:
    assert fast(nn.Conv2d(3, 4, 1), 0) is None
    assert fast(network("efficientnet-lite0").half(), 3) is None


def test_a_model_makes_the_same_features_and_follows_its_weights() -> None:
    config = ViSiLConfig(backbone="efficientnet-lite0", stages=(1, 2), sampling=Sampling(resize=64, crop=64))
    model = ViSiL(config)
    frames = torch.randint(0, 256, (6, 64, 64, 3), dtype=torch.uint8)

    def by_the_network() -> Tensor:
        assert model.backbone is not None
        with torch.no_grad():
            return model.refine(model.pooled(model.backbone.stages(model.backbone.preprocess(frames))))

    torch.testing.assert_close(model.embed_frames(frames).vectors, by_the_network(), atol=1e-5, rtol=0)
    changed = {
        name: tensor * 1.5 if tensor.ndim == 4 else tensor for name, tensor in model.state_dict().items()
    }
    model.load_state_dict(changed)
    torch.testing.assert_close(model.embed_frames(frames).vectors, by_the_network(), atol=1e-5, rtol=0)
