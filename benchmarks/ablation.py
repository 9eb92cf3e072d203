"""The paper's ablation on our clips: Tables 3 and 4 by ``visil tables``, rows trained side by side; Figure 5 if asked.

    python benchmarks/joined_clips.py DATA SETS
    python benchmarks/ablation.py SETS OUT [--seeds 1] [--triplets 2000] [--lr 3e-4] [--batch 1] [--curves]

What is reported is what this command prints, for each seed, with the numbers that OUT/ablation.json has under
"settings":

    visil tables table-3 table-4 --dataset fivr-5k --annotations SETS/fivr/annotation.json --ids SETS/fivr/ids.json \\
        --videos SETS/fivr/videos --training SETS/vcdb --training-annotations SETS/vcdb/annotation \\
        --backbone efficientnet-lite0 --epochs 1 --triplets T --lr RATE --batch B --seed S --out OUT

One after the other its rows would take as many times as long, so the same command is run for single rows, several at
once into the same OUT. One run before them makes what all rows share: features, whitening, frames, hard negatives.
A row is one epoch, so that none has to be chosen: of the few videos that are held out, ViSiL_f+W already finds all.
OUT/ablation.json is written anew whenever a row is done. Everything ends after ``--seconds``: rows that are not done
keep a checkpoint, and the same command goes on with them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from shared.results import machine, write
from visil.machine.processor import usable_cores
from visil.paper.ablation import CURVES, RECIPE_OF, curve_recipe

BACKBONE = "efficientnet-lite0"
LEARNED = ("ViSiL_v", "ViSiL_sym", "ViSiL_f+W+A")
PREPARING = ("--systems", "ViSiL_f", "--systems", "ViSiL_f+W", "--systems", "ViSiL_f+W+A", "--triplets", "1")
TO_STOP = 15.0
"""Seconds that a row gets to write a checkpoint."""
TO_READ = 40.0
"""Seconds for the tables of finished models."""


class Tables:
    """``visil tables`` on the two data sets, until a time is up."""

    def __init__(self, sets: Path, out: Path, device: str, seconds: float) -> None:
        fivr, vcdb = sets / "fivr", sets / "vcdb"
        self.out, self.end = out, time.monotonic() + seconds
        self.words = (
            *("--dataset", "fivr-5k", "--annotations", fivr / "annotation.json", "--ids", fivr / "ids.json"),
            *("--videos", fivr / "videos", "--training", vcdb, "--training-annotations", vcdb / "annotation"),
            *("--backbone", BACKBONE, "--epochs", "1", "--device", device, "--json", "--out", out),
        )

    def run(self, *words: object, spare: float = 0.0) -> dict[str, Any] | None:
        """What the command answers; None, and a line that says why, where it fails or the time is up.

        ``spare`` seconds before the end it is asked to stop: a training writes a checkpoint then.
        """
        begun, called = time.monotonic(), " ".join(map(str, words))
        line = [sys.executable, "-m", "visil", "tables", *map(str, (*words, *self.words))]
        with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                answer, said = process.communicate(timeout=max(1.0, self.end - spare - TO_STOP - begun))
            except subprocess.TimeoutExpired:
                process.terminate()
                try:
                    process.communicate(timeout=TO_STOP)
                except subprocess.TimeoutExpired:
                    process.kill()
                print(f"{called}: stopped after {time.monotonic() - begun:.0f} s", flush=True)
                return None
        took = f"{time.monotonic() - begun:.0f} s"
        if process.returncode:
            print(f"{called}: {took}, failed: {said.strip()[-600:]}", flush=True)
            return None
        print(f"{called}: {took}", flush=True)
        found: dict[str, Any] = json.loads(answer)
        return found

    def logs(self) -> dict[str, list[dict[str, Any]]]:
        """What each training wrote down: a line before the first epoch, and one after each."""
        files = sorted((self.out / "models").glob("*/log.jsonl"))
        return {
            file.parent.name: [json.loads(line) for line in file.read_text("utf-8").splitlines()]
            for file in files
        }


def rows(seeds: int, curves: bool) -> Iterator[tuple[str, ...]]:
    """The commands that train one row each: those of the tables first."""
    for seed in range(seeds):
        for row in LEARNED:
            yield ("table-3", "--systems", row, "--seed", str(seed))
        yield ("table-4", "--systems", "without L_reg", "--seed", str(seed))
    for name, curve in CURVES.items() if curves else ():
        for value in curve.values:
            if curve_recipe(curve, value).name != RECIPE_OF["ViSiL_v"]:
                yield (name, "--values", f"{value:g}", "--seed", "0")


def main() -> None:
    """Prepare, train, and put the tables together."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--triplets", type=int, default=2000, help="of each of two pools")
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--batch", type=int, default=1, help="triplets a step")
    parser.add_argument("--curves", action="store_true", help="Figure 5, too: nine rows more")
    parser.add_argument("--at-once", type=int, default=usable_cores())
    parser.add_argument("--seconds", type=float, default=280, help="until all ends")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    tables = Tables(args.sets, args.out, args.device, args.seconds)
    changed = ("--triplets", args.triplets, "--lr", args.lr, "--batch", args.batch)
    settings = {
        "epochs": 1,
        "triplets": args.triplets,
        "lr": args.lr,
        "batch": args.batch,
        "backbone": BACKBONE,
    }
    result: dict[str, Any] = {"machine": machine(), "settings": settings, "rows": {}, "tables": {}}
    begun, writing = time.monotonic(), threading.Lock()

    def keep(part: str, name: str, found: object) -> None:
        with writing:
            result[part][name] = found
            result["training"], result["seconds"] = tables.logs(), time.monotonic() - begun
            write(args.out / "ablation.json", result)

    def ready(seed: int) -> None:
        found = tables.run("table-3", *PREPARING, "--lr", args.lr, "--seed", seed, spare=TO_READ)
        for row in found["tables"][0]["rows"][:2] if found else ():
            keep("rows", f"table-3 --systems {row['label']} --seed {seed}", row)

    ready(0)
    with ThreadPoolExecutor(args.at_once) as pool:
        list(pool.map(ready, range(1, args.seeds)))
        planned = list(rows(args.seeds, args.curves))
        running = {pool.submit(tables.run, *words, *changed, spare=TO_READ): words for words in planned}
        for done in as_completed(running):
            found = done.result()
            if found is not None:
                keep("rows", " ".join(running[done]), found["tables"][0]["rows"][0])
    if any(" ".join(words) not in result["rows"] for words in planned):
        sys.exit("not all rows are done: run the same again, and it goes on")
    for seed in range(args.seeds):
        names = ("table-3", "table-4", *(("figure-5",) if args.curves and not seed else ()))
        found = tables.run(*names, *changed, "--seed", seed)
        for table in found["tables"] if found else ():
            kept = {name: table[name] for name in ("on", "note", "rows") if name in table}
            keep("tables", f"{table['name']}, seed {seed}", kept)


if __name__ == "__main__":
    main()
