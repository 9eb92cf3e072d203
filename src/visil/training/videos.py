"""The objective of the paper (Sec. 4.4, 4.5, 5.2): triplets of snippets and Eq. 9; beyond it, InfoNCE over the whole
batch, or a teacher's answers on the same pairs.

An epoch is what the sampler draws; after each the model is validated, and the best one is kept.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.machine.prefetch import prefetched
from visil.training.batch_similarity import VideoBatch, compare_all, compare_pairs
from visil.training.config import LossConfig, OptimConfig, TrainConfig
from visil.training.distributed import Processes
from visil.training.embedding import SnippetEmbedder
from visil.training.losses import Pairs, distillation_loss, s2vs_loss, total, triplet_loss
from visil.training.trainable import learning_parts, prepare
from visil.training.trainer import Line, Portion, Speed, Standing, Step, Trainer
from visil.training.validation import Validation

if TYPE_CHECKING:
    from visil.training.pools import Related
    from visil.training.snippets import Snippet
    from visil.training.triplets import Triplet

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

READERS = 8
"""Threads that read pictures."""

LEAST_RATE = 0.1
"""Share of the rate that a cosine schedule ends at."""

Batch = tuple[list["Triplet"], list[Tensor | None]]
"""This process's triplets, and the pictures of their snippets that must be embedded anew."""


class Sampler(Protocol):
    """Gives an epoch's triplets, the same on every machine."""

    def epoch(self, number: int) -> list[Triplet]:
        """The triplets of epoch ``number``."""


