"""How fast NVDEC decodes beside the CPU, several files at once: video frames and samples a second.

    python benchmarks/nvdec_speed.py VIDEO... [--nvdec 1 4 7] [--cpu 1 8]

Needs an NVIDIA GPU and ``pip install 'visil[nvdec]'``. Every stream takes all files once.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

import visil
from visil.errors import VisilError
from visil.video import probe, stream_frames
from visil.video.decoders import decode_with
from visil.video.nvdec import NvdecStream


def main() -> None:
    """Each number of streams in turn."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("videos", type=Path, nargs="+")
    parser.add_argument("--nvdec", type=int, nargs="+", default=[1, 4, 7])
    parser.add_argument("--cpu", type=int, nargs="+", default=[1, 8])
    args = parser.parse_args()
    decode_with("nvdec")  # says what is missing
    sampling = visil.load(device="cpu").config.sampling
    frames = sum((info.duration or 0.0) * (info.fps or 0.0) for info in map(probe, args.videos))

    def on_gpu(video: Path) -> int:
        with NvdecStream(video, sampling, device=torch.device("cuda", 0)) as stream:
            samples = sum(len(batch) for batch in stream.on_gpu())
        if stream.why_cpu is not None:
            raise SystemExit(f"error: {video}: decoded on the CPU: {stream.why_cpu}")
        return samples

    def on_cpu(video: Path) -> int:
        with stream_frames(video, sampling) as stream:
            return sum(len(batch) for batch in stream)

    ways: list[tuple[str, Callable[[Path], int], list[int]]] = [
        ("NVDEC", on_gpu, args.nvdec),
        ("CPU", on_cpu, args.cpu),
    ]
    for name, work, numbers in ways:
        work(args.videos[0])  # the first call loads libraries
        for streams in numbers:
            start = time.perf_counter()
            with ThreadPoolExecutor(streams) as pool:
                samples = sum(pool.map(work, args.videos * streams))
            took = time.perf_counter() - start
            print(
                f"{name}, {streams} at once: {frames * streams / took:.0f} frames/s, {samples / took:.1f} samples/s"
            )


if __name__ == "__main__":
    try:
        main()
    except VisilError as error:
        raise SystemExit(f"error: {error}") from None
