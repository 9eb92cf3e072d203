"""Peak memory against length: of a pair of videos, and of decoding a long one. Each run in a process of its own.

python benchmarks/memory.py
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from shared.results import keep


def peak_mib() -> float:
    """Highest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def pair(frames: int, dim: int = 512) -> dict[str, float]:
    """Compare two videos of ``frames`` frames at C=dim with the full network, segments included."""
    import torch

    from visil.compare.visil import ViSiL
    from visil.model.config import VISIL_V
    from visil.model.features import VideoFeatures

    model = ViSiL(VISIL_V.replaced(dim=dim), with_backbone=False)
    before = peak_mib()
    generator = torch.Generator().manual_seed(0)
    videos = []
    for _ in range(2):
        vectors = torch.empty(frames, 9, dim)
        for part in vectors.split(1000):
            part.normal_(generator=generator)
            part /= part.norm(dim=-1, keepdim=True)
        videos.append(VideoFeatures(vectors, torch.arange(frames, dtype=torch.float64)))
    start = time.perf_counter()
    match = model.compare(*videos)
    return {
        "peak MiB": peak_mib(),
        "before MiB": before,
        "s": time.perf_counter() - start,
        "score": match.score,
    }


def decode(minutes: int) -> dict[str, float]:
    """Stream a made video of that length."""
    import av
    import numpy as np

    from visil.video import stream_frames

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.mp4"
        with av.open(str(path), "w") as container:
            stream = container.add_stream("libx264", rate=5)
            stream.width, stream.height, stream.pix_fmt = 640, 360, "yuv420p"
            stream.options = {"preset": "ultrafast"}
            picture = np.zeros((360, 640, 3), np.uint8)
            for i in range(minutes * 60 * 5):
                picture[:, i % 640] = i % 256
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
            container.mux(stream.encode(None))
        frames = 0
        with stream_frames(path) as batches:
            for batch in batches:
                frames += len(batch)
        return {"peak MiB": peak_mib(), "sampled frames": frames}


def main() -> None:
    """Run each case alone, print, keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", nargs="?", choices=("pair", "decode"), help="one case alone, in this process")
    parser.add_argument("size", nargs="?", type=int, default=100, help="frames of a pair; minutes to decode")
    alone = parser.parse_args()
    if alone.kind is not None:
        print(json.dumps((pair if alone.kind == "pair" else decode)(alone.size)))
        return
    result: dict[str, object] = {}
    for kind, sizes in (("pair", (100, 1000, 3000, 10_000)), ("decode", (1, 10, 60))):
        for size in sizes:
            output = subprocess.run(
                [sys.executable, __file__, kind, str(size)], check=True, capture_output=True, text=True
            )
            figures = {k: round(v, 3) for k, v in json.loads(output.stdout).items()}
            result[f"{kind} {size}"] = figures
            print(kind, size, figures, flush=True)
    keep("memory", result)


if __name__ == "__main__":
    main()
