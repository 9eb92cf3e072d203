"""The objective of the frame stage: to see through edits, one frame at a time (beyond the paper).

Each step shows many frames twice, once nearly as they are and once heavily edited, half of the time as a part of
another picture; InfoNCE asks each to find its other view among all the rest by the model's own regional similarity.
The backbone and the projection learn, the projection from the whitening on; batch norms keep their statistics.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from visil.compare.visil import ViSiL
from visil.edits.clips import Composite, Heavy, Mild
from visil.errors import UsageError
from visil.training.config import FrameStage
from visil.training.frame_bank import FrameBank
from visil.training.losses import frame_info_nce, frame_triplet_loss, spread_loss
from visil.training.trainable import learning_parts, prepare
from visil.training.trainer import Line, Portion, Speed, Standing, Step, Trainer

AHEAD = 2
"""Groups of batches made ahead of the one that is learned from."""

TOGETHER = 4
"""Batches whose views are made at once on a GPU: edits of 256 pictures are too small to keep it busy."""

PLAIN = 0.03
"""Spread of a channel's values, of 1, below which an edited view shows nothing to learn from."""

EVERY = 20
"""Steps between lines of the log."""


@dataclass(frozen=True)
class Views:
    """Frames seen twice, [B, 3, H, W] in [0, 1], and the pairs [B, B] that are neither the same nor different."""

    plain: Tensor
    edited: Tensor
    neither: Tensor


def draw_views(bank: FrameBank, stage: FrameStage, side: int, seed: int, steps: Sequence[int]) -> list[Views]:
    """The views of some steps, made together: row i of both shows frame i.

    Pairs whose edited picture also holds the other are set aside. What a step gets does not depend on the others.
    """
    rngs = [np.random.default_rng([seed, step]) for step in steps]
    drawn = [
        bank.draw(
            stage.batch,
            rng,
            twice=stage.twice,
            apart=stage.apart,
            shift=stage.shift,
            pictured=stage.pictures,
        )
        for rng in rngs
    ]
    counts = [len(part.plain) for part in drawn]
    own = [rng.integers(0, 1 << 62, (3, count)) for rng, count in zip(rngs, counts, strict=True)]
    seeds = np.concatenate(own, axis=1)
    # A turn of the batch: every frame is another's companion once, and none its own.
    turns = [int(rng.integers(1, count)) for rng, count in zip(rngs, counts, strict=True)]
    composed = [
        torch.from_numpy(rng.random(count) < stage.composite) for rng, count in zip(rngs, counts, strict=True)
    ]
    plain = Mild()(_as_clips(torch.cat([part.plain for part in drawn])), seeds[0].tolist())
    as_drawn = _as_clips(torch.cat([part.edited for part in drawn]))
    edited = Heavy(stage.strength)(as_drawn, seeds[1].tolist())
    edited = torch.where(_shows_something(edited), edited, as_drawn)
    companions = [part.roll(turn, 0) for part, turn in zip(edited.split(counts), turns, strict=True)]
    rows = torch.cat(composed).nonzero()[:, 0]
    if len(rows):
        index = rows.to(edited.device)
        others = torch.cat(companions)[index]
        together, _ = Composite(scale=stage.scale)(edited[index], others, seeds[2][rows.numpy()].tolist())
        edited = edited.index_copy(0, index, together)
    views = []
    for plainly, changed, turn, chosen in zip(
        _sized(plain, side).split(counts), _sized(edited, side).split(counts), turns, composed, strict=True
    ):
        count = len(plainly)
        at = torch.arange(count, device=edited.device)
        neither = torch.zeros(count, count, dtype=torch.bool, device=edited.device)
        neither[(at - turn) % count, at] = chosen.to(edited.device)
        views.append(Views(plainly, changed, neither))
    return views


