"""Features by name, for the compared systems: every kind that is asked for, from one pass of the backbone.

| kind | one frame becomes |
|---|---|
| ``mac``, ``spoc``, ``rmac``, ``gem`` | one vector of the backbone's last map (of EfficientNet-Lite, its head) |
| ``imac``, ``l2-imac``, ``l3-imac`` | 1, 4 or 9 vectors of the stages that the product's models use |
| ``layers`` | one vector for each of those stages, narrower ones filled up with zeros |
| ``model`` | what a ViSiL model embeds |
| ``i3d`` | 1,024 channels for every eight frames; I3D was trained on 25 frames a second |

All but ``model`` are of unit length. With ``+pca`` behind it a kind is whitened, with ``+reduced`` only rotated and
reduced (the small rows of Table 2), in both cases to the table's width where that is smaller: 4×512 for L2-iMAC, 9×256
for L3-iMAC. Both need :meth:`FeatureMaker.fit` on videos that are not evaluated on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from visil.compare.visil import BATCH, ViSiL
from visil.errors import ModelError, UsageError, VideoError
from visil.matching.blank import blank_frames
from visil.model import regions
from visil.model.backbones import Backbone, backbone_spec, stage_maps
from visil.model.backbones.folding import folded
from visil.model.backbones.i3d import CLIP, I3D, STRIDE
from visil.model.backbones.weights import load_into, read_checkpoint
from visil.model.features import VideoFeatures
from visil.model.whitening import PCA, Whitening
from visil.paper.baselines.lbow_system import stack_layers

if TYPE_CHECKING:
    from visil.video import Sampling

Images = NDArray[np.uint8] | Tensor
Features = dict[str, VideoFeatures]
Maps = Sequence[Tensor]

DEFAULT_BACKBONE = "efficientnet-lite0"

GLOBAL: dict[str, Callable[[Maps], Tensor]] = {
    "mac": regions.mac,
    "spoc": regions.spoc,
    "rmac": regions.rmac,
    "gem": regions.gem,
}
LEVELS = {"imac": 1, "l2-imac": 2, "l3-imac": 3}
RAW = (*GLOBAL, *LEVELS, "layers", "model", "i3d")
"""Kinds that need no fitting."""

SUFFIXES = {"+pca": True, "+reduced": False}
"""What may stand behind a kind, and whether it whitens."""

WIDTHS = {"l2-imac": 512, "l3-imac": 256}
"""Channels kept of a kind (Table 2); of the others, all."""

FITTED_ON = 1_000_000
"""Vectors that a PCA is fitted on, at most."""


class FeatureMaker:
    """Frames in, features of every kind asked for out.

    ``backbone`` is a name of the product's, with a weights file where its package does not bring one. With ``model``
    and no ``backbone``, the model's own serves all kinds. ``half`` keeps the vectors in half precision.
    """

    def __init__(
        self,
        kinds: Iterable[str],
        *,
        backbone: str | None = None,
        backbone_weights: str | os.PathLike[str] | None = None,
        model: ViSiL | None = None,
        i3d_weights: str | os.PathLike[str] | None = None,
        widths: Mapping[str, int] = WIDTHS,
        half: bool = False,
        device: str | torch.device = "cpu",
    ) -> None:
        self.kinds = tuple(dict.fromkeys(kinds))
        self.bases = tuple(dict.fromkeys(split_kind(kind)[0] for kind in self.kinds))
        """The kinds before any PCA."""
        if "model" in self.bases and model is None:
            raise UsageError("features of the kind 'model' need a model")
        self.model, self.widths, self.half = model, widths, half
        self.device = torch.device(device)
        self.fitted_: dict[str, Whitening] = {}
        self.i3d = I3D.from_file(i3d_weights).to(self.device) if "i3d" in self.bases else None
        self._shared = model is not None and backbone is None
        name = (
            model.config.backbone if model is not None and backbone is None else backbone or DEFAULT_BACKBONE
        )
        self.stages_of = stages_of(name)
        self._backbone: Backbone | None = None
        if self._shared and model is not None:
            if model.backbone is None:
                raise ModelError(model.why_no_backbone)
            self._backbone = folded(model.backbone).to(self.device)
        elif any(base not in ("model", "i3d") for base in self.bases):
            self._backbone = _loaded(name, backbone_weights, self.device)

    # ------------------------------------------------------------------ frames to features

    def __call__(self, frames: Images, timestamps: Sequence[float] | None = None) -> Features:
        """All kinds of frames uint8 [T, H, W, 3]; without ``timestamps``, one frame a second."""
        return self.finish(self.raw(frames, timestamps))

    def raw(self, frames: Images, timestamps: Sequence[float] | None = None) -> Features:
        """The kinds before any PCA: what is worth keeping on disk, for :meth:`fit_raw` and :meth:`finish`."""
        if frames.ndim != 4 or frames.shape[-1] != 3 or str(frames.dtype).split(".")[-1] != "uint8":
            raise UsageError(f"frames must be uint8 [T, H, W, 3], got {frames.dtype} {list(frames.shape)}")
        times = np.asarray(range(len(frames)) if timestamps is None else timestamps, np.float64)
        if len(times) != len(frames):
            raise UsageError(f"{len(frames)} frames need as many timestamps, got {len(times)}")
        starts = range(0, len(frames), BATCH)
        return self._raw((frames[i : i + BATCH], times[i : i + BATCH]) for i in starts)

    def embed(self, video: str | os.PathLike[str], sampling: Sampling | None = None) -> Features:
        """All kinds of a video file, its frames sampled as the model does, or as ``sampling`` says."""
        return self.finish(self.embed_raw(video, sampling))

    def embed_raw(self, video: str | os.PathLike[str], sampling: Sampling | None = None) -> Features:
        """:meth:`raw` of a video file, decoded batch by batch."""
        from visil.video import Sampling, stream_frames

        if sampling is None:
            sampling = self.model.config.sampling if self.model is not None else Sampling()
        with stream_frames(video, sampling, batch_size=BATCH) as stream:
            found = self._raw(((batch.images, batch.timestamps) for batch in stream), os.fspath(video))
            return {
                kind: VideoFeatures(f.vectors, f.timestamps, stream.duration, f.path, f.blank)
                for kind, f in found.items()
            }

    def finish(self, raw: Mapping[str, VideoFeatures]) -> Features:
        """The kinds asked for, from those that :meth:`raw` gave."""
        result: Features = {}
        for kind in self.kinds:
            base, suffix = split_kind(kind)
            video = raw[base]
            if suffix:
                if kind not in self.fitted_:
                    raise UsageError(
                        f"the PCA of {kind!r} is not fitted yet: call fit with training videos first"
                    )
                vectors = self._kept(self.fitted_[kind](video.vectors.float()))
                video = VideoFeatures(vectors, video.timestamps, video.duration, video.path, video.blank)
            result[kind] = video
        return result

    # ------------------------------------------------------------------ PCA

    def fit(self, videos: Iterable[Images]) -> FeatureMaker:
        """Fit what ``+pca`` and ``+reduced`` need on the frames of training videos, read one after the other."""
        return self.fit_raw(self.raw(frames) for frames in videos)

    def fit_raw(self, videos: Iterable[Mapping[str, VideoFeatures]]) -> FeatureMaker:
        """:meth:`fit` from raw features already made."""
        wanted = [kind for kind in self.kinds if split_kind(kind)[1]]
        learning = {split_kind(kind)[0]: PCA() for kind in wanted}
        for video in videos if learning else ():
            for base, pca in learning.items():
                if pca.count_ < FITTED_ON:
                    pca.partial_fit(video[base].vectors)
        for kind in wanted:
            base, suffix = split_kind(kind)
            self.fitted_[kind] = fitted(learning[base], self.widths.get(base), whiten=SUFFIXES[suffix])
        return self

    # ------------------------------------------------------------------ one pass

    @torch.no_grad()  # not inference_mode: systems may learn from what comes out
    def _raw(
        self, batches: Iterable[tuple[Images, NDArray[np.float64]]], path: str | None = None
    ) -> Features:
        parts: dict[str, list[Tensor]] = {base: [] for base in self.bases}
        blank, times = [], []
        waiting: list[Tensor] = []
        for images, seconds in batches:
            pixels = torch.as_tensor(np.array(images) if isinstance(images, np.ndarray) else images)
            blank.append(blank_frames(pixels).cpu())
            times.append(torch.as_tensor(np.array(seconds, np.float64)))
            for base, vectors in self._batch(pixels):
                parts[base].append(self._kept(vectors))
            if self.i3d is not None:
                waiting.append(pixels)
                if sum(len(part) for part in waiting) >= CLIP:
                    together = torch.cat(waiting)
                    parts["i3d"].append(self._moving(together[:CLIP]))
                    waiting = [together[CLIP:]]
        if not times:
            raise (
                VideoError(path, "no frame could be decoded") if path else UsageError("a video needs frames")
            )
        if any(len(part) for part in waiting):
            parts["i3d"].append(self._moving(torch.cat(waiting)))
        seconds_all, blank_all = torch.cat(times), torch.cat(blank)
        result: Features = {}
        for base, found in parts.items():
            moments, flags = (seconds_all[::STRIDE], None) if base == "i3d" else (seconds_all, blank_all)
            result[base] = VideoFeatures(torch.cat(found), moments, None, path, flags)
        return result

    def _batch(self, pixels: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Every kind that one backbone pass gives, and the model's where it has a backbone of its own."""
        if "model" in self.bases and not self._shared and self.model is not None:
            yield "model", self.model.features(pixels)
        if self._backbone is None:
            return
        maps = stage_maps(self._backbone, pixels.to(self.device))
        chosen = [maps[i] for i in self.stages_of]
        for base in self.bases:
            if base in GLOBAL:
                yield base, GLOBAL[base](maps)
            elif base in LEVELS:
                yield base, regions.imac(chosen, (LEVELS[base],))
            elif base == "layers":
                yield base, stack_layers([F.normalize(stage.amax(dim=(2, 3)), dim=1) for stage in chosen])
            elif base == "model" and self._shared and self.model is not None:
                yield base, self.model.refine(self.model.pooled(maps).to(self.model.device))

    def _moving(self, pixels: Tensor) -> Tensor:
        assert self.i3d is not None
        return self._kept(F.normalize(self.i3d.features(pixels), dim=1)[:, None])

    def _kept(self, vectors: Tensor) -> Tensor:
        vectors = vectors.float().cpu()
        return vectors.half() if self.half else vectors


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


def stages_of(backbone: str) -> tuple[int, ...]:
    """Of EfficientNet-Lite, as in the default model; of ResNet-50, all four, as in the paper."""
    if backbone.startswith("efficientnet"):
        return (1, 2, 3)
    return tuple(range(len(backbone_spec(backbone).build().channels)))


def _loaded(name: str, weights: str | os.PathLike[str] | None, device: torch.device) -> Backbone:
    spec = backbone_spec(name)
    path = weights if weights is not None else spec.weights.locate()
    network = spec.build()
    load_into(network, read_checkpoint(path), os.fspath(path), network.unused_keys)
    return folded(network).to(device)
