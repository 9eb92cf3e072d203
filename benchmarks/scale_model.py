"""What 1 M, 100 M and 1 G videos cost in machines, storage and latency: a model over this project's measured figures.

    python benchmarks/scale_model.py [--collection INDEX]

Every figure comes from a file in ``results/`` or is named as an assumption; the tables of docs/scale.md are this
script's output, and ``results/scale_model.json`` holds both. ``--collection`` measures anew how many frames in a row
look alike (kept in the result). Latency is simulated: queries arrive at random, each asks all shards for their nearest
frames, waits for the slowest, then asks the shards that hold its candidates to compare, and waits again.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shared.results import RESULTS, keep

SIZES = {"1 M": 10**6, "100 M": 10**8, "1 G": 10**9}
MONTH_S = 30 * 86400.0
LISTS_MOST = 1 << 16
PROBED = 16
CANDIDATES = 100
PROBES = 512


@dataclass(frozen=True)
class Figure:
    """A number and where it comes from."""

    value: float
    unit: str
    source: str


def result(name: str) -> dict[str, Any]:
    """A file of ``results/``."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return found


def gpu_extraction() -> Figure:
    """Frames a second that one GPU embeds, where a result of ``visil bench`` has it."""
    for path in sorted(RESULTS.glob("*.json")):
        known = json.loads(path.read_text("utf-8"))
        gpu = known.get("gpu") if isinstance(known, dict) else None
        rows = gpu.get("extraction", []) if isinstance(gpu, dict) else []
        lite = [row for row in rows if "lite0, 288" in row["name"]]  # the default model's
        if lite:
            return Figure(1e3 * lite[0]["value"], "frames/s a GPU", f"{path.name}: {lite[0]['name']}")
    return Figure(5000.0, "frames/s a GPU", "assumption: not measured yet")


def parameters(alike: Figure) -> dict[str, Figure]:
    """All that the model knows."""
    add, speed, search, codes = (result(name) for name in ("add_speed", "speed", "search_scale", "codes"))
    large = search["synthetic 100000"]
    cores = search["machine"]["cores"]
    scanned = 60 * PROBED * large["frames"] / lists_for(large["frames"])
    voting = large["candidates, ms"] / 1e3
    exact = large["whole search of a one-minute query, ms"] / 1e3 - voting * PROBES / 60
    tail = large["slowest of them, ms"] / large["whole search of a one-minute query, ms"]
    latency = result("shard_latency")
    one, many = (latency[f"{n} shards, this process"]["processor time here, median, ms"] for n in (1, 16))
    source = "search_scale.json, 100,000 videos"
    return {
        "seconds of a video": Figure(103.0, "s", "assumption: the mean of FIVR-200K, as in the paper"),
        "frames a second": Figure(1.0, "frames/s", "the default model's sampling"),
        "decode": Figure(
            30 / speed["decode 720p H.264, one thread, video frames/s"]["by time, resized and cropped"],
            "core-s for a second of 720p at 30 fps",
            "speed.json",
        ),
        "network, CPU": Figure(
            add["machine"]["cores"] / add["backbone"]["frames/s"],
            "core-s a frame",
            "add_speed.json: backbone",
        ),
        "network, GPU": gpu_extraction(),
        **{
            f"bytes, {kind}": Figure(codes[kind]["bytes a frame"], "bytes a frame", "codes.json")
            for kind in ("fp16", "int8", "binary")
        },
        "candidates, exact": Figure(
            1e6 * search["synthetic 1000"]["candidate file, MB"] / search["synthetic 1000"]["frames"],
            "bytes a frame",
            "search_scale.json, 1,000 videos",
        ),
        "candidates, IVF-PQ": Figure(
            1e6 * large["candidate file, MB"] / large["frames"], "bytes a frame", source
        ),
        "scan": Figure(cores * voting / scanned, "core-s a code of IVF-PQ", f"{source}: candidates, ms"),
        "compare": Figure(
            cores * exact / CANDIDATES,
            "core-s for a pair of 60 and 100 frames",
            f"{source}: whole search less its votes",
        ),
        "shard": Figure(
            max(0.0, (many - one) / 15 / 1e3),
            "s more for each further shard, one thread",
            "shard_latency.json",
        ),
        "tail": Figure(tail, "slowest of twelve searches, times their median", source),
        "alike": alike,
        "node, cores": Figure(32, "cores", "assumption"),
        "node, memory": Figure(256 * 2**30, "bytes", "assumption"),
        "node, memory for candidates": Figure(0.8, "of it", "assumption"),
        "network, round trip": Figure(0.5e-3, "s between two machines", "assumption: one data centre"),
        "sharing": Figure(0.5, "of a node's cores that one task keeps at work", "assumption"),
        "coarse": Figure(4000.0, "codes' worth of work to find a probe's lists by HNSW", "assumption"),
        "busy": Figure(0.5, "of the time that a shard is at work", "assumption"),
    }


