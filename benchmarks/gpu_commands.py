"""Whether the commands answer the same on a GPU, in every arithmetic, as on the CPU in fp32.

python benchmarks/gpu_commands.py CLIPS

CLIPS, a folder of videos, is added to a collection; every seventh clip is searched for, all are compared for
duplicates, through `visil search` and `visil duplicates` as a user calls them. Each row counts what differs from the
first: hits, verdicts, stretches, groups; and how far scores and confidences lie apart at most.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from shared.results import keep

WAYS = (
    *(
        ("cpu", "fp32"),
        ("cpu", "auto"),
        ("cuda", "fp32"),
        ("cuda", "fp16"),
        ("cuda", "bf16"),
        ("cuda", "fp8"),
    ),
)
Pairs = dict[tuple[str, str], dict[str, Any]]


def visil(*arguments: object) -> tuple[Any, float]:
    """What a command prints as JSON, and the seconds it took."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "visil", *map(str, arguments), "--json"]
    found = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(found.stdout), time.perf_counter() - started


def stretches(hit: dict[str, Any]) -> list[tuple[list[float], list[float]]]:
    """Where a hit matches."""
    return [(segment["query"], segment["target"]) for segment in hit["segments"]]


def row(
    device: str, precision: str, index: Path, queries: list[str], first: dict[str, Any]
) -> dict[str, Any]:
    """Answers of one device in one arithmetic, against those kept in ``first``, which the first call fills."""
    how = ("--device", device, "--precision", precision)
    answers, search_s = visil("search", index, *queries, *how)
    found, duplicates_s = visil("duplicates", index, *how)
    hits: Pairs = {(one["query"], hit["path"]): hit for one in answers for hit in one["hits"]}
    groups = sorted(sorted(video["id"] for video in group["videos"]) for group in found["groups"])
    known: Pairs = first.setdefault("hits", hits)
    both = [(known[pair], hits[pair]) for pair in known.keys() & hits.keys()]
    return {
        "device": device,
        "precision": precision,
        "hits": len(hits),
        "hits not there before": len(hits.keys() - known.keys()),
        "score, at most": max(abs(a["score"] - b["score"]) for a, b in both),
        "confidence, at most": max(abs(a["confidence"] - b["confidence"]) for a, b in both),
        "other verdicts": sum(a["verdict"] != b["verdict"] for a, b in both),
        "other stretches": sum(stretches(a) != stretches(b) for a, b in both),
        "same groups": groups == first.setdefault("groups", groups),
        "search, s": search_s,
        "duplicates, s": duplicates_s,
    }


def main() -> None:
    """One row for each way to compute."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clips", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "clips.visil"
        visil("add", index, given.clips)
        queries = sorted(map(str, given.clips.rglob("*.*")))[::7]
        first: dict[str, Any] = {}
        rows = []
        for device, precision in WAYS:
            rows.append(row(device, precision, index, queries, first))
            print(json.dumps(rows[-1]))
    keep("gpu_commands", {"queries": len(queries), "rows": rows})


if __name__ == "__main__":
    main()
