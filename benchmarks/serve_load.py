"""A server under load: clients that browse and clients that search, all at once, over a synthetic collection.

    python benchmarks/serve_load.py FOLDER [--videos 1000] [--browsing 50] [--searching 4] [--seconds 120] [--keep]

Every browsing client asks for lists, single videos and jobs as the page does, with a short pause to look; every
searching client searches for a video of the collection and waits for its hits. Features are random walks, a hundred
frames a video; there are no files behind them, so pictures are not asked for. Memory is of the server and of its
engine, before and after.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F

import visil
from machine import keep
from search_scale import store_video
from visil.client import Client, ServerError

FRAMES = 100
SHOTS = 8
LOOK_S = 1.0
"""Seconds that a person looks at a list before asking for the next, about."""


def make_collection(folder: Path, videos: int) -> None:
    """Videos of some shots each: frames near a random direction, regions near their frame."""
    with visil.Index(folder) as index:
        regions, dim = 14, index.model.dim
        for number in range(len(index), videos):
            generator = torch.Generator().manual_seed(number)
            shots = torch.randn(SHOTS, 1, dim, generator=generator)
            frames = shots.repeat_interleave(-(-FRAMES // SHOTS), 0)[:FRAMES]
            noise = torch.randn(FRAMES, regions, dim, generator=generator)
            store_video(index, f"{number:08}", F.normalize(frames + 0.7 * noise, dim=-1).half())
        index.refresh()


class Load:
    """Clients in threads, and what they measured."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.times: dict[str, list[float]] = defaultdict(list)
        self.errors: list[str] = []
        self.stop = threading.Event()
        self.ids = [str(video["id"]) for video in Client(url).all_videos()]

    def timed(self, name: str, call: Callable[[], object]) -> None:
        """One call; a refusal is an error."""
        began = time.perf_counter()
        try:
            call()
        except ServerError as error:
            self.errors.append(f"{name}: {error.status} {error}")
        self.times[name].append(time.perf_counter() - began)

    def browse(self, seed: int) -> None:
        """What the page's lists ask for."""
        chance, client = random.Random(seed), Client(self.url)
        while not self.stop.is_set():
            offset = chance.randrange(0, len(self.ids), 50)
            sort = chance.choice(["name", "-added", "duration", "-size"])
            self.timed("list", lambda: client.videos(offset=offset, sort=sort))  # noqa: B023
            self.timed("filtered list", lambda: client.videos(q=str(chance.randrange(100))))
            self.timed("one video", lambda: client.video(chance.choice(self.ids)))
            self.timed("jobs", lambda: client.jobs(20))
            self.stop.wait(chance.uniform(0.5, 1.5) * LOOK_S)

    def search(self, seed: int) -> None:
        """One search after another."""
        chance, client = random.Random(seed), Client(self.url)
        while not self.stop.is_set():
            self.timed("search", lambda: client.search({"video": chance.choice(self.ids)}, k=20))

    def run(self, browsing: int, searching: int, seconds: float) -> None:
        """All of them at once."""
        kinds = [self.browse] * browsing + [self.search] * searching
        threads = [threading.Thread(target=kind, args=(seed,)) for seed, kind in enumerate(kinds)]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        self.stop.set()
        for thread in threads:
            thread.join()


def memory(server: int) -> dict[str, int]:
    """Resident MiB of the server and of all its children."""
    found = {server} | {
        int(path.parent.name) for path in Path("/proc").glob("[0-9]*/stat") if _parent(path) == server
    }
    sizes = {pid: _resident(pid) for pid in found}
    return {"server, MiB": sizes[server], "its processes, MiB": sum(sizes.values()) - sizes[server]}


def _parent(stat: Path) -> int:
    try:
        return int(stat.read_text().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError, ValueError):
        return -1


def _resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


def main() -> None:
    """Measure and print; ``--keep`` writes the result where results are kept."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("folder", type=Path)
    options.add_argument("--videos", type=int, default=1000)
    options.add_argument("--browsing", type=int, default=50)
    options.add_argument("--searching", type=int, default=4)
    options.add_argument("--seconds", type=float, default=120.0)
    options.add_argument("--keep", action="store_true")
    given = options.parse_args()
    collection = given.folder / f"serve-{given.videos}.visil"
    make_collection(collection, given.videos)
    shutil.rmtree(collection / "serve", ignore_errors=True)
    server = subprocess.Popen(
        [sys.executable, "-m", "visil", "serve", os.fspath(collection), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip().rsplit(" at ", 1)[1].rstrip("/")
        load = Load(url)
        Load(url).run(min(4, given.browsing), min(1, given.searching), 5.0)  # everything is loaded once
        before = memory(server.pid)
        load.run(given.browsing, given.searching, given.seconds)
        after = memory(server.pid)
    finally:
        server.terminate()
        server.wait(30)
    result: dict[str, object] = {
        "videos": given.videos,
        "browsing": given.browsing,
        "searching": given.searching,
        "seconds": given.seconds,
        "calls": {
            name: {
                "count": len(times),
                "median, ms": round(1e3 * statistics.median(times), 1),
                "slowest of twenty, ms": round(1e3 * sorted(times)[int(0.95 * len(times))], 1),
            }
            for name, times in sorted(load.times.items())
        },
        "errors": len(load.errors),
        "before": before,
        "after": after,
    }
    for name, value in result.items():
        print(f"{name}: {value}")
    for error in sorted(set(load.errors))[:10]:
        print(f"  {error}")
    if given.keep:
        keep("serve_load", result)


if __name__ == "__main__":
    main()
