"""What the product answers on a copy benchmark: ranking, verdicts, segments, confidence and false alarms.

    python benchmarks/wide_footage.py DATA FOOTAGE --split test
    python benchmarks/copyset.py FOOTAGE COPYSET --wide --easy 133 --hard 120
    python benchmarks/answers.py COPYSET WORK --out benchmarks/results/answers.json --name "0.2.0, test"

The database goes into a collection in WORK (``visil add``), and each query asks for all of its videos
(``visil search --exhaustive``), so that every pair is judged as the command judges it, against what is common in the
collection. Collection, the queries' features and what closer looks ask for are kept, one for each model: a run after a
change of matching embeds nothing. ``--pairs N`` judges each pair alone, as ``visil compare`` does: the true ones and,
for each query, N strangers, half of them of its original's source; nothing is ranked then.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import visil
from shared.answer_figures import (
    Judged,
    by_kind,
    figures,
    plain_first,
    reliability_by_kind,
    worst_kind,
)
from shared.copy_sets import embedded, keep_looks
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


@contextmanager
def collection(model: visil.ViSiL, copyset: Path, work: Path) -> Iterator[visil.Index]:
    """The database as ``visil add`` takes it, embedded once for each model."""
    with visil.Index(work / f"{model.fingerprint()}.visil", model=model) as index:
        report = index.add(copyset / "database")
        if report.failed:
            raise FileError(*report.failed[0])
        yield index


def in_collection(
    model: visil.ViSiL, copyset: Path, truth: Mapping[str, Any], work: Path, *, refine: bool
) -> Iterator[Judged]:
    """Every query with every video of the database, as ``visil search --exhaustive`` judges them."""
    with collection(model, copyset, work) as index:
        for query, seen in _queries(model, copyset, truth, work):
            for hit in index.search(seen, len(index), exhaustive=True, refine=refine):
                yield _judged(query, Path(hit.path).name, hit)


def alone(
    model: visil.ViSiL, copyset: Path, truth: Mapping[str, Any], work: Path, strangers: int
) -> Iterator[Judged]:
    """Each true pair and some strangers of each query, as ``visil compare`` judges two files."""
    with collection(model, copyset, work) as index:
        for query, seen in _queries(model, copyset, truth, work):
            for target in [query["original"], *some_strangers(truth, query, strangers)]:
                shown = index.features(copyset / "database" / target)
                yield _judged(query, target, model.compare(seen, shown))


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
) -> Iterator[tuple[Mapping[str, Any], visil.VideoFeatures]]:
    queries = truth["queries"]
    features = embedded(model, [copyset / "queries" / query["file"] for query in queries], work)
    for count, (query, seen) in enumerate(zip(queries, features, strict=True), 1):
        yield query, seen
        if count % 20 == 0:
            print(f"{count} of {len(queries)} queries", file=sys.stderr, flush=True)


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
        "reliability, by confidence from": {
            kind: {f"{row.pop('from'):g}": row for row in bins}
            for kind, bins in reliability_by_kind(truth, judged).items()
        },
    }


def same_verdicts(judged: Sequence[Judged], other: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of how many pairs another run (its ``--raw``) says the same."""
    said = {(row["query"], row["target"]): row["verdict"] for row in other}
    others = [pair for pair in judged if said[pair.query, pair.target] != pair.verdict]
    return {
        "pairs": len(judged),
        "the same": round(1 - len(others) / len(judged), 5),
        "true pairs called otherwise": sum(pair.true for pair in others),
        "strangers called otherwise": sum(not pair.true for pair in others),
    }


def table(runs: Mapping[str, Mapping[str, Any]]) -> str:
    """Markdown: what each run says of both halves, and its false alarms by kind."""
    halves = [(f"{name}: {half}", run[half]) for name, run in runs.items() for half in HALVES.values()]

    def row(label: str, cells: Iterable[object]) -> str:
        return f"| {label} | " + " | ".join(map(str, cells)) + " |"

    def line(label: str, cell: Callable[[Mapping[str, Any]], object]) -> str:
        return row(label, [cell(half) for _, half in halves])

    def worst(half: Mapping[str, Any]) -> str:
        return ", ".join(f"{name} {value:.2f}" for name, value in half.get("worst edit", {}).items())

    def found(one_in: str) -> str:
        key = "found at one false alarm in"
        return line(f"{key} {one_in}", lambda half: f"{half[key][one_in]:.2f}" if key in half else "")

    lines = [
        row("", [name for name, _ in halves]),
        "|---" * (len(halves) + 1) + "|",
        line("queries; strangers", lambda h: f"{h['queries']}; {h['strangers']['pairs']:,}"),
        line("mAP", lambda h: f"{h['mAP']:.3f}" if "mAP" in h else ""),
        line("worst edit", worst),
        line("the original is called copy / related / unrelated", lambda h: _told(h["true pairs"])),
        line("true pairs without a segment", lambda h: h["true pairs without a segment"]),
        line("segment F1", lambda h: f"{h['segment F1']:.3f}"),
        line("both ends within 0.5 s", lambda h: f"{h['ends within 0.5 s']:.2f}"),
        found("1,000"),
        found("10,000"),
        line("strangers of confidence ≥ 0.5", lambda h: h["strangers"]["sure"]),
        line("strangers called copy; related", lambda h: "{copy}; {related}".format(**h["strangers"])),
        line("called copy, of 10,000", lambda h: h["strangers"]["copy per 10,000"]),
        line("copy or related without a segment", lambda h: h["copy or related without a segment"]),
        "",
        row("strangers: ≥ 0.5 / copy / related, of", runs),
        "|---" * (len(runs) + 1) + "|",
    ]
    for kind in sorted({kind for run in runs.values() for kind in run["strangers by kind"]}, key=plain_first):
        told = [run["strangers by kind"].get(kind) for run in runs.values()]
        lines.append(row(kind, [_alarms(counts) if counts else "" for counts in told]))
    return "\n".join(lines)


