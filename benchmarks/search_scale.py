"""Search at size: recall against exhaustive search on real edited videos, and latency at 1 k to 100 k videos.

    python benchmarks/pack_frames.py VIDEOS PACKS
    python benchmarks/search_scale.py PACKS FOLDER [--videos 1000 10000 100000]
    python benchmarks/search_scale.py PACKS FOLDER --videos 1000000 --frames 10 --queries 0

The large collections are synthetic: a hundred frames a video, or as many as ``--frames`` says, each a walk between real
frames' features with noise of their own. Frame vectors go into the product's candidate index; feature files are made of
real vectors, for the videos that the queries take for candidates alone, so that search reads, compares and localises as
it always does. Searches run in a process of their own, whose memory is measured. FOLDER needs some 3 GB. Rows that the
result holds already stay beside new ones.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import visil
from shared.packs import embed_packs
from shared.results import RESULTS, keep
from shared.stored_videos import store_video
from visil.collection.candidates import CandidateIndex, Probes, frame_vectors, lists_for, trained_ivf
from visil.collection.catalogue import Catalogue
from visil.collection.index import Index

QUERY_FRAMES = 60
SHARED = 15
"""Frames of a query that are a piece of a video, as far as it is so long."""
SEARCHED = 12
"""Queries that are searched for whole."""
CANDIDATES = 100


def real_recall(
    features: dict[str, Tensor], model: visil.ViSiL, folder: Path, queries: int
) -> dict[str, object]:
    """Of the ten that exhaustive search finds, how many search finds; originals and all their copies are there."""
    index = Index(folder / "real", model=model)
    if not len(index):
        for number, (_, vectors) in enumerate(sorted(features.items())):
            store_video(index, f"{number:06}", vectors)
    index.refresh()
    names = sorted(features)
    edited = [i for i, name in enumerate(names) if "|" in name]
    found = wanted = 0
    fast: list[float] = []
    slow: list[float] = []
    for i in random.Random(0).sample(edited, queries):
        query = index.features(f"{i:06}".encode().hex().ljust(32, "0")[-32:])
        start = time.perf_counter()
        likely = {hit.id for hit in index.search(query, 10)}
        middle = time.perf_counter()
        every = [hit.id for hit in index.search(query, 10, exhaustive=True)]
        fast.append(middle - start)
        slow.append(time.perf_counter() - middle)
        found += len(likely.intersection(every))
        wanted += len(every)
    return {
        "videos": len(index),
        "queries": queries,
        "recall of the exhaustive top 10": found / wanted,
        "search, ms": round(1e3 * float(np.median(fast)), 1),
        "exhaustive, ms": round(1e3 * float(np.median(slow)), 1),
    }


class Synthetic:
    """Frame vectors of made-up videos, the same for the same number."""

    def __init__(self, real: NDArray[np.float32], frames: int) -> None:
        self.real, self.frames = real, frames

    def video(self, number: int) -> NDArray[np.float32]:
        """[frames, C]: some shots, each near one real frame mixed with another."""
        rng = np.random.default_rng(number)
        shots = rng.integers(3, 12)
        anchors = self.real[rng.integers(0, len(self.real), (shots, 2))]
        mixed = anchors[:, 0] + rng.uniform(0.2, 0.8, (shots, 1)).astype(np.float32) * anchors[:, 1]
        frames = mixed[np.sort(rng.integers(0, shots, self.frames))]
        return unit(unit(frames) + 0.6 * unit(rng.standard_normal(frames.shape, np.float32)))

    def query(self, number: int, rng: np.random.Generator) -> NDArray[np.float32]:
        """Some frames of that video, changed by an edit, among frames of nowhere."""
        length = min(SHARED, self.frames)
        start = int(rng.integers(0, max(1, self.frames - length)))
        shared = self.video(number)[start : start + length]
        shared = unit(shared + 0.8 * unit(rng.standard_normal(shared.shape, np.float32)))
        nowhere = (self.video(10_000_000 + number + i) for i in range(-(-QUERY_FRAMES // self.frames)))
        foreign = np.concatenate(list(nowhere))[: QUERY_FRAMES - length]
        return np.concatenate([foreign[:20], shared, foreign[20:]])


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows to length one."""
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def large(
    model: visil.ViSiL, synthetic: Synthetic, pool: list[Tensor], folder: Path, videos: int
) -> dict[str, object]:
    """Latency and memory of a collection of that size, and whether planted pieces are among the candidates."""
    index = Index(folder / f"synthetic-{videos}-{synthetic.frames}", model=model)
    if len(index) < videos:
        fill(index, videos, synthetic.frames)
    candidates = CandidateIndex(index.folder, model.dim)
    built = 0.0
    if not candidates.load() or len(candidates.numbers) < videos:
        start = time.perf_counter()
        build(candidates, synthetic, videos)
        built = time.perf_counter() - start
        candidates = CandidateIndex(index.folder, model.dim)
        assert candidates.load()
    rng = np.random.default_rng(1)
    chosen = rng.choice(videos, 30, replace=False) + 1
    voting, planted = [], 0
    likely: set[int] = set()
    asked: list[NDArray[np.float32]] = []
    for number in chosen:
        query = synthetic.query(int(number), rng)
        start = time.perf_counter()
        (votes,) = candidates.vote([Probes(query, np.arange(len(query)))], CANDIDATES)
        voting.append(time.perf_counter() - start)
        planted += any(vote.number == number for vote in votes)
        if len(asked) < SEARCHED:
            asked.append(query)
            likely |= {vote.number for vote in votes}
    give_features(index, pool, likely)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool_of_one:
        answering, most = pool_of_one.submit(searched, index.folder, asked, pool[0].shape[1]).result()
    return {
        "videos": videos,
        "frames": candidates.frames,
        "planted piece among 100 candidates": planted / len(chosen),
        "candidates, ms": round(1e3 * float(np.median(voting)), 1),
        "whole search of a one-minute query, ms": round(1e3 * float(np.median(answering)), 1),
        "slowest of them, ms": round(1e3 * max(answering), 1),
        "candidate file, MB": round(
            sum(f.stat().st_size for f in index.folder.glob("frames-*.faiss")) / 1e6, 1
        ),
        "peak of the process that searches, MiB": round(most),
        "built in, s": round(built, 1),
    }


