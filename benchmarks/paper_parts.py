"""The parts that the times and sizes of docs/reproduce.md are computed from, each measured on one core.

    python benchmarks/paper_parts.py [--seconds 103] [--frames 64] [--only moving]

Videos as long as FIVR's are made for it (480 × 360, 25 frames a second, H.264). Seconds are processor time, so that a
busy machine counts the same. ResNet-50's weights are random: neither its speed nor the size of its features depends on
them. What four such videos take on disk, stored and streamed, is measured by ``visil evaluate`` itself.

``--only moving`` measures what Table 8 has of its own, every picture of a video and I3D, and leaves other results as
they are.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image as pillow
from torch.utils.flop_counter import FlopCounterMode

from shared.results import RESULTS, keep, machine
from visil.compare.visil import ViSiL
from visil.evaluation import Task, evaluate_streaming, evaluate_videos
from visil.model.backbones import backbone_spec
from visil.model.backbones.i3d import CLIP, I3D
from visil.model.config import PRESETS
from visil.paper.baselines.dp import DP
from visil.paper.baselines.tn import TN
from visil.training.cached_footage import CachedFootage
from visil.video import Image, Sampling, stream_frames
from visil.video.writer import write_video

STORED = 4
"""Videos whose size on disk is measured; two are queries."""


def scene(seed: int, count: int, size: tuple[int, int], shot: int) -> Iterator[Image]:
    """Pictures of a camera that moves over soft noise, another one every ``shot`` pictures."""
    width, height = size
    rng = np.random.default_rng(seed)
    for number in range(count):
        if number % shot == 0:
            noise = rng.integers(0, 256, (12, 32, 3), dtype=np.uint8)
            wide = np.asarray(pillow.fromarray(noise).resize((2 * width, height), pillow.Resampling.BICUBIC))
        left = number % shot * width // shot
        yield np.ascontiguousarray(wide[:, left : left + width])


def seconds_of(work: Callable[[], object]) -> float:
    """Processor time of this process."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def decoding(video: Path, sampling: Sampling) -> dict[str, float]:
    """Samples a second and core."""
    count = 0

    def read() -> None:
        nonlocal count
        with stream_frames(video, sampling) as stream:
            count = sum(len(batch.images) for batch in stream)

    taken = seconds_of(read)
    return {"samples": count, "samples a second": count / taken, "bytes of the file": video.stat().st_size}


def moving(video: Path) -> dict[str, float]:
    """Pictures a second and core where every picture is wanted, I3D's speed there, and its work for one window."""
    every = decoding(video, Sampling(fps=25))
    network = I3D().eval()
    frames = torch.randint(0, 256, (CLIP, 224, 224, 3), dtype=torch.uint8)
    with FlopCounterMode(display=False) as counted:
        taken = seconds_of(lambda: network.features(frames))
    return {
        "pictures a second": every["samples a second"],
        "pictures a second through I3D": CLIP / taken,
        "GFLOP of a window": counted.get_total_flops() / 1e9,
    }


def kept_frames(video: Path, folder: Path) -> dict[str, float]:
    """Bytes of a frame that training keeps, and how long it takes to read."""
    footage = CachedFootage([video], folder, Sampling())
    count = len(footage.times(0))
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    reading = seconds_of(lambda: footage.images(0, range(count)))
    return {"bytes of a frame": size / count, "ms to read one": 1000 * reading / count}


def visil_f(weights: Path) -> ViSiL:
    """ViSiL_f on a ResNet-50 of random weights."""
    torch.manual_seed(0)
    torch.save(backbone_spec("resnet50").build().state_dict(), weights)
    return ViSiL(PRESETS["visil-f"], with_backbone=False).load_backbone(weights).eval()


def alignment(length: int) -> dict[str, float]:
    """Milliseconds that DP and TN take to read their best path off an S_f."""
    matrix = np.random.default_rng(0).uniform(0, 0.6, (length, length))
    matrix += 0.4 * np.eye(length)
    found: dict[str, float] = {}
    for made in (DP(0.5), TN(0.5)):
        taken = seconds_of(lambda best=made.best: [best(matrix) for _ in range(20)])  # type: ignore[misc]
        found[f"{made.name}, ms"] = 1000 * taken / 20
    return found


def on_disk(videos: Path, model: ViSiL, folder: Path) -> dict[str, float]:
    """Bytes of a video, stored and streamed, as ``visil evaluate`` leaves them."""
    names = sorted(path.stem for path in videos.iterdir())
    queries = names[: STORED // 2]
    labels = {query: {"DS": [other]} for query, other in zip(queries, names[STORED // 2 :], strict=True)}
    (folder / "annotation.json").write_text(json.dumps(labels), "utf-8")
    (folder / "ids.json").write_text(json.dumps({"query": queries, "database": names}), "utf-8")
    task = Task("fivr-5k", folder / "annotation.json", folder / "ids.json")
    evaluate_videos(task, videos, index=os.fspath(folder / "stored.visil"), model=model)
    evaluate_streaming(task, videos, folder / "streamed", model=model)
    sizes = {
        name: sum(file.stat().st_size for file in (folder / place).rglob("*") if file.is_file()) / len(names)
        for name, place in (("stored", "stored.visil"), ("streamed", "streamed"))
    }
    return {f"bytes of a video, {name}": size for name, size in sizes.items()}


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=103)
    parser.add_argument("--frames", type=int, default=64, help="that go through ResNet-50")
    parser.add_argument("--only", choices=["moving"], help="leave the other results as they are")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        folder, videos = Path(place), Path(place) / "videos"
        videos.mkdir()
        first = videos / "v0.mp4"
        write_video(first, scene(0, 25 * args.seconds, (480, 360), 100), 25)
        if args.only is not None:
            known = json.loads((RESULTS / "paper_parts.json").read_text("utf-8"))
            keep("paper_parts", {**known, args.only: {"machine": machine(), **moving(first)}})
            return
        result: dict[str, object] = {
            "seconds of a video": args.seconds,
            "decoding": decoding(first, Sampling()),
        }
        result["moving"] = moving(first)
        result["training frames"] = kept_frames(first, folder / "frames")
        model = visil_f(folder / "resnet50.pth")
        pixels = torch.randint(0, 256, (args.frames, 224, 224, 3), dtype=torch.uint8)
        model.embed_frames(pixels[:8])  # made ready
        taken = seconds_of(lambda: model.embed_frames(pixels))
        result["ResNet-50 and L3-iMAC"] = {"frames a second": args.frames / taken}
        result["S_f of 103 × 103"] = alignment(103)
        for number in range(STORED):  # small pictures: their features are as large
            write_video(videos / f"v{number}.mp4", scene(number, args.seconds, (64, 64), 4), 1)
        small = replace(model.config.sampling, resize=64, crop=64)
        model.config = model.config.replaced(sampling=small)
        result["on disk"] = on_disk(videos, model, folder)
    print(json.dumps(result, indent=1))
    keep("paper_parts", result)


if __name__ == "__main__":
    main()
