"""mAP on the copy benchmark, from the scores of one or more methods.

    python benchmarks/score_copyset.py COPYSET SCORES.json ... [--markdown TABLE.md] [--json OUT.json] [--keep NAME]

A scores file is {query: {target: score}}, or {method: {query: {target: score}}}; beside ``x.json`` an ``x.run.json``
(machine, versions, seconds, or the error that kept a method from running) is taken over. Each query has one original,
so its average precision is 1 / rank; among equal scores the original comes last. A score that is missing or not a
number is an error. By edit, a hard query counts for each edit of its chain.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shared.results import RESULTS, write
from visil.errors import FileError, UsageError, VisilError

Scores = Mapping[str, Mapping[str, float]]
BEST_OF = ("max", "mean", "third")
"""Endings of a method's variants that are ways of summing up; the best is named as such."""


def reciprocal_rank(row: Mapping[str, float], original: str, database: Sequence[str], query: str) -> float:
    """One over the original's rank; a target with the same score stands before it."""
    for target in database:
        score = row.get(target)
        if score is None or not math.isfinite(score):
            raise UsageError(f"{query} × {target}: score is {score}; every pair needs a finite number")
    own = row[original]
    return 1 / sum(row[target] >= own for target in database)


def mean_precision(scores: Scores, truth: Mapping[str, Any]) -> dict[str, Any]:
    """mAP over all queries, by half, by setting, and by edit within each half."""
    groups: dict[str, list[float]] = defaultdict(list)
    for query in truth["queries"]:
        name = query["file"]
        if name not in scores:
            raise UsageError(f"{name}: no scores for this query")
        value = reciprocal_rank(scores[name], query["original"], truth["database"], name)
        keys = ["mAP", f"half/{query['half']}", f"setting/{query['setting']}"]
        keys += [f"{query['half']} by edit/{edit['name']}" for edit in query["edits"]]
        for key in keys:
            groups[key].append(value)
    result: dict[str, Any] = {}
    for key, values in groups.items():
        group, _, member = key.partition("/")
        average = round(math.fsum(values) / len(values), 4)
        if member:
            result.setdefault(group, {})[member] = average
        else:
            result[group] = average
    return result


def read_scores(path: Path) -> dict[str, Scores]:
    """A scores file, by method."""
    try:
        held = json.loads(path.read_text())
        inner = next(iter(next(iter(held.values())).values()))
    except (OSError, ValueError, AttributeError, StopIteration) as error:
        raise FileError(path, "is no scores file: {query: {target: score}} in JSON is wanted") from error
    return held if isinstance(inner, dict) else {path.stem: held}


def best_variants(methods: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Of variants that differ only in the way of summing up, the one with the highest mAP over both halves."""
    families: dict[str, list[str]] = defaultdict(list)
    for name in methods:
        stem, _, ending = name.rpartition("-")
        if ending in BEST_OF:
            families[stem].append(name)
    return [max(names, key=lambda n: methods[n]["mAP"]) for names in families.values()]


def table(methods: Mapping[str, Mapping[str, Any]], group: str) -> str:
    """Markdown: one row for each method, one column for each member of a group."""
    columns = list(next(iter(methods.values()))[group])
    best = best_variants(methods)

    def cells(values: Iterable[str]) -> str:
        return "| " + " | ".join(values) + " |"

    rows = [cells([group, *columns, "all"]), cells(["---", *["--:"] * (len(columns) + 1)])]
    for name, result in methods.items():
        numbers = [result[group][c] for c in columns]
        whole = result["mAP"] if group in ("half", "setting") else sum(numbers) / len(numbers)
        rows.append(
            cells([f"{name} (best)" if name in best else name, *(f"{v:.3f}" for v in [*numbers, whole])])
        )
    return "\n".join(rows)


def summary(truth: Mapping[str, Any], files: Sequence[Path]) -> dict[str, Any]:
    """The results of every file, with what its run noted."""
    methods: dict[str, Any] = {}
    runs: dict[str, Any] = {}
    for path in files:
        note = path.with_suffix(".run.json")
        if note.is_file():
            runs[path.stem] = json.loads(note.read_text())
            if "error" in runs[path.stem]:
                continue
        for method, scores in read_scores(path).items():
            try:
                methods[method] = mean_precision(scores, truth)
            except UsageError as error:
                raise FileError(path, f"{method}: {error}") from error
    if not methods:
        raise UsageError("none of the methods has scores")
    halves = [query["half"] for query in truth["queries"]]
    return {
        "set": {
            "sources": truth["sources"],
            "seed": truth["seed"],
            "database": len(truth["database"]),
            **{half: halves.count(half) for half in sorted(set(halves))},
        },
        "methods": methods,
        "best": best_variants(methods),
        "runs": runs,
    }


def main() -> None:
    """Read, score, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("copyset", type=Path)
    parser.add_argument("scores", type=Path, nargs="+")
    parser.add_argument("--markdown", type=Path, help="write the tables here")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--keep", metavar="NAME", help="write the figures to benchmarks/results/NAME.json")
    args = parser.parse_args()
    try:
        truth_file = args.copyset / "truth.json"
        if not truth_file.is_file():
            raise FileError(truth_file, "not there; build it with benchmarks/copyset.py")
        truth = json.loads(truth_file.read_text())
        named = [path.with_name(path.name.replace(".run.json", ".json")) for path in args.scores]
        files = list(dict.fromkeys(named))
        result = summary(truth, files)
    except VisilError as error:
        sys.exit(f"error: {error}")
    groups = [g for g in ("half", "setting", "easy by edit", "hard by edit") if g in _first(result)]
    text = "\n\n".join(table(result["methods"], group) for group in groups) + "\n"
    print(text)
    for name, run in result["runs"].items():
        if "error" in run:
            print(f"{name} did not run: {run['error']}")
    if args.markdown:
        args.markdown.write_text(text)
    if args.keep:
        args.json = RESULTS / f"{args.keep}.json"
    if args.json:
        write(args.json, result)


def _first(result: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(iter(result["methods"].values()))
    return found


if __name__ == "__main__":
    main()
