"""The networks against hand-written truth: layouts, sizes, layers in loops, and photographs they must know."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from visil.errors import ModelError
from visil.model.backbones import BACKBONES, EfficientNetLite, ResNet50, backbone_spec
from visil.model.backbones.efficientnet_lite import SameConv2d
from visil.model.backbones.resnet import Bottleneck
from visil.model.backbones.weights import load_into, read_checkpoint

Array = NDArray[np.float64]


def convolved(maps: Array, weight: Array, stride: int, padding: tuple[int, int]) -> Array:
    """A convolution without bias, position by position; zeros before and after each axis."""
    kernel = weight.shape[-1]
    before, after = padding
    maps = np.pad(maps, ((0, 0), (before, after), (before, after)))
    height = (maps.shape[1] - kernel) // stride + 1
    width = (maps.shape[2] - kernel) // stride + 1
    result = np.empty((len(weight), height, width))
    for i in range(height):
        for j in range(width):
            window = maps[:, i * stride : i * stride + kernel, j * stride : j * stride + kernel]
            for k in range(len(weight)):
                result[k, i, j] = np.sum(window * weight[k])
    return result


# ---------------------------------------------------------------- ResNet-50


@pytest.fixture(scope="module")
def resnet() -> ResNet50:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ResNet50().eval()


def torchvision_layout() -> dict[str, tuple[int, ...]]:
    """Names and shapes of torchvision's resnet50, from its rules: stage, block, three convolutions, a shortcut."""
    layout: dict[str, tuple[int, ...]] = {}

    def conv(name: str, out: int, into: int, kernel: int) -> None:
        layout[f"{name}.weight"] = (out, into, kernel, kernel)

    def norm(name: str, width: int) -> None:
        for part in ("weight", "bias", "running_mean", "running_var"):
            layout[f"{name}.{part}"] = (width,)
        layout[f"{name}.num_batches_tracked"] = ()

    conv("conv1", 64, 3, 7)
    norm("bn1", 64)
    into = 64
    for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512)), start=1):
        for block in range(blocks):
            prefix = f"layer{stage}.{block}"
            conv(f"{prefix}.conv1", width, into, 1)
            norm(f"{prefix}.bn1", width)
            conv(f"{prefix}.conv2", width, width, 3)
            norm(f"{prefix}.bn2", width)
            conv(f"{prefix}.conv3", 4 * width, width, 1)
            norm(f"{prefix}.bn3", 4 * width)
            if block == 0:
                conv(f"{prefix}.downsample.0", 4 * width, into, 1)
                norm(f"{prefix}.downsample.1", 4 * width)
            into = 4 * width
    return layout


def test_resnet50_has_torchvisions_names_and_shapes(resnet: ResNet50) -> None:
    actual = {k: tuple(v.shape) for k, v in resnet.state_dict().items()}
    assert actual == torchvision_layout()
    # A few written out, against a slip in the rules above.
    assert actual["conv1.weight"] == (64, 3, 7, 7)
    assert actual["layer1.0.downsample.0.weight"] == (256, 64, 1, 1)
    assert actual["layer2.0.conv1.weight"] == (128, 256, 1, 1)
    assert actual["layer3.5.bn2.running_var"] == (256,)
    assert actual["layer4.2.conv3.weight"] == (2048, 512, 1, 1)
    assert "layer1.1.downsample.0.weight" not in actual


def test_resnet50_parameter_count(resnet: ResNet50) -> None:
    body = sum(p.numel() for p in resnet.parameters())
    assert body == 23_508_032
    assert body + 2048 * 1000 + 1000 == 25_557_032  # torchvision's published figure, with its classifier


