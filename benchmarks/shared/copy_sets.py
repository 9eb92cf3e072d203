"""A copy set as ``copyset.py`` wrote it: its names and truth, its features, and how a ranking of it is judged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

import visil
from visil.collection.background import Background
from visil.compare.refinement import FramesAt
from visil.files import replacing
from visil.matching.lines import PER_SECOND
from visil.video.thumbnails import SamplesAt

LOOKED_AT = 64
"""Frames of a closer look that are embedded together."""

_DRILLS = "17 23 25 26 27 28 30 31 32 39 43 44 50 136 138 142 149 150 153 155 157 162 163 164 168 175 184 197"
LEFT_OUT = {
    "demo": (
        "Content-Based-Video-Retrieval-Code-recordings__mismatches__mismatch1",
        *(f"Content-Based-Video-Retrieval-Code-recordings__recording{i}" for i in range(1, 5)),
        "mmaction2-demo__demo_spatiotemporal_det",
        "mmaction2-tools__data__skeleton__S001C001P001R001A001_rgb",
        *(f"sample-videos-asl_gestures__{word}" for word in ("bird", "book")),
        "sample-videos-preview__head-pose-face-detection-male",
    ),
    "drills": tuple(_DRILLS.split()),
}
"""Clips that show what another clip of the source shows (parts of one recording; a screen that was filmed), told by
frames with a copy descriptor's cosine above 0.6 and by eye; the first of each group stays. The test sources have none:
their most alike two clips are at 0.55."""


@dataclass(frozen=True)
class CopySet:
    """Names of the database's and the queries' files, and which original belongs to each query."""

    database: list[str]
    queries: list[str]
    truth: list[int]
    halves: list[str]
    settings: list[str]
    edits: list[list[str]]

    @classmethod
    def read(cls, folder: Path) -> CopySet:
        """From what ``copyset.py`` wrote."""
        truth = json.loads((folder / "truth.json").read_text())
        database = list(truth["database"])
        queries = truth["queries"]
        return cls(
            database,
            [q["file"] for q in queries],
            [database.index(q["original"]) for q in queries],
            [q["half"] for q in queries],
            [q["setting"] for q in queries],
            [[e["name"] for e in q["edits"]] for q in queries],
        )


def reciprocal_ranks(scores: Sequence[NDArray[np.float64]], truth: Sequence[int]) -> NDArray[np.float64]:
    """1 / rank of the right answer for each query; ties count against it."""
    return np.array([1 / int((s >= s[t]).sum()) for s, t in zip(scores, truth, strict=True)])


def embedded(model: visil.ViSiL, files: Sequence[Path], folder: Path) -> list[visil.VideoFeatures]:
    """Features of files, made once for each model."""
    folder = folder / model.fingerprint() / files[0].absolute().parents[1].name
    folder.mkdir(parents=True, exist_ok=True)

    def one(file: Path) -> visil.VideoFeatures:
        kept = folder / f"{file.parent.name}-{file.stem}.safetensors"
        if not kept.exists():
            made = model.embed(file)
            assert made.blank is not None
            tensors = {"vectors": made.vectors.half(), "timestamps": made.timestamps, "blank": made.blank}
            tensors["duration"] = torch.tensor(made.duration or 0.0, dtype=torch.float64)
            with replacing(kept) as fresh:
                save_file(tensors, fresh)
        found = load_file(kept)
        return visil.VideoFeatures(
            found["vectors"], found["timestamps"], float(found["duration"]), str(file), found["blank"]
        )

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, files))


def embedded_set(
    model: visil.ViSiL, folder: Path, features: Path
) -> tuple[CopySet, list[visil.VideoFeatures], list[visil.VideoFeatures]]:
    """The set, its database and its queries."""
    copies = CopySet.read(folder)
    database = embedded(model, [folder / "database" / name for name in copies.database], features)
    return copies, database, embedded(model, [folder / "queries" / name for name in copies.queries], features)


def ranked(
    model: visil.ViSiL, queries: Sequence[visil.VideoFeatures], database: Sequence[visil.VideoFeatures]
) -> dict[str, list[np.ndarray[tuple[int], np.dtype[np.float64]]]]:
    """Evidence and CS_v of each query with each video of the database."""
    found: dict[str, list[np.ndarray[tuple[int], np.dtype[np.float64]]]] = {"evidence": [], "CS_v": []}
    background = Background.of(model, database)
    for query in queries:
        matches = list(model.compare_many(query, database, common=background.beyond_typical(query)))
        found["evidence"].append(np.array([m.evidence for m in matches]))
        found["CS_v"].append(np.array([m.score for m in matches]))
    return found


def keep_looks(model: visil.ViSiL, folder: Path) -> None:
    """Have the model embed what a closer look asks of a file once: all its frames of that look, kept for each model."""
    folder = folder / f"looks-{model.fingerprint()}"
    folder.mkdir(parents=True, exist_ok=True)
    fresh = model.look

    def look(video: visil.VideoFeatures, decode: SamplesAt | None = None) -> FramesAt | None:
        embed = fresh(video, decode)
        if embed is None or video.path is None:
            return None
        file = Path(video.path)
        kept = folder / f"{file.parent.name}-{file.stem}.safetensors"

        def seen(times: Sequence[float]) -> visil.VideoFeatures:
            if not kept.exists():
                count = int(np.ceil(float(video.ends[-1]) * PER_SECOND))
                places = np.arange(count) / PER_SECOND
                parts = [embed(part.tolist()) for part in np.array_split(places, -(-count // LOOKED_AT))]
                made = visil.VideoFeatures.joined(parts)
                assert made.blank is not None
                with replacing(kept) as temporary:
                    save_file({"vectors": made.vectors.half(), "blank": made.blank}, temporary)
            held = load_file(kept)
            at = [round(time * PER_SECOND) for time in times]
            stamps = torch.tensor(times, dtype=torch.float64)
            return visil.VideoFeatures(held["vectors"][at].float(), stamps, blank=held["blank"][at])

        return seen

    model.look = look  # type: ignore[method-assign]
