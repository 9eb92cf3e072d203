"""``visil evaluate fivr-5k`` at FIVR-5K's full number: 5,000 video files of its mean length, 50 of them queries.

    python benchmarks/fivr_5k.py OUT --model MODEL [--stored] [--device cuda]

FIVR's videos are not at hand, so some are made (25 frames a second, H.264, a camera over soft noise) and each is
written down many times under other names, as files of their own with other bytes at the end: the command opens,
decodes, embeds and compares every one of the 5,000. Relevant to a query are the other files of its video.
``--size`` is far from 720p, and the result says so: decoding takes as long as pictures are large.

Without ``--stored`` it is one pass that keeps no features (``--stream``); with it, features are kept in a collection.
MODEL is an outcome of the recipe ``paper``: 3,840 dimensions. What it has learned does not change how long it takes.
A run that ``--limit`` ends says how far it came; the same again goes on, and the seconds of both are added up.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from paper_parts import scene
from shared.results import machine, write
from visil.machine.processor import usable_cores
from visil.video.writer import write_video

FPS = 25


def make_video(number: int, folder: Path, seconds: int, size: tuple[int, int]) -> Path:
    """One of the different videos."""
    return write_video(folder / f"{number}.mp4", scene(number, FPS * seconds, size, 4 * FPS), FPS, threads=1)


def make_files(made: Sequence[Path], folder: Path, count: int) -> None:
    """So many files: each of the videos again and again, with its own number in a free box at its end."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = [path.read_bytes() for path in made]
    for number in range(count):
        box = (16).to_bytes(4, "big") + b"free" + number.to_bytes(8, "big")
        (folder / f"v{number:05}.mp4").write_bytes(contents[number % len(made)] + box)


def annotate(annotation: Path, ids: Path, count: int, queries: int, different: int) -> None:
    """FIVR's files: duplicates of a query are the files of the same video."""
    names = [f"v{number:05}" for number in range(count)]
    labels = {
        names[query]: {"DS": [name for name in names[query % different :: different] if name != names[query]]}
        for query in range(queries)
    }
    annotation.write_text(json.dumps(labels), "utf-8")
    ids.write_text(json.dumps({"query": list(labels), "database": names}), "utf-8")


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main() -> None:
    """Make, evaluate, and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--recipe", default="paper")
    parser.add_argument("--backbone", default="resnet50")
    parser.add_argument("--videos", type=int, default=5000)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--different", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=103)
    parser.add_argument("--size", type=int, nargs=2, default=(320, 240), metavar=("WIDTH", "HEIGHT"))
    parser.add_argument("--stored", action="store_true")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--limit", type=float, default=None, help="seconds for the command")
    args = parser.parse_args()
    size = (args.size[0], args.size[1])
    annotation, ids = args.out / "annotation.json", args.out / "ids.json"
    if not ids.exists():
        (args.out / "made").mkdir(parents=True, exist_ok=True)
        with ProcessPoolExecutor(usable_cores()) as pool:
            make = partial(make_video, folder=args.out / "made", seconds=args.seconds, size=size)
            made = list(pool.map(make, range(args.different)))
        make_files(made, args.out / "videos", args.videos)
        annotate(annotation, ids, args.videos, args.queries, args.different)
    place = args.out / ("stored.visil" if args.stored else "stream")
    line = ["visil", "evaluate", "fivr-5k", "--annotations", annotation, "--ids", ids]
    line += ["--videos", args.out / "videos", "--recipe", args.recipe, "--model", args.model]
    line += ["--backbone", args.backbone, "--device", args.device, "--json"]
    line += ["--index" if args.stored else "--stream", place]
    print(f"{args.videos} files of {args.seconds} s", flush=True)
    begun = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-m", *map(str, line)], capture_output=True, text=True, timeout=args.limit
        )
        answer = json.loads(done.stdout) if done.returncode == 0 else {"failed": done.stderr[-500:]}
    except subprocess.TimeoutExpired:
        answer = {"failed": f"not done after {args.limit:g} s"}
    file = args.out / ("fivr_5k_stored.json" if args.stored else "fivr_5k.json")
    earlier = json.loads(file.read_text("utf-8")) if file.exists() else {"seconds": 0.0, "runs": 0}
    taken = earlier["seconds"] + time.monotonic() - begun
    log = place / "scores.jsonl"
    finished = "failed" not in answer
    scored = len(log.read_text("utf-8").splitlines()) if log.exists() else args.videos * finished
    result = {
        "machine": machine(),
        "command": "visil evaluate fivr-5k --recipe paper " + ("--index" if args.stored else "--stream"),
        "videos": args.videos,
        "queries": args.queries,
        "different": args.different,
        "seconds of a video": args.seconds,
        "pictures": [*size, FPS],
        "bytes of all files": size_of(args.out / "videos"),
        "runs": earlier["runs"] + 1,
        "seconds": taken,
        "videos with scores": scored,
        "samples a second": scored * args.seconds / taken,
        "bytes kept": size_of(place) if place.exists() else 0,
        "answer": {k: v for k, v in answer.items() if isinstance(v, int | float | str)},
    }
    print(json.dumps({k: result[k] for k in ("seconds", "samples a second", "bytes kept", "answer")}))
    write(file, result)


if __name__ == "__main__":
    main()
