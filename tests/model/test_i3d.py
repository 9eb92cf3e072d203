"""I3D against hand-written truth: all maps, a block in loops, TensorFlow's padding, names, files that do not fit."""

from __future__ import annotations

from math import ceil
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import ModelError, UsageError
from visil.model.backbones.i3d import I3D, Mixed, Unit3D, max_pool

Array = NDArray[np.float64]
Triple = tuple[int, int, int]


@pytest.fixture(scope="module")
def network() -> I3D:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return I3D().eval()


def frames(count: int, height: int = 32, width: int = 32, seed: int = 0) -> Tensor:
    drawn = np.random.default_rng(seed).integers(0, 256, (count, height, width, 3), np.uint8)
    return torch.from_numpy(drawn)


def padded(x: Array, kernel: int, stride: int, value: float) -> Array:
    """[C, T, H, W] as TensorFlow's rule pads it: ceil(size / stride) windows, an odd cell goes behind."""
    pads = [(0, 0)]
    for size in x.shape[1:]:
        total = max((ceil(size / stride) - 1) * stride + kernel - size, 0)
        pads.append((total // 2, total - total // 2))
    return np.pad(x, pads, constant_values=value)


def slid(x: Array, kernel: int, stride: int, value: float, weight: Array | None) -> Array:
    """A convolution with ``weight`` [K, C, k, k, k], or a maximum where there is none, window by window."""
    sizes = [ceil(size / stride) for size in x.shape[1:]]
    x = padded(x, kernel, stride, value)
    result = np.empty((len(x) if weight is None else len(weight), *sizes))
    for t, i, j in np.ndindex(*sizes):
        a, b, c = t * stride, i * stride, j * stride
        window = x[:, a : a + kernel, b : b + kernel, c : c + kernel]
        result[:, t, i, j] = (
            window.max(axis=(1, 2, 3))
            if weight is None
            else [float((window * filters).sum()) for filters in weight]
        )
    return result


def scrambled(module: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Weights and statistics of every kind away from their starting values, in float64."""
    generator = torch.Generator().manual_seed(seed)
    module = module.double().eval()
    for name, value in module.state_dict().items():
        if value.ndim == 0:
            continue
        low, high = (0.5, 2.0) if name.endswith("running_var") else (-1.0, 1.0)
        value.uniform_(low, high, generator=generator)
    return module


def unit_by_hand(state: dict[str, Array], name: str, x: Array, stride: int = 1) -> Array:
    weight = state[f"{name}conv3d.weight"]
    y = slid(x, weight.shape[-1], stride, 0.0, weight)

    def column(part: str) -> Array:
        return state[f"{name}bn.{part}"][:, None, None, None]

    y = (y - column("running_mean")) / np.sqrt(column("running_var") + 1e-3)
    return np.maximum(y * column("weight") + column("bias"), 0)


def test_inception_block_by_hand() -> None:
    block = scrambled(Mixed(3, (2, 3, 4, 1, 2, 3)), seed=1)
    x = np.random.default_rng(2).normal(size=(3, 3, 4, 2))
    state = {name: value.numpy() for name, value in block.state_dict().items()}
    pooled = slid(x, 3, 1, -np.inf, None)
    expected = np.concatenate(
        [
            unit_by_hand(state, "b0.", x),
            unit_by_hand(state, "b1b.", unit_by_hand(state, "b1a.", x)),
            unit_by_hand(state, "b2b.", unit_by_hand(state, "b2a.", x)),
            unit_by_hand(state, "b3b.", pooled),
        ]
    )
    with torch.inference_mode():
        actual = block(torch.from_numpy(x)[None])[0].numpy()
    assert actual.shape == (11, 3, 4, 2)
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 6)] * 3),
    kernel=st.sampled_from([1, 2, 3, 5]),
    stride=st.sampled_from([1, 2]),
    seed=st.integers(0, 100),
)
def test_windows_lie_where_tensorflow_puts_them(
    sizes: tuple[int, int, int], kernel: int, stride: int, seed: int
) -> None:
    x = np.random.default_rng(seed).normal(size=(2, *sizes))
    unit = scrambled(Unit3D(2, 2, (kernel,) * 3, (stride,) * 3), seed)
    state = {name: value.numpy() for name, value in unit.state_dict().items()}
    with torch.inference_mode():
        convolved = unit(torch.from_numpy(x)[None])[0].numpy()
        pooled = max_pool(torch.from_numpy(x)[None], (kernel,) * 3, (stride,) * 3)[0].numpy()
    np.testing.assert_allclose(convolved, unit_by_hand(state, "", x, stride), rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(pooled, slid(x, kernel, stride, -np.inf, None))


# The published network up to its last maps, as its authors' TensorFlow code and its PyTorch conversions have it. Of a
# convolution: channels, side and stride; of a pooling: the window and stride over time and over space; of a Mixed
# block: the channels of 1×1×1, of 1×1×1 then 3×3×3, of 1×1×1 then 3×3×3, and of the 1×1×1 after a pooling.
PUBLISHED: dict[str, tuple[int, ...]] = {
    "Conv3d_1a_7x7": (64, 7, 2),
    "MaxPool3d_2a_3x3": (1, 1, 3, 2),
    "Conv3d_2b_1x1": (64, 1, 1),
    "Conv3d_2c_3x3": (192, 3, 1),
    "MaxPool3d_3a_3x3": (1, 1, 3, 2),
    "Mixed_3b": (64, 96, 128, 16, 32, 32),
    "Mixed_3c": (128, 128, 192, 32, 96, 64),
    "MaxPool3d_4a_3x3": (3, 2, 3, 2),
    "Mixed_4b": (192, 96, 208, 16, 48, 64),
    "Mixed_4c": (160, 112, 224, 24, 64, 64),
    "Mixed_4d": (128, 128, 256, 24, 64, 64),
    "Mixed_4e": (112, 144, 288, 32, 64, 64),
    "Mixed_4f": (256, 160, 320, 32, 128, 128),
    "MaxPool3d_5a_2x2": (2, 2, 2, 2),
    "Mixed_5b": (256, 160, 320, 32, 128, 128),
    "Mixed_5c": (384, 192, 384, 48, 128, 128),
}

STAGES = {"Conv3d_2c_3x3": 192, "Mixed_3c": 480, "Mixed_4f": 832, "Mixed_5c": 1024}
"""Channels at the end of each stage."""

PARAMETERS = 12_697_264
"""As reported for the PyTorch conversion with the logits of Kinetics' 400 classes."""


def edge(x: Tensor, sides: Triple, strides: Triple) -> Tensor:
    """TensorFlow's SAME from the remainder of size by stride, with zeros: below them a ReLU leaves nothing."""
    pads: list[int] = []
    for size, side, stride in list(zip(x.shape[2:], sides, strides, strict=True))[::-1]:
        missing = max(side - (size % stride or stride), 0)
        pads += [missing // 2, missing - missing // 2]
    return F.pad(x, pads)


def published_unit(
    weights: dict[str, Tensor], name: str, x: Tensor, channels: int, side: int, stride: int
) -> Tensor:
    weight = weights[f"{name}.conv3d.weight"]
    assert weight.shape == (channels, x.shape[1], side, side, side)
    y = F.conv3d(edge(x, (side,) * 3, (stride,) * 3), weight, stride=stride)
    scale, shift, mean, variance = (
        weights[f"{name}.bn.{part}"].reshape(-1, 1, 1, 1)
        for part in ("weight", "bias", "running_mean", "running_var")
    )
    return ((y - mean) / (variance + 1e-3).sqrt() * scale + shift).clamp(min=0)


def published_pool(x: Tensor, time: int, time_stride: int, space: int, space_stride: int) -> Tensor:
    sides, strides = (time, space, space), (time_stride, space_stride, space_stride)
    return F.max_pool3d(edge(x, sides, strides), sides, strides)


def published_maps(weights: dict[str, Tensor], x: Tensor) -> dict[str, Tensor]:
    """The maps after every layer of the table."""
    found: dict[str, Tensor] = {}
    for name, layer in PUBLISHED.items():
        if name.startswith("MaxPool3d"):
            x = published_pool(x, *layer)
        elif name.startswith("Conv3d"):
            x = published_unit(weights, name, x, *layer)
        else:

            def unit(branch: str, y: Tensor, channels: int, side: int, block: str = name) -> Tensor:
                return published_unit(weights, f"{block}.{branch}", y, channels, side, 1)

            first, second_in, second, third_in, third, fourth = layer
            x = torch.cat(
                [
                    unit("b0", x, first, 1),
                    unit("b1b", unit("b1a", x, second_in, 1), second, 3),
                    unit("b2b", unit("b2a", x, third_in, 1), third, 3),
                    unit("b3b", published_pool(x, 3, 1, 3, 1), fourth, 1),
                ],
                dim=1,
            )
        found[name] = x
    return found


@pytest.mark.parametrize("size", [(16, 64, 32), (11, 45, 38)], ids=["even", "odd"])
def test_all_maps_of_the_published_network(size: tuple[int, int, int]) -> None:
    """Random weights and statistics, float64; sizes that are odd at some layer are padded otherwise."""
    network, generator = I3D().double().eval(), torch.Generator().manual_seed(3)
    for name, value in network.state_dict().items():
        if name.endswith("conv3d.weight"):
            value.normal_(std=(2 / value[0].numel()) ** 0.5, generator=generator)
        elif name.endswith(("bn.weight", "running_var")):
            value.uniform_(0.5, 2, generator=generator)
        elif value.ndim:
            value.normal_(std=0.3, generator=generator)
    clip = torch.empty(1, 3, *size, dtype=torch.float64).uniform_(-1, 1, generator=generator)
    found: dict[str, Tensor] = {}
    for name, module in network.named_children():
        module.register_forward_hook(lambda _, __, maps, name=name: found.update({name: maps}))
    with torch.inference_mode():
        expected = published_maps(network.state_dict(), clip)
        last = network(clip)
    assert set(found) == {name for name in PUBLISHED if "Pool" not in name}
    for name, maps in found.items():
        assert expected[name].std() > 0.1  # nothing has died away on the way there
        torch.testing.assert_close(maps, expected[name], rtol=1e-10, atol=1e-10)
    assert torch.equal(last, found["Mixed_5c"])
    assert {name: found[name].shape[1] for name in STAGES} == STAGES


def test_parameters(network: I3D) -> None:
    logits = 1024 * 400 + 400
    assert sum(p.numel() for p in network.parameters()) == PARAMETERS - logits == 12_287_264


@pytest.mark.parametrize(
    ("clip", "maps"), [((16, 64, 64), (2, 2, 2)), ((9, 33, 64), (2, 2, 2)), ((1, 32, 32), (1, 1, 1))]
)
def test_sizes(network: I3D, clip: tuple[int, int, int], maps: tuple[int, int, int]) -> None:
    with torch.inference_mode():
        assert network(torch.zeros(1, 3, *clip)).shape == (1, 1024, *maps)


def test_features_are_spatial_maxima_clip_by_clip(network: I3D) -> None:
    video = frames(20, 40, 64)
    with torch.inference_mode():
        first, rest = (
            network(network.preprocess(part)).flatten(3).amax(dim=3)[0].T for part in (video[:16], video[16:])
        )
    found = network.features(video, clip=16)
    assert found.shape == (3, 1024)
    torch.testing.assert_close(found, torch.cat([first, rest]))


def test_pixels(network: I3D) -> None:
    video = torch.zeros(1, 1, 2, 3, dtype=torch.uint8)
    video[0, 0, 1] = torch.tensor([255, 51, 0])
    torch.testing.assert_close(
        network.preprocess(video)[0, :, 0, 0], torch.tensor([[-1, 1.0], [-1, -0.6], [-1, -1]])
    )


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_checkpoint_is_loaded(network: I3D, tmp_path: Path, suffix: str) -> None:
    state = dict(network.state_dict())
    state["logits.conv3d.weight"], state["logits.conv3d.bias"] = (
        torch.zeros(400, 1024, 1, 1, 1),
        torch.zeros(400),
    )
    path = tmp_path / f"rgb{suffix}"
    if suffix == ".pt":
        torch.save(state, path)
    else:
        from safetensors.torch import save_file

        save_file(state, path)
    loaded = I3D.from_file(path)
    assert not loaded.training
    torch.testing.assert_close(loaded.features(frames(8)), network.features(frames(8)), rtol=0, atol=0)


def test_checkpoint_that_does_not_fit(network: I3D, tmp_path: Path) -> None:
    path = tmp_path / "other.pt"
    state = dict(network.state_dict())
    torch.save({k.replace("conv3d", "conv"): v for k, v in state.items()}, path)
    with pytest.raises(ModelError, match=r"other\.pt: .* lacks Conv3d_1a_7x7\.conv3d\.weight"):
        I3D.from_file(path)
    torch.save(state | {"Mixed_4c.b0.conv3d.weight": torch.zeros(160, 512, 3, 1, 1)}, path)
    with pytest.raises(ModelError, match=r"other\.pt: Mixed_4c\.b0\.conv3d\.weight has shape"):
        I3D.from_file(path)


def test_without_weights_says_which_file() -> None:
    with pytest.raises(ModelError, match=r"rgb_imagenet\.pt"):
        I3D.from_file(None)


def test_wrong_frames(network: I3D) -> None:
    with pytest.raises(UsageError, match="uint8"):
        network.features(torch.zeros(4, 32, 32, 3))
    with pytest.raises(UsageError, match="multiple of 8"):
        network.features(frames(4), clip=12)
