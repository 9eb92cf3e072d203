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
from numpy.typing import NDArray

from visil.compare import comparing
from visil.compare.visil import ViSiL
from visil.matching.localize import Segment
from visil.model.features import VideoFeatures
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
        write_heatmap(matrix, fresh / f"{name}.png", low)
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


def write_heatmap(matrix: NDArray[np.float32], path: Path, low: float) -> None:
    """A PNG of one pixel a cell, from ``low``, dark, to 1, light: the colours of every picture of visil's."""
    from PIL import Image as pillow

    from visil.plots.panels import HEAT

    levels = np.clip(np.rint((np.nan_to_num(matrix) - low) / (1 - low) * 255), 0, 255).astype(np.uint8)
    picture = pillow.fromarray(levels).convert("P")
    picture.putpalette((HEAT(np.arange(256))[:, :3] * 255).round().astype(np.uint8).tobytes())
    picture.save(path, "PNG")
