"""What taking videos in costs: the processor's seconds for an hour of video, `visil add` beside public tools.

    python benchmarks/speed.py --write FOLDER
    python benchmarks/peers_cost.py FOLDER --peers PEERS/bin/python      # their environment: peers/README.md

Each tool reads every file of FOLDER in processes of its own, one thread each as far as it can be told to, and keeps
what it compares videos by. Seconds are the processor's, of all processes together, so that other work on the machine
counts little; they include the start, and the network's loading.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from shared.results import keep
from visil.collection.discover import discover
from visil.errors import FileError, VisilError
from visil.video import probe

VPDQ = """
import sys
from hydrusvideodeduplicator.hashing import compute_phash
for file in sys.argv[1:]:
    str(compute_phash(file, 1))
"""

VIDEOHASH = """
import sys, tempfile
from videohash2 import VideoHash
for file in sys.argv[1:]:
    with tempfile.TemporaryDirectory() as folder:
        VideoHash(path=file, storage_path=folder)
"""

SIGNATURE = """
import subprocess, sys, tempfile
for file in sys.argv[1:]:
    with tempfile.TemporaryDirectory() as folder:
        kept = f"signature=format=binary:filename={folder}/signature.bin"
        wanted = ["-threads", "1", "-i", file, "-map", "0:v:0", "-vf", kept, "-f", "null", "-"]
        subprocess.run(["ffmpeg", "-v", "error", "-nostdin", *wanted], check=True)
"""


def commands(files: Sequence[str], peers: Path | None, work: Path) -> dict[str, list[str]]:
    """What each tool is started as."""
    add = [sys.executable, "-m", "visil", "add", "--workers", "1"]
    found = {
        "visil add": [*add, str(work / "even.visil"), *files],
        "visil add --embedding fp32": [*add, "--embedding", "fp32", str(work / "fp32.visil"), *files],
        "visil add --sampling keyframes": [*add, "--sampling", "keyframes", str(work / "key.visil"), *files],
    }
    if peers is not None:
        scripts = {"vPDQ": VPDQ, "videohash2": VIDEOHASH, "ffmpeg signature (MPEG-7)": SIGNATURE}
        found |= {name: [str(peers), "-c", script, *files] for name, script in scripts.items()}
    return found


def measured(command: Sequence[str]) -> dict[str, float]:
    """Seconds of a command, and the processor's, of all processes below it.

    Workers that nobody waits for leave no times behind, so each process is asked while it lives.
    """
    before, start = os.times(), time.perf_counter()
    seen: dict[int, float] = {}
    with tempfile.TemporaryFile("w+") as said:
        running = subprocess.Popen(
            command,
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""},
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
        while running.poll() is None:
            seen |= spent_below(running.pid)
            time.sleep(0.05)
        said.seek(0)
        if running.returncode:
            raise FileError(command[0], f"failed: {said.read().strip().splitlines()[-1:]}")
    after, passed = os.times(), time.perf_counter() - start
    waited = after.children_user + after.children_system - before.children_user - before.children_system
    return {"processor, s": max(waited, sum(seen.values())), "passed, s": passed}


def spent_below(root: int) -> dict[int, float]:
    """The processor's seconds of a process and of all that it has started, by their numbers."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = file.read_text().rpartition(")")[2].split()
            number = int(file.parent.name)
            parents[number] = int(fields[1])
            spent[number] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    below = {root}
    while more := {number for number, parent in parents.items() if parent in below} - below:
        below |= more
    return {number: spent[number] for number in below & spent.keys()}


def main() -> None:
    """Measure each tool, print, keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--peers", type=Path, help="Python of the peers' environment")
    args = parser.parse_args()
    try:
        files = [str(path) for path in discover([args.folder])]
        hours = sum(probe(file).duration or 0.0 for file in files) / 3600
        rows: dict[str, Mapping[str, float]] = {}
        with tempfile.TemporaryDirectory() as work:
            for name, command in commands(files, args.peers, Path(work)).items():
                row = measured(command)
                rows[name] = {"processor, s for an hour": row["processor, s"] / hours, **row}
                print(f"{name}: {rows[name]['processor, s for an hour']:.0f} s for an hour", flush=True)
        keep("peers_cost", {"hours": hours, "files": len(files), "tools": rows})
    except VisilError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
