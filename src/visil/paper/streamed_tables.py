"""Many systems of a table in one pass over a data set that keeps no features (:mod:`visil.evaluation.streaming`)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visil.evaluation.predictions import Predictions
from visil.evaluation.streaming import ByKind, Passer, ScoreLog, Streamed, stream_scores
from visil.machine.processor import usable_cores
from visil.model.features import VideoFeatures
from visil.paper.baselines.lbow import LBoW
from visil.paper.baselines.system import ComparedSystem
from visil.paper.feature_bank import AllKinds, FeatureBank, NamedVideo
from visil.paper.feature_kinds import split_kind
from visil.progress import Counted
from visil.training.lbow import Bag


def streamable(made: ComparedSystem[Any]) -> bool:
    """Whether a system can score videos as they pass: it looks at two at once, or keeps little of each."""
    return not made.collection_wide or isinstance(made, LBoW)


def stream_systems(
    systems: Mapping[str, ComparedSystem[Any]],
    bank: FeatureBank,
    folder: Path,
    keep: Callable[[str, Predictions], None],
    progress: Counted | None = None,
) -> None:
    """Score taught systems, each under the digest of all that it depends on, under which ``keep`` takes the scores.

    Of videos that cannot be read the bank knows from then on.
    """
    benchmark = bank.videos.benchmark
    here = set(bank.ids)
    queries = [query for query in benchmark.queries if query in here]
    name = hashlib.sha256("\n".join(sorted(systems)).encode()).hexdigest()[:16]
    bases = tuple(dict.fromkeys(split_kind(made.reads)[0] for made in systems.values()))
    passer = Passer(
        AllKinds(bank.networks.maker(bases), bank.videos),
        bases,
        lambda video, writers: NamedVideo(video, dict(writers)),
        usable_cores(),
    )
    streamed = {digest: _streamed(made, bank) for digest, made in systems.items()}
    targets = bank.readable(sorted(benchmark.database))
    told = None if progress is None else lambda done, total, _: progress(done, total, "")
    with ScoreLog(folder / name, {"systems": sorted(systems)}, queries) as log:
        at_once = stream_scores(streamed, targets, passer, log, told)
        for video, reason in log.failed.items():
            bank.left_out(video, bank.videos.file(video)[0], reason)
        for digest in systems:
            keep(digest, at_once.get(digest) or log.predictions(digest))


def _streamed(made: ComparedSystem[Any], bank: FeatureBank) -> Streamed:
    features = partial(_features, bank, made.reads)
    if isinstance(made, LBoW):
        return Streamed(made, features, _packed, _unpacked)
    return Streamed(made, features)


def _features(bank: FeatureBank, kind: str, made: ByKind) -> VideoFeatures:
    found = made[split_kind(kind)[0]]
    plain = VideoFeatures(found.vectors.float(), found.timestamps, None, found.path, found.blank)
    return bank.finished(plain, kind)


def _packed(bag: Bag) -> list[int]:
    return [*bag.words.tolist(), *bag.counts.tolist()]


def _unpacked(numbers: NDArray[np.int64]) -> Bag:
    half = len(numbers) // 2
    return Bag(numbers[:half], numbers[half:])
