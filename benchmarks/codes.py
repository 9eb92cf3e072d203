"""What features in fewer bytes cost: size, ranking of the copy benchmark, and time, for fp16, int8 and binary codes.

    python benchmarks/codes.py COPYSET FEATURES [--model MODEL] [--no-keep]

FEATURES is a folder where embedded files are kept, the one of ``copyset_model.py``. The database is as a collection of
each kind returns it. A query is once as the model gives it (``visil search`` with a file from outside), and once as the
collection returns it too (a video of the collection; ``visil duplicates``). Speed is in pairs of 103 frames a second by
``visil.bench``: fp16 by products in float32, int8 and binary codes compared as they are. A first look by Hamming alone
keeps the best of the database by the mean of the three best query frames. ITQ (Gong and Lazebnik 2011) is fitted on the
database. Time is that of this process alone, to code
the vectors that the model gives, and to read a file until its vectors are float32 in memory; each is the best of three
rounds over the whole database, as a multiple of what fp16 takes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import visil
from shared.copy_sets import CopySet, embedded_set, ranked, reciprocal_ranks
from shared.results import as_text, keep
from shared.stored_videos import stored
from visil.bench.cpu import codes as bench_codes
from visil.collection.feature_writer import HEADER_BYTES
from visil.collection.store import FeatureStore
from visil.kernels.cpu_hamming import coded_scores
from visil.model.codes import KINDS, Coded, Codes, decode, encode

ROUNDS = 3


def coded(videos: Sequence[visil.VideoFeatures], kind: Codes) -> list[visil.VideoFeatures]:
    """Videos as a collection of a kind returns them."""
    return [replace(video, vectors=decode(encode(video.vectors, kind))) for video in videos]


def mean_precision(
    model: visil.ViSiL,
    copies: CopySet,
    queries: Sequence[visil.VideoFeatures],
    database: Sequence[visil.VideoFeatures],
) -> dict[str, dict[str, float]]:
    """mAP of each half by evidence and by CS_v."""
    halves = np.array(copies.halves)
    found = {}
    for way, scores in ranked(model, queries, database).items():
        ranks = reciprocal_ranks(scores, copies.truth)
        present = [half for half in ("easy", "hard") if (halves == half).any()]
        found[way] = {half: round(float(ranks[halves == half].mean()), 4) for half in present}
    return found


def best_seconds(work: Callable[[], object]) -> float:
    """The quickest of some rounds, after one that warms up."""
    took = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return min(took[1:])


def measured(kind: Codes, videos: Sequence[visil.VideoFeatures]) -> tuple[float, float, float]:
    """Bytes a frame on disk, headers aside; seconds to encode all frames, and to read them."""
    full: list[Tensor] = [video.vectors.float() for video in videos]
    encoding = best_seconds(lambda: [encode(vectors, kind) for vectors in full])
    with tempfile.TemporaryDirectory() as folder:
        store = FeatureStore(Path(folder), kind)
        ids = stored(store, videos)
        size = sum(store.path(name).stat().st_size - 8 - HEADER_BYTES for name in ids)
        reading = best_seconds(lambda: [store.read(name).vectors.float() for name in ids])
    return size / sum(map(len, videos)), encoding, reading


def speeds() -> dict[str, dict[str, float]]:
    """Pairs of 103 frames a second by kind, and against the plain formula."""
    rows = {row.name.removesuffix(" codes"): row for row in bench_codes()}
    return {
        kind: {"pairs/s": round(row.value, 1), "times the plain formula": round(row.ratio or 0.0, 2)}
        for kind, row in rows.items()
    }


def first_look(
    model: visil.ViSiL,
    copies: CopySet,
    queries: Sequence[visil.VideoFeatures],
    database: Sequence[visil.VideoFeatures],
    rotation: Tensor | None = None,
) -> dict[str, dict[str, float]]:
    """Share of queries of each half whose original is among the best 5, 10 and 20 by Hamming alone."""

    def bits(video: visil.VideoFeatures) -> Coded:
        vectors = video.vectors.float()
        return encode(vectors if rotation is None else vectors @ rotation, "binary")

    targets = [bits(video) for video in database]
    halves, places = np.array(copies.halves), []
    for query, truth in zip(queries, copies.truth, strict=True):
        scores = coded_scores(
            bits(query),
            targets,
            replace(model.formula, video_pool=("max", "top3")),
        )
        places.append(int((scores >= scores[truth]).sum()))
    return {
        half: {
            f"best {k}": round(float((np.array(places)[halves == half] <= k).mean()), 4) for k in (5, 10, 20)
        }
        for half in ("easy", "hard")
        if (halves == half).any()
    }


def itq_rotation(database: Sequence[visil.VideoFeatures], rounds: int = 30) -> Tensor:
    """The rotation after which signs lose least, in turns with the signs themselves."""
    generator = torch.Generator().manual_seed(0)
    vectors = torch.cat([video.vectors.float().flatten(0, 1) for video in database])
    vectors = vectors[torch.randperm(len(vectors), generator=generator)[:20_000]]
    size = vectors.shape[1]
    rotation: Tensor = torch.linalg.qr(torch.randn(size, size, generator=generator))[0]
    for _ in range(rounds):
        signs = torch.where(vectors @ rotation >= 0, 1.0, -1.0)
        left, _, right = torch.linalg.svd(vectors.T @ signs)
        rotation = left @ right
    return rotation


def compared(
    model: visil.ViSiL,
    copies: CopySet,
    queries: Sequence[visil.VideoFeatures],
    database: Sequence[visil.VideoFeatures],
) -> dict[str, object]:
    """Everything for each kind."""
    rows: dict[str, object] = {}
    pairs = speeds()
    base = (0.0, 0.0)
    for kind in KINDS:
        size, *seconds = measured(kind, database)
        if kind == "fp16":
            base = (seconds[0], seconds[1])
        targets = coded(database, kind)
        row: dict[str, object] = {
            "bytes a frame": round(size, 1),
            "MB an hour at 1 fps": round(size * 3600 / 1e6, 2),
            **pairs[kind],
            "mAP": mean_precision(model, copies, queries, targets),
            "encode, times fp16": round(seconds[0] / base[0], 2),
            "read, times fp16": round(seconds[1] / base[1], 2),
        }
        if kind != "fp16":
            row["mAP, queries coded too"] = mean_precision(model, copies, coded(queries, kind), targets)
        rows[kind] = row
    rows["first look by Hamming"] = first_look(model, copies, queries, database)
    rows["first look by Hamming after ITQ"] = first_look(
        model, copies, queries, database, itq_rotation(database)
    )
    return rows


def main() -> None:
    """Embed what is not embedded yet, measure, print and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("copyset", type=Path)
    parser.add_argument("features", type=Path)
    parser.add_argument("--model", default="default")
    parser.add_argument("--no-keep", action="store_true", help="only print: a trial is no result")
    args = parser.parse_args()
    model = visil.load(args.model)
    copies, database, queries = embedded_set(model, args.copyset, args.features)
    result: dict[str, object] = {
        "model": model.config.name,
        "channels": model.dim,
        "regions": int(database[0].vectors.shape[1]),
        "queries": len(queries),
        "database": len(database),
        **compared(model, copies, queries, database),
    }
    print(as_text(result))
    if not args.no_keep:
        keep("codes", result)


if __name__ == "__main__":
    main()
