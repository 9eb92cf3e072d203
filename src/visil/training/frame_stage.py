"""Learning to see through edits, one frame at a time: a first stage before videos are compared (beyond the paper).

Each step shows many frames twice, once nearly as they are and once heavily edited, half of the time as a part of
another picture; InfoNCE asks each to find its other view among all the rest by the model's own regional similarity.
The backbone and the projection learn, the projection from the whitening on; batch norms keep their statistics.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from visil.blank import blank_frames
from visil.errors import UsageError
from visil.model import ViSiL
from visil.similarity import frame_matrix
from visil.training.footage import Footage
from visil.training.transforms.recipes import Composite, Heavy, Mild


@dataclass(frozen=True)
class FrameStage:
    """How frames are learned from."""

    steps: int = 0
    """Steps; 0: no such stage."""
    batch: int = 192
    """Frames of one step, each from another video."""
    lr: float = 3e-4
    """Of the backbone; the projection learns at the same rate."""
    weight_decay: float = 1e-4
    warmup: int = 100
    temperature: float = 0.05
    """τ of InfoNCE over frame similarities."""
    composite: float = 0.5
    """Share of edited views that are a picture in a picture or a split screen."""
    strength: float = 1.0
    """Of the heavy edits."""
    spread: float = 0.0
    """Weight of a term that pushes each region away from its nearest stranger (the entropy term of SSCD)."""
    keep: float = 0.0
    """Decay of a running mean of all weights, which is what comes out in the end; 0: the weights as they are."""

    def __post_init__(self) -> None:
        if self.steps < 0 or self.batch < 2 or self.lr <= 0 or self.temperature <= 0:
            raise UsageError("frames: steps must be 0 or more, batch 2 or more, lr and temperature above 0")
        if not (0 <= self.composite <= 1 and 0 <= self.keep < 1 and self.spread >= 0):
            raise UsageError("frames: composite lies in [0, 1], keep in [0, 1), spread is 0 or more")


Log = Callable[[dict[str, Any]], None]
"""Called now and then with step, loss, accuracy, frame pairs a second and the share of time spent on data."""


class FrameBank:
    """All frames of some footage in one tensor uint8 [N, H, W, 3], and how many belong to each video in turn."""

    def __init__(self, images: Tensor, lengths: Sequence[int]) -> None:
        if len(lengths) < 2 or min(lengths) < 1 or sum(lengths) != len(images):
            raise UsageError("frames of at least two videos are needed to learn from")
        self.images = images
        self.lengths = np.array(lengths)
        self.starts = np.cumsum(self.lengths) - self.lengths

    @classmethod
    def read(cls, footage: Footage, device: torch.device | str = "cpu", *, workers: int = 16) -> FrameBank:
        """Every frame of some footage but the blank ones, which look alike in all videos."""

        def shown(video: int) -> Tensor:
            images = footage.images(video, range(len(footage.times(video))))
            return images[~blank_frames(images)]

        with ThreadPoolExecutor(workers) as pool:
            videos = [frames for frames in pool.map(shown, range(len(footage))) if len(frames)]
        images = torch.cat(videos) if videos else torch.empty(0, 1, 1, 3, dtype=torch.uint8)
        return cls(images.to(device), [len(frames) for frames in videos])

    def __len__(self) -> int:
        return len(self.lengths)

    def draw(self, count: int, rng: np.random.Generator) -> Tensor:
        """Frames of ``count`` different videos, float [count, 1, 3, H, W] in [0, 1]."""
        chosen = rng.choice(len(self), count, replace=count > len(self))
        rows = self.starts[chosen] + (rng.random(count) * self.lengths[chosen]).astype(np.int64)
        images = self.images[torch.from_numpy(rows).to(self.images.device)]
        return images.permute(0, 3, 1, 2)[:, None].float() / 255


@dataclass(frozen=True)
class Views:
    """Frames seen twice, [B, 3, H, W] in [0, 1], and the pairs [B, B] that are neither the same nor different."""

    plain: Tensor
    edited: Tensor
    neither: Tensor


def draw_views(bank: FrameBank, stage: FrameStage, side: int, rng: np.random.Generator) -> Views:
    """A batch of views: row i of both shows frame i; pairs whose edited picture also holds the other are set aside."""
    frames = bank.draw(stage.batch, rng)
    seeds = rng.integers(0, 1 << 62, (3, stage.batch))
    plain = Mild()(frames, seeds[0].tolist())
    edited = Heavy(stage.strength)(frames, seeds[1].tolist())
    # A shift of the batch: every frame is another's companion once, and none its own.
    shift = int(rng.integers(1, stage.batch))
    composed = torch.from_numpy(rng.random(stage.batch) < stage.composite).to(frames.device)
    together, _ = Composite()(edited, edited.roll(shift, 0), seeds[2].tolist())
    edited = torch.where(composed[:, None, None, None, None], together, edited)
    index = torch.arange(stage.batch, device=frames.device)
    neither = torch.zeros(stage.batch, stage.batch, dtype=torch.bool, device=frames.device)
    neither[(index - shift) % stage.batch, index] = composed
    return Views(_sized(plain, side), _sized(edited, side), neither)


def frame_loss(similarity: Tensor, neither: Tensor, temperature: float) -> Tensor:
    """InfoNCE in both directions over frame similarities [B, B] whose diagonal is the positives."""
    logits = (similarity / temperature).masked_fill(neither, -torch.inf)
    truth = torch.arange(len(logits), device=logits.device)
    return (F.cross_entropy(logits, truth) + F.cross_entropy(logits.T, truth)) / 2


def spread_loss(vectors: Tensor) -> Tensor:
    """-log of each region's distance to its nearest region in another frame; [B, R, C], unit length."""
    batch, regions, _ = vectors.shape
    flat = F.normalize(vectors.flatten(0, 1), dim=-1)
    frame = torch.arange(batch, device=vectors.device).repeat_interleave(regions)
    with torch.no_grad():
        products = (flat @ flat.T).masked_fill(frame[:, None] == frame[None], -2.0)
        nearest = products.argmax(dim=1)
    distance = (flat - flat[nearest]).norm(dim=1)
    return -(distance + 1e-6).log().mean()


