"""What the product answers on a copy benchmark: ranking, verdicts, segments, confidence and false alarms.

    python benchmarks/wide_footage.py DATA FOOTAGE --split test
    python benchmarks/copyset.py FOOTAGE COPYSET --wide --easy 133 --hard 120
    python benchmarks/answers.py COPYSET WORK --out benchmarks/results/answers.json --name "0.2.0, test"

The database goes into a collection in WORK (``visil add``), and each query asks for all of its videos
(``visil search --exhaustive``), so that every pair is judged as the command judges it, against what is common in the
collection. Collection and the queries' features are kept, one for each model: a run after a change of matching embeds
nothing. ``--pairs`` judges each pair alone, as ``visil compare`` does: the true ones and, for each query, so many
strangers, those of a source that it shows first.

segment F1: for each true pair, precision and recall in seconds (of what was found, how much is true; of what is true,
how much was found), the geometric mean of both videos', and their harmonic mean; nothing found is 0; the mean over
pairs. "VCSL": the figures of that benchmark over the same pairs. Found at one false alarm in N: the share of true pairs
that have more evidence than all strangers but one in N. A stranger is "sure" from a confidence of 0.5 on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import visil
from shared.answer_figures import (
    Judged,
    by_kind,
    figures,
    reliability_by_kind,
    worst_kind,
)
from shared.copy_sets import embedded
from shared.reliability import draw
from shared.results import machine, write
from visil.errors import FileError, VisilError

HALVES = {"easy": "one edit", "hard": "hard"}


def read_truth(copyset: Path) -> dict[str, Any]:
    """The set's truth."""
    file = copyset / "truth.json"
    if not file.is_file():
        raise FileError(file, "not there; build it with benchmarks/copyset.py --wide")
    told: dict[str, Any] = json.loads(file.read_text())
    if "notes" not in told:
        raise FileError(
            file, "does not name the kinds of its videos; build it with benchmarks/copyset.py --wide"
        )
    return told


def in_collection(
    model: visil.ViSiL, copyset: Path, truth: Mapping[str, Any], work: Path
) -> Iterator[Judged]:
    """Every query with every video of the database, as ``visil search --exhaustive`` judges them."""
    features = _queries(model, copyset, truth, work)
    with visil.Index(work / f"{model.fingerprint()}.visil", model=model) as index:
        report = index.add(copyset / "database")
        if report.failed:
            raise FileError(*report.failed[0])
        for count, (query, seen) in enumerate(zip(truth["queries"], features, strict=True), 1):
            for hit in index.search(seen, len(index), exhaustive=True):
                target = Path(hit.path).name
                yield _judged(query, target, hit)
            if count % 20 == 0:
                print(f"{count} of {len(features)} queries", file=sys.stderr, flush=True)


def alone(
    model: visil.ViSiL, copyset: Path, truth: Mapping[str, Any], work: Path, strangers: int
) -> Iterator[Judged]:
    """Each true pair and some strangers of each query, as ``visil compare`` judges two files."""
    queries = _queries(model, copyset, truth, work)
    files = [copyset / "database" / name for name in truth["database"]]
    database = dict(zip(truth["database"], embedded(model, files, work), strict=True))
    for query, seen in zip(truth["queries"], queries, strict=True):
        for target in [query["original"], *some_strangers(truth, query, strangers)]:
            yield _judged(query, target, model.compare(seen, database[target]))


