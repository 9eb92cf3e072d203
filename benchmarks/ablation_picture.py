"""The three curves of the paper's supplementary, on our clips, as a picture.

python benchmarks/ablation_picture.py benchmarks/results/ablation.json docs/ablation.png
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from visil.paper.ablation import CURVES, TABLES


def draw(rows: dict[str, Any], path: Path) -> None:
    """mAP over all queries, with its standard error, and of the halves."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.4), layout="constrained")
    for number, (axes, curve) in enumerate(
        zip(figure.subplots(1, 3, sharey=True), CURVES.values(), strict=True)
    ):
        points = {label: rows[name] for label, name in TABLES[curve.title].items() if name in rows}
        found = [next(iter(row["mAP"].values())) for row in points.values()]
        places = range(len(points))
        axes.errorbar(
            places, [f["all"] for f in found], [f["error"] for f in found], fmt="o-", capsize=3, label="all"
        )
        for half, style in (("easy", "s--"), ("hard", "^--")):
            axes.plot(places, [f[half] for f in found], style, alpha=0.6, label=half)
        axes.set(xticks=list(places), xticklabels=list(points), xlabel=curve.sign, ylim=(0, 1.05))
        axes.grid(alpha=0.3)
        if number == 0:
            axes.set_ylabel("mAP by CS_v")
            axes.legend(frameon=False, fontsize=8, ncols=3, loc=(0.05, 0.36))
    figure.savefig(path, dpi=110)


def main() -> None:
    """Read and draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("result", type=Path)
    parser.add_argument("picture", type=Path)
    args = parser.parse_args()
    draw(json.loads(args.result.read_text("utf-8"))["rows"], args.picture)


if __name__ == "__main__":
    main()
