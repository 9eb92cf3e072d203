"""The authors' files: with the same weights and the same frames, the published formula's scores.

Everything expected here is computed in float64 by this file from the published description: ℓ2, PCA, attention,
the best target region for every query region, Table 1 in loops, hard tanh, Chamfer.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from test_comparator import table_1
from torch import Tensor

from visil.compare.visil import ViSiL
from visil.errors import ModelError
from visil.model.backbones import ResNet50
from visil.model.comparator import Padding
from visil.model.features import VideoFeatures
from visil.model.official import read_pca

Array = NDArray[np.float64]
CHANNELS = 3840
REGIONS = 9


# ---------------------------------------------------------------- the published formula, in numpy


@dataclass
class Published:
    """One released model, as numbers."""

    mean: Array
    axes: Array
    """(x - mean) @ axes whitens: eigenvectors over root eigenvalues, strongest first."""
    attention: dict[str, Array]
    comparator: dict[str, Array]
    padding: Padding
    symmetric: bool

    def refined(self, raw: Array) -> Array:
        """Region vectors [T, 9, 3840] to what is compared [T, 9, D]."""
        result = (raw - self.mean) @ self.axes
        for t, r in np.ndindex(*raw.shape[:2]):
            vector = result[t, r] / max(float(np.sqrt((result[t, r] ** 2).sum())), 1e-12)
            if "W" in self.attention:  # the binary student: signs, and similarities over the number of bits
                result[t, r] = np.sign(vector @ self.attention["W"]) / np.sqrt(len(vector))
            else:
                result[t, r] = self.weight(vector) * vector
        return np.asarray(result)

    def weight(self, vector: Array) -> float:
        context = self.attention["context_vector.weight"][0]
        if "transform.weight" not in self.attention:
            return float(context @ vector) / 2 + 0.5
        hidden = np.tanh(self.attention["transform.weight"] @ vector + self.attention["transform.bias"])
        return float(1 / (1 + np.exp(-(context @ hidden))))

    def frame_matrix(self, query: Array, target: Array) -> Array:
        matrix = np.empty((len(query), len(target)))
        for i, q in enumerate(query):
            for j, t in enumerate(target):
                products = q @ t.T
                best = [max(row) for row in products.tolist()]
                matrix[i, j] = sum(best) / len(best)
                if self.symmetric:
                    backward = [max(column) for column in products.T.tolist()]
                    matrix[i, j] = (matrix[i, j] + sum(backward) / len(backward)) / 2
        return matrix

    def score(self, query: Array, target: Array) -> float:
        """CS_v of two videos' refined region vectors."""
        matrix = self.frame_matrix(lengthened(query), lengthened(target))
        output = table_1(matrix, self.comparator, self.padding)
        clipped = [[min(max(value, -1.0), 1.0) for value in row] for row in output.tolist()]
        forward = sum(max(row) for row in clipped) / len(clipped)
        if not self.symmetric:
            return forward
        columns = list(zip(*clipped, strict=True))
        return (forward + sum(max(column) for column in columns) / len(columns)) / 2


def lengthened(video: Array) -> Array:
    """Under four frames a video is doubled until it has them: 1 to 4, 2 to 4, 3 to 6."""
    while len(video) < 4:
        video = np.concatenate([video, video])
    return video


# ---------------------------------------------------------------- files like the authors'


