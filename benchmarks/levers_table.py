"""The rows that ``levers.py`` left as one table: what each changes, before and after, and how far from the base.

    python benchmarks/levers_table.py OUT/levers.jsonl VALIDATION_COPYSET [--to benchmarks/results/levers.json]

Ranked by the best diagonal, which has no threshold that suits one row better than another. The error of a difference
is over queries, pair by pair: both rows rank the same ones.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.copy_sets import CopySet
from shared.levers_rows import ROWS
from shared.results import write

SHOWN = ("easy", "hard", "buried", "picture-in-picture", "split-screen")


def changed(name: str) -> dict[str, Any]:
    """What a row has that the base has not."""
    own, base = ({**asdict(r.config), **asdict(r.stage)} for r in (ROWS[name], ROWS["base"]))
    return {key: value for key, value in own.items() if value != base[key]}


def line(row: dict[str, Any], base: NDArray[np.float64], hard: NDArray[np.bool_]) -> dict[str, Any]:
    """One row without its log; the hard half's difference from the base, and its standard error."""
    ranks = np.array(row["after"]["1/rank"])[hard]
    apart = ranks - base
    parts = {when: {k: v for k, v in row[when].items() if k != "1/rank"} for when in ("before", "after")}
    return {
        "row": row["row"],
        "changed": changed(row["row"]),
        "steps": row["steps"],
        "seed": row["seed"],
        "goes on from": row.get("start"),
        "side": row.get("side"),
        **parts,
        "hard, error": _error(ranks),
        "hard, beside base": round(float(apart.mean()), 4),
        "hard, error beside base": _error(apart),
        **{
            k: {a: b for a, b in v.items() if a != "1/rank"}
            for k, v in row.items()
            if k.startswith("read by")
        },
    }


def markdown(lines: list[dict[str, Any]]) -> str:
    """Best first."""
    parts = [f"| row | {' | '.join(SHOWN)} | hard, beside the base |", "|---|" + "---|" * (len(SHOWN) + 1)]
    for entry in sorted(lines, key=lambda e: -e["after"]["hard, diagonal"]):
        after = entry["after"]
        values = [f"{after.get(k, after.get(f'{k}, diagonal')):.3f}" for k in SHOWN]
        beside = f"{entry['hard, beside base']:+.3f} ± {entry['hard, error beside base']:.3f}"
        parts.append(
            f"| {entry['row']} | {' | '.join(values)} | {'' if entry['row'] == 'base' else beside} |"
        )
    return "\n".join(parts)


def main() -> None:
    """Read, compare with the base, write, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", type=Path)
    parser.add_argument("copyset", type=Path)
    parser.add_argument("--to", type=Path)
    args = parser.parse_args()
    rows = [json.loads(text) for text in args.rows.read_text("utf-8").splitlines()]
    hard = np.array(CopySet.read(args.copyset).halves) == "hard"
    base = next(np.array(row["after"]["1/rank"])[hard] for row in rows if row["row"] == "base")
    lines = [line(row, base, hard) for row in rows]
    if args.to is not None:
        write(args.to, lines)
    print(markdown(lines))


def _error(values: NDArray[np.float64]) -> float:
    return round(float(values.std(ddof=1) / len(values) ** 0.5), 4)


if __name__ == "__main__":
    main()
