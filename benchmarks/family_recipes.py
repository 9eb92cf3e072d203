"""The recipes of ViSiL's family on our clips: learned from training sources, judged on validation sources.

    python benchmarks/family_recipes.py DATA OUT [--clips 64] [--epochs 4] [--triplets 48]

Every recipe learns for the same few minutes from the same clips, on the same backbone; the students' teacher is the
default model. Judged is how well an edited copy of each validation clip finds its clip: by the paper's edits, and by
heavy ones, the same copies for every model. OUT/NAME holds the trained models, which are not trained again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

import visil
from shared.footage_split import Split, items
from shared.results import keep
from visil.compare.visil import ViSiL
from visil.edits.clips import Heavy, PaperPositive, PictureTransform
from visil.training.cached_footage import CachedFootage
from visil.training.config import TrainConfig
from visil.training.embedding import SnippetEmbedder
from visil.training.recipes import recipe_called
from visil.training.run import train
from visil.training.validation import Validation, edited_copies

RECIPES = ("paper", "s2vs", "dns-small", "dns-binary")
BACKBONE = "efficientnet-lite0"
WINDOW = 16
SEED = 1
"""Of the copies that all are judged by."""


def chosen(data: Path, split: Split, count: int) -> list[str]:
    """Clips of a split, spread evenly over its sources."""
    files = [str(data / item.file) for item in items(data, "clips", split)]
    return [files[i] for i in np.unique(np.linspace(0, len(files) - 1, count).round().astype(int))]


def settings(name: str, videos: Sequence[str], out: Path, args: argparse.Namespace) -> TrainConfig:
    """A recipe for minutes: its own loss and model, few triplets at a higher rate."""
    config = recipe_called(name).on(BACKBONE, None).config
    return replace(
        config,
        data=replace(
            config.data,
            videos=tuple(videos),
            window=WINDOW,
            triplets=args.triplets,
            held_out=0.2,
            without_hard="nearest",
            cache=str(out / "frames"),
        ),
        optim=replace(config.optim, epochs=args.epochs, batch=16, lr=1e-3, warmup=0, schedule="constant"),
        out=str(out / name),
        device="cpu",
    )


@torch.no_grad()
def judged(model: ViSiL, videos: Sequence[str], cache: Path) -> dict[str, float]:
    """mAP of edited copies, by kind of edit."""
    footage = CachedFootage(videos, cache, model.config.sampling)
    copies = edited_copies(footage, WINDOW, SEED)
    kinds: dict[str, PictureTransform] = {"paper's edits": PaperPositive(), "heavy edits": Heavy()}
    return {
        kind: Validation(SnippetEmbedder(model, footage, edits), *copies).mean_average_precision()
        for kind, edits in kinds.items()
    }


def kept_bytes(model: ViSiL) -> int:
    """Of a frame's features in half precision; of a binary model's, in bits."""
    regions = sum(level**2 for level in model.config.levels)
    channels = model.dim
    return regions * (channels // 8 + 2 if model.config.attention == "binary" else 2 * channels)


def main() -> None:
    """Train each recipe that is not there yet, and judge all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--clips", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--triplets", type=int, default=48)
    args = parser.parse_args()
    learned, held = (chosen(args.data, split, args.clips) for split in ("train", "validation"))
    rows: list[dict[str, object]] = []
    for name in ("default", *RECIPES):
        begun = time.process_time()
        folder = args.out / name
        if name == "default":
            model = visil.load()
        else:
            if not (folder / "config.json").exists():
                train(settings(name, learned, args.out, args))
            model = ViSiL.from_pretrained(folder)
        taught = time.process_time() - begun
        row = {
            "model": name,
            **judged(model.eval(), held, args.out / "frames"),
            "bytes of a frame": kept_bytes(model),
            "CPU seconds to learn": round(taught),
        }
        rows.append(row)
        print(row, flush=True)
    keep("family", {"clips": {"learned": len(learned), "judged": len(held)}, "rows": rows})


if __name__ == "__main__":
    main()
