"""The frame stage inside a training run: its footage, its progress, its folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from visil.compare.visil import ViSiL
from visil.progress import video_progress
from visil.training.checkpoint import LAST, PREVIOUS
from visil.training.config import TrainConfig
from visil.training.data import Split, Tell
from visil.training.distributed import Processes
from visil.training.footage import CachedFootage
from visil.training.frame_bank import FrameBank
from visil.training.frame_stage import train_frames
from visil.training.log import Log
from visil.training.progress import frame_progress

FOLDER = "frame-stage"
"""In the output folder: checkpoints, log and the model as this stage leaves it."""


def learn_frames(
    config: TrainConfig,
    model: ViSiL,
    data: Split,
    cache: Path,
    processes: Processes,
    *,
    tell: Tell,
    quiet: bool,
    resume: bool,
    stop: Callable[[], bool],
) -> bool:
    """Run the stage in the first process and give its result to all; False where it was stopped before its end."""
    folder = Path(config.out) / FOLDER
    done = True
    if processes.first:
        done = _learn(config, model, data, cache, folder, tell, quiet, resume, stop)
        if done:
            model.save_pretrained(folder)
    (stopped,) = processes.summed([0.0 if done else 1.0])
    if stopped:
        return False
    if not processes.first:
        learned = ViSiL.from_pretrained(folder)
        model.load_state_dict(learned.state_dict(), strict=False)
    return True


def _learn(
    config: TrainConfig,
    model: ViSiL,
    data: Split,
    cache: Path,
    folder: Path,
    tell: Tell,
    quiet: bool,
    resume: bool,
    stop: Callable[[], bool],
) -> bool:
    sampling = replace(model.config.sampling, fps=config.frames.fps)
    with video_progress("reading frames", quiet) as progress:
        footage = CachedFootage(data.training.names, cache, sampling, progress=progress)
    bank = FrameBank.read(footage, model.device)
    tell(f"{len(bank.images)} frames of {len(bank)} videos to learn from first")
    if not resume:
        for name in (LAST, PREVIOUS):
            (folder / name).unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    with (
        Log(folder, 0, enabled=True, tensorboard=config.tensorboard) as log,
        frame_progress(config.frames.steps, quiet) as show,
    ):

        def figures(line: dict[str, Any]) -> None:
            log.write(line)
            if show is not None:
                show(line)

        return train_frames(
            model,
            bank,
            config.frames,
            seed=config.seed,
            log=figures,
            every=20,
            folder=folder,
            identity=data.identity(),
            checkpoint_steps=config.checkpoint_steps,
            stop=stop,
        )