def views_ahead(
    bank: FrameBank, stage: FrameStage, side: int, seed: int, start: int
) -> Generator[Views, None, None]:
    """:func:`draw_views` of every step from ``start`` on, some made while others are learned from."""
    device = bank.images.device
    stream = torch.cuda.Stream(device) if device.type == "cuda" else None
    # Steps are grouped by their number, wherever a run goes on from: the same pictures to the last bit.
    together = TOGETHER if stream is not None else 1
    groups = [
        range(first, min(first + together, stage.steps))
        for first in range(start - start % together, stage.steps, together)
    ]

    def made(group: range) -> tuple[list[Views], torch.cuda.Event | None]:
        if stream is None:
            return draw_views(bank, stage, side, seed, group), None
        with torch.cuda.stream(stream):
            views = draw_views(bank, stage, side, seed, group)
            return views, stream.record_event()

    with ThreadPoolExecutor(1, "visil-views") as pool:
        waiting = deque(pool.submit(made, group) for group in groups[:AHEAD])
        for number, group in enumerate(groups):
            made_views, ready = waiting.popleft().result()
            if number + AHEAD < len(groups):
                waiting.append(pool.submit(made, groups[number + AHEAD]))
            if ready is not None:
                torch.cuda.current_stream(device).wait_event(ready)
            for step, views in zip(group, made_views, strict=True):
                if ready is not None:
                    for tensor in (views.plain, views.edited, views.neither):
                        tensor.record_stream(torch.cuda.current_stream(device))
                if step >= start:
                    yield views


# ---------------------------------------------------------------------- the objective


