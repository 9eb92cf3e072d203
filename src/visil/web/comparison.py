"""The matrices of a comparison on disk: as numbers to hover over and as pictures to look at."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from visil.compare import comparing
from visil.compare.visil import ViSiL
from visil.matching.localize import Segment
from visil.model.features import VideoFeatures
from visil.plots.heat import heat_png
from visil.web.alignment import line_through

SIDE = 1200
"""Frames a side of a matrix that is kept, at most: of longer videos every second frame, every third …"""

MOST_LINES = 60
"""Segments that the page shows, and so plays along a line of their own."""


def keep_comparison(
    model: ViSiL,
    folder: Path,
    query: VideoFeatures,
    target: VideoFeatures,
    refs: list[dict[str, Any]],
    segments: Sequence[Segment] = (),
) -> dict[str, Any]:
    """Write S_f and S_v of a pair into a folder; returns what a result says of them, and of its segments."""
    rows, columns = (-(-len(video) // SIDE) for video in (query, target))
    with torch.inference_mode():
        frames, output = comparing.matrices(model, query.vectors[::rows], target.vectors[::columns])
    times = {
        "query_times": query.timestamps[::rows].tolist(),
        "target_times": target.timestamps[::columns].tolist(),
    }
    fresh = folder.with_name(f".{folder.name}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    described: dict[str, Any] = {}
    for name, matrix, low in (("frame_matrix", frames, 0.0), ("output_matrix", output, -1.0)):
        if model.comparator is None:
            low = 0.0  # then S_v is S_f
        (fresh / f"{name}.bin").write_bytes(np.ascontiguousarray(matrix, "<f4").tobytes())
        (fresh / f"{name}.png").write_bytes(heat_png(matrix, low))
        described[name] = {"rows": int(matrix.shape[0]), "columns": int(matrix.shape[1])}
    (fresh / "meta.json").write_text(
        json.dumps({**described, **times, "refs": refs, "attention": model.attention is not None}), "utf-8"
    )
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(fresh, folder)
    grids = query.timestamps[::rows].numpy(), target.timestamps[::columns].numpy()
    lines = [line_through(segment, frames, *grids) for segment in segments[:MOST_LINES]]
    lined = [{"line": line} for line in lines] + [{}] * (len(segments) - len(lines))
    told = [segment.to_dict() | line for segment, line in zip(segments, lined, strict=True)]
    return {**described, **times, "segments": told}