def _told(verdicts: Mapping[str, int]) -> str:
    text = " / ".join(str(verdicts.get(name, 0)) for name in ("copy", "related", "unrelated"))
    return text + (f" ({verdicts['unclear']} unclear)" if "unclear" in verdicts else "")


def _alarms(counts: Mapping[str, Any]) -> str:
    return f"{counts['sure']} / {counts['copy']} / {counts['related']} of {counts['pairs']:,}"


def keep(out: Path, name: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Put a run beside those that a file holds; all of them."""
    held: dict[str, Any] = json.loads(out.read_text()) if out.is_file() else {}
    runs: dict[str, Any] = held.get("runs", {}) | {name: result}
    write(out, {"machine": machine(), "runs": runs})
    return runs


def without_reader(model: visil.ViSiL, like: visil.ViSiL) -> visil.ViSiL:
    """The same features, read as ``like`` reads its own: straight off S_f."""
    settings = {"localize": like.config.localize, "calibration": like.config.calibration}
    bare = visil.ViSiL(
        model.config.replaced(reader=None, background=0, **settings), with_backbone=False
    ).eval()
    bare.backbone, bare.whitening = model.backbone, model.whitening
    return bare


def main() -> None:
    """Judge all pairs, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("copyset", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--model", default="default")
    parser.add_argument("--side", type=int, metavar="N", help="of the pictures that the model reads")
    parser.add_argument(
        "--without-reader",
        metavar="MODEL",
        help="without background and reader, and with the localiser and the calibration of MODEL",
    )
    parser.add_argument(
        "--pairs", type=int, metavar="N", help="judge pairs alone, with N strangers for each query"
    )
    parser.add_argument("--refine", action="store_true", help="with the closer look of visil search --refine")
    parser.add_argument("--out", type=Path, help="add the figures to this file, and print all that it holds")
    parser.add_argument(
        "--name", help="what the run is called there; the model's name and the set's by default"
    )
    parser.add_argument("--raw", type=Path, help="write every pair's answer here")
    parser.add_argument(
        "--against", type=Path, metavar="RAW", help="another run's --raw: how many verdicts are the same"
    )
    parser.add_argument("--picture", type=Path, help="draw confidence against truth, by kind")
    args = parser.parse_args()
    try:
        truth = read_truth(args.copyset)
        model = visil.load(args.model)
        if args.side is not None:
            model.config = model.config.replaced(
                sampling=replace(model.config.sampling, resize=args.side, crop=args.side)
            )
        if args.without_reader is not None:
            model = without_reader(model, visil.load(args.without_reader))
        work = kept_in(args.work, args.copyset)
        keep_looks(model, work)
        if args.pairs is None:
            judged = list(in_collection(model, args.copyset, truth, work, refine=args.refine))
        else:
            judged = list(alone(model, args.copyset, truth, work, args.pairs))
    except VisilError as error:
        sys.exit(f"error: {error}")
    result = summary(truth, judged)
    if args.against is not None:
        result[f"verdicts as in {args.against.stem}"] = same_verdicts(
            judged, json.loads(args.against.read_text())
        )
    name = args.name or f"{model.config.name}, {args.copyset.name}"
    runs = {name: result} if args.out is None else keep(args.out, name, result)
    print(table(runs))
    if args.raw is not None:
        rows = [vars(pair) | {"segments": [s.to_dict() for s in pair.segments]} for pair in judged]
        args.raw.write_text(json.dumps(rows))
    if args.picture is not None:
        draw(
            reliability_by_kind(truth, judged),
            args.picture,
            "Reliability by kind of footage (number of pairs)",
        )


if __name__ == "__main__":
    main()