@pytest.mark.parametrize(
    ("height", "width", "sizes"),
    [
        (224, 224, [(56, 56), (28, 28), (14, 14), (7, 7)]),
        (160, 256, [(40, 64), (20, 32), (10, 16), (5, 8)]),
        (65, 33, [(17, 9), (9, 5), (5, 3), (3, 2)]),
    ],
)
def test_resnet50_stage_sizes(
    resnet: ResNet50, height: int, width: int, sizes: list[tuple[int, int]]
) -> None:
    with torch.inference_mode():
        maps = resnet.stages(torch.zeros(1, 3, height, width))
    assert resnet.channels == (256, 512, 1024, 2048)
    assert [tuple(m.shape) for m in maps] == [(1, c, *s) for c, s in zip(resnet.channels, sizes, strict=True)]
    assert all(float(m.min()) >= 0 for m in maps)  # after the last ReLU


def test_resnet50_stride_sits_in_the_3x3(resnet: ResNet50) -> None:
    for stage in range(1, 5):
        block = resnet.get_submodule(f"layer{stage}.0")
        assert isinstance(block, Bottleneck)
        stride = 1 if stage == 1 else 2
        assert block.conv1.stride == (1, 1)
        assert block.conv2.stride == (stride, stride)
        assert block.conv3.stride == (1, 1)


@pytest.mark.parametrize(("into", "width", "stride"), [(8, 2, 1), (8, 2, 2), (3, 2, 1)])
def test_bottleneck(into: int, width: int, stride: int) -> None:
    """relu(bn3(conv3(relu(bn2(conv2(relu(bn1(conv1 x))))))) + shortcut), in loops."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        block = Bottleneck(into, width, stride).double().eval()
        for name, value in block.state_dict().items():
            if (
                name.endswith(("bn1.weight", "bn2.weight", "bn3.weight", "1.weight", "running_var"))
                and value.ndim == 1
            ):
                value.uniform_(0.5, 2.0)
            elif value.ndim == 1:
                value.uniform_(-0.5, 0.5)
        x = torch.randn(1, into, 5, 5, dtype=torch.float64)
    state = {k: v.numpy() for k, v in block.state_dict().items()}

    def norm(maps: Array, name: str) -> Array:
        result = np.empty_like(maps)
        for c in range(len(maps)):
            centred = maps[c] - state[f"{name}.running_mean"][c]
            scale = state[f"{name}.weight"][c] / np.sqrt(state[f"{name}.running_var"][c] + 1e-5)
            result[c] = centred * scale + state[f"{name}.bias"][c]
        return result

    source = x[0].numpy()
    y = np.maximum(norm(convolved(source, state["conv1.weight"], 1, (0, 0)), "bn1"), 0)
    y = np.maximum(norm(convolved(y, state["conv2.weight"], stride, (1, 1)), "bn2"), 0)
    y = norm(convolved(y, state["conv3.weight"], 1, (0, 0)), "bn3")
    shortcut = source
    if into != 4 * width or stride != 1:
        shortcut = norm(convolved(source, state["downsample.0.weight"], stride, (0, 0)), "downsample.1")
    with torch.no_grad():
        actual = block(x)[0].numpy()
    np.testing.assert_allclose(actual, np.maximum(y + shortcut, 0), atol=1e-10)


def test_resnet50_preprocessing(resnet: ResNet50) -> None:
    frames = torch.tensor([[[[0, 128, 255]]]], dtype=torch.uint8)
    expected = [(0 / 255 - 0.485) / 0.229, (128 / 255 - 0.456) / 0.224, (255 / 255 - 0.406) / 0.225]
    result = resnet.preprocess(frames)
    assert result.shape == (1, 3, 1, 1)
    assert result.flatten().tolist() == pytest.approx(expected, abs=1e-6)


# ---------------------------------------------------------------- EfficientNet-Lite


@pytest.fixture(scope="module")
def lite0() -> EfficientNetLite:
    spec = backbone_spec("efficientnet-lite0")
    network = spec.build()
    assert isinstance(network, EfficientNetLite)
    path = spec.weights.locate()
    load_into(network, read_checkpoint(path), str(path), network.unused_keys)
    return network.eval()


@pytest.mark.parametrize(
    ("name", "channels", "blocks"),
    [
        ("efficientnet-lite0", (24, 40, 112, 320, 1280), 16),
        ("efficientnet-lite1", (24, 40, 112, 320, 1280), 21),
        ("efficientnet-lite2", (24, 48, 120, 352, 1280), 21),
    ],
)
def test_lite_weights_fit_and_stages_have_their_sizes(
    name: str, channels: tuple[int, ...], blocks: int
) -> None:
    spec = backbone_spec(name)
    network = spec.build().eval()
    path = spec.weights.locate()
    state = read_checkpoint(path)
    load_into(network, state, str(path), network.unused_keys)
    assert network.channels == channels
    assert len({k.split(".")[1] for k in state if k.startswith("_blocks.")}) == blocks
    loaded = network.state_dict()
    assert state.keys() - loaded.keys() == {"_fc.weight", "_fc.bias"}
    assert all(torch.equal(loaded[k], state[k]) for k in loaded)
    with torch.inference_mode():
        maps = network.stages(torch.zeros(1, 3, 96, 65))
    sizes = [(24, 17), (12, 9), (6, 5), (3, 3), (3, 3)]
    assert [tuple(m.shape) for m in maps] == [(1, c, *s) for c, s in zip(channels, sizes, strict=True)]


@pytest.mark.parametrize(("picture", "classes"), [("chelsea", {281, 282, 285}), ("coffee", {967})])
def test_lite0_knows_what_it_sees(lite0: EfficientNetLite, picture: str, classes: set[int]) -> None:
    """The checkpoint's own classifier on top: a tabby, tiger or Egyptian cat, and an espresso."""
    from PIL import Image
    from skimage import data

    image = Image.fromarray(getattr(data, picture)())
    scale = 256 / min(image.size)
    image = image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.BICUBIC)
    left, top = (image.width - 224) // 2, (image.height - 224) // 2
    pixels = np.array(image.crop((left, top, left + 224, top + 224)))
    state = read_checkpoint(backbone_spec("efficientnet-lite0").weights.locate())
    with torch.inference_mode():
        maps = lite0.stages(lite0.preprocess(torch.from_numpy(pixels)[None]))
        logits = maps[-1].mean(dim=(2, 3)) @ state["_fc.weight"].T + state["_fc.bias"]
    assert [tuple(m.shape[-2:]) for m in maps] == [(56, 56), (28, 28), (14, 14), (7, 7), (7, 7)]
    assert int(logits.argmax()) in classes


