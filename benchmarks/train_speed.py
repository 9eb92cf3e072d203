"""Triplets a second of the paper's recipe as ``visil train`` runs it: Lite0, W 64, one triplet a step, and eight.

    python benchmarks/train_speed.py VIDEOS OUT [--triplets N] [--device cuda]

Clips are strung together to fill W. The second epoch counts: by then frames and the vectors of whole videos are in
memory. OUT/speed.json is kept as results/train_speed.json, with the other machine's.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch

from shared.results import machine, write
from visil.training.recipes import RECIPES
from visil.training.run import train


def measured(videos: Path, out: Path, batch: int, triplets: int, device: str) -> dict[str, float]:
    """What the trainer's own log says of its second epoch."""
    recipe = RECIPES["paper"].on("efficientnet-lite0", None)
    recipe = recipe.with_settings(
        "paper, strung",
        data={"videos": (str(videos),), "triplets": triplets, "strings": 4, "without_hard": "nearest"},
        model={"dim": 384},
        optim={"epochs": 2, "batch": batch},
    )
    config = replace(recipe.config, out=str(out / f"batch-{batch}"), device=device)
    config = replace(config, data=replace(config.data, cache=str(out / "frames")))
    train(config, resume=False)
    last = json.loads((Path(config.out) / "log.jsonl").read_text("utf-8").splitlines()[-1])
    figures = {name: last[name] for name in ("triplets_per_second", "data_share")}
    return {"batch": batch, "W": config.data.window, "triplets": triplets, **figures}


def main() -> None:
    """Measure, and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("videos", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--triplets", type=int, default=200)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    speed = [measured(args.videos, args.out, batch, args.triplets, args.device) for batch in (1, 8)]
    write(args.out / "speed.json", {"machine": machine(), "speed": speed})


if __name__ == "__main__":
    main()
