"""Table 10: how long each stage takes, per video and per pair, on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from visil.compare.visil import BATCH, ViSiL
from visil.kernels import Scorer
from visil.model.comparator import repeated
from visil.model.formula import Formula
from visil.paper import numbers
from visil.paper.experiment import Experiment
from visil.paper.tables import MadeTable, RowSpec, Value, flat, table_of
from visil.paper.videos import Videos
from visil.video import stream_frames

Result = TypeVar("Result")

CPU = torch.device("cpu")

VIDEOS = 8
"""Videos that are timed; as many pairs as they make."""

KINDS = {"MAC": "mac", "iMAC": "imac", "ViSiL_f": "l3-imac", "ViSiL_v": "l3-imac"}

STAGES = ("decode s", "features s", "refine s", "frames ms", "network ms")
"""Columns of one stage each: the first three per video, the last two per pair."""


@dataclass(frozen=True)
class Timed:
    """Seconds of each stage, the mean over videos or pairs."""

    decode: float
    features: float
    refine: float
    frames: float
    network: float

    def row(self) -> dict[str, Value]:
        """As the table has them: seconds per video, milliseconds per pair."""
        return {
            "decode s": self.decode,
            "features s": self.features,
            "refine s": self.refine,
            "offline s": self.features + self.refine,
            "frames ms": 1000 * self.frames,
            "network ms": 1000 * self.network,
            "online ms": 1000 * (self.frames + self.network),
        }


def table_10(experiment: Experiment, name: str = "table-10") -> MadeTable:
    """Table 10 for MAC, iMAC, ViSiL_f and ViSiL_v; "offline" is without decoding, as in the paper."""
    paper = numbers.TABLES["table-10"]
    rows = [RowSpec(name, name) for name in KINDS]
    experiment.prepare(dict.fromkeys(KINDS))
    names = _timed_names(experiment)
    decoded = [_decoded(experiment.videos, name) for name in names]
    decode = float(np.mean([seconds for _, seconds in decoded]))
    clips = [frames for frames, _ in decoded]

    def make(row: RowSpec) -> dict[str, Value]:
        model = experiment.trained(row.name) if row.name.startswith("ViSiL") else None
        timed = _times(experiment, KINDS[row.name], clips, decode, model)
        return timed.row() | flat({k: v for k, v in experiment.figures(row.name).items() if k != "edits"})

    frames = float(np.mean([len(clip) for clip in clips]))
    note = (
        f"Means over {len(clips)} videos of {frames:.0f} frames and all their pairs, "
        f"{torch.get_num_threads()} threads. The paper's videos have 103 frames; it ran a GTX 1070. "
        "Offline is without decoding, as in the paper."
    )
    return table_of(name, "Time per stage", experiment, rows, make, paper, note)


def _times(
    experiment: Experiment, kind: str, clips: Sequence[Tensor], decode: float, model: ViSiL | None
) -> Timed:
    maker, device = experiment.networks.maker([kind]), torch.device(experiment.networks.device)
    maker.embed_frames(clips[0][:1])  # the first pass through a network also plans it

    own = model is not None and model.backbone is not None and not experiment.shares_features(model)

    def extracted() -> list[Tensor]:
        if own and model is not None:
            return [torch.cat([model.region_vectors(part) for part in clip.split(BATCH)]) for clip in clips]
        return [maker.embed_frames(clip)[kind].vectors.to(device) for clip in clips]

    raw, extracting = _timed(extracted, device)
    vectors, refining = raw, 0.0
    model = None if model is None else model.to(device)
    if model is not None and model.whitening is not None:
        with torch.inference_mode():
            model.refine(raw[0][:1])
            vectors, refining = _timed(lambda: [model.refine(one) for one in raw], device)
    comparator = model.comparator if model is not None else None
    scorer = Scorer(Formula(comparator=comparator), device)
    pairs = [(a, b) for a in vectors for b in vectors if a is not b] or [(vectors[0], vectors[0])]

    def matrices(count: int | None = None) -> None:
        for query, target in pairs[:count]:
            scorer.frames(repeated(query, comparator), [repeated(target, comparator)])

    def scores(count: int | None = None) -> None:
        for query, target in pairs[:count]:
            scorer.pair(query, target)

    with torch.inference_mode():
        matrices(1)  # as for the first pass through a network
        scores(1)
        _, comparing = _timed(matrices, device)
        _, whole = _timed(scores, device)
    videos, count = len(clips), len(pairs)
    return Timed(
        decode, extracting / videos, refining / videos, comparing / count, max(0.0, whole - comparing) / count
    )


def _timed_names(experiment: Experiment) -> list[str]:
    names = experiment.bank.readable(sorted(experiment.videos.benchmark.database))
    step = max(1, len(names) // VIDEOS)
    return names[::step][:VIDEOS]


def _decoded(videos: Videos, name: str) -> tuple[Tensor, float]:
    """Frames of a video file, and the seconds that decoding took."""
    file, sampling = videos.file(name)

    def read() -> Tensor:
        with stream_frames(file, sampling) as stream:
            return torch.from_numpy(np.concatenate([batch.images for batch in stream]))

    return _timed(read)


def _timed(work: Callable[[], Result], device: torch.device = CPU) -> tuple[Result, float]:
    """The result of some work, and its seconds; a GPU goes on by itself until it is waited for."""
    _wait_for(device)
    started = time.perf_counter()
    result = work()
    _wait_for(device)
    return result, time.perf_counter() - started


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
