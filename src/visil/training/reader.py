"""The objective of the reader: its map is to say of every cell whether two frames show the same moment.

Copies are made here, so the truth is known cell by cell: cross-entropy over cells, the hardest of each pair's others
counting as much as all its true ones. Beside it stand the paper's terms over the same map, Eq. 7 (a query's copy above
its strangers by a margin) and Eq. 8 (no cell beyond hard tanh's range).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.model.background import FixedBackground
from visil.model.comparator import hard_tanh
from visil.model.reader import SHARPNESS, FrameSigns, Reader, channels, padded, stacked_signs
from visil.model.similarity import Reduction, pool
from visil.training.config import ReaderStage
from visil.training.losses import similarity_regularisation
from visil.training.pairs import Pair
from visil.training.pieces import SAME, UNSURE
from visil.training.trainer import Line, Portion, Speed, Standing, Step
from visil.training.validation import average_precision

POOL: tuple[Reduction, Reduction] = ("max", "top5")
"""From a map to a score while it is learned: Eq. 6 over the five query frames that are matched best, since most of a
query may be foreign footage."""

TOGETHER = 64
"""Pairs judged at once."""


@dataclass(frozen=True)
class Batch:
    """Pairs padded to one size."""

    frames: Tensor
    """[B, X, Y]"""
    truth: Tensor
    """uint8 [B, X, Y]; unsure outside."""
    query: FrameSigns
    target: FrameSigns
    inside: Tensor
    """bool [B, X, Y]: the cells that are there."""
    number: Tensor
    """Of each pair's query."""
    copy: Tensor
    """bool [B]: shares footage."""


def batch_of(pairs: Sequence[Pair], device: torch.device | str = "cpu") -> Batch:
    """Pairs as one batch."""
    frames, inside = padded([pair.frames.to(device, torch.float32) for pair in pairs], 0.0)
    truth, _ = padded([pair.truth.to(device) for pair in pairs], UNSURE)
    return Batch(
        frames,
        truth,
        stacked_signs([pair.query for pair in pairs], frames.shape[1]).to(device),
        stacked_signs([pair.target for pair in pairs], frames.shape[2]).to(device),
        inside,
        torch.tensor([pair.number for pair in pairs], device=device),
        torch.tensor([pair.relation == "copy" for pair in pairs], device=device),
    )


def read_batch(reader: Reader, background: FixedBackground, batch: Batch) -> Tensor:
    """The maps [B, X, Y] of a batch, before hard tanh; 0 outside."""
    planes = channels(batch.frames, batch.query, batch.target, background, reader.config, batch.inside)
    found: Tensor = reader(planes, batch.inside)
    return found.masked_fill(~batch.inside, 0.0)


def scores(maps: Tensor, inside: Tensor) -> Tensor:
    """Eq. 6 over :data:`POOL` of maps [B, X, Y] after hard tanh: [B]."""
    return pool(hard_tanh(maps).masked_fill(~inside, -1.0), *POOL)


# ---------------------------------------------------------------------- losses


def cell_loss(maps: Tensor, truth: Tensor, hardest: float) -> Tensor:
    """Cross-entropy over cells: mean over true ones, and over each pair's ``hardest`` share of the others.

    Precision is lost by the worst few cells of a stranger, not by the many that nobody would take for a match.
    """
    logits = SHARPNESS * maps
    same, other = truth == SAME, truth == 0
    found = F.binary_cross_entropy_with_logits(logits, same.to(logits), reduction="none")
    own = (found * same).sum() / same.sum().clamp(min=1)
    wrong = torch.where(other, found, 0.0).flatten(1)
    few = (other.flatten(1).sum(dim=1) * hardest).ceil().clamp(min=1).long()
    ranked = wrong.sort(dim=1, descending=True).values
    among = torch.arange(ranked.shape[1], device=ranked.device)[None] < few[:, None]
    return own + ((ranked * among).sum(dim=1) / few).mean()


def ranking_loss(found: Tensor, number: Tensor, copy: Tensor, margin: float) -> Tensor:
    """Eq. 7 over scores [B]: every copy of a query above every stranger of the same query by a margin; their mean."""
    rivals = (number[:, None] == number[None]) & copy[:, None] & ~copy[None]
    apart = F.relu(found[None] - found[:, None] + margin)
    return (apart * rivals).sum() / rivals.sum().clamp(min=1)


# ---------------------------------------------------------------------- the objective


