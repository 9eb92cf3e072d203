"""How long `visil evaluate fivr-5k` takes once videos are embedded: 50 queries, 5,000 videos, 103 frames each.

    python benchmarks/evaluate_speed.py [--share 0.02] [--model MODEL] [--no-keep]

Features are synthetic, of the model's own shape (14 regions of 256 channels for the default model), kept as a
collection keeps them, and scored by the path of the command: blocks of feature files, all queries against each, then
the benchmark's figures. ``--share`` takes that part of the 5,000 videos, and the time of the whole is then an estimate,
which the result says: scoring takes as long for every block. Files are 250 different ones, named again and again.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import visil
from shared.results import as_text, keep
from visil.collection.store import FeatureStore
from visil.evaluation.datasets.fivr import Fivr
from visil.evaluation.scoring import score_videos

QUERIES, VIDEOS, FRAMES = 50, 5000, 103
DIFFERENT = 250
"""Feature files on disk: 185 MB with the default model."""


def write_features(store: FeatureStore, count: int, regions: int, channels: int) -> list[str]:
    """Feature files of random unit vectors; their ids."""
    generator = torch.Generator().manual_seed(0)
    names = [f"{number:032x}" for number in range(count)]
    for name in names:
        vectors = F.normalize(torch.randn(FRAMES, regions, channels, generator=generator), dim=-1)
        writer = store.writer(name)
        writer.append(vectors, np.arange(FRAMES, dtype=np.float64), torch.zeros(FRAMES, dtype=torch.bool))
        writer.finish(float(FRAMES))
    return names


def toy_fivr(videos: int) -> Fivr:
    """FIVR-5K's number of queries, a database of ``videos``, and some twenty relevant ones for each query."""
    rng = np.random.default_rng(0)
    database = [f"v{number}" for number in range(videos)]
    queries = tuple(f"q{number}" for number in range(QUERIES))
    labels = {query: {"DS": frozenset(rng.choice(database, min(20, videos)).tolist())} for query in queries}
    return Fivr("fivr-5k", labels, queries, frozenset(database))


def measured(model: visil.ViSiL, share: float, folder: Path) -> dict[str, object]:
    """Seconds for scoring and for the figures, of a share of the videos."""
    videos = max(1, round(VIDEOS * share))
    regions = sum(level * level for level in model.config.levels)
    store = FeatureStore(folder)
    files = write_features(store, min(DIFFERENT, videos + QUERIES), regions, model.dim)
    benchmark = toy_fivr(videos)
    places = {name: place for place, name in enumerate([*benchmark.queries, *sorted(benchmark.database)])}

    def read(name: str) -> visil.VideoFeatures:
        return store.read(files[places[name] % len(files)])

    score_videos(model, read, benchmark.queries[:1], lambda _: ["v0"])  # warm
    start = time.perf_counter()
    answers = score_videos(model, read, benchmark.queries, benchmark.candidates)
    scored = time.perf_counter()
    figures = benchmark.evaluate(answers.predictions.scores)
    done = time.perf_counter()
    assert figures["missing_scores"] == 0
    result: dict[str, object] = {
        "model": model.config.name,
        "shape": [FRAMES, regions, model.dim],
        "queries": QUERIES,
        "videos": videos,
        "ms a pair": round((scored - start) / (QUERIES * videos) * 1e3, 3),
        "scoring, s": round(scored - start, 1),
        "figures, s": round(done - scored, 3),
        "threads": torch.get_num_threads(),
    }
    if share < 1:
        result["estimated from a share"] = share
    result[f"{QUERIES} queries x {VIDEOS} videos, minutes"] = round(
        (scored - start) / videos * VIDEOS / 60, 1
    )
    return result


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--share", type=float, default=1.0, help="part of the 5,000 videos that is scored")
    parser.add_argument("--model", default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--no-keep", action="store_true", help="only print: a trial is no result")
    args = parser.parse_args()
    if not 0 < args.share <= 1:
        parser.error("--share is above 0 and at most 1")
    model = visil.load(args.model, device=args.device)
    with tempfile.TemporaryDirectory() as folder:
        result = measured(model, args.share, Path(folder))
    print(as_text(result))
    if not args.no_keep:
        keep("evaluate_speed", result)


if __name__ == "__main__":
    main()
