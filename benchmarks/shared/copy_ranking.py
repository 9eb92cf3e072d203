"""How well a model ranks the copy benchmark, from features: several ways to read a score off S_f, side by side.

A stepping stone between training and the product: ``levers.py`` chooses by it, ``copyset_model.py`` measures the
product itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shared.copy_sets import CopySet, reciprocal_ranks
from visil.kernels import Scorer
from visil.matching.localize import WALL, LocalizeConfig, Localizer, walled_spans
from visil.model.config import ViSiLConfig
from visil.model.formula import Formula

Matrix = NDArray[np.float32]
SLOPES = (0.75, 1.0, 1.33)
LONGEST = 4


def frame_matrices(
    config: ViSiLConfig, queries: Sequence[Tensor], database: Sequence[Tensor]
) -> list[tuple[Matrix, list[tuple[int, int]]]]:
    """For each query, S_f against the whole database side by side, walls between."""
    columns, spans = walled_spans([len(video) for video in database])
    together = torch.cat(list(database))
    scorer = Scorer(Formula(config.frame_pool, config.video_pool, config.symmetric), together.device)
    found = []
    for query in queries:
        values = scorer.frames(query, [together]).float().cpu().numpy()
        wide = np.full((len(query), columns), WALL, np.float32)
        at = 0
        for start, stop in spans:
            wide[:, start:stop] = values[:, at : at + stop - start]
            at += stop - start
        found.append((wide, spans))
    return found


def best_diagonal(wide: Matrix, spans: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """For each target, the highest mean over four frames (fewer, where a video has fewer) along a rising line."""
    scores = np.full(len(spans), -np.inf)
    for length in range(1, LONGEST + 1):
        usable = min(length, len(wide))
        best = np.full(wide.shape[1], WALL, np.float32)
        for slope in SLOPES:
            steps = [round(i * slope) for i in range(usable)]
            width = wide.shape[1] - steps[-1]
            rows = len(wide) - usable + 1
            if width < 1:
                continue
            total = sum(wide[i : i + rows, step : step + width] for i, step in enumerate(steps))
            best[:width] = np.maximum(best[:width], (np.asarray(total) / usable).max(axis=0))
        for i, (start, stop) in enumerate(spans):
            if min(LONGEST, stop - start) == length:
                scores[i] = best[start:stop].max()
    return scores


def strengths(wide: Matrix, spans: Sequence[tuple[int, int]], config: LocalizeConfig) -> NDArray[np.float64]:
    """For each target, the strength of the best stretch that the product's localiser finds."""
    localizer = Localizer(wide.shape[1], config)
    localizer.feed(wide)
    found = localizer.strongest(spans)
    return np.array([0.0 if path is None else path.strength(config) for path in found])


def chamfer(wide: Matrix, spans: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """CS(query, target): each query frame's best match, their mean."""
    return np.array([wide[:, start:stop].max(axis=1).mean() for start, stop in spans])


def chamfer_both(wide: Matrix, spans: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """The better of the two directions."""
    return np.array(
        [
            max(wide[:, start:stop].max(axis=1).mean(), wide[:, start:stop].max(axis=0).mean())
            for start, stop in spans
        ]
    )


def ways(threshold: float) -> dict[str, Callable[[Matrix, Sequence[tuple[int, int]]], NDArray[np.float64]]]:
    """How a score is read off S_f."""
    config = LocalizeConfig(threshold, min_gain=0.05, give_up=0.3, bend=0.1)
    return {
        "CS": chamfer,
        "CS, better direction": chamfer_both,
        "diagonal": best_diagonal,
        "stretch": lambda wide, spans: strengths(wide, spans, config),
    }


def report(
    config: ViSiLConfig,
    copies: CopySet,
    queries: Sequence[Tensor],
    database: Sequence[Tensor],
    thresholds: Sequence[float] = (0.3, 0.4, 0.5),
) -> dict[str, float]:
    """mAP of each half by each way, and by setting and edit for the diagonal."""
    wide = frame_matrices(config, queries, database)
    halves, settings = np.array(copies.halves), np.array(copies.settings)
    result: dict[str, float] = {}
    tried = dict(ways(thresholds[0]))
    del tried["stretch"]
    for threshold in thresholds:
        tried[f"stretch {threshold:g}"] = ways(threshold)["stretch"]
    for name, way in tried.items():
        ranks = reciprocal_ranks([way(*w) for w in wide], copies.truth)
        for half in ("easy", "hard"):
            result[f"{half}, {name}"] = round(float(ranks[halves == half].mean()), 4)
        if name == "diagonal":
            for setting in dict.fromkeys(copies.settings):
                result[f"{setting}"] = round(float(ranks[settings == setting].mean()), 4)
            easy = [(e[0], r) for e, r, h in zip(copies.edits, ranks, halves, strict=True) if h == "easy"]
            worst = {name: float(np.mean([r for e, r in easy if e == name])) for name in {e for e, _ in easy}}
            result["easy, worst edit"] = round(min(worst.values()), 4)
    scores = [best_diagonal(*w) for w in wide]
    relevant = np.array([own[t] for own, t in zip(scores, copies.truth, strict=True)])
    others = np.concatenate([np.delete(own, t) for own, t in zip(scores, copies.truth, strict=True)])
    for allowed in (1000, 10_000):
        bar = float(np.quantile(others, 1 - 1 / allowed))
        result[f"bar of 1 in {allowed:,} unrelated"] = round(bar, 4)
        for half in ("easy", "hard"):
            result[f"{half}, found at 1 in {allowed:,}"] = round(
                float((relevant > bar)[halves == half].mean()), 4
            )
    return result
