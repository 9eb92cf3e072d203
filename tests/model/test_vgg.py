"""VGG-16 against torchvision's layout, and its first layers against convolutions in numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from visil.errors import ModelError
from visil.model.backbones.vgg import VGG16


@pytest.fixture(scope="module")
def network() -> VGG16:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return VGG16().eval()


def test_torchvisions_layout(network: VGG16) -> None:
    widths = [3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]
    places = [0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28]
    expected: dict[str, tuple[int, ...]] = {}
    for place, into, out in zip(places, widths, widths[1:], strict=False):
        expected[f"features.{place}.weight"] = (out, into, 3, 3)
        expected[f"features.{place}.bias"] = (out,)
    assert {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()} == expected
    assert sum(network.channels) == 4096


def test_first_layers_by_hand(network: VGG16) -> None:
    frames = torch.randint(
        0, 256, (1, 32, 32, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(1)
    )
    with torch.inference_mode():
        found = network.layers(frames)
    assert [tuple(layer.shape[1:]) for layer in found] == [
        *[(128, 16, 16)] * 2,
        *[(256, 8, 8)] * 3,
        *[(512, 4, 4)] * 3,
        *[(512, 2, 2)] * 3,
    ]
    state = {name: tensor.double().numpy() for name, tensor in network.state_dict().items()}
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    maps = ((frames[0].double().numpy() / 255 - mean) / std).transpose(2, 0, 1)
    for place in (0, 2, 5):
        if place == 5:
            maps = maps.reshape(64, 16, 2, 16, 2).max(axis=(2, 4))
        padded = np.pad(maps, ((0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
        maps = np.einsum("chwij,kcij->khw", windows, state[f"features.{place}.weight"], optimize=True)
        maps = np.maximum(maps + state[f"features.{place}.bias"][:, None, None], 0)
    np.testing.assert_allclose(found[0][0].numpy(), maps, atol=1e-4)


def test_weights_are_needed(network: VGG16, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"vgg16-397923af\.pth"):
        VGG16.from_file(None)
    state = network.state_dict() | {
        f"classifier.{i}.{p}": torch.ones(1) for i in (0, 3, 6) for p in ("weight", "bias")
    }
    torch.save(state, tmp_path / "vgg.pth")
    again = VGG16.from_file(tmp_path / "vgg.pth")
    torch.testing.assert_close(again.features[0].weight, network.features[0].weight)