def lists_for(frames: float) -> int:
    """As the product chooses (``visil.collection.candidates.lists_for``)."""
    return int(2 ** min(16, max(6, round(math.log2(1.3 * math.sqrt(max(frames, 1)))))))


# ---------------------------------------------------------------------- what it costs


@dataclass(frozen=True)
class Design:
    """A way to choose candidates and keep features."""

    name: str
    vectors: float
    """Candidate vectors a frame."""
    probes: int
    lists: float
    """Inverted lists, times the root of a shard's vectors; the product has 1.3, and at most 65,536."""
    capped: bool
    bytes_a_vector: str


def designs(known: dict[str, Figure]) -> list[Design]:
    """From what the product does now, step by step."""
    shots = 1 / known["alike"].value
    return [
        Design("as it is: a vector a frame, IVF-PQ", 1.0, PROBES, 1.3, True, "candidates, IVF-PQ"),
        Design("a vector a run of alike frames", shots, PROBES, 1.3, True, "candidates, IVF-PQ"),
        Design("… and 16 roots of lists, found by HNSW", shots, PROBES, 16.0, False, "candidates, IVF-PQ"),
        Design("… and 64 probes instead of 512", shots, 64, 16.0, False, "candidates, IVF-PQ"),
    ]


@dataclass(frozen=True)
class Cost:
    """One collection with one design."""

    design: str
    videos: float
    memory_tb: float
    shards: int
    vote_core_s: float
    compare_core_s: float
    queries_a_second: float
    """That the shards answer, busy as assumed."""
    nodes_for_100: int
    """Machines for 100 queries a second: shards, and as many copies of them as it takes."""


def cost(known: dict[str, Figure], design: Design, videos: float) -> Cost:
    """Memory, shards and work for a query."""
    frames = videos * known["seconds of a video"].value * known["frames a second"].value
    vectors = frames * design.vectors
    memory = vectors * known[design.bytes_a_vector].value
    room = known["node, memory"].value * known["node, memory for candidates"].value
    shards = max(1, math.ceil(memory / room))
    lists = design.lists * math.sqrt(vectors / shards)
    coarse = known["coarse"].value
    if design.capped:  # as it is: all lists are looked at, which is in the measured time of a code
        lists, coarse = min(lists, LISTS_MOST), 0.0
    vote = shards * design.probes * (PROBED * vectors / shards / lists + coarse) * known["scan"].value
    compare = CANDIDATES * known["compare"].value * known["seconds of a video"].value / 100
    rate = known["busy"].value / seconds_a_shard(known, shards, vote, compare)
    machines = shards * max(1, math.ceil(100 / rate))
    return Cost(design.name, videos, memory / 1e12, shards, vote, compare, rate, machines)


def duplicates_days(known: dict[str, Figure], design: Design, found: Cost) -> float:
    """All videos against each other once: each asks with two vectors a frame, and is compared with 40 at most."""
    probes = 2 * known["seconds of a video"].value * known["frames a second"].value
    one = (
        found.vote_core_s * min(probes, design.probes) / design.probes
        + found.compare_core_s * 40 / CANDIDATES
    )
    return found.videos * one / (known["node, cores"].value * 86400)