def test_lite_preprocessing(lite0: EfficientNetLite) -> None:
    frames = torch.tensor([[[[0, 127, 255]]]], dtype=torch.uint8)
    assert lite0.preprocess(frames).flatten().tolist() == pytest.approx([-127 / 128, 0.0, 1.0])


@settings(max_examples=40, deadline=None)
@given(size=st.integers(1, 14), kernel=st.sampled_from([1, 3, 5]), stride=st.integers(1, 3))
def test_same_padding(size: int, kernel: int, stride: int) -> None:
    """The least padding that gives ceil(size / stride) outputs, the odd cell at the end: found by trying."""
    outputs = -(-size // stride)
    total = next(p for p in range(100) if size + p >= kernel and (size + p - kernel) // stride + 1 >= outputs)
    layer = SameConv2d(2, 3, kernel, stride).double()
    maps = torch.from_numpy(np.random.default_rng(size).normal(size=(1, 2, size, size)))
    weight = layer.weight.detach().numpy()
    expected = convolved(maps[0].numpy(), weight, stride, (total // 2, total - total // 2))
    with torch.no_grad():
        actual = layer(maps)[0].numpy()
    assert actual.shape == (3, outputs, outputs)
    np.testing.assert_allclose(actual, expected, atol=1e-12)


def test_unknown_backbone() -> None:
    with pytest.raises(ModelError, match="unknown backbone 'vgg16'") as error:
        backbone_spec("vgg16")
    assert all(name in str(error.value) for name in BACKBONES)
