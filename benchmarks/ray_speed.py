"""``visil add`` on this machine and over Ray on this machine, side by side: videos a second, and what Ray costs.

    python benchmarks/ray_speed.py VIDEOS [--clips 40]

Each way is run in turn, ``--rounds`` times, as a command in a process of its own, so that whatever else the machine
does hits all of them alike, and the least disturbed round of each counts: read the ratios rather than the seconds.
What starting takes (Python, torch, the network, and for Ray the cluster) is measured by adding one clip, and taken off.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from shared.results import keep
from visil.video import is_video_path

WAYS = {
    "local, 1 worker": ["--workers", "1"],
    "local, 2 workers": ["--workers", "2"],
    "ray, 1 worker": ["--ray", "local", "--workers", "1"],
    "ray, 2 workers": ["--ray", "local", "--workers", "2"],
}


def seconds(clips: list[Path], options: list[str]) -> float:
    """How long it takes to add clips to a new collection."""
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder, "clips.txt")
        listed.write_text("".join(f"{clip}\n" for clip in clips))
        command = [sys.executable, "-m", "visil", "add", f"{folder}/new.visil", "--list", str(listed)]
        start = time.perf_counter()
        subprocess.run(
            [*command, *options], check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        return time.perf_counter() - start


def main() -> None:
    """Measure, and keep the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("videos", type=Path)
    parser.add_argument("--clips", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    found = sorted(path for path in arguments.videos.rglob("*") if is_video_path(path) and path.is_file())
    clips = found[:: max(1, len(found) // arguments.clips)][: arguments.clips]
    one: dict[str, list[float]] = {way: [] for way in WAYS}
    many: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(arguments.rounds):
        for way, options in WAYS.items():
            one[way].append(seconds(clips[:1], options))
            many[way].append(seconds(clips, options))
            print(
                f"{way}: one clip {one[way][-1]:.1f} s, {len(clips)} clips {many[way][-1]:.1f} s", flush=True
            )
    start = {way: min(one[way]) for way in WAYS}
    whole = {way: min(many[way]) for way in WAYS}
    work = {way: whole[way] - start[way] for way in WAYS}
    keep(
        "ray_speed",
        {
            "ray": version("ray"),
            "note": "other programs used the same cores: read the ratios, not the seconds",
            "clips": len(clips),
            "rounds": arguments.rounds,
            "seconds_of_each_round": {way: [round(s, 1) for s in many[way]] for way in WAYS},
            "start_seconds_of_each_round": {way: [round(s, 1) for s in one[way]] for way in WAYS},
            "ways": {
                way: {
                    "seconds": round(whole[way], 2),
                    "start_seconds": round(start[way], 2),
                    "videos_a_second": round((len(clips) - 1) / work[way], 3),
                }
                for way in WAYS
            },
            "ray_over_local": {
                f"{n} worker{'s' * (n > 1)}": round(
                    work[f"ray, {n} worker{'s' * (n > 1)}"] / work[f"local, {n} worker{'s' * (n > 1)}"], 3
                )
                for n in (1, 2)
            },
            "two_workers_over_one": {
                kind: round(work[f"{kind}, 1 worker"] / work[f"{kind}, 2 workers"], 3)
                for kind in ("local", "ray")
            },
        },
    )


if __name__ == "__main__":
    main()
