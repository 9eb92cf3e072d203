"""The training loop: an objective's batches, a step for each, a log, checkpoints, an end when asked for.

What is learned lies in the objective: single frames (:mod:`visil.training.frames`) or triplets of videos
(:mod:`visil.training.videos`, Sec. 5.2). A run that was stopped goes on from its checkpoint to the same bits.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

import torch
from torch import Tensor, nn

from visil.compare.visil import ViSiL
from visil.errors import ModelError
from visil.training.checkpoint import discard_checkpoints, load_checkpoint, save_checkpoint
from visil.training.distributed import Processes
from visil.training.log import Log
from visil.training.trainable import release

Batch = TypeVar("Batch")
Read = TypeVar("Read", covariant=True)

Line = dict[str, Any]
"""A line of the log about a step or an epoch."""


@dataclass(frozen=True)
class Step:
    """Where a run is after a step, for whoever watches it."""

    stage: Literal["frames", "videos", "reader"]
    epoch: int
    epochs: int
    done: int
    """Of this epoch: triplets seen; of the frames' one epoch, steps made."""
    total: int
    """Triplets, or steps, of this epoch."""
    figures: Mapping[str, float]
    """``loss`` and others: of videos means over this epoch so far, of frames those of this step."""
    rate: float
    """Triplets, or pairs of frames, a second."""
    data_share: float
    """Part of the time spent waiting for pictures."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run."""

    epochs: int
    steps: int
    start_map: float
    best_map: float
    best_epoch: int
    stopped: bool = False
    """Asked to stop before the end; a checkpoint was written."""


@dataclass
class Standing:
    """How far a run is: the part of a checkpoint besides tensors."""

    epoch: int = 1
    batch: int = 0
    """Batches of this epoch done."""
    step: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    """Of this epoch: each figure summed over its items."""
    start_map: float | None = None
    best_map: float = -1.0
    best_epoch: int = 0


@dataclass
class Speed:
    """Time spent on this epoch since the run began or went on."""

    batches: int = 0
    items: int = 0
    waited: float = 0.0
    """Seconds spent waiting for batches."""
    passed: float = 1e-9
    """Seconds."""


@dataclass(frozen=True)
class Portion(Generic[Read]):
    """This process's part of a batch."""

    batch: Read
    share: float
    """Of the whole batch; 0: nothing for this process to do."""
    items: int
    """Of the whole batch."""


class Objective(Protocol[Batch]):
    """The interface of an objective: batches, the loss, and calls around steps and epochs."""

    @property
    def model(self) -> ViSiL:
        """The model that learns."""

    @property
    def learning(self) -> Mapping[str, Tensor]:
        """The tensors that learn, by their names in ``state_dict``."""

    @property
    def optimiser(self) -> torch.optim.Optimizer:
        """Over those tensors."""

    @property
    def scaler(self) -> torch.amp.GradScaler:
        """Of losses in fp16; else disabled."""

    @property
    def clip(self) -> float | None:
        """Greatest norm of a step's gradient."""

    @property
    def epochs(self) -> int:
        """After which the run is done."""

    @property
    def items(self) -> str:
        """The items of a batch: ``triplets``, ``frames``."""

    @property
    def figures(self) -> tuple[str, ...]:
        """The figures of :meth:`loss`, by name."""

    @property
    def remedy(self) -> str:
        """Advice where the loss is no number."""

    def epoch(self, number: int, first: int) -> AbstractContextManager[tuple[int, Iterator[Portion[Batch]]]]:
        """How many batches an epoch has, and those from ``first`` on, read ahead of the one in use."""

    def rate(self, step: int, along: float) -> float:
        """The learning rate of a step; ``along`` is the part of the run that is done, from 0 to 1."""

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Figures of a batch, scalars; the one called ``loss`` has a gradient."""

    def after_step(self, step: int) -> None:
        """Called when the optimiser has made its ``step``-th step."""

    def begin(self, standing: Standing) -> Line | None:
        """Called before anything is learned; gives a line for the log where nothing was learned before."""

    def tell(
        self, standing: Standing, figures: Mapping[str, float], speed: Speed
    ) -> tuple[Step | None, Line | None]:
        """A display of a step just made, and a line for the log; None: nothing."""

    def end_epoch(self, standing: Standing, speed: Speed) -> Line | None:
        """Called after an epoch's last batch; gives a line for the log."""

    def end(self) -> None:
        """Called when all epochs are done."""

    def state(self) -> dict[str, Any]:
        """The state that a checkpoint must hold besides weights, optimiser and standing."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to such a state; it may lack what :meth:`state` gives."""


