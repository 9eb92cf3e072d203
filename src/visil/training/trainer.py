"""The loop of Sec. 5.2: an epoch's triplets, batch by batch; validation after each; the best model kept."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from visil.compare.visil import ViSiL
from visil.errors import ModelError, UsageError
from visil.prefetch import prefetched
from visil.training.checkpoint import load_checkpoint, save_checkpoint
from visil.training.config import OptimConfig, TrainConfig
from visil.training.distributed import Processes
from visil.training.embedding import SnippetEmbedder
from visil.training.log import Log
from visil.training.objective import Objective, objective
from visil.training.parts import learning_parts, prepare, release
from visil.training.validation import Validation

if TYPE_CHECKING:
    from visil.training.pools import Related
    from visil.training.triplets import Snippet, Triplet

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

READERS = 8
"""Threads that read pictures."""

LEAST_RATE = 0.1
"""Share of the rate that a cosine schedule ends at."""


class Sampler(Protocol):
    """Gives an epoch's triplets, the same on every machine."""

    def epoch(self, number: int) -> list[Triplet]:
        """The triplets of epoch ``number``."""


@dataclass(frozen=True)
class Step:
    """Where the run is, after a step."""

    epoch: int
    epochs: int
    done: int
    """Triplets of this epoch seen."""
    total: int
    """Triplets of this epoch."""
    loss: float
    """Mean of this epoch so far."""
    rate: float
    """Triplets a second."""
    data_share: float
    """Part of the time spent waiting for pictures."""


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    epochs: int
    steps: int
    start_map: float
    best_map: float
    best_epoch: int
    stopped: bool = False
    """Asked to stop before the end; a checkpoint was written."""


@dataclass
class Standing:
    """How far a run is; what a checkpoint holds of it besides tensors."""

    epoch: int = 1
    batch: int = 0
    """Batches of this epoch done."""
    step: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    """Of this epoch: each figure summed over its triplets."""
    start_map: float | None = None
    best_map: float = -1.0
    best_epoch: int = 0


