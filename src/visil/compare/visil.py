"""`ViSiL`: backbone, regions, whitening, attention, similarity and comparator, composed once (Sec. 4, Fig. 2)."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from visil.compare import comparing, many_scores
from visil.compare.comparing import LongVideos
from visil.errors import ModelError, UsageError, VideoError
from visil.kernels import gpu
from visil.kernels.cpu_backbones import fast
from visil.kernels.cpu_precision import Precision
from visil.matching.blank import blank_frames
from visil.matching.match import Match
from visil.model import regions
from visil.model.attention import ContextAttention, HiddenAttention
from visil.model.backbones import Backbone, backbone_spec
from visil.model.backbones.folding import folded
from visil.model.backbones.weights import load_into, read_checkpoint
from visil.model.comparator import Comparator
from visil.model.config import ViSiLConfig
from visil.model.features import VideoFeatures
from visil.model.whitening import Whitening
from visil.prefetch import prefetched

if TYPE_CHECKING:
    from visil.video import Frames
    from visil.video.decoders import DecoderName

VideoLike = VideoFeatures | str | os.PathLike[str]

BATCH = 32
"""Frames that go through the backbone together."""

Progress = Callable[[int], None]
"""Called with the number of frames embedded so far."""


class ViSiL(nn.Module):
    """A model of the family: :meth:`embed` turns videos into features, :meth:`compare` relates two of them."""

    def __init__(self, config: ViSiLConfig, *, with_backbone: bool = True) -> None:
        super().__init__()
        self.config = config
        spec = backbone_spec(config.backbone)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # parts that nothing is loaded into are the same on every machine
            backbone = spec.build()
            if max(config.stages) >= len(backbone.channels):
                raise ModelError(
                    f"{config.backbone} has stages 0 to {len(backbone.channels) - 1}, not {config.stages}"
                )
            self.channels = _channels(config, backbone)
            self.dim = config.dim or self.channels
            if self.dim > self.channels:
                raise ModelError(f"cannot whiten {self.channels} channels to {self.dim}")
            self.whitening = Whitening.unfitted(self.channels, self.dim) if config.dim else None
            self.attention = _attention(config, self.dim)
            self.comparator = Comparator(config.comparator) if config.comparator else None
        self.backbone = backbone if with_backbone else None
        self.why_no_backbone = (
            "this model was loaded without a backbone: it compares features, but embeds nothing"
        )
        self._folded: list[Backbone] = []  # a list, so that torch does not take it for a part to save
        self._fast: list[Backbone | None] = []
        self.register_load_state_dict_post_hook(_forget_folded)  # type: ignore[no-untyped-call]
        self.eval()

    # ------------------------------------------------------------------ videos to features

    def embed(
        self,
        video: str | os.PathLike[str],
        *,
        progress: Progress | None = None,
        fast_decode: bool = False,
        decoder: DecoderName | None = None,
    ) -> VideoFeatures:
        """Features of a video file or a folder of images; decoding and the network run side by side.

        ``fast_decode`` takes frames near the times of the grid that are cheap to decode (docs/performance-cpu.md).
        ``decoder`` is "cpu", "nvdec" or "auto" (docs/performance.md); None: as ``VISIL_DECODER`` says, else the CPU.
        """
        from visil.video.decoders import decoded_frames, on_device

        vectors: list[Tensor] = []
        blank: list[Tensor] = []
        timestamps: list[NDArray[np.float64]] = []
        done = 0
        with (
            decoded_frames(
                video,
                self.config.sampling,
                BATCH,
                decoder=decoder,
                device=self.device,
                fast=fast_decode,
            ) as stream,
            prefetched(on_device(stream)) as batches,
        ):
            for batch in batches:
                images = _as_tensor(batch.images)
                vectors.append(self._regions(images))
                blank.append(blank_frames(images).cpu())
                timestamps.append(batch.timestamps)
                done += len(batch)
                if progress is not None:
                    progress(done)
        if not vectors:
            raise VideoError(video, "no frame could be decoded")
        times = torch.from_numpy(np.concatenate(timestamps))
        return VideoFeatures(torch.cat(vectors), times, stream.duration, os.fspath(video), torch.cat(blank))

    def embed_frames(
        self, frames: NDArray[np.uint8] | Tensor | Frames, timestamps: Sequence[float] | None = None
    ) -> VideoFeatures:
        """Features of frames already sampled: RGB uint8 [T, H, W, 3], of any size, used as they are.

        Without ``timestamps`` they are taken to follow the model's own rate, one a second by default.
        """
        images = _as_tensor(getattr(frames, "images", frames))
        if timestamps is None:
            timestamps = getattr(frames, "timestamps", None)
        if images.ndim != 4 or images.shape[-1] != 3 or images.dtype != torch.uint8 or 0 in images.shape:
            raise UsageError(f"frames must be uint8 [T, H, W, 3], got {images.dtype} {list(images.shape)}")
        vectors = torch.cat([self._regions(images[i : i + BATCH]) for i in range(0, len(images), BATCH)])
        if timestamps is None:
            times = torch.arange(len(images), dtype=torch.float64) / self.config.sampling.fps
        else:
            times = torch.as_tensor(np.asarray(timestamps, np.float64))
        return VideoFeatures(vectors, times, blank=blank_frames(images))

    def region_vectors(self, frames: NDArray[np.uint8] | Tensor) -> Tensor:
        """L_N-iMAC (or the configured pooling) of frames uint8 [B, H, W, 3], before whitening: [B, R, C]."""
        backbone = self._fast_backbone() or self._inference_backbone()
        pixels = _as_tensor(frames).to(self.device)
        count = len(pixels)
        if not backbone.training and count % 8:
            # Few different batch sizes: the CPU library keeps a plan, and its memory, for each that it meets.
            pixels = torch.cat([pixels, pixels.new_zeros(-count % 8, *pixels.shape[1:])])
        images = backbone.preprocess(pixels)
        maps = backbone.stages(images.contiguous(memory_format=torch.channels_last))
        return self.pooled([stage[:count] for stage in maps])

    def pooled(self, maps: Sequence[Tensor]) -> Tensor:
        """Region vectors from the backbone's maps, each [B, C, H, W]: [B, R, C]."""
        chosen = [maps[i] for i in self.config.stages]
        if self.config.pooling == "imac":
            if (
                gpu.usable(chosen[0].device)
                and chosen[0].dtype == torch.float16
                and not torch.is_grad_enabled()
            ):
                from visil.kernels.gpu_extraction import imac

                return imac(chosen, self.config.levels)
            return regions.imac(chosen, self.config.levels)
        pool: Callable[[Sequence[Tensor]], Tensor] = getattr(regions, self.config.pooling)
        return pool(chosen)

    def refine(self, region_vectors: Tensor) -> Tensor:
        """Whitening and attention, where the model has them: [..., C] to [..., D]."""
        if self.whitening is not None:
            region_vectors = self.whitening(region_vectors)
        if self.attention is not None:
            region_vectors = self.attention(region_vectors)
        return region_vectors

    def attention_weights(self, frames: NDArray[np.uint8] | Tensor) -> Tensor:
        """How much each region of each frame counts (Eq. 3): [T, R], in [0, 1]."""
        if self.attention is None:
            raise ModelError(f"the model {self.config.name} has no attention")
        with torch.inference_mode():
            vectors = self.region_vectors(frames)
            if self.whitening is not None:
                vectors = self.whitening(vectors)
            return self.attention.weights(vectors)[..., 0].cpu()

    def _inference_backbone(self) -> Backbone:
        """The backbone itself while it is being trained; otherwise a faster copy that computes the same."""
        if self.backbone is None:
            raise ModelError(self.why_no_backbone)
        if self.backbone.training:
            self._folded = []
            return self.backbone
        if not self._folded:
            self._folded = [folded(self.backbone)]
        return self._folded[0]

    def _fast_backbone(self) -> Backbone | None:
        """Where the backbone is not being trained: a copy for this device that makes the same features sooner."""
        if self.backbone is None or self.backbone.training:
            self._fast = []
            return None
        if not self._fast:
            last = max(self.config.stages)
            self._fast = [_copy_for_gpu(self.backbone, last) or fast(self.backbone, last)]
        return self._fast[0]

    def _forget_copies(self) -> None:
        self._folded, self._fast = [], []

    def _apply(self, *arguments: Any, **options: Any) -> ViSiL:
        """torch's hook behind ``to``, ``cuda``, ``half`` and the like: the folded copy is made anew after it."""
        self._forget_copies()
        super()._apply(*arguments, **options)  # type: ignore[no-untyped-call]
        return self

    @torch.inference_mode()
    def _regions(self, images: NDArray[np.uint8] | Tensor) -> Tensor:
        return self.refine(self.region_vectors(images)).float().cpu()

    # ------------------------------------------------------------------ features to answers

    def compare(self, query: VideoLike, target: VideoLike, *, long_videos: LongVideos = "exact") -> Match:
        """How two videos relate, and where. The query comes first: Eq. 6 asks how well *it* is covered."""
        _check_choice(long_videos)
        return comparing.compare(self, self._features(query), self._features(target), long_videos)

    def compare_many(
        self, query: VideoLike, targets: Iterable[VideoLike], *, common: NDArray[np.float32] | None = None
    ) -> Iterator[Match]:
        """:meth:`compare` with each of many targets: the same answers, several times faster for short videos.

        ``common`` [X]: what to take off the similarities of each query frame, where it is known how common it is.
        """
        return comparing.compare_many(self, self._features(query), map(self._features, targets), common)

    def scores(
        self,
        query: VideoLike,
        targets: Iterable[VideoLike],
        *,
        long_videos: LongVideos = "exact",
        precision: Precision | None = None,
    ) -> NDArray[np.float32]:
        """CS_v of one query against many targets, and nothing else.

        ``precision``: "fp32", or "auto" for several times the speed at a difference of at most 0.002.
        """
        _check_choice(long_videos)
        q = self._features(query)
        if long_videos == "exact":
            found = many_scores.scores(self, q, map(self._features, targets), precision)
            return found.astype(np.float32)
        comparing.check(self, q, "query")
        results = []
        for target in targets:
            t = self._features(target)
            comparing.check(self, t, "target")
            results.append(comparing.chunked_score(self, q.vectors, t.vectors))
        return np.array(results, np.float32)

    def forward(self, query: Tensor, target: Tensor) -> Tensor:
        """CS_v of two videos' refined vectors, [X, R, C] and [Y, R, C], by the plain formulas: differentiable."""
        from visil.model.similarity import frame_matrix, video_similarity

        matrix = frame_matrix(
            comparing.repeated(query, self.comparator),
            comparing.repeated(target, self.comparator),
            symmetric=self.config.symmetric,
            inner=self.config.frame_pool[0],
            outer=self.config.frame_pool[1],
        )
        if self.comparator is not None:
            matrix = self.comparator(matrix).clamp(-1, 1)
        inner, outer = self.config.video_pool
        return video_similarity(matrix, symmetric=self.config.symmetric, inner=inner, outer=outer)

    def _features(self, video: VideoLike) -> VideoFeatures:
        return video if isinstance(video, VideoFeatures) else self.embed(video)

    # ------------------------------------------------------------------ weights

    def fingerprint(self) -> str:
        """Tells models apart whose features must not be mixed: a hash of what features depend on."""
        digest = hashlib.sha256()
        names = ("backbone", "stages", "pooling", "levels", "dim", "whiten", "attention", "sampling")
        digest.update(repr([(name, getattr(self.config, name)) for name in names]).encode())
        if self.config.sampling.fit != "crop":  # younger than the format: left out where it changes nothing
            digest.update(self.config.sampling.fit.encode())
        for name, tensor in sorted(self.state_dict().items()):
            if not name.startswith("comparator.") and not name.endswith("num_batches_tracked"):
                digest.update(name.encode())
                digest.update(tensor.detach().cpu().float().numpy().tobytes())
        return digest.hexdigest()[:32]

    @property
    def device(self) -> torch.device:
        """Where the model's tensors are."""
        return next((t.device for t in (*self.parameters(), *self.buffers())), torch.device("cpu"))

    def load_backbone(self, weights: str | os.PathLike[str] | None = None) -> ViSiL:
        """Fill the backbone from a checkpoint file, or from where its weights are known to be."""
        spec = backbone_spec(self.config.backbone)
        path = Path(weights) if weights is not None else spec.weights.locate()
        backbone = spec.build()
        load_into(backbone, read_checkpoint(path), str(path), backbone.unused_keys)
        self.backbone = backbone.eval().to(self.device)
        self._forget_copies()
        return self

    def save_pretrained(
        self, folder: str | os.PathLike[str], *, include_backbone: bool = True, half: bool = False
    ) -> None:
        """Write ``config.json`` and ``model.safetensors`` into ``folder``, whole or not at all.

        ``half`` stores half-precision weights: half the size, and read back as single precision.
        """
        from visil.compare.pretrained import save

        save(self, Path(folder), include_backbone=include_backbone, half=half)

    @classmethod
    def from_pretrained(cls, name: str | os.PathLike[str]) -> ViSiL:
        """A model saved by :meth:`save_pretrained`: a folder, or an id on the hub."""
        from visil.compare.pretrained import load

        return load(name)

    @classmethod
    def from_official(
        cls,
        weights: str | os.PathLike[str],
        pca: str | os.PathLike[str] | None = None,
        *,
        backbone_weights: str | os.PathLike[str] | None = None,
        symmetric: bool = False,
    ) -> ViSiL:
        """A model from the authors' files: ``visil.pth``, ``visil_symmetric.pth`` or a DnS/S2VS student.

        Without ``backbone_weights`` it compares features but embeds no videos.
        """
        from visil.compare.official import from_official

        return from_official(weights, pca, backbone_weights=backbone_weights, symmetric=symmetric)

    def warn_untrained(self, parts: Sequence[str]) -> None:
        """Say that parts of this model still hold their starting values."""
        if parts:
            warnings.warn(
                f"{self.config.name}: {' and '.join(parts)} not trained: scores mean little until they are "
                "(train, or load the authors' weights with ViSiL.from_official)",
                stacklevel=3,
            )