@dataclass
class Files:
    folder: Path
    mean: Array
    values: Array
    vectors: Array

    @property
    def pca(self) -> Path:
        return self.folder / "pca_resnet50_vcdb_1M.pth"

    def axes(self, dim: int) -> Array:
        order = sorted(range(CHANNELS), key=lambda i: -self.values[i])[:dim]
        return np.asarray(self.vectors[:, order] / np.sqrt(self.values[order] + 1e-7))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A PCA of the real size: eigenvalues in no order, eigenvectors orthonormal (two reflections, no QR)."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("authors")
    vectors = np.eye(CHANNELS, dtype=np.float32)
    for _ in range(2):
        normal = rng.normal(size=CHANNELS).astype(np.float32)
        normal /= np.linalg.norm(normal)
        vectors -= 2 * np.outer(vectors @ normal, normal)
    arrays = {
        "mean": rng.normal(size=CHANNELS) * 0.003,
        "d": rng.permutation(np.geomspace(1.0, 1e-3, CHANNELS)),
        "V": vectors,
    }
    tensors = {k: torch.from_numpy(v).float() for k, v in arrays.items()}
    made = Files(folder, *(tensors[k].double().numpy() for k in ("mean", "d", "V")))
    torch.save(tensors, made.pca)
    return made


def comparator_weights(seed: int) -> dict[str, Tensor]:
    """Weights under which outputs fill [-1, 1] and some go beyond."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int, std: float) -> Tensor:
        return torch.randn(*shape, generator=generator) * std

    return {
        "conv1.weight": normal(32, 1, 3, 3, std=2.0),
        "conv1.bias": normal(32, std=0.1),
        "conv2.weight": normal(64, 32, 3, 3, std=0.12),
        "conv2.bias": normal(64, std=0.1),
        "conv3.weight": normal(128, 64, 3, 3, std=0.08),
        "conv3.bias": normal(128, std=0.1),
        "fconv.weight": normal(1, 128, 1, 1, std=0.05),
        "fconv.bias": normal(1, std=0.1),
    }


def attention_weights(dim: int, hidden: bool, seed: int, binary: bool = False) -> dict[str, Tensor]:
    """A context vector far from unit length: it is used as it stands."""
    generator = torch.Generator().manual_seed(seed)
    if binary:
        return {"W": torch.randn(dim, dim, generator=generator)}
    weights = {"context_vector.weight": torch.randn(1, dim, generator=generator) * 0.4}
    if hidden:
        weights["transform.weight"] = torch.randn(dim, dim, generator=generator) * 0.5
        weights["transform.bias"] = torch.randn(dim, generator=generator) * 0.5
    return weights


@dataclass
class Release:
    """A file in one of the layouts the authors published, as it was loaded, and what it means."""

    path: Path
    model: ViSiL
    published: Published
    query: Array
    target: Array
    """The footage as the published formula refines it."""


@pytest.fixture(scope="module")
def footage() -> tuple[Array, Array]:
    """Raw region vectors of a query of 21 frames and a target of 14 that holds frames 5 to 14 of it, with noise."""
    rng = np.random.default_rng(5)

    def units(values: Array) -> Array:
        return np.asarray(values / np.linalg.norm(values, axis=-1, keepdims=True))

    query = units(rng.normal(size=(21, REGIONS, CHANNELS)))
    target = rng.normal(size=(14, REGIONS, CHANNELS)) / np.sqrt(CHANNELS)
    target[2:12] = query[5:15] + 0.3 * target[2:12]
    return query.astype(np.float32).astype(np.float64), units(target).astype(np.float32).astype(np.float64)


LAYOUTS = (
    *("visil.pth", "visil_symmetric.pth", "whole_model.pth"),
    *("dns_fg_att_student.pth", "dns_fg_bin_student.pth"),
)


@pytest.fixture(scope="module", params=LAYOUTS)
def release(request: pytest.FixtureRequest, files: Files, footage: tuple[Array, Array]) -> Release:
    name: str = request.param
    student, binary = name.startswith("dns"), "bin" in name
    dim = CHANNELS if name == "visil.pth" else 512
    attention, comparator = attention_weights(dim, student, 1, binary), comparator_weights(seed=2)
    head, body = {
        "dns_fg_att_student.pth": ("attention.", "visil_head."),
        "dns_fg_bin_student.pth": ("binarization.", "visil_head."),
        "whole_model.pth": ("visil_head.attention.", "visil_head.video_comperator."),
    }.get(name, ("attention.", "video_comperator."))
    state = {f"{head}{k}": v for k, v in attention.items()} | {f"{body}{k}": v for k, v in comparator.items()}
    path = files.folder / name
    torch.save({"model": state, "args": Namespace(lr=1e-4, attention=True)} if student else state, path)
    symmetric = name == "visil_symmetric.pth"
    published = Published(
        files.mean,
        files.axes(dim),
        {k: v.double().numpy() for k, v in attention.items()},
        {k: v.double().numpy() for k, v in comparator.items()},
        "zeros" if student else "replicate",
        symmetric,
    )
    model = ViSiL.from_official(path, files.pca, symmetric=symmetric)
    return Release(path, model, published, *(published.refined(raw) for raw in footage))


def features(model: ViSiL, raw: Array) -> VideoFeatures:
    with torch.inference_mode():
        vectors = model.refine(torch.from_numpy(raw).float())
    return VideoFeatures(vectors, torch.arange(len(raw), dtype=torch.float64))


# ---------------------------------------------------------------- the same scores


def test_scores_equal_the_published_formula(release: Release, footage: tuple[Array, Array]) -> None:
    model = release.model
    seen = []
    for x, y in [(1, 2), (2, 7), (3, 5), (4, 4), (5, 3), (7, 14), (21, 10)]:
        # Short ones begin where the two videos share footage.
        queries, targets = (
            slice(5, 5 + x) if x < 21 else slice(None),
            slice(2, 2 + y) if y < 14 else slice(None),
        )
        expected = release.published.score(release.query[queries], release.target[targets])
        query, target = features(model, footage[0][queries]), features(model, footage[1][targets])
        assert model.compare(query, target).score == pytest.approx(expected, abs=1e-5), (x, y)
        seen.append(expected)
    # The numbers are worth comparing: they vary, and are not all clipped.
    assert np.std(seen) > 0.02
    assert sum(abs(score) < 1 for score in seen) > 3


def test_refined_vectors_and_matrices_equal_the_published_formula(
    release: Release, footage: tuple[Array, Array]
) -> None:
    model, published = release.model, release.published
    query, target = features(model, footage[0][4:15]), features(model, footage[1][:9])
    np.testing.assert_allclose(query.vectors.numpy(), release.query[4:15], atol=2e-6)
    match = model.compare(query, target)
    matrix = published.frame_matrix(release.query[4:15], release.target[:9])
    np.testing.assert_allclose(match.frame_matrix, matrix, atol=1e-5)
    output = table_1(matrix, published.comparator, published.padding)
    np.testing.assert_allclose(match.output_matrix, np.clip(output, -1, 1), atol=1e-5)
    # Guards the tests of scores: with the other padding the same weights say otherwise.
    other: Padding = "zeros" if published.padding == "replicate" else "replicate"
    assert np.abs(output - table_1(matrix, published.comparator, other)).max() > 1e-2


def test_configuration_follows_the_file(release: Release) -> None:
    config, name = release.model.config, release.path.name
    kinds = {"dns_fg_att_student.pth": "hidden", "dns_fg_bin_student.pth": "binary"}
    assert config.attention == kinds.get(name, "context")
    assert config.comparator == release.published.padding
    assert config.symmetric is release.published.symmetric
    assert config.dim == (CHANNELS if name == "visil.pth" else 512)
    assert config.levels == (3,)
    assert config.backbone == "resnet50"


# ---------------------------------------------------------------- from pixels


def random_resnet() -> dict[str, Tensor]:
    """A ResNet-50 that no one trained, with statistics that matter, and torchvision's classifier."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        state = {k: v.clone() for k, v in ResNet50().state_dict().items()}
        for name, value in state.items():
            if name.endswith("running_var"):
                value.uniform_(0.5, 2.0)
            elif name.endswith(("running_mean", "bias")):
                value.normal_(std=0.1)
            elif value.ndim == 1:
                value.uniform_(0.3, 0.9)
    return {**state, "fc.weight": torch.zeros(1000, 2048), "fc.bias": torch.zeros(1000)}


