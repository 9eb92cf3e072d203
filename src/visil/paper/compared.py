"""One system on one benchmark: learned, every video described once, every query scored."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from visil.evaluation.benchmark import Figures
from visil.evaluation.predictions import Predictions, QueryScores, read_predictions, write_predictions
from visil.paper.baselines.expansion import QE
from visil.paper.baselines.lbow_system import LBoW
from visil.paper.baselines.system import System
from visil.paper.feature_bank import FeatureBank

BLOCK_FRAMES = 1 << 14
"""Frames of the database that are described at once; systems that weigh the whole collection see all of it."""

OnTargets = Callable[[int, int], None]
"""Called with the videos of the database that are done, and all."""


def score_system(
    system: System[Any], bank: FeatureBank, *, seed: int = 0, progress: OnTargets | None = None
) -> Predictions:
    """Scores of every query with all that counts for it."""
    benchmark = bank.videos.benchmark
    bank.prepare([system.reads])
    if learns(system):
        system.learn(bank.to_learn(system.reads), seed=seed)
    queries = bank.readable(benchmark.queries)
    described = {query: system.describe(bank.features(query, system.reads)) for query in queries}
    wanted = {query: frozenset(benchmark.candidates(query)) for query in queries}
    targets = bank.readable(sorted(frozenset().union(*wanted.values())))
    names: dict[str, list[str]] = {query: [] for query in queries}
    values: dict[str, list[np.typing.NDArray[np.float64]]] = {query: [] for query in queries}
    done = 0
    for block in _blocks(system, bank, targets):
        for query in queries:
            own = [(name, description) for name, description in block if name in wanted[query]]
            if own:
                names[query] += [name for name, _ in own]
                values[query].append(system.scores(described[query], [d for _, d in own]))
        done += len(block)
        if progress is not None:
            progress(done, len(targets))
    return Predictions(
        {
            query: QueryScores(names[query], np.concatenate(values[query]))
            for query in queries
            if values[query]
        }
    )


def kept_scores(
    system: System[Any],
    bank: FeatureBank,
    folder: Path,
    of: str,
    *,
    seed: int = 0,
    progress: OnTargets | None = None,
) -> Predictions:
    """:func:`score_system`, or what it gave before: kept in ``folder`` under what it was computed from.

    ``of`` says what the system is beyond its name and features, such as how it was trained.
    """
    path = folder / f"{_digest(system, bank, of, seed)}.json"
    if path.exists():
        return read_predictions(path)
    found = score_system(system, bank, seed=seed, progress=progress)
    folder.mkdir(parents=True, exist_ok=True)
    write_predictions(path, found)
    return found


def judge(bank: FeatureBank, predictions: Predictions) -> Figures:
    """The benchmark's figures; videos that could not be had are left out of the truth."""
    return bank.videos.benchmark.evaluate(predictions.scores, frozenset(bank.readable(bank.ids)))


def learns(system: System[Any]) -> bool:
    """Whether ``learn`` does anything."""
    from visil.paper.baselines.frame_features import FrameFeatures
    from visil.paper.baselines.visil_systems import ViSiLSystem
    from visil.paper.short_training import Refined

    return not isinstance(system, FrameFeatures | ViSiLSystem | Refined)


def _blocks(
    system: System[Any], bank: FeatureBank, targets: Sequence[str]
) -> Iterator[list[tuple[str, Any]]]:
    whole = isinstance(system, LBoW | QE)
    block: list[tuple[str, Any]] = []
    frames = 0
    for name in targets:
        features = bank.features(name, system.reads)
        if block and not whole and frames + len(features) > BLOCK_FRAMES:
            yield block
            block, frames = [], 0
        block.append((name, system.describe(features)))
        frames += len(features)
    if block:
        yield block


def _digest(system: System[Any], bank: FeatureBank, of: str, seed: int) -> str:
    base = system.reads.partition("+")[0]
    text = [system.name, system.reads, of, str(seed), bank.networks.key(base)]
    text += [f"{name} {bank.videos.key(name)}" for name in bank.ids]
    return hashlib.sha256("\n".join(text).encode("utf-8", "surrogateescape")).hexdigest()[:32]