class FrameObjective:
    """InfoNCE over two views of each frame, for a model that is on the device where the bank is."""

    items, figures = "frames", ("loss", "accuracy")
    clip, epochs = 1.0, 1
    remedy = "lower frames.lr"

    def __init__(
        self, model: ViSiL, bank: FrameBank, stage: FrameStage, *, seed: int = 0, every: int = EVERY
    ) -> None:
        parts = learning_parts(model, stage.learn)
        if model.whitening is None or model.backbone is None:
            raise UsageError(
                "frames are learned by a model that has a backbone and a whitening to start from"
            )
        self.model, self.bank, self.stage, self.seed, self.every = model, bank, stage, seed, every
        self.learning = prepare(model, parts)
        tensors = list(self.learning.values())
        self.optimiser = torch.optim.AdamW(tensors, lr=stage.lr, weight_decay=stage.weight_decay)
        self.scaler = torch.amp.GradScaler(model.device.type, enabled=False)
        self.means = [tensor.detach().clone() for tensor in tensors] if stage.keep else []
        """Running means of the learning tensors."""

    @contextmanager
    def epoch(self, number: int, first: int) -> Iterator[tuple[int, Iterator[Portion[Views]]]]:  # noqa: ARG002
        """The one epoch of this stage: all its steps."""
        side = self.model.config.sampling.crop
        with closing(views_ahead(self.bank, self.stage, side, self.seed, first)) as views:
            yield self.stage.steps, (Portion(view, 1.0, len(view.plain)) for view in views)

    def rate(self, step: int, along: float) -> float:  # noqa: ARG002
        """A short rise, then half a cosine down to a hundredth."""
        return self.stage.lr * schedule(step, self.stage)

    def loss(self, batch: Views) -> dict[str, Tensor]:
        """InfoNCE, or Eq. 7 where there is a margin; and the share of edited views that find their own plain one."""
        stage = self.stage
        with torch.autocast(batch.plain.device.type, torch.bfloat16, enabled=batch.plain.is_cuda):
            both = embed_pictures(self.model, torch.cat([batch.plain, batch.edited]))
        plain, edited = both.float().chunk(2)
        similarity = self.model.formula.frame_matrix(plain, edited)
        if stage.margin:
            loss = frame_triplet_loss(similarity, batch.neither, stage.margin)
        else:
            loss = frame_info_nce(similarity, batch.neither, stage.temperature)
        if stage.spread:
            loss = loss + stage.spread * spread_loss(edited)
        return {"loss": loss, "accuracy": accuracy(similarity.detach(), batch.neither)}

    def after_step(self, step: int) -> None:
        """The running means follow the tensors."""
        for mean, tensor in zip(self.means, self.learning.values(), strict=False):
            mean.lerp_(tensor.detach(), 1 - min(self.stage.keep, step / (step + 9)))

    def begin(self, standing: Standing) -> None:
        """Nothing is measured before."""

    def tell(
        self, standing: Standing, figures: Mapping[str, float], speed: Speed
    ) -> tuple[Step | None, Line | None]:
        """Every so many steps, and after the last."""
        step, steps = standing.step, self.stage.steps
        if step % self.every and step != steps:
            return None, None
        rate, share = speed.items / speed.passed, speed.waited / speed.passed
        line = {"step": step, **figures, "pairs/s": rate, "data": share}
        line["left, s"] = speed.passed / max(1, speed.batches) * (steps - step)
        return Step("frames", 1, 1, step, steps, figures, rate, share), line

    def end_epoch(self, standing: Standing, speed: Speed) -> None:
        """Nothing is measured after."""

    def end(self) -> None:
        """The running means, where they were asked for, take the tensors' places."""
        with torch.no_grad():
            for mean, tensor in zip(self.means, self.learning.values(), strict=False):
                tensor.copy_(mean)

    def state(self) -> dict[str, Any]:
        """The running means."""
        return {"kept": list(self.means)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """The running means."""
        for mean, value in zip(self.means, state["kept"], strict=True):
            mean.copy_(value)


def train_frames(
    model: ViSiL,
    bank: FrameBank,
    stage: FrameStage,
    *,
    seed: int = 0,
    on_step: Callable[[Step], None] | None = None,
    every: int = EVERY,
    folder: Path | None = None,
    identity: Mapping[str, Any] | None = None,
    checkpoint_steps: int = 500,
    tensorboard: bool = False,
    resume: bool = True,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Fine-tune what ``stage.learn`` names; ``on_step`` is called every so many steps.

    With a ``folder``, checkpoints are written there and a run goes on from those it finds, to the same result. False:
    ``stop`` asked for an end before all steps were made.
    """
    trainer = Trainer(
        FrameObjective(model, bank, stage, seed=seed, every=every),
        folder,
        {**(identity or {}), **asdict(stage), "seed": seed},
        seed=seed,
        checkpoint_steps=checkpoint_steps,
        tensorboard=tensorboard,
    )
    return not trainer.run(resume=resume, on_step=on_step, stop=stop).stopped


def embed_pictures(model: ViSiL, pictures: Tensor) -> Tensor:
    """Refined region vectors of pictures [B, 3, H, W] in [0, 1], with gradients: [B, R, C]."""
    return model.refine(model.region_vectors(pictures.permute(0, 2, 3, 1) * 255))


def accuracy(similarity: Tensor, neither: Tensor) -> Tensor:
    """Share of edited views whose most similar plain view is their own."""
    best = similarity.masked_fill(neither, -torch.inf).argmax(dim=0)
    return (best == torch.arange(len(best), device=best.device)).float().mean()


def schedule(step: int, stage: FrameStage) -> float:
    """Share of the learning rate: a short rise, then half a cosine down to a hundredth."""
    if step < stage.warmup:
        return (step + 1) / stage.warmup
    along = (step - stage.warmup) / max(1, stage.steps - stage.warmup)
    return 0.01 + 0.99 * (1 + math.cos(math.pi * min(along, 1.0))) / 2


def _shows_something(clips: Tensor) -> Tensor:
    """Which clips [B, T, 3, H, W] are more than a plain surface, [B, 1, 1, 1, 1]: a crop of a slide may be white."""
    return clips.std(dim=(1, 3, 4)).amax(dim=1)[:, None, None, None, None] > PLAIN


def _as_clips(images: Tensor) -> Tensor:
    """uint8 [B, H, W, 3] to one-frame clips, float [B, 1, 3, H, W] in [0, 1]."""
    return images.permute(0, 3, 1, 2)[:, None].float() / 255


def _sized(clips: Tensor, side: int) -> Tensor:
    """One picture a clip, at the size the model sees."""
    pictures = clips[:, 0]
    if pictures.shape[-1] == side and pictures.shape[-2] == side:
        return pictures
    return F.interpolate(pictures, (side, side), mode="bilinear", antialias=True).clamp(0, 1)
