"""The paper's comparator (Table 1) and attention (Eq. 3) learned on the default model's features: do they score better?

    python benchmarks/comparator_on_top.py VIDEOS VALIDATION_COPYSET OUT --config CONFIG.yaml [--device cuda]
    python benchmarks/comparator_on_top.py VIDEOS VALIDATION_COPYSET OUT --config CONFIG.yaml --trained FOLDER

CONFIG is what ``visil train`` takes; it must leave the features as they are. VIDEOS holds the training clips; the copy
set's sources must not be among them. ``--trained`` judges a folder that such a run left, and learns nothing.
OUT/comparator.json holds the default model's rankings, by CS_v and by the product's evidence, and that of each run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import visil
from shared.copy_figures import figures
from shared.copy_sets import CopySet, embedded_set, ranked
from shared.results import machine, write
from visil.compare.visil import ViSiL
from visil.model.features import VideoFeatures
from visil.training.batch_similarity import VideoBatch, compare_all
from visil.training.config import TrainConfig
from visil.training.config_file import read_train_config
from visil.training.run import train


def trained(config: TrainConfig) -> dict[str, Any]:
    """Train, and say how it went."""
    begun = time.perf_counter()
    outcome = train(config)
    return {
        "epochs": config.optim.epochs,
        "steps": outcome.steps,
        "best epoch": outcome.best_epoch,
        "validation mAP": {"start": outcome.start_map, "best": outcome.best_map},
        "seconds": round(time.perf_counter() - begun, 1),
    }


@torch.inference_mode()
def by_network(
    model: ViSiL, copies: CopySet, queries: Sequence[VideoFeatures], database: Sequence[VideoFeatures]
) -> dict[str, Any]:
    """mAP by CS_v of a model with a comparator, attention or both, on features of one with neither."""
    weighed = model.attention or torch.nn.Identity()
    q, d = (
        VideoBatch.of([weighed(v.vectors.to(model.device).float()) for v in part])
        for part in (queries, database)
    )
    return figures(copies, compare_all(model, q, d).similarity.double().cpu().numpy())


def main() -> None:
    """Train where asked to, then rank by CS_v with and without the network, and as the product does."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("videos", type=Path)
    parser.add_argument("copyset", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--trained", type=Path, help="judge this model, learn nothing")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    config = read_train_config(args.config)
    config = replace(
        config,
        data=replace(config.data, videos=(str(args.videos),), cache=str(args.out / "frames")),
        optim=replace(config.optim, epochs=args.epochs or config.optim.epochs),
        out=str(args.trained or args.out / args.config.stem),
        device=args.device,
    )
    kept = args.out / "comparator.json"
    found: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {"runs": {}}
    base = visil.load().to(args.device)
    copies, database, queries = embedded_set(base, args.copyset, args.out / "features")
    if "default model" not in found:
        scores = ranked(base, queries, database)
        found["default model"] = {way: figures(copies, np.array(rows)) for way, rows in scores.items()}
    run: dict[str, Any] = {"machine": machine(), "loss": asdict(config.loss)}
    run |= trained(config) if args.trained is None else {}
    model = ViSiL.from_pretrained(config.out).to(args.device)
    run["CS_v with the network"] = by_network(model, copies, queries, database)
    found["runs"][args.config.stem] = run
    write(kept, found)
    for name, line in {**found["default model"], args.config.stem: run["CS_v with the network"]}.items():
        print(name, json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
