"""Where the time of ``visil add`` goes: decoding, the backbone, writing; each alone, then all of it together.

    python benchmarks/add_speed.py VIDEOS [--clips 60]

VIDEOS is a folder of clips. Each part
is timed by itself in the same run, then the whole command in a process of its own, whose peak memory is read.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

import visil
from shared.results import as_text, keep
from visil.collection.store import FeatureStore
from visil.machine.processor import usable_cores
from visil.matching.blank import blank_frames
from visil.video import Frames, is_video_path, stream_frames


def batches(files: list[Path], model: visil.ViSiL) -> Iterator[Frames]:
    """Every batch of every file."""
    for file in files:
        with stream_frames(file, model.config.sampling) as stream:
            yield from stream


def timed_parts(files: list[Path], model: visil.ViSiL, folder: Path) -> dict[str, float]:
    """Seconds for each part alone, on one thread of decoding."""
    start = time.perf_counter()
    held = list(batches(files, model))
    decoding = time.perf_counter() - start
    frames = sum(len(batch) for batch in held)
    model.region_vectors(held[0].images[:8])  # the first call plans
    start = time.perf_counter()
    with torch.inference_mode():
        vectors = [model.refine(model.region_vectors(batch.images)).float() for batch in held]
    backbone = time.perf_counter() - start
    store = FeatureStore(folder)
    start = time.perf_counter()
    for number, (batch, part) in enumerate(zip(held, vectors, strict=True)):
        writer = store.writer(f"{number:032x}")
        writer.append(part, batch.timestamps, blank_frames(torch.from_numpy(batch.images)))
        writer.finish(float(len(batch)))
    writing = time.perf_counter() - start
    return {"frames": frames, "decode, s": decoding, "backbone, s": backbone, "write, s": writing}


def whole(files: list[Path], folder: Path) -> dict[str, float]:
    """The command itself: seconds, and the most memory that it held."""
    listing = folder / "list.txt"
    listing.write_text("\n".join(map(str, files)))
    command = [sys.executable, "-m", "visil", "add", str(folder / "index"), "--list", str(listing), "--json"]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    added = int(json.loads(done.stdout)["added"])
    return {"videos": added, "seconds": seconds, "peak, MiB": peak}


def main() -> None:
    """Measure and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("videos", type=Path)
    parser.add_argument("--clips", type=int, default=60)
    args = parser.parse_args()
    files = sorted(path for path in args.videos.rglob("*") if is_video_path(path))
    files = files[:: max(1, len(files) // args.clips)][: args.clips]
    model = visil.load()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts = timed_parts(files, model, folder / "parts")
        figures = whole(files, folder)
    frames, videos = parts["frames"], len(files)
    result: dict[str, object] = {
        "videos": videos,
        "frames": frames,
        "cores": usable_cores(),
    }
    for part in ("decode", "backbone", "write"):
        seconds = parts[f"{part}, s"]
        result[part] = {
            "seconds": round(seconds, 2),
            "videos/s": round(videos / seconds, 1),
            "frames/s": round(frames / seconds, 1),
        }
    result["visil add, start-up included"] = {
        "seconds": round(figures["seconds"], 2),
        "videos/s": round(videos / figures["seconds"], 2),
        "frames/s": round(frames / figures["seconds"], 1),
        "peak memory, MiB": round(figures["peak, MiB"]),
    }
    keep("add_speed", result)
    print(as_text(result))


if __name__ == "__main__":
    main()