def some_strangers(truth: Mapping[str, Any], query: Mapping[str, Any], count: int) -> list[str]:
    """Videos that a query shares nothing with: half of them of its original's source, as far as there are."""
    rng = random.Random(str(query["file"]))
    source = truth["notes"][query["original"]]["source"]
    others = [name for name in truth["database"] if name != query["original"]]
    rng.shuffle(others)
    alike = [name for name in others if truth["notes"][name]["source"] == source][: count // 2]
    return [*alike, *(name for name in others if name not in alike)][:count]


def kept_in(work: Path, copyset: Path) -> Path:
    """Where features of a set are kept: apart from those of a set of the same name that was made otherwise."""
    digest = hashlib.sha256((copyset / "truth.json").read_bytes())
    for file in sorted(copyset.glob("*/*.mp4")):
        digest.update(f"{file.parent.name}/{file.name} {file.stat().st_size}".encode())
    return work / f"{copyset.absolute().name}-{digest.hexdigest()[:8]}"


def _queries(
    model: visil.ViSiL, copyset: Path, truth: Mapping[str, Any], work: Path
) -> list[visil.VideoFeatures]:
    return embedded(model, [copyset / "queries" / query["file"] for query in truth["queries"]], work)


def _judged(query: Mapping[str, Any], target: str, said: visil.Hit | visil.Match) -> Judged:
    return Judged(
        query["file"],
        target,
        said.evidence,
        said.confidence,
        said.verdict,
        tuple(said.segments),
        target == query["original"],
    )


def summary(truth: Mapping[str, Any], judged: Sequence[Judged]) -> dict[str, Any]:
    """The figures of both halves, and over both: false alarms by kind, reliability."""
    kinds = by_kind(truth, judged)
    return {
        "set": {"sources": truth["sources"], "seed": truth["seed"], "database": len(truth["database"])},
        **{name: figures(truth, judged, half) for half, name in HALVES.items()},
        "worst kind, copy per 10,000": worst_kind(kinds),
        "strangers by kind": kinds,
        "reliability": reliability_by_kind(truth, judged),
    }


def table(result: Mapping[str, Any]) -> str:
    """Markdown: what is said of both halves, and false alarms by kind."""
    halves = [result[name] for name in HALVES.values()]

    def row(name: str, values: Sequence[object]) -> str:
        return f"| {name} | " + " | ".join(map(str, values)) + " |"

    def verdicts(half: Mapping[str, Any]) -> str:
        counts = half["true pairs"]
        return " / ".join(str(counts.get(v, 0)) for v in ("copy", "related", "unrelated", "unclear"))

    rows = [row("", list(HALVES.values())), "|---|---|---|"]
    if "mAP" in halves[0]:
        rows.append(row("mAP", [f"{h['mAP']:.3f}" for h in halves]))
        worst = [next(iter(h["worst edit"].items())) for h in halves]
        rows.append(row("worst edit", [f"{name} {value:.3f}" for name, value in worst]))
    rows += [
        row("the original is called copy / related / unrelated / unclear", [verdicts(h) for h in halves]),
        row(
            "true pairs without a segment",
            [f"{h['true pairs without a segment']} of {h['queries']}" for h in halves],
        ),
        row("segment F1", [f"{h['segment F1']:.3f}" for h in halves]),
        row("both ends within 0.5 s", [f"{h['ends within 0.5 s']:.2f}" for h in halves]),
        row("strangers of confidence ≥ 0.5", [h["strangers"]["sure"] for h in halves]),
        row(
            "strangers called copy; related",
            [f"{h['strangers']['copy']}; {h['strangers']['related']}" for h in halves],
        ),
        row("called copy, per 10,000 strangers", [h["strangers"]["copy per 10,000"] for h in halves]),
        row("copy or related without a segment", [h["copy or related without a segment"] for h in halves]),
    ]
    for rate in halves[0]["found at one false alarm in"]:
        found = [f"{h['found at one false alarm in'][rate]:.2f}" for h in halves]
        rows.append(row(f"found at one false alarm in {rate}", found))
    rows += [
        "",
        row("stranger", ["pairs", "≥ 0.5", "copy", "related", "copy per 10,000"]),
        "|---|---|---|---|---|---|",
    ]
    keys = ("pairs", "sure", "copy", "related", "copy per 10,000")
    rows += [row(name, [told[key] for key in keys]) for name, told in result["strangers by kind"].items()]
    return "\n".join(rows)


def keep(out: Path, name: str, result: Mapping[str, Any]) -> None:
    """Put a run beside those that a file holds."""
    held: dict[str, Any] = json.loads(out.read_text()) if out.is_file() else {}
    runs = held.get("runs", {}) | {name: result}
    write(out, {"machine": machine(), "runs": runs})


def main() -> None:
    """Judge all pairs, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("copyset", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--model", default="default")
    parser.add_argument(
        "--pairs", type=int, metavar="N", help="judge pairs alone, with N strangers for each query"
    )
    parser.add_argument("--out", type=Path, help="add the figures to this file")
    parser.add_argument(
        "--name", help="what the run is called there; the model's name and the set's by default"
    )
    parser.add_argument("--raw", type=Path, help="write every pair's answer here")
    parser.add_argument("--picture", type=Path, help="draw confidence against truth, by kind")
    args = parser.parse_args()
    try:
        truth = read_truth(args.copyset)
        model = visil.load(args.model)
        work = kept_in(args.work, args.copyset)
        if args.pairs is None:
            judged = list(in_collection(model, args.copyset, truth, work))
        else:
            judged = list(alone(model, args.copyset, truth, work, args.pairs))
    except VisilError as error:
        sys.exit(f"error: {error}")
    result = summary(truth, judged)
    print(table(result))
    if args.raw is not None:
        rows = [vars(pair) | {"segments": [s.to_dict() for s in pair.segments]} for pair in judged]
        args.raw.write_text(json.dumps(rows))
    if args.out is not None:
        keep(args.out, args.name or f"{model.config.name}, {args.copyset.name}", result)
    if args.picture is not None:
        draw(
            reliability_by_kind(truth, judged),
            args.picture,
            "Reliability by kind of footage (number of pairs)",
        )


if __name__ == "__main__":
    main()
