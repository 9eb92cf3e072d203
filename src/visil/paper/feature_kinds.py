"""Features by name, for the compared systems: every kind that is asked for, from one pass of the backbone.

| kind | one frame becomes |
|---|---|
| ``mac``, ``spoc``, ``rmac``, ``gem`` | one vector of the backbone's last map (of EfficientNet-Lite, its head) |
| ``imac``, ``l2-imac``, ``l3-imac`` | 1, 4 or 9 vectors of the stages that the product's models use |
| ``layers`` | one vector for each of those stages, narrower ones filled up with zeros |
| ``vgg-layers`` | the same of VGG-16's convolutions conv2_1 to conv5_3, from a weights file |
| ``model`` | what a ViSiL model embeds |
| ``i3d`` | 1,024 channels for every eight frames, from windows of 64; videos are read at 25 frames a second for it |

All but ``model`` are of unit length. With ``+pca`` behind it a kind is whitened, with ``+reduced`` only rotated and
reduced (the small rows of Table 2), in both cases to the table's width where that is smaller: 4×512 for L2-iMAC, 9×256
for L3-iMAC. What these need is fitted on videos that are not evaluated on (:mod:`visil.paper.feature_bank`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from visil.compare.visil import BATCH, ViSiL
from visil.errors import UsageError
from visil.matching.blank import blank_frames
from visil.model import regions
from visil.model.backbones import Backbone, backbone_spec, channels_of, stage_maps
from visil.model.backbones.folding import folded
from visil.model.backbones.i3d import CLIP, I3D, STRIDE
from visil.model.backbones.vgg import VGG16
from visil.model.backbones.weights import load_into, read_checkpoint
from visil.model.config import Pooling, ViSiLConfig
from visil.model.features import VideoFeatures
from visil.model.whitening import PCA, Whitening
from visil.paper.baselines.lbow import stack_layers
from visil.video import Frames, Sampling

Images = NDArray[np.uint8] | Tensor
ByKind = dict[str, VideoFeatures]
Maps = Sequence[Tensor]

GLOBAL: dict[str, Callable[[Maps], Tensor]] = {
    "mac": regions.mac,
    "spoc": regions.spoc,
    "rmac": regions.rmac,
    "gem": regions.gem,
}
LEVELS = {"imac": 1, "l2-imac": 2, "l3-imac": 3}
VGG = "vgg-layers"
I3D_KIND = "i3d"
"""The one kind that is not made of single frames."""
RAW = (*GLOBAL, *LEVELS, "layers", VGG, "model", I3D_KIND)
"""Kinds that need no fitting."""

SUFFIXES = {"+pca": True, "+reduced": False}
"""The endings of a kind, and whether each whitens."""

WIDTHS = {"l2-imac": 512, "l3-imac": 256}
"""Channels kept of a kind (Table 2); of the others, all."""


class FeatureMaker:
    """Frames in, features of every kind asked for out, before any PCA.

    ``backbone`` is a name of the product's, with a weights file where its package does not bring one.
    """

    def __init__(
        self,
        kinds: Iterable[str],
        *,
        backbone: str = "efficientnet-lite0",
        backbone_weights: str | os.PathLike[str] | None = None,
        model: ViSiL | None = None,
        i3d_weights: str | os.PathLike[str] | None = None,
        vgg_weights: str | os.PathLike[str] | None = None,
        device: str | torch.device = "cpu",
    ) -> None:
        self.kinds = tuple(dict.fromkeys(split_kind(kind)[0] for kind in kinds))
        if "model" in self.kinds and model is None:
            raise UsageError("features of the kind 'model' need a model")
        self.model = model
        self.device = torch.device(device)
        self.i3d = I3D.from_file(i3d_weights).to(self.device) if "i3d" in self.kinds else None
        self.vgg = VGG16.from_file(vgg_weights).to(self.device) if VGG in self.kinds else None
        self.stages = stages_of(backbone)
        pictured = any(kind not in ("model", I3D_KIND, VGG) for kind in self.kinds)
        self._backbone = _loaded(backbone, backbone_weights, self.device) if pictured else None

    def prepare(self) -> None:
        """See :meth:`visil.collection.extraction_work.Embedder.prepare`."""
        if self.model is not None:
            self.model.prepare()

    def begin(self) -> Clip:
        """See :meth:`visil.collection.extraction_work.Embedder.begin`."""
        return Clip()

    def embed(self, pieces: Sequence[tuple[Clip, Frames]]) -> list[ByKind]:
        """Every kind of each piece; I3D's as far as its clips are complete."""
        return [self._embed(clip, frames) for clip, frames in pieces]

    def end(self, clip: Clip) -> ByKind:
        """I3D's features of the remaining frames, however few they are."""
        return {"i3d": self._clip(*clip.taken(CLIP))} if clip.count else {}

    def parts(self, batches: Iterable[Frames]) -> Iterator[ByKind]:
        """Features of one video, batch by batch."""
        clip = self.begin()
        for frames in batches:
            yield self._embed(clip, frames)
        if clip.count:
            yield self.end(clip)

    def _embed(self, clip: Clip, frames: Frames) -> ByKind:
        pixels = torch.from_numpy(np.array(frames.images))
        times = torch.from_numpy(np.array(frames.timestamps, np.float64))
        blank = blank_frames(pixels).cpu()
        made = {
            kind: VideoFeatures(vectors.float().cpu(), times, None, None, blank)
            for kind, vectors in self._batch(pixels)
        }
        if self.i3d is not None:
            clip.add(pixels, times)
            if clip.count >= CLIP:
                made["i3d"] = self._clip(*clip.taken(CLIP))
        return made

    def embed_frames(self, frames: Images, timestamps: Sequence[float] | None = None) -> ByKind:
        """All kinds of frames uint8 [T, H, W, 3] at hand; without ``timestamps``, one frame a second."""
        if frames.ndim != 4 or frames.shape[-1] != 3 or str(frames.dtype).split(".")[-1] != "uint8":
            raise UsageError(f"frames must be uint8 [T, H, W, 3], got {frames.dtype} {list(frames.shape)}")
        times = np.asarray(range(len(frames)) if timestamps is None else timestamps, np.float64)
        if len(times) != len(frames):
            raise UsageError(f"{len(frames)} frames need as many timestamps, got {len(times)}")
        if not len(frames):
            raise UsageError("a video needs frames")
        parts = list(self.parts(batched(frames, times)))
        return {kind: VideoFeatures.joined([p[kind] for p in parts if kind in p]) for kind in self.kinds}

    @torch.no_grad()  # not inference_mode: systems may learn from what comes out
    def _batch(self, pixels: Tensor) -> list[tuple[str, Tensor]]:
        """Every kind that one pass through the backbone gives, and the model's."""
        found: list[tuple[str, Tensor]] = []
        if "model" in self.kinds and self.model is not None:
            found.append(("model", self.model.features(pixels)))
        if self.vgg is not None:
            found.append((VGG, _layer_maxima(self.vgg.layers(pixels.to(self.device)))))
        if self._backbone is None:
            return found
        maps = stage_maps(self._backbone, pixels.to(self.device))
        chosen = [maps[i] for i in self.stages]
        for kind in self.kinds:
            if kind in GLOBAL:
                found.append((kind, GLOBAL[kind](maps)))
            elif kind in LEVELS:
                found.append((kind, regions.imac(chosen, (LEVELS[kind],))))
            elif kind == "layers":
                found.append((kind, _layer_maxima(chosen)))
        return found

    @torch.no_grad()
    def _clip(self, pixels: Tensor, times: Tensor) -> VideoFeatures:
        """I3D's vectors of some frames, one for every eighth."""
        assert self.i3d is not None
        vectors = F.normalize(self.i3d.features(pixels), dim=1)[:, None]
        seconds = times[::STRIDE]
        return VideoFeatures(
            vectors.float().cpu(), seconds, blank=torch.zeros(len(seconds), dtype=torch.bool)
        )