class VideoObjective:
    """Lowers the loss of the sampler's triplets; the best model goes to ``config.out``."""

    items, figures = "triplets", ("loss", "main", "regularisation", "positive", "negative")
    clip = None
    remedy = "lower optim.lr, or take precision fp32"

    def __init__(
        self,
        config: TrainConfig,
        model: ViSiL,
        embedder: SnippetEmbedder,
        sampler: Sampler,
        validation: Validation,
        *,
        related: Related | None = None,
        processes: Processes | None = None,
        teacher: SnippetEmbedder | None = None,
    ) -> None:
        self.config, self.model, self.embedder, self.teacher = config, model, embedder, teacher
        self.sampler, self.validation, self.related = sampler, validation, related
        self.processes = processes or Processes(device=model.device)
        if self.processes.count > config.optim.batch:
            raise UsageError(
                f"{self.processes.count} processes cannot share batches of {config.optim.batch}: raise optim.batch"
            )
        self.epochs = config.optim.epochs
        self.parts = learning_parts(model, config.optim.trainable)
        self.learning = prepare(model, self.parts)
        self.optimiser = torch.optim.AdamW(
            self.learning.values(), lr=config.optim.lr, weight_decay=config.optim.weight_decay
        )
        self.scaler = torch.amp.GradScaler(model.device.type, enabled=config.optim.precision == "fp16")
        self._triplets = 0

    # ------------------------------------------------------------------ batches

    @contextmanager
    def epoch(self, number: int, first: int) -> Iterator[tuple[int, Iterator[Portion[Batch]]]]:
        """The sampler's triplets in batches, their pictures read in threads."""
        triplets, size = self.sampler.epoch(number), self.config.optim.batch
        self._triplets = len(triplets)
        batches = [triplets[i : i + size] for i in range(0, len(triplets), size)]
        with prefetched(self._read(batches[first:])) as reader:
            yield len(batches), iter(reader)

    def _read(self, batches: Sequence[Sequence[Triplet]]) -> Iterator[Portion[Batch]]:
        """This process's share of each batch, with the pictures it needs: runs ahead in a thread."""
        waiting: deque[tuple[int, list[Triplet], list[Future[Tensor | None]]]] = deque()

        def read() -> Portion[Batch]:
            count, mine, reading = waiting.popleft()
            return Portion((mine, [pictures.result() for pictures in reading]), len(mine) / count, count)

        with ThreadPoolExecutor(READERS, "visil-pictures") as pool:
            for batch in batches:
                mine = self.processes.mine(batch)
                reading = [pool.submit(self.embedder.pictures, snippet) for snippet in self._snippets(mine)]
                waiting.append((len(batch), mine, reading))
                # Of small batches several are begun, so that every reader has something to read.
                if sum(len(reading) for _, _, reading in waiting) >= 2 * READERS:
                    yield read()
            while waiting:
                yield read()

    # ------------------------------------------------------------------ steps

    def rate(self, step: int, along: float) -> float:
        """The rate of a step, as the settings schedule it."""
        return learning_rate(self.config.optim, step, along)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """The loss of these triplets and its terms."""
        triplets, pictures = batch
        snippets, size, given = self._snippets(triplets), len(triplets), None
        with self._autocast():
            if self.teacher is not None:
                given = taught(self.teacher, snippets, pictures)
            vectors = self.embedder(snippets, pictures)
            roles = (vectors[:size], vectors[size : 2 * size], vectors[2 * size :])
            found = batch_loss(self.model, triplets, *roles, self.config.loss, self.related, given)
        return {part.name: getattr(found, part.name) for part in fields(found)}

    def _snippets(self, triplets: Sequence[Triplet]) -> list[Snippet]:
        """All anchors, then all positives, then all negatives, where these are not the rest of the batch."""
        roles = [*(t.anchor for t in triplets), *(t.positive for t in triplets)]
        return roles if self.config.data.negatives == "batch" else [*roles, *(t.negative for t in triplets)]

    def after_step(self, step: int) -> None:  # noqa: ARG002
        """The context vector stays of unit length (Sec. 4.1)."""
        if self.model.attention is not None and "attention" in self.parts:
            self.model.attention.constrain_()

    def _autocast(self) -> torch.autocast:
        precision = self.config.optim.precision
        return torch.autocast(
            self.model.device.type,
            PRECISIONS[precision] if precision != "fp32" else None,
            enabled=precision != "fp32",
        )

    # ------------------------------------------------------------------ epochs

    def begin(self, standing: Standing) -> Line | None:
        """Validate the model that training starts from."""
        if standing.start_map is not None:
            return None
        standing.start_map = self._validated()
        return {"epoch": 0, "step": 0, "map": standing.start_map}

    def tell(
        self, standing: Standing, figures: Mapping[str, float], speed: Speed
    ) -> tuple[Step | None, Line | None]:
        """Means of this epoch after each step; the log has a line an epoch."""
        done = standing.sums[self.items]
        means = {name: standing.sums[name] / done for name in figures}
        rate, share = speed.items / speed.passed, speed.waited / speed.passed
        step = Step("videos", standing.epoch, self.epochs, int(done), self._triplets, means, rate, share)
        return step, None

    def end_epoch(self, standing: Standing, speed: Speed) -> Line:
        """Validate, and keep the model where none was better."""
        score = self._validated()
        # Of equal epochs the first: training on only costs what validation cannot see.
        if score > standing.best_map:
            standing.best_map, standing.best_epoch = score, standing.epoch
            if self.processes.first:
                self.model.save_pretrained(Path(self.config.out))
        done = max(standing.sums.get(self.items, 0.0), 1.0)
        means = {name: standing.sums[name] / done for name in self.figures if name in standing.sums}
        line = {"epoch": standing.epoch, "step": standing.step, **means, "map": score}
        line["lr"] = self.optimiser.param_groups[0]["lr"]
        if speed.batches:
            line["triplets_per_second"] = speed.items / speed.passed
            line["data_share"] = speed.waited / speed.passed
        return line

    def end(self) -> None:
        """Nothing: the best model was kept."""

    def _validated(self) -> float:
        with self._autocast():
            return self.validation.mean_average_precision(self.processes)

    def state(self) -> dict[str, Any]:
        """Nothing of its own."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Nothing of its own."""


def video_trainer(objective: VideoObjective, identity: Mapping[str, Any] | None = None) -> Trainer[Batch]:
    """A trainer as the objective's configuration has it; ``identity`` names what else decides, such as the videos."""
    config = objective.config
    return Trainer(
        objective,
        Path(config.out),
        {**config.decisive(), **(identity or {})},
        seed=config.seed,
        checkpoint_steps=config.checkpoint_steps,
        processes=objective.processes,
        tensorboard=config.tensorboard,
    )


def learning_rate(optim: OptimConfig, step: int, along: float) -> float:
    """The rate of a step; ``along`` is the part of the run that is done, from 0 to 1."""
    rate = optim.lr
    if optim.schedule == "cosine":
        rate *= LEAST_RATE + (1 - LEAST_RATE) * (1 + math.cos(math.pi * along)) / 2
    return rate * min(1.0, (step + 1) / (optim.warmup + 1))


# ---------------------------------------------------------------------- the loss of a batch


@dataclass(frozen=True)
class BatchLoss:
    """A loss and its terms."""

    loss: Tensor
    """The loss: a scalar with a gradient."""
    main: Tensor
    """The triplet or contrastive part, without gradient."""
    regularisation: Tensor
    """L_reg, mean over the batch, without gradient."""
    positive: Tensor
    """Mean CS_v of positive pairs."""
    negative: Tensor
    """Mean CS_v of negative pairs."""


