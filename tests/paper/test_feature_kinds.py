"""Feature kinds against pooling in numpy loops, the product's own model, and PCA by numpy; one pass for all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from visil.compare.visil import ViSiL
from visil.errors import ModelError, UsageError
from visil.model.backbones import EfficientNetLite
from visil.model.backbones.i3d import I3D
from visil.model.backbones.vgg import VGG16
from visil.model.config import ViSiLConfig
from visil.model.regions import region_windows, rmac_regions
from visil.model.whitening import PCA
from visil.paper.feature_kinds import RAW, FeatureMaker, fitted, split_kind

Pixels = NDArray[np.uint8]


def frames(count: int, side: int = 64, seed: int = 0) -> Pixels:
    """Blocks of colour, so that frames differ in more than noise."""
    coarse = np.random.default_rng(seed).integers(0, 256, (count, 4, 4, 3), np.uint8)
    return np.repeat(np.repeat(coarse, side // 4, axis=1), side // 4, axis=2)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = EfficientNetLite(1.0, 1.0)
    path = tmp_path_factory.mktemp("weights") / "lite0.pth"
    torch.save(network.state_dict(), path)
    return path


def network_of(path: Path) -> EfficientNetLite:
    network = EfficientNetLite(1.0, 1.0)
    network.load_state_dict(torch.load(path))
    return network.eval()


def unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    result: NDArray[np.float64] = vector / np.linalg.norm(vector)
    return result


def test_global_and_regional_kinds_by_hand(weights: Path) -> None:
    kinds = ("mac", "spoc", "rmac", "gem", "imac", "l2-imac", "l3-imac", "layers")
    pixels = frames(3)
    found = FeatureMaker(kinds, backbone_weights=weights).embed_frames(pixels)
    assert {kind: tuple(f.vectors.shape) for kind, f in found.items()} == {
        **dict.fromkeys(("mac", "spoc", "rmac", "gem"), (3, 1, 1280)),
        **{"imac": (3, 1, 472), "l2-imac": (3, 4, 472), "l3-imac": (3, 9, 472), "layers": (3, 3, 320)},
    }
    network = network_of(weights)
    with torch.inference_mode():
        maps = [m.double().numpy() for m in network.stages(network.preprocess(torch.from_numpy(pixels)))]
    for t in range(3):
        last = maps[-1][t]
        side = last.shape[-1]
        boxes = [unit(last[:, y : y + s, x : x + s].max(axis=(1, 2))) for y, x, s in rmac_regions(side, side)]
        expected = {
            "mac": [unit(last.max(axis=(1, 2)))],
            "spoc": [unit(last.sum(axis=(1, 2)))],
            "gem": [unit((np.maximum(last, 1e-6) ** 3).mean(axis=(1, 2)) ** (1 / 3))],
            "rmac": [unit(np.sum(boxes, axis=0))],
            "layers": [
                np.pad(unit(m[t].max(axis=(1, 2))), (0, 320 - m.shape[1]))
                for m in (maps[1], maps[2], maps[3])
            ],
        }
        for kind, level in (("imac", 1), ("l2-imac", 2), ("l3-imac", 3)):
            cells = []
            for row in range(level):
                for column in range(level):
                    parts = []
                    for m in (maps[1][t], maps[2][t], maps[3][t]):
                        length, starts = region_windows(m.shape[-1], level)
                        y, x = starts[row], starts[column]
                        parts.append(unit(m[:, y : y + length, x : x + length].max(axis=(1, 2))))
                    cells.append(unit(np.concatenate(parts)))
            expected[kind] = cells
        for kind, vectors in expected.items():
            np.testing.assert_allclose(found[kind].vectors[t].numpy(), np.stack(vectors), atol=2e-4)


def test_one_pass_for_all_kinds_in_batches(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    stages = EfficientNetLite.stages

    def counted(self: EfficientNetLite, images: torch.Tensor) -> list[torch.Tensor]:
        sizes.append(len(images))
        return stages(self, images)

    model = ViSiL(ViSiLConfig(backbone="efficientnet-lite0", stages=(1, 2), dim=16, attention="context"))
    assert model.backbone is not None
    model.backbone.load_state_dict(network_of(weights).state_dict())
    pixels = frames(37, side=32)
    pixels[5] = 7
    expected = model.embed_frames(pixels)
    maker = FeatureMaker(("model", "mac", "l3-imac"), model=model, backbone_weights=weights)
    monkeypatch.setattr(EfficientNetLite, "stages", counted)
    found = maker.embed_frames(pixels, [0.5 * i for i in range(37)])
    assert sizes == [32, 8]  # the last five, filled up; the model has a copy of its own for inference
    torch.testing.assert_close(found["model"].vectors, expected.vectors, rtol=1e-4, atol=1e-5)
    assert found["mac"].timestamps.tolist() == [0.5 * i for i in range(37)]
    assert found["mac"].blank is not None
    assert found["mac"].blank.nonzero().tolist() == [[5]]


def test_pca_of_training_videos(weights: Path) -> None:
    maker = FeatureMaker(("l2-imac", "mac"), backbone_weights=weights)
    raw = [maker.embed_frames(frames(60, side=32, seed=s)) for s in (1, 2)]
    vectors = np.concatenate([r["l2-imac"].vectors.flatten(0, 1).double().numpy() for r in raw])
    assert len(vectors) == 2 * 60 * 4 > 472
    values, axes = np.linalg.eigh(np.cov(vectors.T, bias=True))
    centred = (vectors - vectors.mean(axis=0)) @ axes[:, ::-1][:, :12]
    pca, wide = PCA(), PCA()
    for video in raw:
        pca.partial_fit(video["l2-imac"].vectors)
        wide.partial_fit(video["mac"].vectors)
    for whiten, scaled in (
        (False, centred),
        (True, centred / np.sqrt(values[::-1][:12] + 1e-7)),
    ):
        scaled = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
        layer = fitted(pca, 12, whiten=whiten)
        mine = layer(raw[0]["l2-imac"].vectors).flatten(0, 1).double().numpy()
        assert mine.shape == (240, 12)
        np.testing.assert_allclose(mine @ mine[:9].T, scaled[:240] @ scaled[:9].T, atol=2e-3)
    # 120 vectors cannot whiten 1,280 channels: half as many channels are kept.
    assert fitted(wide, None, whiten=True)(raw[0]["mac"].vectors).shape == (60, 1, 60)


def test_few_vectors_are_whitened_to_what_they_carry() -> None:
    vectors = torch.randn(10, 30, generator=torch.Generator().manual_seed(0)).double()
    layer = fitted(PCA().partial_fit(vectors), None, whiten=True)
    assert layer.dim == 5
    projected = (vectors.float() - layer.mean) @ layer.projection
    torch.testing.assert_close(projected.T @ projected / 10, torch.eye(5), atol=1e-3, rtol=0)
    with pytest.raises(UsageError, match="no videos"):
        fitted(PCA(), 4, whiten=True)


def test_i3d_clip_by_clip(tmp_path: Path) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = I3D().eval()
    path = tmp_path / "rgb.pt"
    torch.save(network.state_dict(), path)
    pixels = frames(70, side=32)
    maker = FeatureMaker(["i3d"], i3d_weights=path)
    found = maker.embed_frames(pixels)["i3d"]
    expected = network.features(torch.from_numpy(pixels))
    expected = expected / expected.norm(dim=1, keepdim=True)
    assert found.vectors.shape == (9, 1, 1024)
    torch.testing.assert_close(found.vectors[:, 0], expected, rtol=1e-4, atol=1e-5)
    assert found.timestamps.tolist() == [8 * i for i in range(9)]
    with pytest.raises(ModelError, match=r"rgb_imagenet\.pt"):
        FeatureMaker(["i3d"])


def test_vgg_layers(tmp_path: Path) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = VGG16().eval()
    torch.save(network.state_dict(), tmp_path / "vgg.pth")
    pixels = frames(2, side=32)
    found = FeatureMaker(["vgg-layers"], vgg_weights=tmp_path / "vgg.pth").embed_frames(pixels)["vgg-layers"]
    assert found.vectors.shape == (2, 11, 512)
    with torch.inference_mode():
        maps = [m.double().numpy() for m in network.layers(torch.from_numpy(pixels))]
    for number, layer in enumerate(maps):
        expected = np.stack([np.pad(unit(m.max(axis=(1, 2))), (0, 512 - m.shape[0])) for m in layer])
        np.testing.assert_allclose(found.vectors[:, number].numpy(), expected, atol=1e-5)
    with pytest.raises(ModelError, match="VGG-16 needs weights"):
        FeatureMaker(["vgg-layers"])


def test_names() -> None:
    assert split_kind("l3-imac+pca") == ("l3-imac", "+pca")
    assert split_kind("gem") == ("gem", "")
    for wrong in ("vlad", "mac+", "mac+whitened", "+pca"):
        with pytest.raises(UsageError, match="unknown features"):
            split_kind(wrong)
    with pytest.raises(UsageError, match="need a model"):
        FeatureMaker(["model"])
    assert len(RAW) == 11


def test_wrong_frames(weights: Path) -> None:
    maker = FeatureMaker(["mac"], backbone_weights=weights)
    with pytest.raises(UsageError, match="uint8"):
        maker.embed_frames(np.zeros((2, 8, 8, 3), np.float32))
    with pytest.raises(UsageError, match="as many timestamps"):
        maker.embed_frames(frames(2), [0.0])
    with pytest.raises(UsageError, match="needs frames"):
        maker.embed_frames(frames(2)[:0])
