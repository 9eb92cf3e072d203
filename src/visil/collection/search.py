"""From candidates to hits: exact ViSiL on each, ranked by what the score and the best stretch say together."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from visil.matching.calibration import shares
from visil.matching.localize import Segment

if TYPE_CHECKING:
    from visil.collection.catalogue import Video
    from visil.collection.recent_features import RecentFeatures
    from visil.collection.store import Features
    from visil.compare.pair_reading import Common
    from visil.compare.visil import ViSiL
    from visil.matching.calibration import Verdict
    from visil.matching.match import Match
    from visil.model.features import VideoFeatures
    from visil.video.thumbnails import SamplesAt

AROUND = 8.0
"""Seconds around a stretch that are looked at anew."""

ANEW_TOGETHER = 128
"""Frames of it that are held at once: those of a long still recording are many."""


@dataclass(frozen=True)
class Hit:
    """A video of the collection that matches a query."""

    id: str
    path: str
    score: float
    """CS_v(query, this video) of the paper."""
    confidence: float
    verdict: Verdict
    segments: list[Segment]
    evidence: float
    """Hits are ranked by this: the logit of ``confidence``, which does not flatten out near 1."""
    missing: bool = False
    """Whether no file holds it any more."""
    note: str = ""
    """A remark: that it has the same bytes, or why nothing can be told."""

    @property
    def shares(self) -> bool:
        """Whether it is called a copy, or related."""
        return shares(self.verdict)

    def to_dict(self) -> dict[str, object]:
        """As ``visil search --json`` prints it."""
        return {
            "id": self.id,
            "path": self.path,
            "score": self.score,
            "confidence": self.confidence,
            "verdict": self.verdict,
            "segments": [segment.to_dict() for segment in self.segments],
            "missing": self.missing,
            "note": self.note,
        }


class Hits(list[Hit]):
    """The hits of a search, best first."""

    def __init__(self, hits: Iterable[Hit] = (), note: str = "") -> None:
        super().__init__(hits)
        self.note = note
        """Why nothing can be told, where the query shows too little."""


def hit_of(video: Video, match: Match) -> Hit:
    """A comparison with ``video`` as the target, as a hit."""
    return Hit(
        *(video.id, video.path, match.score, match.confidence, match.verdict, match.segments, match.evidence),
        note=match.note,
    )


def identical(hit: Hit, video: Video) -> Hit:
    """A hit whose bytes are the query's: a copy, whatever it shows."""
    from visil.compare.judge import CERTAIN, SAME_BYTES

    whole = (0.0, video.duration)
    known = Segment(whole, whole, 1.0)
    return replace(hit, confidence=1.0, verdict="copy", segments=[known], evidence=CERTAIN, note=SAME_BYTES)


def shown_anew(
    model: ViSiL, target: VideoFeatures, segments: Iterable[Segment], decode: SamplesAt | None = None
) -> VideoFeatures:
    """A video with its own frames around some stretches, where a key frame stands for several seconds.

    Such seconds have the very vectors of the one before. Those of a still picture do, too, and stay as they are.
    """
    import torch

    held = torch.zeros(len(target), dtype=torch.bool)
    held[1:] = (target.vectors[1:] == target.vectors[:-1]).flatten(1).all(dim=1)
    held[:-1] |= held[1:].clone()
    near = torch.zeros_like(held)
    for start, end in (segment.target for segment in segments):
        near |= (target.timestamps >= start - AROUND) & (target.timestamps <= end + AROUND)
    rows = (held & near).nonzero()[:, 0]
    look = model.look(target, decode)
    if look is None or not len(rows):
        return target
    vectors = target.vectors.clone()
    for some in rows.split(ANEW_TOGETHER):
        vectors[some] = look(target.timestamps[some].tolist()).vectors.to(vectors)
    return replace(target, vectors=vectors)


def compared(
    model: ViSiL,
    store: Features | RecentFeatures,
    query: VideoFeatures,
    videos: Iterable[Video],
    common: Common | None,
) -> Iterator[tuple[Video, Match]]:
    """Each of ``videos`` with how the query relates to it; those whose features cannot be read are left out."""
    read: deque[Video] = deque()

    def targets() -> Iterator[VideoFeatures]:
        for video, features in store.readable(videos):
            read.append(video)  # answers come in the order of the targets, but some targets later
            yield features

    for match in model.compare_many(query, targets(), common=common):
        yield read.popleft(), match


def rank(
    model: ViSiL,
    store: Features,
    query: VideoFeatures,
    videos: Iterable[Video],
    k: int,
    common: Common | None,
) -> list[Hit]:
    """The best ``k`` of ``videos``, compared exactly; memory for a few at a time."""
    best: list[Hit] = []
    for video, match in compared(model, store, query, videos, common):
        best.append(hit_of(video, match))
        if len(best) >= 2 * k + 100:
            best = best_of(best, k)
    return best_of(best, k)


def best_of(hits: Iterable[Hit], k: int) -> list[Hit]:
    """The best ``k``; what differs only by how sums were rounded (which company a video was compared in) is a tie."""
    return sorted(hits, key=lambda hit: (-round(hit.evidence, 4), -round(hit.score, 5), hit.id))[:k]
