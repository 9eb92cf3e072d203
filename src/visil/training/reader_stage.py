"""The reader's stage of a run: pairs made from footage, or read from a file, and the reader learned from them."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.matching.localize import LocalizeConfig
from visil.model.background import FixedBackground, central
from visil.progress import Counted
from visil.training.config import ReaderStage
from visil.training.footage import Footage
from visil.training.pairs import Pairs, Strings, load_pairs
from visil.training.pieces import Piece, Plan, copied, kept_pieces, original
from visil.training.reader import ReaderObjective
from visil.training.trainer import Outcome, Step, Trainer

PAIRS = "pairs.safetensors"
"""Pairs in the output folder: made once, and all that learning needs."""

LONGEST_ORIGINAL = 64
"""Frames of a video that take part as a target: its first ones."""

LOCALIZE = LocalizeConfig(threshold=0.0, min_gain=1.0, give_up=1.0, bend=0.15, faint=-0.4)
"""How a map is read, whose cells lie between -1 and 1 and speak for neither at 0."""

SAMPLE = 60_000
"""Region vectors that the background is chosen from."""

STRANGERS = 600
"""Frames among which the similarity of strangers is measured."""


def make_pairs(
    model: ViSiL,
    training: Footage,
    validation: Footage,
    stage: ReaderStage,
    folder: Path,
    *,
    seed: int = 0,
    progress: Counted | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Pairs | None:
    """Copies, originals and strangers of some footage as pairs; validation pairs from other footage.

    ``folder`` holds finished pairs until all are; None: ``stop`` asked for an end.
    """
    parts = []
    for footage, count, own in ((training, stage.pieces, seed), (validation, stage.pieces // 5, seed + 1)):
        plans = planned(footage, count, model.config.sampling.fps, own)
        pieces = kept_pieces(model, footage, plans, folder, progress=progress, stop=stop)
        if pieces is None:
            return None
        parts.append((pieces[: len(footage)], pieces[len(footage) :]))
    learned, held = parts
    background = fit_background(model, learned[0], stage.background, seed).to(model.device)
    pairs = Pairs(
        list(Strings(model, *learned, background).pairs(stage.uses, stage.strangers, seed)),
        list(Strings(model, *held, background).pairs(1, stage.strangers, seed + 1)),
        background.cpu(),
        model.fingerprint(),
    )
    shutil.rmtree(folder, ignore_errors=True)
    return pairs


def planned(footage: Footage, count: int, fps: float, seed: int) -> list[Plan]:
    """Every video as it stands, then ``count`` copied stretches of them."""
    rng = np.random.default_rng([seed, 0])
    lengths = [_seconds(footage.times(video)) for video in range(len(footage))]
    originals = [
        original(video, length, fps, float(rng.uniform()), LONGEST_ORIGINAL)
        for video, length in enumerate(lengths)
    ]
    # Of a long video, copies are made of the part that stands as the target.
    lengths = [min(length, LONGEST_ORIGINAL / fps) for length in lengths]
    order = np.concatenate([rng.permutation(len(footage)) for _ in range(-(-count // len(footage)))])[:count]
    copies = [
        copied(int(video), lengths, fps, np.random.default_rng([seed, 1, i])) for i, video in enumerate(order)
    ]
    return [*originals, *copies]


def _seconds(times: Tensor) -> float:
    """How long a video is, from the times of its frames."""
    step = float(times.diff().median()) if len(times) > 1 else 1.0
    return float(times[-1]) + step


def fit_background(model: ViSiL, videos: Sequence[Piece], count: int, seed: int = 0) -> FixedBackground:
    """A background of ``count`` region vectors for a model, from plain footage."""
    rng = np.random.default_rng([seed, 2])
    shown = [piece.vectors[torch.from_numpy(~piece.blank)] for piece in videos]
    owner = torch.cat([torch.full((len(part),), number) for number, part in enumerate(shown)])
    frames = torch.cat(shown)
    if len(frames) < 2:
        raise UsageError("the footage shows too little to tell its common frames")
    some = torch.from_numpy(rng.permutation(len(frames)))
    chosen = some[: max(1, SAMPLE // frames.shape[1])]
    regions = central(frames[chosen].flatten(0, 1).to(model.device), count, seed)
    background = FixedBackground(len(regions), frames.shape[2])
    background.regions.copy_(regions.cpu())
    few = some[:STRANGERS]
    alike = model.scorer("fp32").frames(frames[few].float(), [frames[few].float()]).cpu()
    strangers = alike[owner[few][:, None] != owner[few][None]]
    if not len(strangers):
        raise UsageError("frames of at least two videos are needed to tell what is common")
    background.mean.copy_(strangers.mean())
    background.spread.copy_(strangers.std().clamp(min=1e-3))
    return background


def with_reader(model: ViSiL, background: FixedBackground, stage: ReaderStage) -> ViSiL:
    """The model with this background and a reader that has yet to learn; its calibration no longer holds."""
    config = model.config.replaced(
        background=len(background.regions), reader=stage.shape, localize=LOCALIZE, calibration=None
    )
    changed = ViSiL(config, with_backbone=False)
    for part in ("backbone", "whitening", "attention", "comparator"):
        setattr(changed, part, getattr(model, part))
    changed.why_no_backbone = model.why_no_backbone
    changed.background = background
    return changed.to(model.device).eval()


def learn_reader(
    model: ViSiL,
    pairs: Pairs,
    stage: ReaderStage,
    folder: Path,
    *,
    seed: int = 0,
    checkpoint_steps: int = 500,
    tensorboard: bool = False,
    resume: bool = True,
    on_step: Callable[[Step], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[ViSiL, Outcome]:
    """A model with a reader learned from pairs, and how it went."""
    learned = with_reader(model, pairs.background, stage)
    trainer = Trainer(
        ReaderObjective(learned, pairs.training, pairs.validation, stage, seed=seed),
        folder,
        {"pairs": _digest(pairs), **_learning(stage), "seed": seed},
        seed=seed,
        checkpoint_steps=checkpoint_steps,
        tensorboard=tensorboard,
    )
    return learned, trainer.run(resume=resume, on_step=on_step, stop=stop)


def stored_pairs(path: Path, identity: Mapping[str, Any] | None = None) -> Pairs | None:
    """The pairs in a file; None where there is none, or they were made from something else than ``identity``."""
    if not path.exists():
        return None
    pairs, made_from = load_pairs(path)
    if identity is not None and made_from != json.loads(json.dumps(dict(identity))):
        return None
    return pairs


def making(stage: ReaderStage) -> dict[str, Any]:
    """The settings that pairs depend on."""
    return {f"reader.{name}": getattr(stage, name) for name in _MADE}


_MADE = ("pieces", "uses", "strangers", "shows", "background")


def _learning(stage: ReaderStage) -> dict[str, Any]:
    """The settings that decide the outcome, beside the pairs."""
    values = asdict(stage)
    return {f"reader.{name}": values[name] for name in values.keys() - {"pairs", *_MADE}}


def _digest(pairs: Pairs) -> str:
    """Tells sets of pairs apart."""
    found = hashlib.sha256(pairs.fingerprint.encode())
    for pair in (*pairs.training, *pairs.validation):
        found.update(pair.frames.numpy().tobytes())
    return found.hexdigest()[:16]