class Trainer:
    """Trains ``model`` on the sampler's triplets; files go to ``config.out``.

    ``identity`` is what a checkpoint must share to be gone on from besides the configuration, such as the videos.
    """

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
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        self.config, self.model, self.sampler, self.validation = config, model, sampler, validation
        self.embedder = embedder
        self.related = related
        self.processes = processes or Processes(device=model.device)
        if self.processes.count > config.optim.batch:
            raise UsageError(
                f"{self.processes.count} processes cannot share batches of {config.optim.batch}: raise optim.batch"
            )
        self.identity = {**config.decisive(), **(identity or {})}
        self.out = Path(config.out)
        self.parts = learning_parts(model, config.optim.trainable)
        self.learning = prepare(model, self.parts)
        self.optimiser = torch.optim.AdamW(
            self.learning.values(), lr=config.optim.lr, weight_decay=config.optim.weight_decay
        )
        self.scaler = torch.amp.GradScaler(model.device.type, enabled=config.optim.precision == "fp16")
        self.standing = Standing()

    # ------------------------------------------------------------------ the loop

    def run(
        self,
        *,
        resume: bool = True,
        on_step: Callable[[Step], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Outcome:
        """Train to the end, or until ``stop`` says so; ``resume`` goes on from the folder's checkpoint."""
        torch.manual_seed(self.config.seed)
        state = load_checkpoint(self.out, self.identity) if resume else None
        if state is not None:
            self._restore(state)
        standing, first = self.standing, self.processes.first
        with Log(self.out, standing.step, enabled=first, tensorboard=self.config.tensorboard) as log:
            if standing.start_map is None:
                standing.start_map = self._validated()
                log.write({"epoch": 0, "step": 0, "map": standing.start_map})
            stopped = False
            while standing.epoch <= self.config.optim.epochs and not stopped:
                stopped = self._epoch(log, on_step, stop)
        release(self.model)
        return Outcome(
            standing.epoch - 1,
            standing.step,
            standing.start_map,
            standing.best_map,
            standing.best_epoch,
            stopped,
        )

    def _epoch(self, log: Log, on_step: Callable[[Step], None] | None, stop: Callable[[], bool]) -> bool:
        """One epoch, or what is left of it; returns whether it was stopped before its end."""
        standing, size = self.standing, self.config.optim.batch
        triplets = self.sampler.epoch(standing.epoch)
        batches = [triplets[i : i + size] for i in range(0, len(triplets), size)]
        started, waited, seen = time.monotonic(), 0.0, 0
        with prefetched(self._read(batches[standing.batch :])) as reader:
            items = iter(reader)
            while standing.batch < len(batches):
                before = time.monotonic()
                mine, pictures = next(items)
                waited += time.monotonic() - before
                count = len(batches[standing.batch])
                asked = self._step(mine, pictures, count, len(batches), stop())
                seen += count
                passed = max(time.monotonic() - started, 1e-9)
                speed = {"triplets_per_second": seen / passed, "data_share": waited / passed}
                if on_step is not None:
                    done = int(standing.sums["triplets"])
                    loss = standing.sums["loss"] / done
                    on_step(
                        Step(
                            standing.epoch,
                            self.config.optim.epochs,
                            done,
                            len(triplets),
                            loss,
                            *speed.values(),
                        )
                    )
                ended = standing.batch == len(batches)
                if not ended and (asked or standing.step % self.config.checkpoint_steps == 0):
                    self._save()
                if asked and not ended:
                    return True
        self._finish_epoch(log, speed if batches else {})
        return bool(batches) and asked and standing.epoch <= self.config.optim.epochs

    def _read(
        self, batches: Sequence[Sequence[Triplet]]
    ) -> Iterator[tuple[list[Triplet], list[Tensor | None]]]:
        """This process's share of each batch, with the pictures it needs: runs ahead in a thread."""
        waiting: deque[tuple[list[Triplet], list[Future[Tensor | None]]]] = deque()
        with ThreadPoolExecutor(READERS, "visil-pictures") as pool:
            for batch in batches:
                mine = self.processes.mine(batch)
                waiting.append((mine, [pool.submit(self.embedder.pictures, s) for s in _snippets(mine)]))
                # Of small batches several are begun, so that every reader has something to read.
                if sum(len(reading) for _, reading in waiting) >= 2 * READERS:
                    yield _read_out(waiting.popleft())
            while waiting:
                yield _read_out(waiting.popleft())

    def _step(
        self, mine: list[Triplet], pictures: list[Tensor | None], count: int, batches: int, stop: bool
    ) -> bool:
        """Learn from one batch of ``count`` triplets; returns whether any process was asked to stop."""
        optim, standing = self.config.optim, self.standing
        along = (standing.epoch - 1 + standing.batch / batches) / optim.epochs
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(optim, standing.step, along)
        self.optimiser.zero_grad(set_to_none=True)
        figures = {"loss": 0.0, "main": 0.0, "regularisation": 0.0, "positive": 0.0, "negative": 0.0}
        if mine:
            found = self._objective(mine, pictures)
            share = len(mine) / count
            self.scaler.scale(found.loss * share).backward()
            values = torch.stack([getattr(found, name).detach().float() for name in figures]).tolist()
            figures = {name: value * share for name, value in zip(figures, values, strict=True)}
            if not math.isfinite(figures["loss"]):
                raise ModelError(
                    f"the loss is no number in step {standing.step + 1}: lower optim.lr, or take precision fp32"
                )
        *sums, asked = self.processes.sum_gradients(self.learning, [*figures.values(), float(stop)])
        self.scaler.step(self.optimiser)
        self.scaler.update()
        if self.model.attention is not None and "attention" in self.parts:
            self.model.attention.constrain_()
        standing.batch += 1
        standing.step += 1
        for name, value in zip(figures, sums, strict=True):
            standing.sums[name] = standing.sums.get(name, 0.0) + value * count
        standing.sums["triplets"] = standing.sums.get("triplets", 0.0) + count
        return asked > 0

    def _objective(self, triplets: list[Triplet], pictures: list[Tensor | None]) -> Objective:
        with self._autocast():
            vectors = self.embedder(_snippets(triplets), pictures)
            size = len(triplets)
            roles = (vectors[:size], vectors[size : 2 * size], vectors[2 * size :])
            return objective(self.model, triplets, *roles, self.config.loss, self.related)

    def _autocast(self) -> torch.autocast:
        precision = self.config.optim.precision
        return torch.autocast(
            self.model.device.type,
            PRECISIONS[precision] if precision != "fp32" else None,
            enabled=precision != "fp32",
        )

    def _validated(self) -> float:
        with self._autocast():
            return self.validation.mean_average_precision(self.processes)

    def _finish_epoch(self, log: Log, speed: dict[str, float]) -> None:
        """Validate, keep the model where none was better, and write it all down."""
        standing = self.standing
        score = self._validated()
        # Of equal epochs the first: training on only costs what validation cannot see.
        if score > standing.best_map:
            standing.best_map, standing.best_epoch = score, standing.epoch
            if self.processes.first:
                self.model.save_pretrained(self.out)
        triplets = max(standing.sums.pop("triplets", 0.0), 1.0)
        means = {name: value / triplets for name, value in standing.sums.items()}
        rate = self.optimiser.param_groups[0]["lr"]
        line = {"epoch": standing.epoch, "step": standing.step, **means, "map": score, "lr": rate, **speed}
        log.write(line)
        standing.epoch, standing.batch, standing.sums = standing.epoch + 1, 0, {}
        self._save()

    # ------------------------------------------------------------------ checkpoints

    def _save(self) -> None:
        if not self.processes.first:
            return
        state: dict[str, Any] = {
            "model": {name: tensor.detach().cpu() for name, tensor in self.learning.items()},
            "optimiser": self.optimiser.state_dict(),
            "scaler": self.scaler.state_dict(),
            "standing": vars(self.standing),
            "random": torch.get_rng_state(),
        }
        if self.model.device.type == "cuda":
            state["random_cuda"] = torch.cuda.get_rng_state(self.model.device)
        save_checkpoint(self.out, self.identity, state)

    def _restore(self, state: Mapping[str, Any]) -> None:
        try:
            with torch.no_grad():
                for name, tensor in self.learning.items():
                    tensor.copy_(state["model"][name])
            self.optimiser.load_state_dict(state["optimiser"])
            self.scaler.load_state_dict(state["scaler"])
            self.standing = Standing(**state["standing"])
            torch.set_rng_state(state["random"])
            if self.model.device.type == "cuda" and "random_cuda" in state:
                torch.cuda.set_rng_state(state["random_cuda"], self.model.device)
        except (KeyError, TypeError, RuntimeError, ValueError) as error:
            raise ModelError(
                f"{self.out}: its checkpoint does not fit this model ({error}): choose another output folder"
            ) from error


def learning_rate(optim: OptimConfig, step: int, along: float) -> float:
    """The rate of a step; ``along`` is the part of the run that is done, from 0 to 1."""
    rate = optim.lr
    if optim.schedule == "cosine":
        rate *= LEAST_RATE + (1 - LEAST_RATE) * (1 + math.cos(math.pi * along)) / 2
    return rate * min(1.0, (step + 1) / (optim.warmup + 1))


def _read_out(
    batch: tuple[list[Triplet], list[Future[Tensor | None]]],
) -> tuple[list[Triplet], list[Tensor | None]]:
    triplets, reading = batch
    return triplets, [pictures.result() for pictures in reading]


def _snippets(triplets: Sequence[Triplet]) -> list[Snippet]:
    """All anchors, then all positives, then all negatives."""
    return [*(t.anchor for t in triplets), *(t.positive for t in triplets), *(t.negative for t in triplets)]
