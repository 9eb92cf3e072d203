"""`duplicates`, and `search` with many queries, over made videos: how they scale, and what they cost beside the engine.

    python benchmarks/many_queries.py FOLDER --videos 400 --frames 60 --workers 1 2
    python benchmarks/many_queries.py FOLDER --videos 10000 --device cuda

On a processor, seconds by number of workers, and how many times one worker's work they do. With `--device cuda`, beside
that what the GPU's engine alone takes (S_f and CS_v, features in host memory): for the pairs that the commands compare,
and for all queries with all videos. FOLDER keeps the collection: 7.2 MB a video of a thousand frames. `--profile` tells
where the process that asks spends its time.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import visil
from shared.made_videos import MadeVideos, make_collection
from shared.results import keep, machine, write
from visil.collection.pairs import Listed, worth_comparing
from visil.collection.queries import CANDIDATES
from visil.collection.spread import Spread

Row = dict[str, Any]


def timed(work: Any) -> tuple[Any, float]:
    """What came out, and the seconds it took."""
    started = time.perf_counter()
    found = work()
    return found, time.perf_counter() - started


def rows_of(
    index: visil.Index, asked: list[visil.VideoFeatures], workers: list[int], device: str
) -> Iterator[Row]:
    """Both commands with each number of workers; answers of all are the same as those of the first."""
    first: dict[str, Any] = {}
    for count in workers:
        found, duplicates_s = timed(lambda count=count: index.find_duplicates(workers=count).to_dict())
        hits, search_s = timed(lambda count=count: list(index.search_many(asked, 10, workers=count)))
        listed = [[hit.to_dict() for hit in some] for some in hits]
        row: Row = {
            "device": device,
            "workers": count,
            "duplicates, s": duplicates_s,
            "search, s": search_s,
            "groups": len(found["groups"]),
            "same answers": (found, listed) == first.setdefault("answers", (found, listed)),
        }
        base = first.setdefault("row", row)
        row["duplicates, times the first"] = base["duplicates, s"] / duplicates_s
        row["search, times the first"] = base["search, s"] / search_s
        yield row


def engine_row(index: visil.Index, made: MadeVideos, asked: list[visil.VideoFeatures]) -> Row:
    """Pairs a second of the GPU's engine, and its seconds for the pairs of both commands."""
    model = index.model
    videos = [made.video(number) for number in range(min(len(index), 2000))]
    targets = [visil.VideoFeatures(one, asked[0].timestamps) for one in videos]
    model.best(asked, targets[:200], 10)  # kernels are compiled
    _, seconds = timed(lambda: model.best(asked, targets, 10))
    speed = len(asked) * len(targets) / seconds
    with Spread(index, os.cpu_count() or 1) as spread:
        worth, candidates_s = timed(lambda: worth_comparing(spread, Listed(index.parts), False))
    pairs = sum(map(len, worth.values()))
    searched = len(asked) * min(len(index), CANDIDATES)
    return {
        "device": "the engine alone",
        "pairs/s": speed,
        "pairs of duplicates": pairs,
        "duplicates, s": pairs / speed,
        "candidates of duplicates, s": candidates_s,
        "pairs of search": searched,
        "search, s": searched / speed,
        "all pairs of search, s": len(asked) * len(index) / speed,
        "all pairs of duplicates, s": len(index) * (len(index) - 1) / 2 / speed,
    }


def main() -> None:
    """Measure and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--videos", type=int, default=400)
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--keep", default="many_queries")
    parser.add_argument("--out", type=Path, help="write the result there instead")
    parser.add_argument("--profile", type=Path, help="where time goes, as text")
    args = parser.parse_args()
    made = MadeVideos(args.frames)
    model = visil.load(device=args.device)
    with visil.Index(args.folder / f"made-{args.videos}-{args.frames}", model=model) as index:
        make_collection(index, made, args.videos)
        asked = [made.query(number * args.videos // args.queries) for number in range(args.queries)]
        rows = []
        if args.device != "cpu":
            rows.append(engine_row(index, made, asked))
            print(rows[-1], flush=True)
        profile = cProfile.Profile()
        if args.profile:
            profile.enable()
        for row in rows_of(index, asked, args.workers, args.device):
            rows.append(row)
            print(row, flush=True)
        if args.profile:
            profile.disable()
            with args.profile.open("w") as out:
                for order in ("tottime", "cumtime"):
                    pstats.Stats(profile, stream=out).sort_stats(order).print_stats(45)
    about = {"videos": args.videos, "frames of a video": args.frames, "queries": args.queries}
    if args.out is None:
        keep(args.keep, {**about, "rows": rows})
    else:
        write(args.out, {"machine": machine(), **about, "rows": rows})


if __name__ == "__main__":
    main()