def batch_loss(
    model: ViSiL,
    triplets: Sequence[Triplet],
    anchors: Sequence[Tensor],
    positives: Sequence[Tensor],
    negatives: Sequence[Tensor],
    config: LossConfig,
    related: Related | None = None,
    taught: Tensor | None = None,
) -> BatchLoss:
    """The loss of these triplets, whose snippets' refined vectors [T, R, D] are given; ``negatives`` may be none.

    ``related`` names for each video those that may show its footage, and so are no negatives of it in a batch.
    ``taught`` are a teacher's similarities of anchors with positives, then with negatives, [2 B].
    """
    if config.kind != "infonce":
        return _triplets(model, anchors, positives, negatives, config, taught)
    query = VideoBatch.of([*anchors, *positives])
    target = VideoBatch.of([*anchors, *positives, *negatives])
    pairs = batch_pairs(triplets, query.vectors.device, related).of_targets(len(target))
    return _contrastive(model, query, target, pairs, config)


@torch.no_grad()
def taught(
    teacher: SnippetEmbedder, snippets: Sequence[Snippet], pictures: Sequence[Tensor | None]
) -> Tensor:
    """A teacher's similarities of anchors with positives, then with negatives, [2 B]; snippets in that order."""
    vectors = teacher(snippets, pictures)
    size = len(vectors) // 3
    query = VideoBatch.of([*vectors[:size], *vectors[:size]])
    return compare_pairs(teacher.model, query, VideoBatch.of(vectors[size:])).similarity


def _triplets(
    model: ViSiL,
    anchors: Sequence[Tensor],
    positives: Sequence[Tensor],
    negatives: Sequence[Tensor],
    config: LossConfig,
    taught: Tensor | None,
) -> BatchLoss:
    """Eq. 7 over anchors with positives and with negatives; or, with a teacher, the distance from its similarities."""
    query, target = VideoBatch.of([*anchors, *anchors]), VideoBatch.of([*positives, *negatives])
    compared = compare_pairs(model, query, target)
    positive, negative = compared.similarity.chunk(2)
    if taught is not None:
        main = distillation_loss(compared.similarity, taught)
    else:
        main = triplet_loss(positive, negative, config.margin)
    regularisation = compared.excess.sum() / len(anchors)
    return _loss(main, regularisation, positive, negative, config)


def _contrastive(
    model: ViSiL, query: VideoBatch, target: VideoBatch, pairs: Pairs, config: LossConfig
) -> BatchLoss:
    """Anchors and positives as queries against everything in the batch."""
    compared = compare_all(model, query, target)
    similarity = compared.similarity
    main = s2vs_loss(similarity, pairs, config.temperature, config.hard_negative)
    positive, negative = similarity[pairs.positive], similarity[pairs.negative]
    return _loss(main, compared.excess.mean(), positive, negative, config)


def batch_pairs(triplets: Sequence[Triplet], device: torch.device, related: Related | None = None) -> Pairs:
    """The roles of 2B queries (anchors, positives) and 3B targets (anchors, positives, negatives).

    An anchor and its positive are positive both ways. Two snippets with frames of one video, or of two videos that
    ``related`` or a triplet of the batch relates, are neither positive nor negative unless they are such a pair.
    """
    count = len(triplets)
    own = [_videos(t.anchor, related) | _videos(t.positive, related) for t in triplets]
    shows = [*own, *own, *(_videos(t.negative, related) for t in triplets)]
    itself = torch.eye(2 * count, 3 * count, dtype=torch.bool)
    positive = itself.roll(count, dims=0)
    apart = torch.tensor([[a.isdisjoint(b) for b in shows] for a in shows[: 2 * count]])
    negative = apart & ~positive & ~itself
    return Pairs(positive.to(device), negative.to(device), itself.to(device))


def _videos(snippet: Snippet, related: Related | None) -> set[int]:
    videos = {video for video, _ in snippet.frames}
    return videos.union(*(related[video] for video in videos)) if related is not None else videos


def _loss(
    main: Tensor, regularisation: Tensor, positive: Tensor, negative: Tensor, config: LossConfig
) -> BatchLoss:
    loss = total(main, regularisation, config.regularisation)
    means = (values.detach().sum() / max(values.numel(), 1) for values in (positive, negative))
    return BatchLoss(loss, main.detach(), regularisation.detach(), *means)