class Trainer(Generic[Batch]):
    """Trains by an objective; log and checkpoints go to ``folder``, where there is one.

    ``identity`` are settings and data, which a checkpoint must share to be gone on from.
    """

    def __init__(
        self,
        objective: Objective[Batch],
        folder: Path | None,
        identity: Mapping[str, Any],
        *,
        seed: int = 0,
        checkpoint_steps: int = 500,
        processes: Processes | None = None,
        tensorboard: bool = False,
    ) -> None:
        self.objective, self.folder, self.identity = objective, folder, identity
        self.seed, self.checkpoint_steps, self.tensorboard = seed, checkpoint_steps, tensorboard
        self.processes = processes or Processes(device=objective.model.device)
        self.standing = Standing()

    def run(
        self,
        *,
        resume: bool = True,
        on_step: Callable[[Step], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Outcome:
        """Train to the end, or until ``stop`` says so; ``resume`` goes on from the folder's checkpoint."""
        torch.manual_seed(self.seed)
        if self.folder is not None:
            self._resume(self.folder, resume)
        standing, objective = self.standing, self.objective
        writing = self.folder if self.processes.first else None
        with Log(writing, standing.step, tensorboard=self.tensorboard) as log:
            log.write(objective.begin(standing))
            stopped = False
            while standing.epoch <= objective.epochs and not stopped:
                stopped = self._epoch(log, on_step, stop)
        if not stopped:
            objective.end()
        release(objective.model)
        return Outcome(
            standing.epoch - 1,
            standing.step,
            standing.start_map or 0.0,
            standing.best_map,
            standing.best_epoch,
            stopped,
        )

    def _epoch(self, log: Log, on_step: Callable[[Step], None] | None, stop: Callable[[], bool]) -> bool:
        """One epoch, or its rest; returns whether it was stopped before its end."""
        standing, objective = self.standing, self.objective
        began, speed, asked = time.monotonic(), Speed(), False
        with objective.epoch(standing.epoch, standing.batch) as (count, batches):
            while standing.batch < count:
                before = time.monotonic()
                portion = next(batches)
                speed.waited += time.monotonic() - before
                figures, asked = self._step(portion, count, stop())
                speed.batches, speed.items = speed.batches + 1, speed.items + portion.items
                speed.passed = max(time.monotonic() - began, 1e-9)
                step, line = objective.tell(standing, figures, speed)
                log.write(line)
                if on_step is not None and step is not None:
                    on_step(step)
                ended = standing.batch == count
                if not ended and (asked or standing.step % self.checkpoint_steps == 0):
                    self._save()
                if asked and not ended:
                    return True
        log.write(objective.end_epoch(standing, speed))
        standing.epoch, standing.batch, standing.sums = standing.epoch + 1, 0, {}
        self._save()
        return asked and standing.epoch <= objective.epochs

    def _step(self, portion: Portion[Batch], count: int, stop: bool) -> tuple[dict[str, float], bool]:
        """Learn from one of ``count`` batches; returns its figures, and whether any process was asked to stop."""
        standing, objective = self.standing, self.objective
        optimiser, scaler = objective.optimiser, objective.scaler
        along = (standing.epoch - 1 + standing.batch / count) / objective.epochs
        for group in optimiser.param_groups:
            group["lr"] = objective.rate(standing.step, along)
        optimiser.zero_grad(set_to_none=True)
        names = objective.figures
        values = [0.0] * len(names)
        if portion.share:
            found = objective.loss(portion.batch)
            scaler.scale(found["loss"] * portion.share).backward()
            figures = torch.stack([found[name].detach().float() for name in names]).tolist()
            values = [value * portion.share for value in figures]
            if not math.isfinite(values[names.index("loss")]):
                raise ModelError(f"the loss is no number in step {standing.step + 1}: {objective.remedy}")
        *sums, asked = self.processes.sum_gradients(objective.learning, [*values, float(stop)])
        if objective.clip is not None:
            scaler.unscale_(optimiser)
            nn.utils.clip_grad_norm_(list(objective.learning.values()), objective.clip)
        scaler.step(optimiser)
        scaler.update()
        standing.batch += 1
        standing.step += 1
        objective.after_step(standing.step)
        for name, value in zip(names, sums, strict=True):
            standing.sums[name] = standing.sums.get(name, 0.0) + value * portion.items
        standing.sums[objective.items] = standing.sums.get(objective.items, 0.0) + portion.items
        return dict(zip(names, sums, strict=True)), asked > 0

    # ------------------------------------------------------------------ checkpoints

    def _save(self) -> None:
        if self.folder is None or not self.processes.first:
            return
        objective = self.objective
        state: dict[str, Any] = {
            "model": {name: tensor.detach().cpu() for name, tensor in objective.learning.items()},
            "optimiser": objective.optimiser.state_dict(),
            "scaler": objective.scaler.state_dict(),
            "standing": vars(self.standing),
            "random": torch.get_rng_state(),
            **objective.state(),
        }
        if objective.model.device.type == "cuda":
            state["random_cuda"] = torch.cuda.get_rng_state(objective.model.device)
        save_checkpoint(self.folder, self.identity, state)

    def _resume(self, folder: Path, wanted: bool) -> None:
        """Go back to where the folder's checkpoint stands; where that is not wanted, it goes."""
        objective = self.objective
        if not wanted:
            if self.processes.first:
                discard_checkpoints(folder)
            return
        state = load_checkpoint(folder, self.identity, list(objective.learning))
        if state is None:
            return
        try:
            with torch.no_grad():
                for name, tensor in objective.learning.items():
                    tensor.copy_(state["model"][name])
                objective.restore(state)
            objective.optimiser.load_state_dict(state["optimiser"])
            objective.scaler.load_state_dict(state["scaler"])
            self.standing = Standing(**state["standing"])
            torch.set_rng_state(state["random"])
            if objective.model.device.type == "cuda" and "random_cuda" in state:
                torch.cuda.set_rng_state(state["random_cuda"], objective.model.device)
        except (KeyError, TypeError, RuntimeError, ValueError) as error:
            raise ModelError(
                f"{folder}: its checkpoint does not fit this model ({error}): choose another output folder"
            ) from error


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """Gives a function that tells whether Ctrl-C asked to stop, so that a step is finished; a second one interrupts."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # only the main thread may handle signals
        yield asked.is_set
        return

    def ask(*_: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
