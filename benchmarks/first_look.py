"""Search by signs first and fp16 after: ranking of the copy benchmark and time, against exhaustive search.

    python benchmarks/first_look.py COPYSET FEATURES [--videos 2000] [--no-keep]

FEATURES is a folder where embedded files are kept, the one of ``copyset_model.py``. The database becomes an fp16
collection, and each query is asked in each way in turn: exhaustive, by votes (the default), and by a first look that
keeps 10, 20 or 50 videos. A query whose original is not among the hits counts as 0. All hits are asked for, so that
votes choose every video there: that row is no test of votes. Then five queries for ten hits, for time alone, in a
larger collection of 100-frame videos: real frames in random order, with noise. Queries are features already; the files
are in the system's cache; one thread. Times are medians over queries.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import visil
from shared.copy_sets import CopySet, embedded_set
from shared.results import as_text, keep
from shared.stored_videos import stored
from visil.collection.catalogue import NewVideo
from visil.collection.first_look import FILE
from visil.collection.identity import Stamp
from visil.collection.index import Index
from visil.collection.search import Hit

KEPT = (10, 20, 50)
WAYS = ("exhaustive", "by votes", *(f"first look, {count}" for count in KEPT))
QUERIES = 5
"""That the larger collection is asked."""


def filled(
    folder: Path, model: visil.ViSiL, videos: Sequence[visil.VideoFeatures]
) -> tuple[Index, list[str]]:
    """A collection of features, and their ids."""
    index = Index(folder, model=model)
    assert index.model is model
    ids = stored(index.store, videos)
    for name, video in zip(ids, videos, strict=True):
        new = NewVideo(name, len(video), video.duration or 0.0, 64, 64, "", None, 0, 0)
        index.catalogue.add(new, f"/{name}", Stamp(0, 0))
    return index, ids


def asked(index: Index, query: visil.VideoFeatures, way: str, k: int) -> tuple[list[Hit], float]:
    """Hits, and the seconds they took."""
    start = time.perf_counter()
    if way == "exhaustive":
        hits = index.search(query, k, exhaustive=True)
    elif way == "by votes":
        hits = index.search(query, k)
    else:
        hits = index.search(query, k, first_look=int(way.rpartition(" ")[2]))
    return hits, time.perf_counter() - start


def prepared(index: Index) -> dict[str, object]:
    """All caches made, and what the signs take."""
    index.refresh()
    index.common_here()
    start = time.perf_counter()
    index.prepare_first_look()
    seconds = time.perf_counter() - start
    frames, size = index.info().frames, (index.folder / FILE).stat().st_size
    return {
        "videos": len(index),
        "frames": frames,
        "signs, bytes a frame": round(size / frames, 1),
        "signs made, s": round(seconds, 1),
    }


def copy_benchmark(
    index: Index, ids: Sequence[str], copies: CopySet, queries: Sequence[visil.VideoFeatures]
) -> dict[str, object]:
    """mAP of each half and the share of queries whose original is kept; and the time of a query."""
    halves = np.array(copies.halves)
    precision: dict[str, list[float]] = {way: [] for way in WAYS}
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for query, truth in zip(queries, copies.truth, strict=True):
        for way in WAYS:
            hits, took = asked(index, query, way, len(ids))
            found = [hit.id for hit in hits]
            precision[way].append(1 / (1 + found.index(ids[truth])) if ids[truth] in found else 0.0)
            seconds[way].append(took)
    return {
        way: {
            "mAP": {
                half: round(float(np.array(precision[way])[halves == half].mean()), 4)
                for half in ("easy", "hard")
            },
            "original kept": {
                half: round(float((np.array(precision[way])[halves == half] > 0).mean()), 4)
                for half in ("easy", "hard")
            },
            "ms": round(1e3 * float(np.median(seconds[way])), 1),
        }
        for way in WAYS
    }


def synthetic(database: Sequence[visil.VideoFeatures], count: int) -> list[visil.VideoFeatures]:
    """Videos of a hundred real frames each, no two alike."""
    generator = torch.Generator().manual_seed(0)
    frames = torch.cat([video.vectors for video in database])
    made = []
    for _ in range(count):
        some = frames[torch.randint(len(frames), (100,), generator=generator)].float()
        noise = F.normalize(torch.randn(some.shape, generator=generator), dim=-1)
        vectors = F.normalize(some + 0.6 * noise, dim=-1).half()
        blank = torch.zeros(100, dtype=torch.bool)
        made.append(visil.VideoFeatures(vectors, torch.arange(100.0), 100.0, None, blank))
    return made


def larger(index: Index, queries: Sequence[visil.VideoFeatures]) -> dict[str, object]:
    """The time of a query in each way."""
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for query in queries:
        for way in WAYS:
            seconds[way].append(asked(index, query, way, 10)[1])
    return {way: {"ms": round(1e3 * float(np.median(took)), 1)} for way, took in seconds.items()}


def main() -> None:
    """Embed what is not embedded yet, measure, print and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("copyset", type=Path)
    parser.add_argument("features", type=Path)
    parser.add_argument("--model", default="default")
    parser.add_argument("--videos", type=int, default=2000, help="of the larger collection; 0: none")
    parser.add_argument("--no-keep", action="store_true", help="only print: a trial is no result")
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = visil.load(args.model)
    copies, database, queries = embedded_set(model, args.copyset, args.features)
    result: dict[str, object] = {
        "model": model.config.name,
        "load before": round(os.getloadavg()[0], 2),
        "queries": len(queries),
        "frames of a query": round(float(np.mean([len(query) for query in queries])), 1),
    }
    with tempfile.TemporaryDirectory() as folder:
        index, ids = filled(Path(folder) / "copies", model, database)
        with index:
            result["copy benchmark"] = prepared(index) | copy_benchmark(index, ids, copies, queries)
        if args.videos:
            index, _ = filled(Path(folder) / "larger", model, synthetic(database, args.videos))
            with index:
                result["larger collection"] = prepared(index) | larger(index, queries[-QUERIES:])
    result["load after"] = round(os.getloadavg()[0], 2)
    print(as_text(result))
    if not args.no_keep:
        keep("first_look", result)


if __name__ == "__main__":
    main()