class ReaderObjective:
    """Teaches a model's reader from pairs; the best one by validation is left in the model."""

    items, figures = "pairs", ("loss", "cells", "ranking", "regularisation")
    clip = 1.0
    remedy = "lower reader.lr"

    def __init__(
        self,
        model: ViSiL,
        training: Sequence[Pair],
        validation: Sequence[Pair],
        stage: ReaderStage,
        *,
        seed: int = 0,
    ) -> None:
        if model.reader is None or model.background is None:
            raise UsageError("the model has no reader to learn")
        if not any(pair.relation == "copy" for pair in training):
            raise UsageError("there is no pair to learn from that shares footage")
        self.model, self.stage, self.seed = model, stage, seed
        self.reader, self.background = model.reader, model.background
        by_query: dict[int, list[Pair]] = defaultdict(list)
        for pair in training:
            by_query[pair.number].append(pair)
        self.queries = list(by_query.values())
        self.validation = list(validation)
        self.epochs = stage.epochs
        model.eval().requires_grad_(False)
        self.learning: dict[str, Tensor] = {}
        for name, tensor in self.reader.named_parameters():
            self.learning[f"reader.{name}"] = tensor.requires_grad_(True)
        self.optimiser = torch.optim.AdamW(
            self.learning.values(), lr=stage.lr, weight_decay=stage.weight_decay
        )
        self.scaler = torch.amp.GradScaler(model.device.type, enabled=False)
        self.best: dict[str, Tensor] = {}

    @contextmanager
    def epoch(self, number: int, first: int) -> Iterator[tuple[int, Iterator[Portion[Batch]]]]:
        """Every query once, with all of its pairs, in a new order."""
        order = np.random.default_rng([self.seed, number]).permutation(len(self.queries))
        groups = [order[at : at + self.stage.batch] for at in range(0, len(order), self.stage.batch)]

        def batches() -> Iterator[Portion[Batch]]:
            for group in groups[first:]:
                pairs = [pair for query in group for pair in self.queries[query]]
                yield Portion(batch_of(pairs, self.model.device), 1.0, len(pairs))

        yield len(groups), batches()

    def rate(self, step: int, along: float) -> float:
        """A short rise, then half a cosine down to a hundredth."""
        rise = min(1.0, (step + 1) / (self.stage.warmup + 1))
        return self.stage.lr * rise * (0.01 + 0.99 * (1 + math.cos(math.pi * min(along, 1.0))) / 2)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy over cells, Eq. 7 and Eq. 8."""
        stage = self.stage
        maps = read_batch(self.reader, self.background, batch)
        cells = cell_loss(maps, batch.truth, stage.hardest)
        ranking = ranking_loss(scores(maps, batch.inside), batch.number, batch.copy, stage.margin)
        regularisation = similarity_regularisation(maps).mean()
        loss = cells + stage.ranking * ranking + stage.regularisation * regularisation
        return {"loss": loss, "cells": cells, "ranking": ranking, "regularisation": regularisation}

    def after_step(self, step: int) -> None:
        """Nothing."""

    def begin(self, standing: Standing) -> Line | None:
        """Say how well pairs are told apart by S_f itself."""
        if standing.start_map is not None:
            return None
        standing.start_map = precision(self.validation, None, self.background)
        return {"epoch": 0, "step": 0, "map": standing.start_map}

    def tell(
        self, standing: Standing, figures: Mapping[str, float], speed: Speed
    ) -> tuple[Step | None, Line | None]:
        """Means of this epoch after each step; the log has a line an epoch."""
        done = standing.sums[self.items]
        means = {name: standing.sums[name] / done for name in figures}
        rate, share = speed.items / speed.passed, speed.waited / speed.passed
        total = sum(len(query) for query in self.queries)
        return Step("reader", standing.epoch, self.epochs, int(done), total, means, rate, share), None

    def end_epoch(self, standing: Standing, speed: Speed) -> Line:
        """Validate, and remember the weights where none were better."""
        score = precision(self.validation, self.reader, self.background)
        if score > standing.best_map:
            standing.best_map, standing.best_epoch = score, standing.epoch
            self.best = {name: tensor.detach().clone() for name, tensor in self.learning.items()}
        done = max(standing.sums.get(self.items, 0.0), 1.0)
        means = {name: standing.sums[name] / done for name in self.figures if name in standing.sums}
        return {
            "epoch": standing.epoch,
            "step": standing.step,
            **means,
            "map": score,
            "pairs/s": speed.items / speed.passed,
        }

    def end(self) -> None:
        """The best weights take their places."""
        with torch.no_grad():
            for name, tensor in self.learning.items():
                tensor.copy_(self.best[name])

    def state(self) -> dict[str, Any]:
        """The best weights so far."""
        return {"best": {name: tensor.cpu() for name, tensor in self.best.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """The best weights so far."""
        self.best = {name: tensor.to(self.model.device) for name, tensor in state["best"].items()}


@torch.no_grad()
def precision(pairs: Sequence[Pair], reader: Reader | None, background: FixedBackground) -> float:
    """Average precision of all pairs in one ranking by score: by the reader's maps, or by S_f where there is none.

    One ranking over all queries asks for what a threshold needs: strangers of one query below copies of every other.
    """
    found: list[Tensor] = []
    for start in range(0, len(pairs), TOGETHER):
        batch = batch_of(pairs[start : start + TOGETHER], background.regions.device)
        if reader is None:
            unknown = batch.query.blank[:, :, None] | batch.target.blank[:, None, :]
            maps = batch.frames.masked_fill(unknown, -1.0)
        else:
            maps = read_batch(reader, background, batch)
        found.append(scores(maps, batch.inside).cpu())
    copies = {number for number, pair in enumerate(pairs) if pair.relation == "copy"}
    return average_precision(torch.cat(found), copies) if pairs else 0.0