def _copy_for_gpu(backbone: nn.Module, last: int) -> Backbone | None:
    """In half precision with fused layers, where there is a GPU that can run them."""
    first = next(backbone.parameters())
    if not gpu.usable(first.device) or first.dtype != torch.float32:
        return None
    from visil.kernels.gpu_extraction import fused

    return fused(backbone, last)


def _forget_folded(model: nn.Module, _: object) -> None:
    """Weights were loaded: the folded copy is made anew."""
    assert isinstance(model, ViSiL)
    model._forget_copies()


def _as_tensor(images: object) -> Tensor:
    """Pixels as a tensor, copied where torch cannot share the memory: turned-round views, read-only arrays."""
    if isinstance(images, Tensor):
        return images
    array = np.ascontiguousarray(images)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _check_choice(long_videos: str) -> None:
    if long_videos not in get_args(LongVideos):
        raise UsageError(f"long_videos must be one of {', '.join(get_args(LongVideos))}, not {long_videos!r}")


def _channels(config: ViSiLConfig, backbone: Backbone) -> int:
    widths = [backbone.channels[i] for i in config.stages]
    return sum(widths) if config.pooling == "imac" else widths[-1]


def _attention(config: ViSiLConfig, dim: int) -> ContextAttention | HiddenAttention | None:
    if config.attention is None:
        return None
    return ContextAttention(dim) if config.attention == "context" else HiddenAttention(dim)
