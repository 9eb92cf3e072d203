"""`ViSiL`: the network of :mod:`visil.model.network` as people use it: videos in, answers out, fast copies inside."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from visil.compare import matches
from visil.compare.judge import answer, identical, same_files
from visil.compare.matches import LongVideos
from visil.compare.pair_reading import Common
from visil.compare.refinement import FramesAt, looked_at
from visil.compare.repeats import Repeats
from visil.errors import ModelError, UsageError, VideoError
from visil.kernels import Best, Scorer, devices
from visil.kernels.cpu_backbones import fast
from visil.kernels.precision import Embedding, Precision, embedding
from visil.machine.heap import give_back
from visil.machine.prefetch import prefetched
from visil.matching.blank import GROUND_LEFT_TO_READER, GROUND_SHARE, blank_frames
from visil.matching.match import Match
from visil.model.attention import BinaryCode
from visil.model.backbones import Backbone, stage_maps
from visil.model.backbones.folding import folded
from visil.model.config import ViSiLConfig
from visil.model.features import VideoFeatures
from visil.model.network import Network
from visil.model.official import from_official
from visil.model.pretrained import load, save

if TYPE_CHECKING:
    from visil.video import Frames
    from visil.video.decoders import DecoderName
    from visil.video.nvdec import GpuFrames
    from visil.video.thumbnails import SamplesAt

VideoLike = VideoFeatures | str | os.PathLike[str]

BATCH = 32
"""Frames that go through the backbone together."""

GIVE_BACK_FRAMES = 512
"""Frames after which free memory is given back to the system: seconds of work, for some milliseconds."""

FramesDone = Callable[[int], None]
"""Called with the number of frames embedded so far."""


class ViSiL(Network):
    """A model of the family: :meth:`embed` turns videos into features, :meth:`compare` relates two of them."""

    def __init__(self, config: ViSiLConfig, *, with_backbone: bool = True) -> None:
        super().__init__(config, with_backbone=with_backbone)
        self.precision: Precision | None = None
        """The arithmetic that this model compares in; None: as ``VISIL_PRECISION`` says, else as suits its device."""
        self.embedding: Embedding | None = None
        """The arithmetic that it embeds in on a processor; None: as ``VISIL_EMBEDDING`` says, else fp32."""
        self._copy: list[Backbone] = []  # a list, so that torch does not take it for a part to save
        self._copied_in = ""
        self._embedded = 0  # frames since memory was given back
        self.register_load_state_dict_post_hook(_forget_copy)  # type: ignore[no-untyped-call]

    # ------------------------------------------------------------------ videos to features

    def embed(
        self,
        video: str | os.PathLike[str],
        *,
        progress: FramesDone | None = None,
        fast_decode: bool = False,
        decoder: DecoderName | None = None,
    ) -> VideoFeatures:
        """Features of a video file or a folder of images; decoding and the network run side by side.

        ``fast_decode`` takes frames near the times of the grid that are cheap to decode (docs/performance-cpu.md).
        ``decoder`` is "cpu", "nvdec" or "auto" (docs/performance.md); None: as ``VISIL_DECODER`` says, else the CPU.
        """
        from visil.video.decoders import decoded_frames, on_device

        sampling, device = self.config.sampling, self.device
        with (
            decoded_frames(
                video, sampling, BATCH, decoder=decoder, device=device, fast=fast_decode
            ) as stream,
            prefetched(on_device(stream)) as batches,
        ):
            parts: list[VideoFeatures] = []
            repeats = Repeats()
            for batch in batches:
                parts.append(self.embed_frames(batch, repeats=repeats))
                if progress is not None:
                    progress(sum(map(len, parts)))
        if not parts:
            raise VideoError(video, "no frame could be decoded")
        features = VideoFeatures.joined(parts, stream.duration, os.fspath(video))
        if len(features) >= GIVE_BACK_FRAMES:
            parts.clear()
            give_back()
        return features

    def embed_frames(
        self,
        frames: NDArray[np.uint8] | Tensor | Frames | GpuFrames,
        timestamps: Sequence[float] | None = None,
        *,
        repeats: Repeats | None = None,
    ) -> VideoFeatures:
        """Features of frames already sampled: RGB uint8 [T, H, W, 3], of any size, used as they are.

        Without ``timestamps`` they are taken to follow the model's own rate, one a second by default. Features of one
        video's batches are joined by :meth:`VideoFeatures.joined`. A frame that is the one before again, byte by byte,
        is not embedded again: across batches too, where each of a video's comes with the same ``repeats``.
        """
        images = _as_tensor(getattr(frames, "images", frames))
        if timestamps is None:
            timestamps = getattr(frames, "timestamps", None)
        if images.ndim != 4 or images.shape[-1] != 3 or images.dtype != torch.uint8 or 0 in images.shape:
            raise UsageError(f"frames must be uint8 [T, H, W, 3], got {images.dtype} {list(images.shape)}")
        if timestamps is None:
            times = torch.arange(len(images), dtype=torch.float64) / self.config.sampling.fps
        else:
            times = torch.as_tensor(np.asarray(timestamps, np.float64))
        ((vectors, blank),) = self.embed_pieces([(repeats or Repeats(), images)])
        return VideoFeatures(vectors, times, blank=blank)

    def embed_pieces(self, pieces: Sequence[tuple[Repeats, Tensor]]) -> list[tuple[Tensor, Tensor]]:
        """Vectors [t, R, C] and which are blank [t], of some frames of several videos, from one pass for all of them.

        Each piece comes with what its video showed before. A GPU reads frames from where they lie.
        """
        different: list[Tensor] = []
        new: list[Tensor] = []
        for repeats, images in pieces:
            new.append(repeats.new(images))
            chosen = images if bool(new[-1].all()) else images[new[-1].to(images.device)]
            different.append(chosen.to(self.device, non_blocking=True))
        vectors, blank = torch.empty(0), torch.empty(0, dtype=torch.bool)
        share = GROUND_SHARE if self.reader is None else GROUND_LEFT_TO_READER
        batches = [part for part in torch.cat(different).split(BATCH) if len(part)]
        if batches:
            with torch.inference_mode():
                vectors = torch.cat([self.features(part).float().cpu() for part in batches])
                blank = torch.cat([blank_frames(part, share).cpu() for part in batches])
        self._give_back_after(len(vectors))
        counts = [len(part) for part in different]
        shares = zip(vectors.split(counts), blank.split(counts), strict=True)
        return [
            repeats.spread(fresh, *share)
            for (repeats, _), fresh, share in zip(pieces, new, shares, strict=True)
        ]

    def _give_back_after(self, frames: int) -> None:
        """Give scattered free memory back once in a while: else the heap would grow with every hour of video."""
        self._embedded += frames
        if self._embedded >= GIVE_BACK_FRAMES:
            self._embedded = 0
            give_back()

    def attention_weights(self, frames: NDArray[np.uint8] | Tensor) -> Tensor:
        """How much each region of each frame counts (Eq. 3): [T, R], in [0, 1]."""
        if self.attention is None or isinstance(self.attention, BinaryCode):
            raise ModelError(f"the model {self.config.name} has no attention")
        with torch.inference_mode():
            vectors = self.region_vectors(frames)
            if self.whitening is not None:
                vectors = self.whitening(vectors)
            return self.attention.weights(vectors)[..., 0].cpu()

    # ------------------------------------------------------------------ faster ways to the same features

    def region_vectors(self, frames: NDArray[np.uint8] | Tensor) -> Tensor:
        """As :meth:`Network.region_vectors`, of arrays too."""
        return super().region_vectors(_as_tensor(frames))

    def stage_maps(self, frames: Tensor) -> list[Tensor]:
        """As :meth:`Network.stage_maps`, by a copy of the backbone made for this device, unless it is being trained."""
        if self.backbone is None or self.backbone.training:
            self._copy = []
            return super().stage_maps(frames)
        self.prepare()
        return stage_maps(self._copy[0], frames.to(self.device))

    def prepare(self) -> None:
        """Make the copy of the backbone now that embedding would make when it is first needed."""
        if (
            self.backbone is None
            or self.backbone.training
            or (self._copy and self._copied_in == self.embeds_in)
        ):
            return
        self._copied_in = self.embeds_in
        self._copy = [_inference_copy(self.backbone, max(self.config.stages), self._copied_in)]

    @property
    def embeds_in(self) -> str:
        """The arithmetic that frames go through the backbone in."""
        if self.device.type == "cpu":
            return embedding(self.embedding)
        return "fp16" if devices.has_kernels(self.device) else "fp32"

    def pooled(self, maps: Sequence[Tensor]) -> Tensor:
        """As :meth:`Network.pooled`; half-precision maps on a GPU by one kernel a stage."""
        chosen = [maps[i] for i in self.config.stages]
        half = chosen[0].dtype == torch.float16 and devices.has_kernels(chosen[0].device)
        if self.config.pooling == "imac" and half and not torch.is_grad_enabled():
            from visil.kernels.gpu_backbones import imac

            return imac(chosen, self.config.levels)
        return super().pooled(maps)

    def load_backbone(self, weights: str | os.PathLike[str] | None = None) -> Self:
        """As :meth:`Network.load_backbone`; the copy for inference is made anew."""
        self._copy = []
        return super().load_backbone(weights)

    def _apply(self, *arguments: Any, **options: Any) -> Self:
        """torch's hook behind ``to``, ``cuda``, ``half`` and the like: the copy for inference is made anew after it."""
        self._copy = []
        super()._apply(*arguments, **options)  # type: ignore[no-untyped-call]
        return self

    # ------------------------------------------------------------------ features to answers

    def scorer(self, precision: Precision | None = None) -> Scorer:
        """Scores and matrices by this model's formula, where the model is; None: as :attr:`precision` says."""
        return Scorer(self.formula, self.device, precision or self.precision)

    def compare(
        self,
        query: VideoLike,
        target: VideoLike,
        *,
        long_videos: LongVideos = "exact",
        precision: Precision | None = None,
        refine: bool | SamplesAt = True,
    ) -> Match:
        """How two videos relate, and where. The query comes first: Eq. 6 asks how well *it* is covered.

        Files with the same bytes are copies of each other, whatever they show.

        ``refine``: where both files are at hand, look at more frames a second around the ends of each stretch
        (:mod:`visil.compare.refinement`); a function decodes them instead of :func:`visil.video.samples_at`.
        """
        _check_choice(long_videos)
        scorer = self.scorer(precision)
        pair, found = matches.measured(
            self, scorer, self._features(query), self._features(target), long_videos
        )
        if same_files(pair.query, pair.target):
            return identical(answer(pair, found), pair.query, pair.target)
        decode = None if isinstance(refine, bool) else refine
        looks = [self.look(video, decode) for video in (pair.query, pair.target)] if refine else []
        seen = looked_at(pair, found, looks)
        return answer(pair, found if seen is None else seen)

    def look(self, video: VideoFeatures, decode: SamplesAt | None = None) -> FramesAt | None:
        """Embeds single frames of the file that features came from; None where it is not at hand."""
        path = video.path
        if (
            path is None
            or self.backbone is None
            or self.config.sampling.mode != "time"
            or not os.path.isfile(path)
        ):
            return None
        from visil.video import samples_at

        def look(times: Sequence[float]) -> VideoFeatures:
            pictures = (decode or samples_at)(path, times, self.config.sampling)
            return self.embed_frames(np.stack(pictures), times)

        return look

    def compare_many(
        self,
        query: VideoLike,
        targets: Iterable[VideoLike],
        *,
        common: Common | None = None,
        precision: Precision | None = None,
    ) -> Iterator[Match]:
        """:meth:`compare` with each of many targets: the same answers, several times faster for short videos.

        ``common`` [X]: what to take off the similarities of each query frame, where it is known how common it is. A
        model with a reader goes by its own background instead.
        """
        scorer = self.scorer(precision)
        if self.reader is not None:
            common = None
        return matches.compare_many(self, scorer, self._features(query), map(self._features, targets), common)

    def scores(
        self,
        query: VideoLike,
        targets: Iterable[VideoLike],
        *,
        long_videos: LongVideos = "exact",
        precision: Precision | None = None,
    ) -> NDArray[np.float32]:
        """CS_v of one query against many targets, and nothing else; targets are read some 50 MB at a time.

        ``precision`` is "auto", "fp32", or what the device has besides (:mod:`visil.kernels.precision`): several times
        the speed at a difference of at most 0.002.
        """
        _check_choice(long_videos)
        scorer = self.scorer(precision)
        q = self._vectors(query, "query")
        stream = (self._vectors(target, "target") for target in targets)
        if long_videos == "authors":
            return np.array([matches.chunked_score(scorer, q, target) for target in stream], np.float32)
        found = [scores[0] for _, scores in scorer.stream([q], stream)]
        return np.concatenate([np.empty(0), *found]).astype(np.float32)

    def best(
        self,
        queries: Sequence[VideoLike],
        targets: Iterable[VideoLike],
        k: int = 10,
        *,
        matrices: bool = False,
        precision: Precision | None = None,
    ) -> Best:
        """The ``k`` targets that score highest for each query, of any number that are read as they come.

        ``matrices``: with S_f of each of them.
        """
        asked = [self._vectors(query, "query") for query in queries]
        stream = (self._vectors(target, "target") for target in targets)
        return self.scorer(precision).best(asked, stream, k, matrices=matrices)

    def _vectors(self, video: VideoLike, name: str) -> Tensor:
        features = self._features(video)
        matches.check(self, features, name)
        return features.vectors

    def _features(self, video: VideoLike) -> VideoFeatures:
        return video if isinstance(video, VideoFeatures) else self.embed(video)

    # ------------------------------------------------------------------ files

    def save_pretrained(
        self, folder: str | os.PathLike[str], *, include_backbone: bool = True, half: bool = False
    ) -> None:
        """Write ``config.json`` and ``model.safetensors`` into ``folder``, whole or not at all.

        ``half`` stores half-precision weights: half the size, and read back as single precision.
        """
        save(self, Path(folder), include_backbone=include_backbone, half=half)

    @classmethod
    def from_pretrained(cls, name: str | os.PathLike[str]) -> Self:
        """A model saved by :meth:`save_pretrained`: a folder, or an id on the hub."""
        return load(name, cls)

    @classmethod
    def from_official(
        cls,
        weights: str | os.PathLike[str],
        pca: str | os.PathLike[str] | None = None,
        *,
        backbone_weights: str | os.PathLike[str] | None = None,
        symmetric: bool = False,
    ) -> Self:
        """A model from the authors' files: ``visil.pth``, ``visil_symmetric.pth`` or a DnS/S2VS student.

        Without ``backbone_weights`` it compares features but embeds no videos.
        """
        return from_official(cls, weights, pca, backbone_weights=backbone_weights, symmetric=symmetric)

    def warn_untrained(self, parts: Sequence[str]) -> None:
        """Say that parts of this model still hold their starting values."""
        if parts:
            warnings.warn(
                f"{self.config.name}: {' and '.join(parts)} not trained: scores mean little until they are "
                "(train, or load the authors' weights with ViSiL.from_official)",
                stacklevel=3,
            )