def searched(folder: Path, queries: Sequence[NDArray[np.float32]], regions: int) -> tuple[list[float], float]:
    """Seconds of each search in a fresh process, and its memory at the most, MiB."""
    index = Index(folder)
    answering = []
    for frames in queries:
        vectors = torch.from_numpy(frames)[:, None].expand(-1, regions, -1).contiguous()
        query = visil.VideoFeatures(vectors, torch.arange(len(vectors), dtype=torch.float64))
        start = time.perf_counter()
        index.search(query, 10)
        answering.append(time.perf_counter() - start)
    return answering, peak()


def peak() -> float:
    """MiB that this process has held at the most; ``ru_maxrss`` begins with what its parent held."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line]
    return int(line.split()[1]) / 1024


def name_of(number: int) -> str:
    """The id of the video with that number in a catalogue: they begin with 1."""
    return f"{number - 1:08}".encode().hex().ljust(32, "0")[-32:]


def fill(index: Index, videos: int, frames: int) -> None:
    """Catalogue entries."""
    assert isinstance(index.catalogue, Catalogue)
    with index.catalogue.database.writing() as db:
        db.executemany(
            "INSERT INTO videos (id, frames, duration, width, height, codec, bytes, damaged, added)"
            " VALUES (?, ?, ?, 256, 256, '', 0, 0, 0)",
            ((name_of(number), frames, float(frames)) for number in range(1, videos + 1)),
        )


def give_features(index: Index, pool: Sequence[Tensor], numbers: Iterable[int]) -> None:
    """Feature files of some videos: pieces of real footage."""
    for number in numbers:
        if not index.store.path(name_of(number)).exists():
            vectors = pool[number % len(pool)]
            writer = index.store.writer(name_of(number))
            blank = torch.zeros(len(vectors), dtype=torch.bool)
            writer.append(vectors, np.arange(len(vectors), dtype=np.float64), blank)
            writer.finish(float(len(vectors)))


def build(candidates: CandidateIndex, synthetic: Synthetic, videos: int) -> None:
    """The product's index, filled with made-up frames."""
    total = videos * synthetic.frames
    if total > 200_000:
        sample = range(0, videos, max(1, total // (lists_for(total) * 64)))
        training = np.concatenate([synthetic.video(i + 1) for i in sample])
        candidates.begin(trained_ivf(training[: lists_for(total) * 64], total))
    for block in blocks(videos, 500):
        vectors = [synthetic.video(i + 1) for i in block]
        for i, frames in zip(block, vectors, strict=True):
            candidates.add(i + 1, frames)
    candidates.save()


def blocks(count: int, size: int) -> Iterator[range]:
    """Ranges that cover ``count``."""
    return (range(start, min(start + size, count)) for start in range(0, count, size))


def main() -> None:
    """Measure and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packs", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--videos", type=int, nargs="*", default=[1000, 10_000, 100_000])
    parser.add_argument("--frames", type=int, default=100, help="of each made video")
    parser.add_argument("--queries", type=int, default=60, help="real ones; 0: made videos alone")
    args = parser.parse_args()
    model = visil.load()
    features = embed_packs(model, args.packs, model.config.name)
    kept = RESULTS / "search_scale.json"
    result: dict[str, object] = json.loads(kept.read_text()) if kept.exists() else {}
    result.pop("machine", None)
    if args.queries:
        result["real"] = real_recall(features, model, args.folder, args.queries)
        print(result["real"], flush=True)
    originals = [vectors for name, vectors in sorted(features.items()) if "|" not in name]
    as_video = [visil.VideoFeatures(v.float(), torch.arange(len(v), dtype=torch.float64)) for v in originals]
    synthetic = Synthetic(np.concatenate([frame_vectors(video) for video in as_video]), args.frames)
    strung = torch.cat(originals)
    pool = [part for part in strung.split(args.frames) if len(part) == args.frames]
    for videos in args.videos:
        figures = large(model, synthetic, pool, args.folder, videos)
        of = "" if args.frames == 100 else f", {args.frames} frames each"
        result[f"synthetic {videos}{of}"] = figures
        print(figures, flush=True)
    keep("search_scale", result)


if __name__ == "__main__":
    main()
