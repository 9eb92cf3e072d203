"""How long a search takes over 1, 4 and 16 shards, beside one index with the same videos.

    python benchmarks/shard_latency.py COLLECTION [--shards 1 4 16] [--queries 30] [--ray local]

COLLECTION is an ordinary one; its shards are made in a temporary folder (features are links, nothing is embedded).
Queries are videos of the collection, so no decoding is in the figures. Each query is asked of all kinds in turn, so
that a busy machine slows them alike; answers must be the same. ``--ray`` asks warm actors as well.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import torch

import visil
from shared.results import keep
from visil.collection.index import Index
from visil.collection.search import Hit
from visil.collection.shards.create import create


def asked(index: Index, query: visil.VideoFeatures, k: int) -> tuple[float, float, list[Hit]]:
    """Seconds by the clock, seconds of this process, and the hits."""
    start, began = time.perf_counter(), time.process_time()
    hits = index.search(query, k)
    return time.perf_counter() - start, time.process_time() - began, hits


def figures(seconds: list[float], worked: list[float]) -> dict[str, float]:
    """What is kept of a kind's times, in milliseconds; those of the processor hardly hang on who else uses it."""
    falling = sorted(seconds)[::-1]
    return {
        "processor time here, median, ms": round(1e3 * statistics.median(worked), 1),
        "median, ms": round(1e3 * statistics.median(seconds), 1),
        "slowest of ten, ms": round(1e3 * falling[len(falling) // 10], 1),
    }


def main() -> None:
    """Measure and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection", type=Path)
    parser.add_argument("--shards", type=int, nargs="*", default=[1, 4, 16])
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1, help="of this process, and of each actor")
    parser.add_argument(
        "--ray", metavar="ADDRESS", help="ask warm actors of this cluster too; local starts one"
    )
    parser.add_argument(
        "--ray-shards", type=int, nargs="*", default=[1, 4], help="each is a process with a network"
    )
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = visil.load()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kinds: dict[str, Index] = {"one index": stack.enter_context(Index(args.collection, model=model))}
        for count in args.shards:
            create(folder / str(count), count, source=args.collection)
            name = f"{count} shards, this process"
            kinds[name] = stack.enter_context(Index(folder / str(count), model=model))
        if args.ray:
            from visil.cluster.ray_connection import RayConnection
            from visil.cluster.ray_session import ray_session

            stack.enter_context(ray_session(args.ray))
            for count in args.ray_shards:
                connect = partial(RayConnection, threads=args.threads)
                sharded = Index(folder / str(count), model=model, connect=connect)
                kinds[f"{count} shards, Ray actors"] = stack.enter_context(sharded)
        one = kinds["one index"]
        ids = [video.id for video in one.catalogue.videos()]
        chosen = np.random.default_rng(0).choice(len(ids), args.queries, replace=False)
        queries = [one.features(ids[i]) for i in chosen]
        times: dict[str, list[float]] = {name: [] for name in kinds}
        worked: dict[str, list[float]] = {name: [] for name in kinds}
        differing = 0
        for index in kinds.values():
            index.search(queries[0], args.k)  # networks loaded, candidates mapped, backgrounds sampled
        for query in queries:
            answers = {}
            for name, index in kinds.items():
                took, used, hits = asked(index, query, args.k)
                times[name].append(took)
                worked[name].append(used)
                answers[name] = [(hit.id, round(hit.score, 5)) for hit in hits]
            differing += any(answer != answers["one index"] for answer in answers.values())
        result: dict[str, object] = {
            "videos": len(ids),
            "frames": one.info().frames,
            "queries": args.queries,
            "frames of a query, median": statistics.median(len(query) for query in queries),
            "threads": args.threads,
            "queries with different hits": differing,
            "processes at work on the machine, on average (load)": round(os.getloadavg()[0], 1),
            **{name: figures(seconds, worked[name]) for name, seconds in times.items()},
        }
    print(result)
    keep("shard_latency", result)


if __name__ == "__main__":
    main()
