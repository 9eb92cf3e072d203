"""How the product ranks the copy benchmark: every file embedded, every query compared with the whole database.

    python benchmarks/copyset_model.py COPYSET FEATURES --model MODEL --out benchmarks/results/copyset.json

FEATURES is a folder where embedded files are kept; SCORES, where asked for, is what ``score_copyset.py`` reads. The
ranking is the product's: by ``evidence``, the logit of the confidence, as ``visil search --exhaustive`` does.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

import visil
from copy_ranking import CopySet, reciprocal_ranks, report
from machine import machine
from visil.collection.background import Background


def embedded(model: visil.ViSiL, files: Sequence[Path], folder: Path) -> list[visil.VideoFeatures]:
    """Features of files, made once for each model."""
    folder = folder / model.fingerprint() / files[0].absolute().parents[1].name
    folder.mkdir(parents=True, exist_ok=True)

    def one(file: Path) -> visil.VideoFeatures:
        kept = folder / f"{file.parent.name}-{file.stem}.safetensors"
        if not kept.exists():
            made = model.embed(file)
            assert made.blank is not None
            tensors = {"vectors": made.vectors.half(), "timestamps": made.timestamps, "blank": made.blank}
            tensors["duration"] = torch.tensor(made.duration or 0.0, dtype=torch.float64)
            save_file(tensors, kept)
        found = load_file(kept)
        return visil.VideoFeatures(
            found["vectors"], found["timestamps"], float(found["duration"]), str(file), found["blank"]
        )

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, files))


def embedded_set(
    model: visil.ViSiL, folder: Path, features: Path
) -> tuple[CopySet, list[visil.VideoFeatures], list[visil.VideoFeatures]]:
    """The set, its database and its queries."""
    copies = CopySet.read(folder)
    database = embedded(model, [folder / "database" / name for name in copies.database], features)
    return copies, database, embedded(model, [folder / "queries" / name for name in copies.queries], features)


def ranked(
    model: visil.ViSiL, queries: Sequence[visil.VideoFeatures], database: Sequence[visil.VideoFeatures]
) -> dict[str, list[np.ndarray[tuple[int], np.dtype[np.float64]]]]:
    """Evidence and CS_v of each query with each video of the database."""
    found: dict[str, list[np.ndarray[tuple[int], np.dtype[np.float64]]]] = {"evidence": [], "CS_v": []}
    background = Background.of(model, database)
    for query in queries:
        matches = list(model.compare_many(query, database, common=background.beyond_typical(query)))
        found["evidence"].append(np.array([m.evidence for m in matches]))
        found["CS_v"].append(np.array([m.score for m in matches]))
    return found


def main() -> None:
    """Embed, compare, report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("copyset", type=Path)
    parser.add_argument("features", type=Path)
    parser.add_argument("--model", default="default")
    parser.add_argument("--scores", type=Path, help="write {query: {target: evidence}} here")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    model = visil.load(args.model)
    copies, database, queries = embedded_set(model, args.copyset, args.features)
    figures: dict[str, object] = {"model": model.config.name, "machine": machine()}
    halves, settings = np.array(copies.halves), np.array(copies.settings)
    by_way = ranked(model, queries, database)
    for way, scores in by_way.items():
        ranks = reciprocal_ranks(scores, copies.truth)
        rows = {half: round(float(ranks[halves == half].mean()), 4) for half in ("easy", "hard")}
        rows |= {s: round(float(ranks[settings == s].mean()), 4) for s in dict.fromkeys(copies.settings)}
        for edit in sorted({e for edits in copies.edits for e in edits}):
            chosen = np.array([h == "easy" and edit in e for h, e in zip(halves, copies.edits, strict=True)])
            rows[f"easy, {edit}"] = round(float(ranks[chosen].mean()), 4)
        figures[f"mAP by {way}"] = rows
    figures["ways to read S_f"] = report(
        model.config, copies, [q.vectors for q in queries], [d.vectors for d in database]
    )
    print(json.dumps(figures, indent=1))
    if args.scores is not None:
        table = {
            name: dict(zip(copies.database, map(float, scores), strict=True))
            for name, scores in zip(copies.queries, by_way["evidence"], strict=True)
        }
        args.scores.write_text(json.dumps(table))
    if args.out is not None:
        args.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
