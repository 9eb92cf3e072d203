"""What a collection on a store costs: search in a folder, and on an S3 server on loopback with a cold and a warm cache.

    python benchmarks/store_speed.py COLLECTION [--queries 20] [--latency-ms 20] [--keep]

COLLECTION is a folder; its features are copied to the server (moto's, in a process of its own), nothing is embedded.
Queries are videos of the collection, by id. ``cold``: nothing is cached on this machine, the candidate cache comes from
the store. ``again``: the same queries once more. Each is done a second time with so many milliseconds added to every
request, about what a store in the same region takes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import torch

import visil
from shared.results import keep
from visil.collection.index import Index
from visil.collection.part import Part
from visil.collection.remote.objects import Objects

URL = "s3://bench/collection.visil"


@contextmanager
def server() -> Iterator[None]:
    """An S3 server on loopback with one bucket, set in the environment."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    script = (
        "import time; from moto.server import ThreadedMotoServer; "
        f"ThreadedMotoServer('127.0.0.1', {port}).start(); time.sleep(9e5)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        os.environ |= {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.1)
        Objects("s3://bench").fs.mkdir("bench")
        yield
    finally:
        process.kill()
        process.wait()


class Counter:
    """Requests and bytes, and the latency that each is made to have."""

    def __init__(self) -> None:
        self.latency = 0.0
        self.requests = self.bytes = 0
        self._asked: Callable[..., Any] = Objects._asked
        Objects._asked = self._counted  # type: ignore[method-assign]

    @property
    def _counted(self) -> Callable[..., Any]:
        def counted(
            objects: Objects, name: str, ask: Callable[..., Any], size: int = 0, answers: int = 1
        ) -> Any:
            time.sleep(self.latency)
            answer = self._asked(objects, name, ask, size, answers)
            self.requests += 1
            self.bytes += len(answer) if isinstance(answer, bytes) else size
            return answer

        return counted


def copied(source: Index, model: visil.ViSiL) -> float:
    """All of a folder's videos onto the store; seconds."""
    start = time.perf_counter()
    with (
        closing(Part.shard(source.folder)) as here,
        closing(Part.open(URL, model=model, codes=source.store.codes)) as target,
    ):
        assert target.model is not None
        for video in source.catalogue.videos():
            entry = here.transfers.entry(video.id)
            assert entry is not None
            target.transfers.take(video.id, here.transfers.file(video.id))
            target.transfers.put(entry)
        target.keep()
        target.warm()
    return time.perf_counter() - start


def asked(index: Index, queries: list[str]) -> dict[str, float]:
    """Milliseconds of the first search, and of the others."""
    times = []
    for query in queries:
        start = time.perf_counter()
        index.search(query, 10)
        times.append(1e3 * (time.perf_counter() - start))
    return {
        "first": round(times[0], 1),
        "median": round(statistics.median(times[1:]), 1),
        "slowest": round(max(times[1:]), 1),
    }


def on_store(
    model: visil.ViSiL,
    queries: list[str],
    expected: list[list[str]],
    counter: Counter,
    latency: float,
    cache: Path,
) -> dict[str, object]:
    """Cold, and again."""
    shutil.rmtree(cache, ignore_errors=True)
    counter.latency, counter.requests, counter.bytes = latency, 0, 0
    start = time.perf_counter()
    with Index(URL, model=model, create=False) as index:
        opening = round(1e3 * (time.perf_counter() - start), 1)
        cold = asked(index, queries)
        traffic = {"requests": counter.requests, "MB": round(counter.bytes / 1e6, 2)}
        counter.requests = 0
        again = asked(index, queries)
        hits = [[hit.id for hit in index.search(query, 10)] for query in queries]
        return {
            "same hits as in the folder": hits == expected,
            "open, ms": opening,
            "cold, ms": cold,
            "cold, traffic": traffic,
            "again, ms": again,
            "again, requests": counter.requests,
        }


def main() -> None:
    """Measure, print, and keep if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collection", type=Path)
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--latency-ms", type=float, default=20.0)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    model = visil.load()
    counter = Counter()
    with tempfile.TemporaryDirectory() as scratch, server(), Index(options.collection, create=False) as local:
        os.environ["VISIL_CACHE"] = f"{scratch}/cache"
        numbers = local.catalogue.numbers()
        step = max(1, len(numbers) // options.queries)
        chosen = local.catalogue.numbered(numbers[::step][: options.queries])
        queries = [video.id for video in chosen.values()]
        state = local.info()
        here = asked(local, queries)
        expected = [[hit.id for hit in local.search(query, 10)] for query in queries]
        uploading = copied(local, model)
        result: dict[str, object] = {
            "collection": {"videos": state.videos, "frames": state.frames, "MB": round(state.bytes / 1e6, 1)},
            "queries": len(queries),
            "copying to the store, s": round(uploading, 1),
            "folder, ms": {"first": here, "again": asked(local, queries)},
            "store": on_store(model, queries, expected, counter, 0.0, Path(scratch, "cache")),
            f"store with {options.latency_ms:g} ms a request": on_store(
                model, queries, expected, counter, options.latency_ms / 1e3, Path(scratch, "cache")
            ),
        }
    for name, value in result.items():
        print(f"{name}: {value}")
    if options.keep:
        keep("store_speed", result)


if __name__ == "__main__":
    main()