def published_extraction(frames: NDArray[np.uint8], state: dict[str, Tensor]) -> Array:
    """Normalise, ResNet-50, pooled stages, ℓ2, concatenate, ℓ2: uint8 [T, 224, 224, 3] to [T, 9, 3840]."""
    weights = {k: v.double() for k, v in state.items()}

    def norm(x: Tensor, name: str) -> Tensor:
        mean, var, weight, bias = (
            weights[f"{name}.{k}"][:, None, None] for k in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / torch.sqrt(var + 1e-5) * weight + bias

    def block(x: Tensor, name: str, stride: int) -> Tensor:
        y = norm(F.conv2d(x, weights[f"{name}.conv1.weight"]), f"{name}.bn1").clamp(min=0)
        y = F.conv2d(y, weights[f"{name}.conv2.weight"], stride=stride, padding=1)
        y = F.conv2d(norm(y, f"{name}.bn2").clamp(min=0), weights[f"{name}.conv3.weight"])
        if f"{name}.downsample.0.weight" in weights:
            x = norm(
                F.conv2d(x, weights[f"{name}.downsample.0.weight"], stride=stride), f"{name}.downsample.1"
            )
        return (norm(y, f"{name}.bn3") + x).clamp(min=0)

    images = torch.from_numpy(frames).double() / 255
    images = (images - torch.tensor([0.485, 0.456, 0.406]).double()) / torch.tensor(
        [0.229, 0.224, 0.225]
    ).double()
    x = F.conv2d(images.permute(0, 3, 1, 2), weights["conv1.weight"], stride=2, padding=3)
    x = F.max_pool2d(norm(x, "bn1").clamp(min=0), 3, 2, 1)
    pooled = []
    kernels = ((3, 28, 14), (4, 14, 7), (6, 6, 3), (3, 3, 2))  # blocks, pooling window, its stride
    for stage, (blocks, kernel, step) in enumerate(kernels, start=1):
        for i in range(blocks):
            x = block(x, f"layer{stage}.{i}", 2 if i == 0 and stage > 1 else 1)
        regions = [
            x[:, :, a * step : a * step + kernel, b * step : b * step + kernel].amax(dim=(2, 3))
            for a in range(3)
            for b in range(3)
        ]
        stacked = torch.stack(regions, dim=1)
        pooled.append(stacked / stacked.norm(dim=-1, keepdim=True))
    joined = torch.cat(pooled, dim=-1)
    return np.asarray((joined / joined.norm(dim=-1, keepdim=True)).numpy())


def test_from_pixels_to_score(files: Files, tmp_path: Path) -> None:
    state = random_resnet()
    torch.save(state, tmp_path / "resnet50.pth")
    attention, comparator = attention_weights(512, False, seed=3), comparator_weights(seed=4)
    torch.save(
        {f"attention.{k}": v for k, v in attention.items()}
        | {f"video_comperator.{k}": v for k, v in comparator.items()},
        tmp_path / "visil.pth",
    )
    model = ViSiL.from_official(tmp_path / "visil.pth", files.pca, backbone_weights=tmp_path / "resnet50.pth")
    rng = np.random.default_rng(1)
    coarse = rng.integers(0, 256, (2, 8, 8, 3), dtype=np.uint8)
    frames = np.repeat(np.repeat(coarse, 28, axis=1), 28, axis=2)

    raw = published_extraction(frames, state)
    with torch.inference_mode():
        np.testing.assert_allclose(model.region_vectors(frames).numpy(), raw, atol=5e-6)
    published = Published(
        files.mean,
        files.axes(512),
        {k: v.double().numpy() for k, v in attention.items()},
        {k: v.double().numpy() for k, v in comparator.items()},
        "replicate",
        symmetric=False,
    )
    query, target = model.embed_frames(frames[:1]), model.embed_frames(frames)
    assert target.vectors.shape == (2, 9, 512)
    assert target.timestamps.tolist() == [0.0, 1.0]
    refined = published.refined(raw)
    assert model.compare(query, target).score == pytest.approx(
        published.score(refined[:1], refined), abs=1e-5
    )


# ---------------------------------------------------------------- files that are something else


def test_without_a_backbone_it_compares_but_does_not_embed(release: Release) -> None:
    with pytest.raises(ModelError, match="without a backbone"):
        release.model.embed_frames(np.zeros((2, 32, 32, 3), np.uint8))


def test_a_backbone_needs_the_pca(release: Release, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="PCA file"):
        ViSiL.from_official(release.path, backbone_weights=tmp_path / "any.pth")


def rejected(path: Path, payload: object, said: str) -> None:
    torch.save(payload, path)
    with pytest.raises(ModelError, match=said) as error:
        ViSiL.from_official(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_checkpoints_of_other_models_are_named_as_such(tmp_path: Path) -> None:
    good = {f"attention.{k}": v for k, v in attention_weights(8, False, 0).items()}
    rejected(tmp_path / "resnet.pth", {"conv1.weight": torch.zeros(64, 3, 7, 7)}, "not a ViSiL model")
    rejected(tmp_path / "half.pth", good, "not a ViSiL model")
    rejected(
        tmp_path / "binary.pth",
        {"binarization.W": torch.zeros(512, 64), **good},
        "as many bits as dimensions",
    )
    broken = {**good, **{f"video_comperator.{k}": v for k, v in comparator_weights(0).items()}}
    broken["video_comperator.conv2.weight"] = torch.zeros(64, 16, 3, 3)
    rejected(tmp_path / "narrow.pth", broken, "conv2.weight has shape")


def test_pca_from_npz(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {"mean": rng.normal(size=5), "d": rng.uniform(0.1, 1, 5), "V": rng.normal(size=(5, 5))}
    np.savez(tmp_path / "pca.npz", **arrays)  # type: ignore[arg-type]
    torch.save({k: torch.from_numpy(v) for k, v in arrays.items()}, tmp_path / "pca.pth")
    for dim in (5, 2):
        npz, pth = read_pca(tmp_path / "pca.npz", dim), read_pca(tmp_path / "pca.pth", dim)
        assert npz.dim == dim
        assert torch.equal(npz.projection, pth.projection)
        assert torch.equal(npz.mean, pth.mean)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda p: p.pop("d"), "lacks 'd'"),
        (lambda p: p.update(V=torch.eye(4)), "do not make a whitening"),
        (lambda p: p.update(d=torch.tensor([1.0, 1.0, float("nan")])), "NaN"),
    ],
)
def test_damaged_pca(tmp_path: Path, spoil: Callable[[dict[str, Tensor]], object], said: str) -> None:
    parts = {"mean": torch.zeros(3), "d": torch.ones(3), "V": torch.eye(3)}
    spoil(parts)
    torch.save(parts, tmp_path / "pca.pth")
    with pytest.raises(ModelError, match=said) as error:
        read_pca(tmp_path / "pca.pth", 3)
    assert str(tmp_path / "pca.pth") in str(error.value)


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "text", "one array"])
def test_unreadable_npz(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "pca.npz"
    if damage == "one array":
        with path.open("wb") as file:
            np.save(file, np.eye(3))
    elif damage != "missing":
        np.savez(path, mean=np.zeros(3), d=np.ones(3), V=np.eye(3))
        whole = path.read_bytes()
        path.write_bytes({"empty": b"", "cut": whole[: len(whole) // 2], "text": b"mean: 0"}[damage])
    with pytest.raises(ModelError) as error:
        read_pca(path, 3)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