def _inference_copy(backbone: nn.Module, last: int, arithmetic: str) -> Backbone:
    """A copy that makes the same maps up to stage ``last`` sooner where the backbone is; its batch norms folded."""
    first = next(backbone.parameters())
    if devices.has_kernels(first.device) and first.dtype == torch.float32:
        from visil.kernels.gpu_backbones import fused

        return fused(backbone, last) or _folded(backbone)
    dtype = torch.bfloat16 if arithmetic == "bf16" else torch.float32
    return fast(backbone, last, dtype) or _folded(backbone)


def _folded(backbone: nn.Module) -> Backbone:
    copy: Any = folded(backbone)
    return copy


def _forget_copy(model: nn.Module, _: object) -> None:
    """Weights were loaded: the copy for inference is made anew."""
    assert isinstance(model, ViSiL)
    model._copy = []


def _as_tensor(images: object) -> Tensor:
    """Pixels as a tensor, copied where torch cannot share the memory: turned-round views, read-only arrays."""
    if isinstance(images, Tensor):
        return images
    array = np.ascontiguousarray(images)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _check_choice(long_videos: str) -> None:
    if long_videos not in get_args(LongVideos):
        raise UsageError(f"long_videos must be one of {', '.join(get_args(LongVideos))}, not {long_videos!r}")
