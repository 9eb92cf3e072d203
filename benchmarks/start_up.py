"""What one waits for before anything is measured: `--help`, `info`, and `compare` of two short clips.

    python benchmarks/start_up.py CLIP OTHER --index INDEX --device cpu cuda --rounds 3

Each command in a process of its own. The first `compare` on a GPU compiles its kernels, unless an earlier one has: its
seconds are the cold ones, and the best of the others the warm ones. Modules are compiled once and kept, whatever the
environment says, as they are after an installation: else each `import torch` takes a second more. `--imports` adds
the modules that take longest to import.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from shared.results import keep, machine, write

Row = dict[str, Any]


def row_of(name: str, rounds: int, command: list[str], device: str = "cpu") -> Row:
    """Seconds of the first run, the best of the others, and the processor's."""
    took = []
    before = os.times()
    for _ in range(rounds + 1):
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "visil", *command],
            env={**os.environ, "VISIL_DEVICE": device, "PYTHONDONTWRITEBYTECODE": ""},  # as installed
            check=True,
            stdout=subprocess.DEVNULL,
        )
        took.append(time.perf_counter() - start)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    row = {"command": name, "device": device, "first, s": took[0], "best, s": min(took[1:])}
    return row | {"processor, s": spent / (rounds + 1)}


def slow_imports(command: list[str], device: str, count: int = 25) -> list[str]:
    """The modules that take longest by themselves, as ``python -X importtime`` tells."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "visil", *command],
        env={**os.environ, "VISIL_DEVICE": device},
        check=True,
        capture_output=True,
        text=True,
    )
    found = re.findall(r"import time:\s+(\d+) \|\s+(\d+) \| *(\S+)", done.stderr)
    slowest = sorted(found, key=lambda row: -int(row[0]))[:count]
    return [
        f"{name}: {int(own) / 1e3:.0f} ms of its own, {int(all_) / 1e3:.0f} with others"
        for own, all_, name in slowest
    ]


def main() -> None:
    """Measure and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clips", nargs=2)
    parser.add_argument("--index", required=True)
    parser.add_argument("--device", nargs="*", default=["cpu"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--imports", action="store_true")
    parser.add_argument("--out", type=Path, help="write the result there instead")
    args = parser.parse_args()
    compare = ["compare", *args.clips, "--json"]
    asked: list[tuple[str, list[str], str]] = [
        ("--help", ["--help"], "cpu"),
        ("info", ["info", args.index], "cpu"),
        *(("compare", compare, device) for device in args.device),
    ]
    rows = []
    for name, command, device in asked:
        rows.append(row_of(name, args.rounds, command, device))
        print(rows[-1], flush=True)
    result: dict[str, object] = {"rows": rows}
    if args.imports:
        result["imports"] = {device: slow_imports(compare, device) for device in args.device}
    if args.out is None:
        keep("start_up", result)
    else:
        write(args.out, {"machine": machine(), **result})


if __name__ == "__main__":
    main()
