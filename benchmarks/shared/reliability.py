"""Whether confidence means what it says: the share of pairs that share footage by confidence, and a picture of it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

Bins = list[dict[str, float]]
EDGES = (0, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 1.0001)
FEW = (0, 0.1, 0.5, 0.9, 1.0001)
"""Where pairs are few."""


def reliability(
    values: NDArray[np.float64], related: NDArray[np.bool_], edges: tuple[float, ...] = EDGES
) -> Bins:
    """Mean confidence against the share that is related, with both kinds weighing the same in all."""
    weight = np.where(related, 0.5 / max(related.sum(), 1), 0.5 / max((~related).sum(), 1))
    bins = []
    for low, high in pairwise(edges):
        inside = (values >= low) & (values < high)
        if inside.any():
            mass = weight[inside].sum()
            bins.append(
                {
                    "from": low,
                    "pairs": int(inside.sum()),
                    "confidence": float((values * weight)[inside].sum() / mass),
                    "related": float((related * weight)[inside].sum() / mass),
                }
            )
    return bins


def draw(panels: Mapping[str, Bins], path: Path, title: str, columns: int = 5) -> None:
    """Reliability diagrams side by side, one for each name."""
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    alone = len(panels) == 1
    size = (5.0, 4.6) if alone else (2.5 * columns, 2.6 * rows)
    figure = Figure(size, layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for unused in axes[len(panels) :]:
        unused.axis("off")
    for one, (name, bins) in zip(axes, panels.items(), strict=False):
        one.plot([0, 1], [0, 1], color="0.75", linewidth=1)
        one.plot(
            [b["confidence"] for b in bins], [b["related"] for b in bins], "o-", color="#0072b2", markersize=4
        )
        for b in bins:
            place = (b["confidence"], b["related"])
            one.annotate(f"{b['pairs']:.0f}", place, (5, -9), textcoords="offset points", fontsize=7)
        one.set(xlim=(-0.05, 1.05), ylim=(-0.05, 1.05))
        if not alone:
            one.set_title(name, fontsize=9)
    figure.supxlabel("confidence", fontsize=10)
    figure.supylabel("share of pairs that share footage", fontsize=10)
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=110 if alone else 70)
