"""Two files alone: self-made pairs with known truth, by family, judged through the command's own answer.

    python benchmarks/pair_cases.py make DATA CASES                 # once: files and truth.json
    python benchmarks/pair_cases.py judge CASES [--split validation] [--no-refine] [--keep before]

DATA holds ``videos/``, ``clips/`` and ``pictures/``; a case belongs to one split of sources. Judged are the verdict;
the stretches, each end within half a second; stretches that are not there; and the shared seconds on each side.
``--keep NAME`` puts the figures under NAME in results/pair_cases.json.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import visil
from shared.copyset_edits import encode
from shared.pair_cases_made import COPY, FAMILIES
from shared.pair_footage import SPLITS, PairFootage
from shared.pair_truth import TrueStretch, judged
from shared.results import RESULTS, as_text, machine, write
from visil.demo import make_pair
from visil.errors import FileError, VisilError


def make(data: Path, out: Path, seed: int = 0, share: float = 1.0) -> list[dict[str, Any]]:
    """Files of every case in ``out``, and truth.json; cases that are there already are not made again."""
    cases = []
    for split in SPLITS:
        footage = PairFootage(data, split)
        for family, (made_by, count) in FAMILIES.items():
            for number in range(max(1, round(count * share))):
                name = f"{split}-{family.replace(', ', '-').replace(' ', '-')}-{number}"
                folder = out / "pairs" / name
                entry = folder / "case.json"
                if not entry.exists():
                    folder.mkdir(parents=True, exist_ok=True)
                    pair = made_by(footage, random.Random(f"{seed} {name}"), number)
                    encode(pair.query, folder / "query.mp4", 23)
                    if not pair.same_file:
                        encode(pair.target, folder / "target.mp4", 26)
                    case = _entry(name, family, split, pair.verdicts, pair.stretches, pair.same_file)
                    entry.write_text(json.dumps(case) + "\n")
                cases.append(json.loads(entry.read_text()))
    demo = make_pair(out / "pairs" / "demo")
    stretches = [TrueStretch(*spans) for spans in demo.truth]
    cases.append(_entry("demo", "demo", "validation", COPY, stretches, same_file=False))
    (out / "truth.json").write_text(json.dumps({"seed": seed, "cases": cases}, indent=1) + "\n")
    return cases


def _entry(
    name: str,
    family: str,
    split: str,
    verdicts: Sequence[str],
    stretches: Sequence[TrueStretch],
    same_file: bool,
) -> dict[str, Any]:
    return {
        "name": name,
        "family": family,
        "split": split,
        "query": f"pairs/{name}/query.mp4",
        "target": f"pairs/{name}/{'query' if same_file else 'target'}.mp4",
        "verdicts": list(verdicts),
        "stretches": [asdict(stretch) for stretch in stretches],
    }


def summary(rows: Mapping[str, tuple[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """By family: verdicts right, stretches exact, stretches not there, shared seconds right."""
    families: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for family, row in rows.values():
        families[family].append(row)
        families["all"].append(row)
    return {
        family: {
            "cases": len(found),
            "verdict right": sum(r["right"] for r in found),
            "called copy": sum(r["verdict"] == "copy" for r in found),
            "stretches": sum(r["stretches"] for r in found),
            "exact": sum(r["exact"] for r in found),
            "not there": sum(r["not there"] for r in found),
            "shared within 1 s": sum(r["shared seconds off"] <= 1.0 for r in found),
            "without a stretch": sum(r["verdict"] in ("copy", "related") and not r["found"] for r in found),
        }
        for family, found in sorted(
            families.items(), key=lambda item: list(FAMILIES).index(item[0]) if item[0] in FAMILIES else 99
        )
    }


def table(figures: Mapping[str, Mapping[str, Any]]) -> str:
    """As text."""
    names = list(next(iter(figures.values())))
    lines = ["| family | " + " | ".join(names) + " |", "|---|" + "--:|" * len(names)]
    lines += [
        f"| {family} | " + " | ".join(str(row[n]) for n in names) + " |" for family, row in figures.items()
    ]
    return "\n".join(lines)


def main() -> None:
    """Make cases, or judge them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("data", type=Path)
    making.add_argument("out", type=Path)
    making.add_argument("--share", type=float, default=1.0, help="of the cases of each family")
    judging = commands.add_parser("judge")
    judging.add_argument("cases", type=Path)
    judging.add_argument("--split", choices=[*SPLITS, "both"], default="both")
    judging.add_argument("--model")
    judging.add_argument("--no-refine", dest="refine", action="store_false")
    judging.add_argument("--rows", type=Path, help="write every case's answer here")
    judging.add_argument(
        "--keep", metavar="NAME", help="put the figures under NAME in results/pair_cases.json"
    )
    args = parser.parse_args()
    try:
        if args.command == "make":
            print(f"{len(make(args.data, args.out, share=args.share))} cases in {args.out}")
        else:
            _judge(args)
    except VisilError as error:
        sys.exit(f"error: {error}")


def _judge(args: argparse.Namespace) -> None:
    truth_file = args.cases / "truth.json"
    if not truth_file.is_file():
        raise FileError(truth_file, "not there; make it with benchmarks/pair_cases.py make")
    cases = json.loads(truth_file.read_text())["cases"]
    model = visil.load(args.model)
    kept: dict[str, Any] = {}
    for split in SPLITS if args.split == "both" else [args.split]:
        rows = {}
        for case in (c for c in cases if c["split"] == split):
            match = model.compare(args.cases / case["query"], args.cases / case["target"], refine=args.refine)
            row = judged(case, match.verdict, match.segments)
            row |= {"confidence": match.confidence, "found": [s.to_dict() for s in match.segments]}
            rows[case["name"]] = (case["family"], row)
        kept[split] = summary(rows)
        print(f"\n{split}\n{table(kept[split])}", flush=True)
        if args.rows is not None:
            args.rows.parent.mkdir(parents=True, exist_ok=True)
            write(args.rows.with_name(f"{args.rows.stem}-{split}.json"), {n: r for n, (_, r) in rows.items()})
    if args.keep:
        path = RESULTS / "pair_cases.json"
        before = json.loads(path.read_text()) if path.exists() else {}
        write(path, before | {args.keep: {"machine": machine(), "model": model.config.name, **kept}})
        print(as_text({"kept": args.keep}))


if __name__ == "__main__":
    main()
