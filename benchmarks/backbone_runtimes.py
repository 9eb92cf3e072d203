"""Which way of running the default model's network on a processor is fastest, and what it does to the features.

    python benchmarks/backbone_runtimes.py VIDEOS [--threads 1 2] [--frames 64]

Plain modules, ours in fp32 and bf16, and ONNX Runtime in fp32 and int8 (calibrated on half of the frames), in turns in
one process. VIDEOS is a folder of clips, from which the frames are taken. Needs ``pip install 'visil[onnx]'``.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from torch import Tensor, nn

import visil
from shared.results import keep
from visil.kernels.cpu_backbones import FastBackbone
from visil.model.backbones import EfficientNetLite
from visil.model.backbones.folding import folded
from visil.video import is_video_path, read_frames

TOGETHER = 2
"""Frames in one call of ONNX Runtime: more are slower, as in ours."""
ROUNDS = 7

Run = Callable[[Tensor], list[Tensor]]


class Stages(nn.Module):
    """The maps that are pooled, as a module that can be exported."""

    def __init__(self, network: nn.Module, last: int) -> None:
        super().__init__()
        self.network, self.last = network, last

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """All maps up to the last."""
        maps: list[Tensor] = self.network.stages(images)  # type: ignore[operator]
        return tuple(maps[: self.last + 1])


class Batches(CalibrationDataReader):  # type: ignore[misc]
    """What int8 steps are chosen by."""

    def __init__(self, images: Tensor) -> None:
        self._batches: Iterator[Tensor] = iter(images.split(TOGETHER))

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        """One batch more, or None."""
        batch = next(self._batches, None)
        return None if batch is None else {"images": batch.numpy()}


def session(path: Path, threads: int) -> Run:
    """A graph on so many threads, a few frames at a time."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    graph = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(images: Tensor) -> list[Tensor]:
        parts = [graph.run(None, {"images": some.numpy()}) for some in images.split(TOGETHER)]
        return [torch.from_numpy(np.concatenate(maps)) for maps in zip(*parts, strict=True)]

    return run


def exported(network: nn.Module, last: int, images: Tensor, folder: Path) -> tuple[Path, Path]:
    """The network as graphs in fp32 and int8."""
    whole, ready, small = (folder / name for name in ("fp32.onnx", "ready.onnx", "int8.onnx"))
    torch.onnx.export(
        Stages(folded(network), last).eval(),
        (images[:TOGETHER],),
        str(whole),
        input_names=["images"],
        dynamo=False,
        opset_version=17,
    )
    quant_pre_process(str(whole), str(ready), skip_symbolic_shape=True)
    quantize_static(
        str(ready),
        str(small),
        Batches(images),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    return whole, small


def some_frames(videos: Path, model: visil.ViSiL, count: int) -> Tensor:
    """One frame each of so many clips, as the network takes them."""
    files = sorted(path for path in videos.rglob("*") if is_video_path(path))
    files = files[:: max(1, len(files) // count)][:count]
    pictures = np.stack([read_frames(file, model.config.sampling).images[0] for file in files])
    assert model.backbone is not None
    prepared: Tensor = model.backbone.preprocess(torch.from_numpy(pictures))
    return prepared


def cosine(model: visil.ViSiL, maps: list[Tensor], truth: Tensor) -> Tensor:
    """Of each region's refined vector with the one from the plain modules."""
    found = model.refine(model.pooled([stage.float() for stage in maps]))
    return F.cosine_similarity(found, truth, dim=-1)


@torch.inference_mode()
def measured(ways: dict[str, Run], model: visil.ViSiL, images: Tensor) -> dict[str, dict[str, float]]:
    """Frames a second of each, in turns, and how far its vectors are from the plain ones."""
    truth = model.refine(model.pooled(ways["plain modules, fp32"](images)))
    likeness = {name: cosine(model, run(images), truth) for name, run in ways.items()}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, run in ways.items():
            start = time.perf_counter()
            run(images[:16])
            times[name].append(time.perf_counter() - start)
    speed = {name: 16 / statistics.median(some) for name, some in times.items()}
    plain = speed["plain modules, fp32"]
    return {
        name: {
            "frames/s": round(speed[name], 1),
            "times": round(speed[name] / plain, 2),
            "cosine, mean": round(float(likeness[name].mean()), 5),
            "cosine, worst": round(float(likeness[name].min()), 5),
        }
        for name in ways
    }


def main() -> None:
    """Measure every way on each number of threads."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("videos", type=Path)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--frames", type=int, default=64)
    args = parser.parse_args()
    model = visil.load()
    network, last = model.backbone, max(model.config.stages)
    assert isinstance(network, EfficientNetLite)
    images = some_frames(args.videos, model, args.frames)
    result: dict[str, object] = {"frames": len(images), "onnxruntime": onnxruntime.__version__}
    with tempfile.TemporaryDirectory() as folder:
        whole, small = exported(network, last, images[::2].contiguous(), Path(folder))
        for threads in args.threads:
            torch.set_num_threads(threads)
            ways: dict[str, Run] = {
                "plain modules, fp32": network.eval().stages,
                "ours, fp32": FastBackbone(network, last).stages,
                "ours, bf16": FastBackbone(network, last, torch.bfloat16).stages,
                "ONNX Runtime, fp32": session(whole, threads),
                "ONNX Runtime, int8": session(small, threads),
            }
            result[f"{threads} threads"] = found = measured(ways, model, images)
            for name, figures in found.items():
                print(threads, name, figures, flush=True)
    keep("backbone_runtimes", result)


if __name__ == "__main__":
    main()
