"""Collections of random features, written as ``add`` writes them; with copies, exact ones (ties), and common frames."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

import visil
from visil.collection.catalogue import NewVideo
from visil.collection.duplicates import Duplicates, Group, Pair
from visil.collection.identity import Stamp
from visil.collection.search import Hit
from visil.compare.visil import ViSiL
from visil.matching.calibration import Calibration
from visil.model.config import VISIL_F_W

DIM, REGIONS = 16, 2
CONFIG = VISIL_F_W.replaced(
    backbone="efficientnet-lite0",
    dim=DIM,
    calibration=Calibration(bias=-5, score=5, stretch=5, stretch_cap=3, copy=0.9, related=0.5),
)


def small_model(seed: int = 0) -> ViSiL:
    """Compares, and embeds nothing; another seed gives another fingerprint."""
    model = ViSiL(CONFIG, with_backbone=False)
    assert model.whitening is not None
    with torch.no_grad():
        for tensor in model.whitening.state_dict().values():
            if tensor.is_floating_point():
                tensor += seed
    return model


@dataclass(frozen=True)
class Made:
    """A video of random features."""

    id: str
    path: str
    vectors: Tensor
    blank: Tensor


def random_videos(seed: int, count: int = 40) -> list[Made]:
    """A third are new, a third copies of parts of others, some exact, and many share one frame."""
    rng = np.random.default_rng(seed)

    def noise(*shape: int) -> Tensor:
        return torch.from_numpy(rng.standard_normal(shape).astype(np.float32))

    common = noise(1, REGIONS, DIM)
    made: list[Made] = []
    for i in range(count):
        frames = int(rng.integers(1, 9))
        vectors = F.normalize(noise(frames, REGIONS, DIM), dim=-1)
        if made and rng.random() < 0.5:
            other = made[int(rng.integers(len(made)))].vectors
            start = int(rng.integers(len(other)))
            vectors = torch.cat([other[start:], vectors[: int(rng.integers(0, 3))]])
            if rng.random() < 0.5:
                vectors = F.normalize(vectors + 0.05 * noise(*vectors.shape), dim=-1)
        if rng.random() < 0.3:
            vectors = torch.cat([F.normalize(common, dim=-1), vectors])
        blank = torch.from_numpy(rng.random(len(vectors)) < 0.05)
        made.append(Made(rng.bytes(16).hex(), f"/videos/{i:03}.mp4", vectors, blank))
    return made


def write(location: str | Path, videos: list[Made], model: ViSiL, *, references: int = 0) -> None:
    """An ordinary collection of them; the first few are references."""
    with visil.Index(location, model=model, codes="fp16") as index:
        assert index.model is model
        for i, video in enumerate(videos):
            put(index, video, reference=i < references)


def put(index: visil.Index, video: Made, *, reference: bool = False) -> None:
    """One video more."""
    frames = len(video.vectors)
    writer = index.store.writer(video.id)
    writer.append(video.vectors.half(), np.arange(frames, dtype=np.float64), video.blank)
    writer.seal(float(frames))
    new = NewVideo(video.id, frames, float(frames), 64, 48, "h264", None, 1000 + frames, 0)
    index.catalogue.add(new, video.path, Stamp(1, 1), reference=reference, place=writer.place)


def query(video: Made) -> visil.VideoFeatures:
    times = torch.arange(len(video.vectors), dtype=torch.float64)
    return visil.VideoFeatures(video.vectors, times, float(len(times)), None, video.blank)


def same_hits(one: list[Hit], other: list[Hit]) -> None:
    """Same videos in the same order, same stretches; numbers to the last digits of a sum."""
    assert [(hit.id, hit.path, hit.verdict) for hit in one] == [(h.id, h.path, h.verdict) for h in other]
    np.testing.assert_allclose(_numbers(one), _numbers(other), rtol=0, atol=1e-5)
    assert [spans(hit.segments) for hit in one] == [spans(hit.segments) for hit in other]


def _numbers(hits: list[Hit]) -> NDArray[np.float64]:
    return np.array([(hit.score, hit.confidence, hit.evidence) for hit in hits]).reshape(-1, 3)


def spans(segments: list[visil.Segment]) -> list[tuple[float, ...]]:
    return [(*segment.query, *segment.target) for segment in segments]


def same_duplicates(one: Duplicates, other: Duplicates) -> None:
    """Same groups in the same order with the same advice, same pairs, same leftovers."""
    assert [_plain(group) for group in one.groups] == [_plain(group) for group in other.groups]
    for mine, theirs in zip(one.groups, other.groups, strict=True):
        _same_pairs(mine.pairs, theirs.pairs)
    _same_pairs(one.common, other.common)


def _same_pairs(one: list[Pair], other: list[Pair]) -> None:
    mine, theirs = (
        [(pair.query, pair.target, pair.verdict, pair.common, spans(pair.segments)) for pair in some]
        for some in (one, other)
    )
    assert mine == theirs
    numbers, others = (np.array([(pair.score, pair.confidence) for pair in some]) for some in (one, other))
    np.testing.assert_allclose(numbers, others, rtol=0, atol=1e-5)


def _plain(group: Group) -> tuple[object, ...]:
    members = [video.id for video in group.videos]
    return members, group.keep, group.reason, group.also, group.notes, group.copies
