"""The library of a large collection: how long its lists take on a real server, for 20,000 and 200,000 videos.

    python benchmarks/library_scale.py FOLDER [--videos 20000 200000] [--keep]

The catalogue is made, a row a video; there are no features and no files behind it, so nothing can be searched for or
played, and every video counts as missing. Each list is asked for over HTTP as the page does, after the server has
read the catalogue once; "after a change" is the first list after a video was removed. Of the very first list, asked for
as soon as the server listens, the processor's seconds are told too: with other work on the machine, they say more.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import Request, urlopen

import visil
from shared.results import keep
from visil.client import Client

PAGE = 60
TIMES = 15
LISTS = {
    "first page": "",
    "middle page": "offset={middle}",
    "last page": "offset={last}",
    "longest first": "sort=-duration",
    "newest first": "sort=-added",
    "filter, many hits": "q=holiday",
    "filter, few hits": "q=clip%2019999",
    "failed only": "state=failed",
}


def make_catalogue(folder: Path, videos: int) -> None:
    """A collection of that many videos that were never read."""
    with visil.Index(folder) as index:
        if len(index):
            return
        catalogue = Path(index.folder) / "catalogue.sqlite"
    number = random.Random(1)
    with sqlite3.connect(catalogue) as db:
        for row in range(1, videos + 1):
            name = hashlib.blake2b(str(row).encode(), digest_size=16).hexdigest()
            seconds, size = number.uniform(3, 7200), number.randrange(10**5, 10**9)
            db.execute(
                "INSERT INTO videos VALUES (?, ?, ?, ?, 1920, 1080, 'h264', 1000, ?, 0, ?)",
                (row, name, int(seconds), seconds, size, 1.7e9 + row),
            )
            path = f"/videos/{1990 + row % 35}/{('holiday', 'clip', 'talk')[row % 3]} {row}.mp4"
            db.execute("INSERT INTO files VALUES (?, ?, ?, ?, 0)", (path.encode(), row, size, row))


def measured(url: str, videos: int, server: int) -> dict[str, object]:
    """Milliseconds of every kind of list, the median of some."""
    client = Client(url)
    began, used = time.perf_counter(), _cpu_s(server)
    client.videos(limit=PAGE)
    row: dict[str, object] = {
        "videos": videos,
        "first list of all, ms": 1e3 * (time.perf_counter() - began),
        "first list of all, CPU s": _cpu_s(server) - used,
    }
    for name, asked in LISTS.items():
        settings = asked.format(middle=videos // 2, last=videos - PAGE)
        row[name] = statistics.median(_ms(f"{url}/api/videos?limit={PAGE}&{settings}") for _ in range(TIMES))
    client.remove(str(client.videos(limit=1)["videos"][0]["id"]))
    row["after a change"] = _ms(f"{url}/api/videos?limit={PAGE}")
    return row


def _cpu_s(process: int) -> float:
    """Processor seconds that a process has taken."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _ms(address: str) -> float:
    began = time.perf_counter()
    with urlopen(Request(address, headers={"X-Visil": "1"})) as answer:
        answer.read()
    return 1e3 * (time.perf_counter() - began)


def main() -> None:
    """Measure every size asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--videos", type=int, nargs="+", default=[20_000, 200_000])
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/library_scale.json")
    chosen = parser.parse_args()
    rows = []
    for videos in chosen.videos:
        folder = chosen.folder / f"{videos}.visil"
        make_catalogue(folder, videos)
        server = subprocess.Popen(
            [sys.executable, "-m", "visil", "serve", folder, "--port", "0"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert server.stdout is not None
            line = next(line for line in server.stdout if "http://" in line)
            url = "http://" + line.split("http://")[1].split()[0].rstrip("/.,")
            rows.append(measured(url, videos, server.pid))
            memory = Path(f"/proc/{server.pid}/status").read_text().split("VmRSS:")[1].split()[0]
            rows[-1]["server, MiB"] = int(memory) / 1024
        finally:
            server.terminate()
            server.wait(30)
        print(rows[-1])
    if chosen.keep:
        keep("library_scale", {"page": PAGE, "rows": rows})


if __name__ == "__main__":
    main()
