"""How the reading of `visil train` and of `visil evaluate` scales: the videos of a folder by 1, 2, ... workers.

    python benchmarks/read_speed.py FOLDER --workers 1 2

Training decodes videos once and keeps their frames as JPEG; evaluation has them embedded as `add` does. Fewer workers
are given fewer files, so that each row takes as long; everything is written to a folder that is deleted.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import visil
from shared.results import keep, machine, write
from visil.bench.end_to_end import share
from visil.collection.discover import discover
from visil.collection.local_engine import largest_first
from visil.evaluation.evaluate import Task, evaluate_videos
from visil.machine.ours import be_ours
from visil.training.cached_footage import CachedFootage

Row = dict[str, Any]


def trained(files: list[Path], workers: int, folder: Path) -> int:
    """Frames that training has read."""
    footage = CachedFootage(files, folder / "footage", workers=workers)
    return sum(len(footage.times(video)) for video in range(len(footage)))


def evaluated(files: list[Path], workers: int, folder: Path) -> int:
    """Frames that a benchmark has embedded, whose one query is the first file."""
    links = folder / "videos"
    links.mkdir()
    names = [f"v{number}" for number in range(len(files))]
    for name, file in zip(names, files, strict=True):
        (links / f"{name}{file.suffix}").symlink_to(file)
    annotations, ids = folder / "annotation.json", folder / "ids.txt"
    annotations.write_text(json.dumps({"v0": {"DS": ["v1"]}}))
    ids.write_text("\n".join(names))
    task = Task("fivr-200k", annotations, ids)
    evaluate_videos(task, links, index=folder / "index", model=visil.load(), workers=workers)
    with visil.Index(folder / "index") as made:
        return made.info().frames


def row_of(what: str, work: Callable[[list[Path], int, Path], int], files: list[Path], workers: int) -> Row:
    """Frames a second."""
    with tempfile.TemporaryDirectory(prefix="visil-read-") as made:
        start = time.perf_counter()
        frames = work(files, workers, Path(made))
        seconds = time.perf_counter() - start
    return {
        "what": what,
        "workers": workers,
        "videos": len(files),
        "seconds": seconds,
        "frames/s": frames / seconds,
    }


def main() -> None:
    """Measure and keep."""
    be_ours()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--what", nargs="*", default=["train", "evaluate"])
    parser.add_argument("--out", type=Path, help="write the result there instead")
    args = parser.parse_args()
    files = largest_first(list(discover([args.folder])))
    rows: list[Row] = []
    for what in args.what:
        one: float | None = None
        for workers in args.workers:
            given = share(files, workers / max(args.workers))
            row = row_of(what, trained if what == "train" else evaluated, given, workers)
            one = one or row["frames/s"] / workers
            rows.append(row | {"of n × the first": row["frames/s"] / one / workers})
            print(rows[-1], flush=True)
    if args.out is None:
        keep("read_speed", {"rows": rows})
    else:
        write(args.out, {"machine": machine(), "rows": rows})


if __name__ == "__main__":
    main()