def seconds_a_shard(known: dict[str, Figure], shards: int, vote: float, compare: float) -> float:
    """How long a query keeps each shard at work, on average."""
    speed = known["node, cores"].value * known["sharing"].value
    return (vote + compare) / shards / speed + known["shard"].value


# ---------------------------------------------------------------------- latency


def latency(
    known: dict[str, Figure], found: Cost, busy: float, queries: int = 1200, seed: int = 0
) -> dict[str, float]:
    """Milliseconds at the median, for one in twenty and for one in a hundred.

    A shard works at one task at a time, with all its cores; times scatter as measured (log-normal, so that the slowest
    of twelve is as many times the median as it was).
    """
    rng = np.random.default_rng(seed)
    trip = known["network, round trip"].value
    speed = known["node, cores"].value * known["sharing"].value
    sigma = math.log(known["tail"].value) / 1.63  # the expected largest of twelve normal draws
    shards = found.shards
    vote = found.vote_core_s / shards / speed + known["shard"].value
    compare = found.compare_core_s / CANDIDATES / speed
    gap = seconds_a_shard(known, shards, found.vote_core_s, found.compare_core_s) / busy
    arrivals = np.cumsum(rng.exponential(gap, queries))
    free = np.zeros(shards)
    second: list[tuple[float, int]] = []
    done: dict[int, float] = {}

    def finish(until: float) -> None:
        while second and second[0][0] <= until:
            ready, query = heapq.heappop(second)
            counts = rng.multinomial(CANDIDATES, np.full(shards, 1 / shards))
            chosen = np.flatnonzero(counts)
            took = compare * counts[chosen] * rng.lognormal(0, sigma, len(chosen))
            free[chosen] = np.maximum(free[chosen], ready) + took
            done[query] = float(free[chosen].max()) + trip

    for query, at in enumerate(arrivals):
        finish(float(at))
        free[:] = np.maximum(free, at) + vote * rng.lognormal(0, sigma, shards)
        heapq.heappush(second, (float(free.max()) + trip, query))
    finish(math.inf)
    times = 1e3 * (np.array([done[i] for i in range(queries)]) - arrivals)[queries // 10 :]
    return {
        name: round(float(np.quantile(times, q)), 1)
        for name, q in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    }


# ---------------------------------------------------------------------- tables


def extraction(known: dict[str, Figure], videos: float) -> dict[str, float]:
    """Machines that embed so many videos in a month, and what is kept of them."""
    seconds = videos * known["seconds of a video"].value
    frames = seconds * known["frames a second"].value
    decode, network = seconds * known["decode"].value, frames * known["network, CPU"].value
    cores = known["node, cores"].value
    return {
        "hours of video": seconds / 3600,
        "frames": frames,
        "CPU machines, no GPU": (decode + network) / MONTH_S / cores,
        "CPU machines to decode": decode / MONTH_S / cores,
        "GPUs to embed": frames / known["network, GPU"].value / MONTH_S,
        **{
            f"TB, {kind}": frames * known[f"bytes, {kind}"].value / 1e12
            for kind in ("fp16", "int8", "binary")
        },
        "TB of memory, exact candidates": frames * known["candidates, exact"].value / 1e12,
        "TB of memory, IVF-PQ": frames * known["candidates, IVF-PQ"].value / 1e12,
    }


def per_hour(known: dict[str, Figure]) -> dict[str, float]:
    """What an hour of video costs."""
    frames = 3600 * known["frames a second"].value
    return {
        "core-s to decode (720p, 30 fps)": 3600 * known["decode"].value,
        "core-s to embed on CPU": frames * known["network, CPU"].value,
        "GPU-s to embed": frames / known["network, GPU"].value,
        **{
            f"MB, {kind}": frames * known[f"bytes, {kind}"].value / 1e6 for kind in ("fp16", "int8", "binary")
        },
        "MB of memory, exact candidates": frames * known["candidates, exact"].value / 1e6,
        "MB of memory, IVF-PQ": frames * known["candidates, IVF-PQ"].value / 1e6,
    }


def per_query(known: dict[str, Figure]) -> dict[str, float]:
    """What the exact stage of one search reads and computes."""
    frames = CANDIDATES * known["seconds of a video"].value * known["frames a second"].value
    kinds = ("fp16", "int8", "binary")
    return {
        "core-s to compare 100 candidates": CANDIDATES
        * known["compare"].value
        * known["seconds of a video"].value
        / 100,
        **{f"MB read, {kind}": frames * known[f"bytes, {kind}"].value / 1e6 for kind in kinds},
    }


def alike_runs(collection: Path | None) -> Figure:
    """Frames in a row whose vectors are within 0.9 of the run's first: measured, or as it was last measured."""
    if collection is None:
        known = result("scale_model")["parameters"]["alike"]
        return Figure(known["value"], known["unit"], known["source"])
    from visil.collection.candidates import frame_vectors
    from visil.collection.index import Index

    frames = runs = videos = 0
    with Index(collection, create=False) as index:
        for _, features in index.store.readable(index.catalogue.videos()):
            vectors = frame_vectors(features)
            first = None
            for vector in vectors:
                if first is None or float(vector @ first) < 0.9:
                    first, runs = vector, runs + 1
            frames, videos = frames + len(vectors), videos + 1
    source = (
        f"this script, over {videos:,} clips of {frames / videos:.0f} frames: runs within 0.9 of their first"
    )
    return Figure(frames / runs, "frames a run", source)


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """As Markdown."""
    names = list(rows[0])
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"
    for row in rows:
        yield f"| {' | '.join(shown(row[name]) for name in names)} |"


def shown(value: Any) -> str:
    """Three digits of a number."""
    if isinstance(value, str):
        return value
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def main() -> None:
    """Compute, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collection", type=Path, help="measure runs of alike frames in this collection")
    args = parser.parse_args()
    known = parameters(alike_runs(args.collection))
    kept: dict[str, Any] = {"parameters": {name: asdict(figure) for name, figure in known.items()}}
    print("An hour of video:\n")
    kept["an hour of video"] = per_hour(known)
    print("\n".join(table([{"what": name, "": value} for name, value in kept["an hour of video"].items()])))
    print("\nThe exact stage of a search:\n")
    kept["exact stage of a search"] = per_query(known)
    print(
        "\n".join(
            table([{"what": name, "": value} for name, value in kept["exact stage of a search"].items()])
        )
    )
    rows = [{"videos": name, **extraction(known, videos)} for name, videos in SIZES.items()]
    kept["extraction and storage"] = rows
    print("\nExtraction in a month, and storage:\n")
    print("\n".join(table(rows)))
    kept["search"] = []
    for name, videos in SIZES.items():
        for design in designs(known):
            found = cost(known, design, videos)
            times = {f"{q}, ms": t for q, t in latency(known, found, known["busy"].value).items()}
            kept["search"].append(
                {
                    "videos": name,
                    "design": design.name,
                    "memory, TB": found.memory_tb,
                    "shards": found.shards,
                    "core-s to vote": found.vote_core_s,
                    "core-s to compare": found.compare_core_s,
                    "queries/s": found.queries_a_second,
                    "machines for 100/s": found.nodes_for_100,
                    "machine-days for all duplicates": duplicates_days(known, design, found),
                    **times,
                }
            )
    print("\nSearch, half busy:\n")
    print("\n".join(table(kept["search"])))
    kept["fan-out alone"] = fan_out(known)
    print("\nOne million videos over more shards than they need, half busy:\n")
    print("\n".join(table(kept["fan-out alone"])))
    keep("scale_model", kept)


def fan_out(known: dict[str, Figure]) -> list[dict[str, Any]]:
    """How the slowest of many shards stretches the tail: the same collection, cut finer."""
    rows = []
    whole = cost(known, designs(known)[0], 10**6)
    for shards in (1, 4, 16, 64, 256):
        # A shard scans with the root of its size, so that all of them together scan more.
        vote = whole.vote_core_s * math.sqrt(shards)
        cut = Cost(whole.design, 1e6, whole.memory_tb, shards, vote, whole.compare_core_s, 0, 0)
        times = latency(known, cut, known["busy"].value)
        rows.append({"shards": shards, **{f"{name}, ms": value for name, value in times.items()}})
    return rows


if __name__ == "__main__":
    main()
