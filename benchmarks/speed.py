"""How fast each stage is: decode, backbones, one pair of videos, and a whole `visil compare`.

    python benchmarks/speed.py
    python benchmarks/speed.py --write FOLDER    # 14 files of 720p, 45 s each, and nothing else

Ratios are measured side by side in one run; absolute figures belong to the machine named in the result.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import torch
import torch.nn.functional as F

from shared.results import keep
from visil.compare.visil import ViSiL
from visil.model.backbones import BACKBONES, EfficientNetLite, ResNet50
from visil.model.backbones.folding import folded
from visil.model.config import PRESETS
from visil.model.features import VideoFeatures
from visil.video import Sampling, stream_frames


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Median of some runs after one to warm up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def write_720p(path: Path, length: int, seed: int) -> None:
    """A minute of moving texture in 1280×720 H.264 at 25 fps, with detail enough to make decoding work."""
    rng = np.random.default_rng(seed)
    coarse = torch.from_numpy(rng.random((1, 3, 40, 70)).astype(np.float32))
    fine = torch.from_numpy(rng.random((1, 3, 360, 640)).astype(np.float32))
    canvas = F.interpolate(coarse, (900, 1600), mode="bicubic") * 200 + F.interpolate(fine, (900, 1600)) * 55
    picture = canvas[0].permute(1, 2, 0).clamp(0, 255).byte().numpy()
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 1280, 720, "yuv420p"
        stream.options = {"preset": "veryfast", "crf": "26"}
        for i in range(length * 25):
            top, left = int(90 + 80 * np.sin(i / 40 + seed)), int(160 + 150 * np.cos(i / 55))
            frame = av.VideoFrame.from_ndarray(
                np.ascontiguousarray(picture[top : top + 720, left : left + 1280]), "rgb24"
            )
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def decode(video: Path, length: int) -> dict[str, object]:
    """Video frames a second, per way of sampling, against PyAV alone decoding every frame."""

    def plain() -> None:
        with av.open(str(video)) as container:
            container.streams.video[0].thread_count = 1
            for _ in container.decode(video=0):
                pass

    def sampled(mode: str) -> Callable[[], None]:
        def run() -> None:
            with stream_frames(video, Sampling(mode=mode)) as stream:  # type: ignore[arg-type]
                for _ in stream:
                    pass

        return run

    frames = length * 25
    return {
        "PyAV, decode only": round(frames / seconds(plain, 3), 1),
        "by time, resized and cropped": round(frames / seconds(sampled("time"), 3), 1),
        "by count, resized as OpenCV does": round(frames / seconds(sampled("count"), 3), 1),
    }


def backbones() -> dict[str, object]:
    """224 px frames a second, 32 at a time; speed does not depend on the weights."""
    frames = torch.randint(0, 256, (32, 224, 224, 3), dtype=torch.uint8)
    result: dict[str, object] = {}
    for name, spec in BACKBONES.items():
        network: ResNet50 | EfficientNetLite = spec.build().eval()
        ready = folded(network)

        @torch.inference_mode()
        def run(network: ResNet50 | EfficientNetLite = network) -> None:
            network.stages(network.preprocess(frames).contiguous(memory_format=torch.channels_last))

        result[name] = {
            "as defined": round(32 / seconds(run, 3), 1),
            "as used, batch norms folded": round(32 / seconds(lambda: run(ready), 3), 1),  # noqa: B023
        }
    return result


def pairs(length: int = 103) -> dict[str, object]:
    """Milliseconds for one pair of videos of FIVR-5K's mean length, ours against the plain formula."""
    result: dict[str, object] = {}
    generator = torch.Generator().manual_seed(0)
    for preset, dim in (
        ("visil-f+w", 512),
        ("visil-f+w", 3840),
        ("visil-v", 512),
        ("visil-v", 3840),
        ("visil-sym", 512),
    ):
        model = ViSiL(PRESETS[preset].replaced(dim=dim), with_backbone=False)
        q, t = (F.normalize(torch.randn(length, 9, dim, generator=generator), dim=-1) for _ in range(2))
        times = torch.arange(length, dtype=torch.float64)
        query, target = VideoFeatures(q, times), VideoFeatures(t, times)

        def plain(model: ViSiL = model, q: torch.Tensor = q, t: torch.Tensor = t) -> None:
            with torch.inference_mode():
                model(q, t)

        result[f"{preset}, C={dim}"] = {
            "scores": round(1e3 * seconds(lambda: model.scores(query, [target])), 2),  # noqa: B023
            "compare": round(1e3 * seconds(lambda: model.compare(query, target)), 2),  # noqa: B023
            "plain formula": round(1e3 * seconds(plain), 2),
        }
    return result


def command(folder: Path, length: int = 60) -> dict[str, object]:
    """Start to answer of `visil compare` on two one-minute 720p files, and of `import visil`."""
    videos = [folder / f"{i}.mp4" for i in range(2)]
    for i, video in enumerate(videos):
        write_720p(video, length, seed=i)
    compare = [sys.executable, "-m", "visil", "compare", *map(str, videos), "--json"]
    return {
        "visil compare, s": round(
            seconds(lambda: subprocess.run(compare, check=True, capture_output=True), 3), 2
        ),
        "python -c 'import visil', s": round(
            seconds(lambda: subprocess.run([sys.executable, "-c", "import visil"], check=True)), 3
        ),
        "python -c pass, s": round(
            seconds(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)), 3
        ),
    }


def main() -> None:
    """Measure everything and keep it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="only write files to measure others by")
    folder = parser.parse_args().write
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for seed in range(14):
            write_720p(folder / f"{seed:02}.mp4", 45, seed)
        return
    with tempfile.TemporaryDirectory() as name:
        video = Path(name) / "decode.mp4"
        write_720p(video, 20, seed=7)
        result: dict[str, dict[str, object]] = {
            "decode 720p H.264, one thread, video frames/s": decode(video, 20),
            "backbones, frames/s": backbones(),
            "one pair at 103 frames, ms": pairs(),
            "command": command(Path(name)),
        }
    for title, figures in result.items():
        print(title)
        for key, value in figures.items():
            print(f"  {key}: {value}")
    keep("speed", dict(result))


if __name__ == "__main__":
    main()
