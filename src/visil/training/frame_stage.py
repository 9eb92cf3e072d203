"""Learning to see through edits, one frame at a time: a first stage before videos are compared (beyond the paper).

Each step shows many frames twice, once nearly as they are and once heavily edited, half of the time as a part of
another picture; InfoNCE asks each to find its other view among all the rest by the model's own regional similarity.
The backbone and the projection learn, the projection from the whitening on; batch norms keep their statistics.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.model.similarity import frame_matrix
from visil.training.checkpoint import load_checkpoint, save_checkpoint
from visil.training.config import FrameStage
from visil.training.frame_bank import FrameBank
from visil.training.parts import learning_parts, prepare, release
from visil.training.transforms import Composite, Heavy, Mild

AHEAD = 2
"""Groups of batches made ahead of the one that is learned from."""

TOGETHER = 4
"""Batches whose views are made at once on a GPU: edits of 256 pictures are too small to keep it busy."""


Stop = Callable[[], bool]
"""Whether to end after this step."""

Log = Callable[[dict[str, Any]], None]
"""Called now and then with step, loss, accuracy, frame pairs a second and the share of time spent on data."""


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
        bank.draw(stage.batch, rng, twice=stage.twice, apart=stage.apart, shift=stage.shift) for rng in rngs
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
    edited = Heavy(stage.strength)(_as_clips(torch.cat([part.edited for part in drawn])), seeds[1].tolist())
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


def frame_loss(similarity: Tensor, neither: Tensor, temperature: float) -> Tensor:
    """InfoNCE in both directions over frame similarities [B, B] whose diagonal is the positives."""
    logits = (similarity / temperature).masked_fill(neither, -torch.inf)
    truth = torch.arange(len(logits), device=logits.device)
    return (F.cross_entropy(logits, truth) + F.cross_entropy(logits.T, truth)) / 2


def hardest_loss(similarity: Tensor, neither: Tensor, margin: float) -> Tensor:
    """Eq. 7 over frames, in both directions: each against the stranger most similar to it. [B, B] as above."""
    own = similarity.diagonal()
    itself = torch.eye(len(own), dtype=torch.bool, device=own.device)
    strangers = similarity.masked_fill(neither | itself, -torch.inf)
    hardest = torch.stack([strangers.amax(dim=1), strangers.amax(dim=0)])
    return (hardest - own + margin).clamp(min=0).mean()


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
    folder: Path | None = None,
    identity: Mapping[str, Any] | None = None,
    checkpoint_steps: int = 500,
    stop: Stop | None = None,
) -> bool:
    """Fine-tune what ``stage.learn`` names, of a model that is on the device where the bank is.

    With a ``folder``, checkpoints are written there and a run goes on from what it finds, to the same result. False:
    ``stop`` asked for an end before all steps were made.
    """
    parts = learning_parts(model, stage.learn)
    if model.whitening is None or model.backbone is None:
        raise UsageError("frames are learned by a model that has a backbone and a whitening to start from")
    learning = list(prepare(model, parts).values())
    optimiser = torch.optim.AdamW(learning, lr=stage.lr, weight_decay=stage.weight_decay)
    kept = [tensor.detach().clone() for tensor in learning] if stage.keep else []
    known = {**(identity or {}), **asdict(stage), "seed": seed}
    start = _resumed(folder, known, learning, kept, optimiser) if folder is not None else 0
    half = torch.autocast(bank.images.device.type, torch.bfloat16, enabled=bank.images.is_cuda)
    began, waited = time.perf_counter(), 0.0
    step = start
    views_of_steps = views_ahead(bank, stage, model.config.sampling.crop, seed, start)
    while step < stage.steps:
        before = time.perf_counter()
        views = next(views_of_steps)
        waited += time.perf_counter() - before
        for group in optimiser.param_groups:
            group["lr"] = stage.lr * rate(step, stage)
        with half:
            both = embed_pictures(model, torch.cat([views.plain, views.edited]))
        plain, edited = both.float().chunk(2)
        inner, outer = model.config.frame_pool
        similarity = frame_matrix(plain, edited, symmetric=model.config.symmetric, inner=inner, outer=outer)
        if stage.margin:
            loss = hardest_loss(similarity, views.neither, stage.margin)
        else:
            loss = frame_loss(similarity, views.neither, stage.temperature)
        if stage.spread:
            loss = loss + stage.spread * spread_loss(edited)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(learning, 1.0)
        optimiser.step()
        step += 1
        for mean, tensor in zip(kept, learning, strict=False):
            mean.lerp_(tensor.detach(), 1 - min(stage.keep, step / (step + 9)))
        if log is not None and (step % every == 0 or step == stage.steps):
            passed = time.perf_counter() - began
            log(
                {
                    "step": step,
                    "loss": float(loss.detach()),
                    "accuracy": found(similarity.detach(), views.neither),
                    "pairs/s": len(plain) * (step - start) / passed,
                    "data": waited / passed,
                    "left, s": passed / (step - start) * (stage.steps - step),
                }
            )
        ending = step < stage.steps and stop is not None and stop()
        if folder is not None and (ending or step == stage.steps or step % checkpoint_steps == 0):
            _save(folder, known, step, learning, kept, optimiser)
        if ending:
            views_of_steps.close()
            release(model)
            return False
    with torch.no_grad():
        for mean, tensor in zip(kept, learning, strict=False):
            tensor.copy_(mean)
    release(model)
    return True


def found(similarity: Tensor, neither: Tensor) -> float:
    """Share of edited views whose most similar plain view is their own."""
    best = similarity.masked_fill(neither, -torch.inf).argmax(dim=0)
    return float((best == torch.arange(len(best), device=best.device)).float().mean())


def _save(
    folder: Path,
    identity: Mapping[str, Any],
    step: int,
    learning: Sequence[Tensor],
    kept: Sequence[Tensor],
    optimiser: torch.optim.Optimizer,
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tensors = [tensor.detach().clone() for tensor in learning]
    state = {"step": step, "learning": tensors, "kept": list(kept), "optimiser": optimiser.state_dict()}
    save_checkpoint(folder, identity, state)


def _resumed(
    folder: Path,
    identity: Mapping[str, Any],
    learning: Sequence[Tensor],
    kept: Sequence[Tensor],
    optimiser: torch.optim.Optimizer,
) -> int:
    """Go back to where a run stood; returns the steps it had made."""
    state = load_checkpoint(folder, identity)
    if state is None:
        return 0
    with torch.no_grad():
        for tensor, value in zip(learning, state["learning"], strict=True):
            tensor.copy_(value)
        for tensor, value in zip(kept, state["kept"], strict=True):
            tensor.copy_(value)
    optimiser.load_state_dict(state["optimiser"])
    return int(state["step"])


def rate(step: int, stage: FrameStage) -> float:
    """A short rise, then half a cosine down to a hundredth."""
    if step < stage.warmup:
        return (step + 1) / stage.warmup
    along = (step - stage.warmup) / max(1, stage.steps - stage.warmup)
    return 0.01 + 0.99 * (1 + math.cos(math.pi * min(along, 1.0))) / 2


def _as_clips(images: Tensor) -> Tensor:
    """uint8 [B, H, W, 3] to one-frame clips, float [B, 1, 3, H, W] in [0, 1]."""
    return images.permute(0, 3, 1, 2)[:, None].float() / 255


def _sized(clips: Tensor, side: int) -> Tensor:
    """One picture a clip, at the size the model sees."""
    pictures = clips[:, 0]
    if pictures.shape[-1] == side and pictures.shape[-2] == side:
        return pictures
    return F.interpolate(pictures, (side, side), mode="bilinear", antialias=True).clamp(0, 1)
