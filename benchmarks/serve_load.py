"""A server under load: clients that browse and clients that search, all at once, over a synthetic collection.

    python benchmarks/serve_load.py FOLDER [--videos 1000] [--browsing 50] [--searching 4] [--seconds 60] [--keep]
    python benchmarks/serve_load.py FOLDER --hour [--keep]

Every browsing client asks for lists, single videos and jobs as the page does, with a short pause to look; every
searching client searches for a video of the collection and waits for its hits. Features are random walks, a hundred
frames a video; there are no files behind them, so their pictures are not asked for.

``--hour`` sends an hour's worth of requests as fast as the server takes them: 50 people who ask for something every
4 seconds make 45,000, and every minute one of them searches, in turn for a video of the collection and for a clip that
is uploaded, looked at and compared with the best hit. Resident memory of the server and of every process below it is
sampled all the while.
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
from urllib.request import urlopen

import torch
import torch.nn.functional as F

import visil
from shared.results import keep
from shared.stored_videos import store_video
from visil.client import Client, ServerError
from visil.demo import photograph, render_scene
from visil.video.writer import write_video

FRAMES = 100
SHOTS = 8
LOOK_S = 1.0
"""Seconds that a person looks at a list before asking for the next, about."""
HOUR_EVERY_S = 4.0
HOUR_SEARCHES = 60
SAMPLE_S = 1.0


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

    def __init__(self, url: str, clip: Path | None = None) -> None:
        self.url = url
        self.clip = clip
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

    @property
    def count(self) -> int:
        """Requests answered so far."""
        return sum(map(len, list(self.times.values())))

    def look(self, client: Client, chance: random.Random) -> None:
        """What the page's lists ask for: four calls."""
        offset = chance.randrange(0, len(self.ids), 50)
        sort = chance.choice(["name", "-added", "duration", "-size"])
        self.timed("list", lambda: client.videos(offset=offset, sort=sort))
        self.timed("filtered list", lambda: client.videos(q=str(chance.randrange(100))))
        self.timed("one video", lambda: client.video(chance.choice(self.ids)))
        self.timed("jobs", lambda: client.jobs(20))

    def browse(self, seed: int, calls: int | None) -> None:
        """One look after another, so many calls, or with pauses until all is over."""
        chance, client = random.Random(seed), Client(self.url)
        for _ in range(calls // 4 if calls is not None else sys.maxsize):
            if self.stop.is_set():
                return
            self.look(client, chance)
            if calls is None:
                self.stop.wait(chance.uniform(0.5, 1.5) * LOOK_S)

    def search(self, seed: int, calls: int | None) -> None:
        """One search after another, so many, or until all is over."""
        chance, client = random.Random(seed), Client(self.url)
        for turn in range(calls if calls is not None else sys.maxsize):
            if self.stop.is_set():
                return
            if self.clip is not None and turn % 2:
                self.timed("search for a file", lambda: self.send_and_look(client))
            else:
                self.timed("search", lambda: client.search({"video": chance.choice(self.ids)}, k=20))

    def send_and_look(self, client: Client) -> None:
        """Upload a clip, look at it, search for it, compare it with the best hit."""
        assert self.clip is not None
        sent = client.upload(self.clip)
        with urlopen(f"{self.url}/api/uploads/{sent}/thumbnail") as answer:
            answer.read()
        found = client.search({"upload": sent}, k=20)
        match = client.compare({"upload": sent}, {"video": str(found["hits"][0]["video"]["id"])})
        client.matrix(match["frame_matrix"]["url_bin"])

    def run(self, browsing: int, searching: int, seconds: float) -> None:
        """All of them at once, for so long."""
        threads = self._start(browsing, searching, None, None)
        time.sleep(seconds)
        self.stop.set()
        for thread in threads:
            thread.join()

    def run_all(
        self, browsing: int, searching: int, calls: int, searches: int, sample: Callable[[], None]
    ) -> None:
        """So many calls and searches in all, shared among the clients; ``sample`` is called every second."""
        threads = self._start(browsing, searching, calls // browsing, searches // searching)
        while any(thread.is_alive() for thread in threads):
            sample()
            time.sleep(SAMPLE_S)

    def _start(
        self, browsing: int, searching: int, calls: int | None, searches: int | None
    ) -> list[threading.Thread]:
        kinds = [(self.browse, calls)] * browsing + [(self.search, searches)] * searching
        threads = [
            threading.Thread(target=kind, args=(seed, count)) for seed, (kind, count) in enumerate(kinds)
        ]
        for thread in threads:
            thread.start()
        return threads


def memory(server: int) -> dict[str, int]:
    """Resident MiB of the server and of all processes below it."""
    parents = {int(path.parent.name): _parent(path) for path in Path("/proc").glob("[0-9]*/stat")}
    found = {server}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
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


def minute(load: Load, given: argparse.Namespace, server: int) -> dict[str, object]:
    """Clients that come and look, for so many seconds."""
    before = memory(server)
    load.run(given.browsing, given.searching, given.seconds)
    return {"seconds": given.seconds, **measured(load), "before": before, "after": memory(server)}


def hour(load: Load, given: argparse.Namespace, server: int) -> dict[str, object]:
    """An hour's worth of requests, and memory over them."""
    calls = int(given.browsing * 3600 / HOUR_EVERY_S)
    began, samples = time.monotonic(), []

    def sample() -> None:
        samples.append((load.count, memory(server)))

    load.run_all(given.browsing, given.searching, calls, HOUR_SEARCHES, sample)
    tenth = max(1, len(samples) // 10)
    parts = [samples[place : place + tenth] for place in range(0, tenth * 10, tenth)]
    return {
        "stands for": f"an hour of {given.browsing} people, a request every {HOUR_EVERY_S:g} s each, "
        f"and {HOUR_SEARCHES} searches, half of them for an uploaded file",
        "took, s": round(time.monotonic() - began),
        **measured(load),
        "memory over it, by tenths": [
            {
                "requests so far": part[-1][0],
                **{name: round(statistics.median(one[name] for _, one in part)) for name in samples[0][1]},
            }
            for part in parts
            if part
        ],
        "most, MiB": max(sum(one.values()) for _, one in samples),
    }


def measured(load: Load) -> dict[str, object]:
    """How long calls took, and how many were refused."""
    return {
        "requests": load.count,
        "calls": {
            name: {
                "count": len(times),
                "median, ms": round(1e3 * statistics.median(times), 1),
                "slowest of twenty, ms": round(1e3 * sorted(times)[int(0.95 * len(times))], 1),
            }
            for name, times in sorted(load.times.items())
        },
        "errors": len(load.errors),
    }


def main() -> None:
    """Measure and print; ``--keep`` writes the result where results are kept."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("folder", type=Path)
    options.add_argument("--videos", type=int, default=1000)
    options.add_argument("--browsing", type=int, default=50)
    options.add_argument("--searching", type=int, default=4)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--hour", action="store_true")
    options.add_argument("--keep", action="store_true")
    given = options.parse_args()
    collection = given.folder / f"serve-{given.videos}.visil"
    make_collection(collection, given.videos)
    clip = given.folder / "clip.mp4"
    write_video(clip, render_scene(photograph("chelsea"), 10.0))
    shutil.rmtree(collection / "serve", ignore_errors=True)
    server = subprocess.Popen(
        [sys.executable, "-m", "visil", "serve", os.fspath(collection), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip().rsplit(" at ", 1)[1].rstrip("/")
        sent = clip if given.hour else None
        Load(url, sent).run(min(4, given.browsing), min(2, given.searching), 8.0)  # all is loaded once
        load = Load(url, sent)
        result = (hour if given.hour else minute)(load, given, server.pid)
    finally:
        server.terminate()
        server.wait(30)
    sizes = {"videos": given.videos, "browsing": given.browsing, "searching": given.searching}
    for name, value in result.items():
        print(f"{name}: {value}")
    for error in sorted(set(load.errors))[:10]:
        print(f"  {error}")
    if given.keep:
        keep("serve_load_hour" if given.hour else "serve_load", {**sizes, **result})


if __name__ == "__main__":
    main()