class Clip:
    """Frames of one video that wait until they are as many as I3D reads at once."""

    def __init__(self) -> None:
        self.count = 0
        self._pixels: list[Tensor] = []
        self._times: list[Tensor] = []

    def add(self, pixels: Tensor, times: Tensor) -> None:
        """Some frames more."""
        self._pixels.append(pixels)
        self._times.append(times)
        self.count += len(times)

    def taken(self, most: int) -> tuple[Tensor, Tensor]:
        """The first ``most`` frames, and their seconds; the others go on waiting."""
        pixels, times = torch.cat(self._pixels), torch.cat(self._times)
        self._pixels, self._times = [pixels[most:]], [times[most:]]
        self.count = len(times[most:])
        return pixels[:most], times[:most]


def kind_size(kind: str, backbone: str) -> tuple[int, int] | None:
    """Vectors of a frame and channels of each, of the kinds that Table 2 is about."""
    base, suffix = split_kind(kind)
    channels = channels_of(backbone)
    if base in GLOBAL:
        return 1, channels[-1]
    if base not in LEVELS:
        return None
    width = sum(channels[stage] for stage in stages_of(backbone))
    return LEVELS[base] ** 2, min(width, WIDTHS.get(base, width)) if suffix else width


def batched(frames: Images, times: NDArray[np.float64]) -> Iterator[Frames]:
    """Frames at hand as they would come from a file."""
    for start in range(0, len(frames), BATCH):
        part = slice(start, start + BATCH)
        yield Frames(np.asarray(frames[part]), times[part])


