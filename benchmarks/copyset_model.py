"""How the product ranks the copy benchmark: every file embedded, every query compared with the whole database.

    python benchmarks/copyset_model.py COPYSET FEATURES --model MODEL --out benchmarks/results/copyset.json

FEATURES is a folder where embedded files are kept; SCORES, where asked for, is what ``score_copyset.py`` reads. The
ranking is the product's: by ``evidence``, the logit of the confidence, as ``visil search --exhaustive`` does.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import visil
from shared.copy_ranking import report
from shared.copy_sets import embedded_set, ranked, reciprocal_ranks
from shared.results import as_text, machine, write


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
    print(as_text(figures))
    if args.scores is not None:
        table = {
            name: dict(zip(copies.database, map(float, scores), strict=True))
            for name, scores in zip(copies.queries, by_way["evidence"], strict=True)
        }
        args.scores.write_text(json.dumps(table))
    if args.out is not None:
        write(args.out, figures)


if __name__ == "__main__":
    main()
