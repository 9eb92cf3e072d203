"""The paper's ablation on our clips: Tables 3 and 4 and the curves for γ, r and W, each row trained and ranked.

    python benchmarks/ablation.py VIDEOS COPYSET... OUT [--weights FOLDER] [--rows NAME...] [--device cuda]
    python benchmarks/ablation.py VIDEOS COPYSET... OUT --speed

VIDEOS holds the training clips; those in folders named like a source of a COPYSET are left out. The backbone and the
whitening are frozen, so whatever does not learn is computed once for all rows: frames, mined negatives, the vectors
of transformed positives, the features of the copy sets. OUT/ablation.json is written after each row, and rows that
are in it are not run again; OUT/ablation.md holds the tables. ``--speed`` measures the plain trainer instead.
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

from shared.ablation_prepared import (
    BACKBONE,
    Epochs,
    Prepared,
    Settings,
    SharedEmbedder,
    started,
    triplet_sampler,
)
from shared.ablation_ranking import Judged, read_copies, some_queries
from shared.ablation_tables import markdown
from shared.copy_sets import CopySet
from shared.results import as_text, machine, write
from visil.compare.visil import ViSiL
from visil.edits.clips import PaperPositive
from visil.errors import UsageError, VisilError
from visil.files import replacing
from visil.paper.ablation import VARIANTS
from visil.training.cached_footage import CachedFootage
from visil.training.config import TrainConfig
from visil.training.dataset import Split, split
from visil.training.embedding import SnippetEmbedder
from visil.training.footage import RememberedFootage
from visil.training.trainer import Trainer
from visil.training.validation import Validation, edited_copies
from visil.training.videos import Batch, VideoObjective, video_trainer
from visil.video import is_video_path


def run_row(name: str, prepared: Prepared, sets: dict[str, Judged], out: Path) -> dict[str, Any]:
    """Train a row where there is something to train, keep its best epoch, rank the copy sets by it."""
    row, settings = VARIANTS[name], prepared.settings
    model = prepared.model(row)
    result: dict[str, Any] = {"model": model.config.name}
    begun = time.perf_counter()
    if row.trained:
        folder = out / "models" / name
        config = settings.training(row, folder, prepared.device)
        epochs = prepared.epochs(row)
        result["seconds for the positives' vectors"] = round(time.perf_counter() - begun, 1)
        begun = time.perf_counter()
        trainer = shared_trainer(config, model, prepared, epochs)
        outcome = trainer.run(resume=False)
        lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        result |= {
            "training": {
                "margin": config.loss.margin,
                "regularisation": config.loss.regularisation,
                "W": config.data.window,
                "lr": config.optim.lr,
                "epochs": config.optim.epochs,
            },
            "steps": outcome.steps,
            "best epoch": outcome.best_epoch,
            "validation mAP": {"start": outcome.start_map, "best": outcome.best_map},
            "triplets/s, vectors shared": round(_median(lines[1:], "triplets_per_second"), 1),
            "data share": round(_median(lines[1:], "data_share"), 4),
        }
        model = ViSiL.from_pretrained(folder).to(prepared.device)
    result["seconds of training"] = round(time.perf_counter() - begun, 1)
    begun = time.perf_counter()
    result["mAP"] = {label: judged.ranked(model) for label, judged in sets.items()}
    result["seconds of ranking"] = round(time.perf_counter() - begun, 1)
    return result


def shared_trainer(config: TrainConfig, model: ViSiL, prepared: Prepared, epochs: Epochs) -> Trainer[Batch]:
    """The product's trainer over shared vectors."""
    validation = Validation(
        SharedEmbedder(model, prepared.judge, prepared.judged), prepared.queries, prepared.database
    )
    embedder = SharedEmbedder(model, prepared.source, epochs.made)
    return video_trainer(
        VideoObjective(config, model, embedder, epochs, validation, related=prepared.related)
    )


def speed(data: Split, settings: Settings, weights: Path | None, out: Path, device: torch.device) -> None:
    """Triplets a second of the trainer as ``visil train`` runs it, W 64: its second epoch, with frames in memory."""
    row = VARIANTS["v"]
    window = settings.snippet(row)
    base = started(row.config(BACKBONE, settings.dim), data.training, weights, device)
    videos = len(data.training)
    negatives = [[other for other in range(videos) if other != video] for video in range(videos)]
    related = [frozenset((video,)) for video in range(videos)]
    sampler = triplet_sampler(settings, window, data.training, negatives, related)
    pictures = RememberedFootage(data.training)
    kept = out / "speed.json"
    found = json.loads(kept.read_text("utf-8"))["speed"] if kept.exists() else []
    for batch in (1, settings.batch):
        if any(line["batch"] == batch for line in found):
            continue
        config = replace(settings, batch=batch, epochs=2).training(row, out / f"speed-{batch}", device)
        judge = SnippetEmbedder(base, data.validation, PaperPositive())
        queries, database = edited_copies(data.validation, window, 1)
        embedder = SnippetEmbedder(base, pictures, PaperPositive())
        validation = Validation(judge, queries, database)
        video_trainer(VideoObjective(config, base, embedder, sampler, validation)).run(resume=False)
        last = json.loads((Path(config.out) / "log.jsonl").read_text().splitlines()[-1])
        figures = {name: last[name] for name in ("triplets_per_second", "data_share")}
        found.append({"batch": batch, "W": window, "triplets": settings.triplets, **figures})
        print(json.dumps(found[-1]), flush=True)
        write(kept, {"machine": machine(), "speed": found})


