"""Where the learned baselines get ViSiL's triplets from: footage in pictures or in features, and a run's settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from visil.compare.visil import ViSiL
from visil.files import make_folder
from visil.paper.baselines.triplets import SnippetTriplets
from visil.training.config import TrainConfig
from visil.training.dataset import Split, read_footage, triplet_sampler
from visil.training.distributed import Processes
from visil.training.run import embedder


def lesson(
    config: TrainConfig,
    model: ViSiL,
    data: Split | None = None,
    *,
    tell: Callable[[str], None] = lambda _: None,
) -> SnippetTriplets:
    """The triplets that ``visil train`` would draw under these settings, as features that ``model`` makes.

    ``data`` is what was read already, such as videos that are features; by default the videos of the settings. What
    mining finds is kept beside the frames, for all that reads these.
    """
    out = make_folder(config.out, "the folder of triplets")
    if data is None:
        cache = Path(config.data.cache) if config.data.cache is not None else out / "frames"
        data = read_footage(config.data, model.config.sampling, cache, tell)
    sampler, _ = triplet_sampler(config, model, data, Processes(device=model.device), anew=False)
    embed = embedder(config, model, data.training)
    return SnippetTriplets(sampler, embed, step=_step(data), epochs=config.optim.epochs)


def _step(data: Split) -> float:
    """Seconds from a frame to the next, in most videos."""
    gaps = [data.training.times(video).diff() for video in range(len(data.training))]
    known = torch.cat([some for some in gaps if len(some)] or [torch.ones(1)])
    return float(known.median())
