"""Ranking a copy set by CS_v alone, for rows that share a frozen backbone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shared.ablation_prepared import on_device
from shared.copy_sets import CopySet, reciprocal_ranks
from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.training.batch_similarity import VideoBatch, compare_all
from visil.training.cached_footage import CachedFootage


@dataclass(frozen=True)
class Judged:
    """A copy set with the frozen backbone's region vectors of its files, on the device."""

    copies: CopySet
    queries: list[Tensor]
    database: list[Tensor]

    @torch.inference_mode()
    def ranked(self, model: ViSiL) -> dict[str, Any]:
        """mAP by the paper's own score, CS_v of query and target."""
        queries, database = (
            VideoBatch.of([model.refine(vectors) for vectors in part])
            for part in (self.queries, self.database)
        )
        scores = compare_all(model, queries, database).similarity.double().cpu().numpy()
        return figures(self.copies, scores)


def figures(copies: CopySet, scores: NDArray[np.float64]) -> dict[str, Any]:
    """mAP of the halves and the settings; "look-alikes": the right answer among the clips of its own source alone."""
    ranks = reciprocal_ranks(list(scores), copies.truth)
    sources = np.array([name.split("-")[0] for name in copies.database])
    own = sources[None] == sources[copies.truth][:, None]
    alike = reciprocal_ranks(list(np.where(own, scores, -np.inf)), copies.truth)
    halves, settings = np.array(copies.halves), np.array(copies.settings)
    found: dict[str, Any] = {half: _mean(ranks[halves == half]) for half in dict.fromkeys(copies.halves)}
    found |= {"all": _mean(ranks), "error": round(float(ranks.std() / len(ranks) ** 0.5), 4)}
    found |= {"look-alikes": _mean(alike)}
    found |= {f"hard, {s}": _mean(ranks[settings == s]) for s in dict.fromkeys(settings[halves == "hard"])}
    return found


def some_queries(copies: CopySet, count: int) -> CopySet:
    """``count`` queries spread evenly over the set."""
    kept = np.linspace(0, len(copies.queries) - 1, min(count, len(copies.queries))).round().astype(int)
    chosen = {
        name: [getattr(copies, name)[i] for i in kept]
        for name in ("queries", "truth", "halves", "settings", "edits")
    }
    return replace(copies, **chosen)


@torch.inference_mode()
def read_copies(folder: Path, copies: CopySet, cache: Path, model: ViSiL) -> Judged:
    """Decode a copy set and take it through the frozen backbone."""
    folder = folder.absolute()
    names = [folder / "database" / n for n in copies.database] + [
        folder / "queries" / n for n in copies.queries
    ]
    footage = CachedFootage(names, cache, model.config.sampling)
    if footage.names != [str(name) for name in names]:
        raise UsageError(f"{folder}: not all files could be read: {[*footage.failed, *footage.copies][:1]}")
    videos = on_device(footage, model.device)
    lengths = [len(videos.times(video)) for video in range(len(videos))]
    frames = torch.cat([videos.images(video, range(length)) for video, length in enumerate(lengths)])
    vectors = torch.cat([model.region_vectors(some).float() for some in frames.split(256)]).split(lengths)
    count = len(copies.database)
    return Judged(copies, list(vectors[count:]), list(vectors[:count]))


def _mean(values: NDArray[np.float64]) -> float:
    return round(float(values.mean()), 4)