def split_kind(kind: str) -> tuple[str, str]:
    """A kind before any PCA, and what stands behind it (``+pca``, ``+reduced`` or nothing)."""
    base, plus, rest = kind.partition("+")
    suffix = plus + rest
    if base not in RAW or (suffix and suffix not in SUFFIXES):
        raise UsageError(
            f"unknown features {kind!r}: choose one of {', '.join(RAW)}, with {' or '.join(SUFFIXES)} behind or not"
        )
    return base, suffix


def fitted(pca: PCA, width: int | None, *, whiten: bool) -> Whitening:
    """A PCA as a layer that keeps ``width`` channels, or all.

    Where there are too few vectors to whiten every channel, half as many channels as vectors are kept: the directions
    of least variance would be noise, and count as much as the others.
    """
    if pca.mean_ is None or pca.scatter_ is None:
        raise UsageError("a PCA cannot be fitted on no videos")
    channels = pca.mean_.numel()
    dim = min(width or channels, channels)
    if pca.count_ > channels or not whiten:
        return pca.whitening(dim, whiten=whiten)
    values, axes = torch.linalg.eigh(pca.scatter_ / pca.count_)
    return Whitening.from_eigen(pca.mean_, values, axes, min(dim, max(1, pca.count_ // 2))).float()


def kind_model(
    base: str,
    backbone: str,
    weights: str | os.PathLike[str] | None,
    sampling: Sampling,
    device: str | torch.device = "cpu",
) -> ViSiL:
    """A model that embeds frames as features of a kind before any PCA; of I3D one without a network, for features."""
    if base == I3D_KIND:
        config = ViSiLConfig(name=base, backbone="i3d", stages=(0,), levels=(1,), sampling=sampling)
        return ViSiL(config, with_backbone=False).to(device)
    if base in LEVELS:
        config = ViSiLConfig(base, backbone, stages_of(backbone), "imac", (LEVELS[base],), sampling=sampling)
    elif base in GLOBAL:
        last = len(backbone_spec(backbone).build().channels) - 1
        config = ViSiLConfig(base, backbone, (last,), cast(Pooling, base), sampling=sampling)
    else:
        raise UsageError(f"nothing can be trained on features of the kind {base!r}")
    return ViSiL(config, with_backbone=False).load_backbone(weights).to(device).eval()


def stages_of(backbone: str) -> tuple[int, ...]:
    """Of EfficientNet-Lite, as in the default model; of ResNet-50, all four, as in the paper."""
    if backbone.startswith("efficientnet"):
        return (1, 2, 3)
    return tuple(range(len(channels_of(backbone))))


def _layer_maxima(maps: Maps) -> Tensor:
    """One vector for each layer, of unit length, narrower ones filled up: [T, layers, widest C]."""
    return stack_layers([F.normalize(layer.amax(dim=(2, 3)), dim=1) for layer in maps])


def _loaded(name: str, weights: str | os.PathLike[str] | None, device: torch.device) -> Backbone:
    spec = backbone_spec(name)
    path = weights if weights is not None else spec.weights.locate()
    network = spec.build()
    load_into(network, read_checkpoint(path), os.fspath(path), network.unused_keys)
    return folded(network).to(device)
