"""The paper's ablation on our clips: Tables 3 and 4 and Figure 5 by ``visil tables``, rows trained side by side.

    python benchmarks/joined_clips.py DATA SETS
    python benchmarks/ablation.py SETS OUT [--seeds 2] [--at-once 16] [--seconds 220] [--device cuda]

What is reported is what these commands print, one for each seed, with the numbers that OUT/ablation.json has under
"settings":

    visil tables table-3 table-4 figure-5 --dataset fivr-5k --annotations SETS/fivr/annotation.json \\
        --ids SETS/fivr/ids.json --videos SETS/fivr/videos --training SETS/vcdb \\
        --training-annotations SETS/vcdb/annotation --backbone efficientnet-lite0 --epochs 1 --triplets T --lr RATE \\
        --seed S --out OUT

One after the other its rows would take as many times as long, so the same command is first run for single rows, several
at once into the same OUT, where the models stay. A short trial before them trains ViSiL_v at some rates, as many at
once: the rate with the lowest loss is taken, and as many triplets as fit into ``--seconds``. They are one epoch, so
that none has to be chosen: of the few videos that are held out, ViSiL_f+W already finds all. The second seed is that
of the rows of Tables 3 and 4 alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from shared.results import machine, write
from visil.paper.ablation import CURVES

RATES = (1e-3, 3e-4, 1e-4)
ROWS = ("ViSiL_f+W+A", "ViSiL_sym", "ViSiL_v")


class Command:
    """``visil tables`` on the two data sets."""

    def __init__(self, sets: Path, out: Path, device: str) -> None:
        fivr, vcdb = sets / "fivr", sets / "vcdb"
        self.out, self.device = out, device
        self.words = (
            *("--dataset", "fivr-5k", "--annotations", fivr / "annotation.json", "--ids", fivr / "ids.json"),
            *("--videos", fivr / "videos", "--training", vcdb, "--training-annotations", vcdb / "annotation"),
            *("--backbone", "efficientnet-lite0", "--device", device, "--json"),
        )

    def run(self, *words: object, limit: float | None = None) -> dict[str, Any] | None:
        """What the command answers; None, and a line that says why, where it fails or takes too long."""
        line = [str(word) for word in (*words, *self.words, "--out", self.out)]
        begun = time.monotonic()
        called = " ".join(map(str, words))
        try:
            done = subprocess.run(
                [sys.executable, "-m", "visil", "tables", *line],
                capture_output=True,
                text=True,
                timeout=limit,
            )
        except subprocess.TimeoutExpired:
            print(f"{called}: not done after {limit:.0f} s", flush=True)
            return None
        took = f"{time.monotonic() - begun:.0f} s"
        if done.returncode:
            print(f"{called}: {took}, failed: {done.stderr.strip()[-600:]}", flush=True)
            return None
        print(f"{called}: {took}", flush=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def together(self, lines: Sequence[Sequence[object]], at_once: int, limit: float) -> dict[str, Any]:
        """Many of them, so many at once; the rows that each answers."""
        with ThreadPoolExecutor(at_once) as pool:
            found = list(pool.map(lambda words: self.run(*words, limit=limit), lines))
        return {
            " ".join(map(str, words)): answer["tables"][0]["rows"]
            for words, answer in zip(lines, found, strict=True)
            if answer is not None
        }

    def logs(self) -> dict[str, list[dict[str, Any]]]:
        """What each training wrote down: a line before the first epoch, and one after each."""
        files = sorted((self.out / "models").glob("*/log.jsonl"))
        return {
            file.parent.name: [json.loads(line) for line in file.read_text("utf-8").splitlines()]
            for file in files
        }


def tried(
    command: Command, at_once: int, triplets: int, seeds: int, limit: float
) -> tuple[float, float, dict[str, Any]]:
    """The rate that lowers the loss most in one short epoch, all triplets a second together, and all figures."""
    lines = [
        (
            "table-3",
            "--systems",
            "ViSiL_v",
            "--epochs",
            1,
            "--triplets",
            triplets,
            "--lr",
            rate,
            "--seed",
            seed,
        )
        for rate in RATES
        for seed in range(100, 100 + seeds)
    ]
    command.together(lines, at_once, limit)
    ends = [log[-1] for log in command.logs().values() if log and "triplets_per_second" in log[-1]]
    last = [one for one in ends if any(np.isclose(one["lr"], rate) for rate in RATES)]
    losses = {rate: [one["loss"] for one in last if np.isclose(one["lr"], rate)] for rate in RATES}
    means = {rate: float(np.mean(own)) for rate, own in losses.items() if own}
    if not means:
        sys.exit("the trial has no result")
    speed = sum(one["triplets_per_second"] for one in last) / len(last) * min(at_once, len(lines))
    figures = {
        "triplets of a pool": triplets,
        "loss by rate": {f"{rate:g}": own for rate, own in losses.items()},
        "triplets a second, all at once": speed,
        "at once": min(at_once, len(lines)),
    }
    return min(means, key=lambda rate: means[rate]), speed, figures


def rows(seeds: int, changed: Sequence[object]) -> list[tuple[object, ...]]:
    """The commands that train one row each: those of the tables first."""
    found: list[tuple[object, ...]] = []
    for seed in range(seeds):
        own = (*changed, "--seed", seed)
        found += [("table-3", "--systems", row, *own) for row in ROWS]
        found += [("table-4", "--systems", "without L_reg", *own)]
    for name, curve in CURVES.items():
        for value in curve.values:
            if (curve.setting, value) not in (("margin", 0.5), ("regularisation", 0.1), ("window", 64)):
                found.append((name, "--values", f"{value:g}", *changed, "--seed", 0))
    return found


def main() -> None:
    """Try, train, and put the tables together."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--triplets", type=int, default=None, help="of each pool; else as many as fit")
    parser.add_argument("--trial", type=int, default=250, help="the same of the trial")
    parser.add_argument("--trial-seeds", type=int, default=4, help="of each rate")
    parser.add_argument("--at-once", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=220, help="for all trainings")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    command = Command(args.sets, args.out, args.device)
    limit = args.seconds
    prepared = [word for row in ("ViSiL_f", "ViSiL_f+W", "ViSiL_f+W+A") for word in ("--systems", row)]
    command.run("table-3", *prepared, "--epochs", 1, "--triplets", 4, limit=limit)  # decodes, embeds, whitens
    rate, speed, trial = tried(command, args.at_once, args.trial, args.trial_seeds, limit)
    planned = len(rows(args.seeds, ()))
    triplets = args.triplets or max(10, int(speed * args.seconds / planned / 2) // 10 * 10)
    print(f"rate {rate:g}, {triplets} triplets a pool: {speed:.0f}/s, {planned} rows", flush=True)
    changed = ("--epochs", 1, "--triplets", triplets, "--lr", rate)
    before = set(command.logs())
    begun = time.monotonic()
    alone = command.together(rows(args.seeds, changed), args.at_once, 1.4 * limit + 30)
    result: dict[str, Any] = {
        "machine": machine(),
        "settings": {
            "epochs": 1,
            "triplets": triplets,
            "lr": rate,
            "backbone": "efficientnet-lite0",
        },
        "trial": trial,
        "seconds of all trainings": time.monotonic() - begun,
        "at once": args.at_once,
        "training": {name: log for name, log in command.logs().items() if name not in before},
        "tables": {},
    }
    write(args.out / "ablation.json", result | {"rows by themselves": alone})
    for seed in range(args.seeds):
        names = ("table-3", "table-4") if seed else ("table-3", "table-4", "figure-5")
        found = command.run(*names, *changed, "--seed", seed, limit=120)
        for table in found["tables"] if found else ():
            kept = {name: table[name] for name in ("on", "note", "rows") if name in table}
            result["tables"][f"{table['name']}, seed {seed}"] = kept
    whole = len(result["tables"]) == 2 * args.seeds + len(CURVES)
    write(args.out / "ablation.json", result if whole else result | {"rows by themselves": alone})


if __name__ == "__main__":
    main()