def read_training(videos: Path, aside: set[str], limit: int | None, cache: Path) -> Split:
    """Training clips, a fifth of them to choose the best epoch by; folders named in ``aside`` are left out."""
    files = sorted(p for p in videos.rglob("*") if is_video_path(p) and p.parent.name not in aside)
    if limit is not None:
        files = files[:: max(1, len(files) // limit)][:limit]
    if len(files) < 4:
        raise UsageError(f"{videos}: at least four training clips are needed, found {len(files)}")
    footage = CachedFootage(files, cache, VARIANTS["v"].preset.sampling)
    return split(footage, [], 0.2)


def kept(path: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """What an earlier run of the same settings left, or a fresh result."""
    if not path.exists():
        return {"settings": settings, "machine": machine(), "rows": {}}
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    if found["settings"] != settings:
        raise UsageError(f"{path}: has rows of other settings: choose another folder")
    return found


def write_both(result: dict[str, Any], out: Path) -> None:
    """Both files, whole or not at all."""
    for name, text in (("ablation.json", as_text(result)), ("ablation.md", markdown(result))):
        with replacing(out / name) as fresh:
            fresh.write_text(text + "\n", "utf-8")


def arguments() -> argparse.Namespace:
    """From the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("videos", type=Path)
    parser.add_argument("copysets", type=Path, nargs="+")
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", nargs="+", default=list(VARIANTS), choices=list(VARIANTS), metavar="NAME")
    parser.add_argument("--weights", type=Path, help="folder of backbone weights, where their package is not")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--distinct", type=int, default=4, help="epochs of triplets before they come again")
    parser.add_argument("--triplets", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3, help="the paper's 1e-5 needs its 100 epochs")
    parser.add_argument("--strings", type=int, default=4)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--window", type=int, help="W at most, for a try")
    parser.add_argument("--queries", type=int, help="so many of each copy set, for a try")
    parser.add_argument("--clips", type=int, help="so many training clips, for a try")
    parser.add_argument("--speed", action="store_true", help="only measure the plain trainer")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


def main() -> None:
    """Prepare once, then row by row."""
    args = arguments()
    begun = time.perf_counter()

    def tell(line: str) -> None:
        print(f"{time.perf_counter() - begun:6.1f} s  {line}", flush=True)

    args.out.mkdir(parents=True, exist_ok=True)
    device = torch.device(args.device)
    shared = {name: getattr(args, name) for name in Settings.__dataclass_fields__}
    settings = Settings(**shared)
    sources = {
        s for folder in args.copysets for s in json.loads((folder / "truth.json").read_text())["sources"]
    }
    cache = args.out / "frames"
    if args.speed:
        data = read_training(args.videos, sources, args.clips or 64, cache)
        speed(data, settings, args.weights, args.out, device)
        return
    tried = {
        "queries": args.queries,
        "clips": args.clips,
        "copysets": [f.name for f in args.copysets],
        "validation": "strung",
    }
    result = kept(args.out / "ablation.json", asdict(settings) | tried)
    data = read_training(args.videos, sources, args.clips, cache)
    tell(f"{len(data.training)} clips to learn from, {len(data.validation)} to validate on")
    prepared = Prepared(data, settings, args.weights, device)
    tell("whitened and mined")
    sets = {}
    for folder in args.copysets:
        copies = CopySet.read(folder)
        copies = copies if args.queries is None else some_queries(copies, args.queries)
        sets[folder.name] = read_copies(folder, copies, cache, prepared.base)
        tell(f"{folder.name}: {len(copies.queries)} queries, {len(copies.database)} in the database")
    for name in args.rows:
        if name in result["rows"]:
            continue
        result["rows"][name] = run_row(name, prepared, sets, args.out)
        write_both(result, args.out)
        tell(f"{name}: {json.dumps(result['rows'][name]['mAP'])}")


def _median(lines: Sequence[dict[str, Any]], name: str) -> float:
    return float(np.median([line[name] for line in lines]))


if __name__ == "__main__":
    try:
        main()
    except VisilError as error:
        raise SystemExit(f"error: {error}") from None
