"""Figure 4: pairs that rank high although the annotation says they have nothing to do with each other.

In the paper these are mistakes of the annotation, seen by looking at them; here they are put where they can be looked
at. On the built-in benchmark, whose truth is known, they are mistakes of the system.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from visil.errors import UsageError
from visil.evaluation.benchmark import RankedTargets
from visil.paper.figures import duplicates_of, short, strip
from visil.paper.tables import MadeRow, MadeTable
from visil.paper.workbench import Workbench
from visil.plots.panels import INK

SHOWN = 6


def make_mistakes(bench: Workbench, system: str = "model") -> tuple[MadeTable, Figure]:
    """The pairs that the system finds most alike of those that are not duplicates by the truth, one a query."""
    pairs = unannotated(bench, system)[:SHOWN]
    if not pairs:
        raise UsageError(
            "every pair of this benchmark is annotated as a duplicate: there is no mistake to show"
        )
    rows = [
        MadeRow(f"{query}, {target}", {"score": score, "rank": str(rank)}, {})
        for score, rank, query, target in pairs
    ]
    figure = Figure((7.4, 0.5 + 1.5 * len(pairs)), facecolor="white", layout="constrained")
    for axes, (score, rank, query, target) in zip(
        figure.subplots(len(pairs), 2, squeeze=False), pairs, strict=True
    ):
        for panel, name in zip(axes, (query, target), strict=True):
            frames = strip(bench, name)
            if frames is not None:
                panel.imshow(frames, aspect="equal")
            panel.set_axis_off()
        axes[0].set_title(short(query), fontsize=7.5, color=INK, loc="left")
        axes[1].set_title(
            f"{short(target)}: score {score:.3f}, rank {rank}", fontsize=7.5, color=INK, loc="left"
        )
    title = f"Not duplicates by the annotation, yet alike to {system}"
    figure.suptitle(title, fontsize=10.5, color=INK, x=0.01, ha="left")
    note = "Pairs that share a scene but no footage are among them where the truth knows only footage."
    table = MadeTable(
        "mistakes", title, bench.videos.described, "FIVR-200K", ["score", "rank"], [], rows, note
    )
    return table, figure


def unannotated(bench: Workbench, system: str) -> list[tuple[float, int, str, str]]:
    """(score, rank, query, target) of each query's highest target that is no duplicate, highest scores first."""
    benchmark = bench.videos.benchmark
    bench.prepare({system: None})
    database = frozenset(bench.bank.readable(sorted(benchmark.database)))
    found = []
    for query, row in bench.predictions(system).scores.items():
        ranked = RankedTargets(row, database, but=query)
        wrong = np.flatnonzero(~ranked.flags(duplicates_of(benchmark, query)))
        if len(wrong):
            best = wrong[np.argmax(ranked.values[wrong])]
            rank = int((ranked.values > ranked.values[best]).sum()) + 1
            found.append((float(ranked.values[best]), rank, query, ranked.targets[best]))
    return sorted(found, key=lambda pair: (-pair[0], pair[2]))
