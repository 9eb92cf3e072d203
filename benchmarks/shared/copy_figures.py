"""What a ranking of a copy set comes to: by halves, by settings, among look-alikes, and at a bar for strangers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.copy_sets import CopySet, reciprocal_ranks


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
    rows = np.arange(len(scores))
    relevant, strangers = scores[rows, copies.truth], np.ones_like(scores, bool)
    strangers[rows, copies.truth] = False
    for allowed in (1000, 10_000):
        bar = np.quantile(scores[strangers], 1 - 1 / allowed)
        for half in dict.fromkeys(copies.halves):
            found[f"{half}, found at 1 in {allowed:,}"] = _mean(relevant[halves == half] > bar)
    return found


def _mean(values: NDArray[np.float64] | NDArray[np.bool_]) -> float:
    return round(float(values.mean()), 4)