def make_trainable(model: ViSiL) -> list[nn.Parameter]:
    """The backbone and the projection as parameters; batch norms stay as they are (see :func:`train_mode`)."""
    if model.backbone is None or model.whitening is None:
        raise UsageError("frames are learned by a model that has a backbone and a whitening to start from")
    whitening = model.whitening
    for name in ("mean", "projection"):
        value = whitening._buffers.pop(name, None)
        if value is not None:
            whitening.register_parameter(name, nn.Parameter(value.clone()))
    backbone: nn.Module = model.backbone
    parameters = [*backbone.parameters(), *whitening.parameters()]
    for parameter in parameters:
        parameter.requires_grad_(True)
    return parameters


def train_mode(model: ViSiL) -> None:
    """Gradients through the backbone itself, with the batch norms' statistics frozen."""
    model.train()
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()


def freeze(model: ViSiL) -> None:
    """Back to a model that only answers: parameters become buffers where they were."""
    whitening = model.whitening
    if whitening is not None:
        for name in ("mean", "projection"):
            value = whitening._parameters.pop(name, None)
            if value is not None:
                whitening.register_buffer(name, value.detach())
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    model.eval()
    model._folded = []


def embed_pictures(model: ViSiL, pictures: Tensor) -> Tensor:
    """Refined region vectors of pictures [B, 3, H, W] in [0, 1], with gradients: [B, R, C]."""
    return model.refine(model.region_vectors(pictures.permute(0, 2, 3, 1) * 255))


def train_frames(
    model: ViSiL,
    bank: FrameBank,
    stage: FrameStage,
    *,
    seed: int = 0,
    log: Log | None = None,
    every: int = 50,
) -> ViSiL:
    """Fine-tune the backbone and projection of ``model``, on the device where it and the bank are."""
    rng = np.random.default_rng([seed, 0xF])
    device = bank.images.device
    parameters = make_trainable(model)
    train_mode(model)
    optimiser = torch.optim.AdamW(parameters, lr=stage.lr, weight_decay=stage.weight_decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _rate(step, stage))
    kept = [p.detach().clone() for p in parameters] if stage.keep else []
    half = torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
    config = model.config
    started, data_time = time.perf_counter(), 0.0
    for step in range(stage.steps):
        before = time.perf_counter()
        views = draw_views(bank, stage, config.sampling.crop, rng)
        data_time += time.perf_counter() - before
        with half:
            both = embed_pictures(model, torch.cat([views.plain, views.edited]))
        plain, edited = both.float().chunk(2)
        inner, outer = config.frame_pool
        similarity = frame_matrix(plain, edited, symmetric=config.symmetric, inner=inner, outer=outer)
        loss = frame_loss(similarity, views.neither, stage.temperature)
        if stage.spread:
            loss = loss + stage.spread * spread_loss(edited)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        schedule.step()
        for mean, parameter in zip(kept, parameters, strict=False):
            mean.lerp_(parameter.detach(), 1 - min(stage.keep, (step + 1) / (step + 10)))
        if log is not None and ((step + 1) % every == 0 or step + 1 == stage.steps):
            passed = time.perf_counter() - started
            found = similarity.detach().masked_fill(views.neither, -torch.inf).argmax(dim=0)
            accuracy = (found == torch.arange(len(found), device=found.device)).float().mean()
            log(
                {
                    "step": step + 1,
                    "loss": float(loss.detach()),
                    "accuracy": float(accuracy),
                    "pairs/s": stage.batch * (step + 1) / passed,
                    "data": data_time / passed,
                    "left, s": passed / (step + 1) * (stage.steps - step - 1),
                }
            )
    with torch.no_grad():
        for mean, parameter in zip(kept, parameters, strict=False):
            parameter.copy_(mean)
    freeze(model)
    return model


def _rate(step: int, stage: FrameStage) -> float:
    """A short rise, then half a cosine down to a hundredth."""
    if step < stage.warmup:
        return (step + 1) / stage.warmup
    along = (step - stage.warmup) / max(1, stage.steps - stage.warmup)
    return 0.01 + 0.99 * (1 + math.cos(math.pi * min(along, 1.0))) / 2


def _sized(clips: Tensor, side: int) -> Tensor:
    """One picture a clip, at the size the model sees."""
    pictures = clips[:, 0]
    if pictures.shape[-1] == side and pictures.shape[-2] == side:
        return pictures
    return F.interpolate(pictures, (side, side), mode="bilinear", antialias=True).clamp(0, 1)
