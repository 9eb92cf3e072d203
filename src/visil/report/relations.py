"""The relation of two files, as every export tells it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from visil.errors import VisilError
from visil.matching.calibration import shares

if TYPE_CHECKING:
    from visil.collection.search import Hit
    from visil.matching.calibration import Verdict
    from visil.matching.localize import Segment
    from visil.matching.match import Match

USUAL_RATE = 25.0
"""Frames a second where a file does not say."""


@dataclass(frozen=True)
class Relation:
    """A query and a target, by path."""

    query: str
    target: str
    score: float
    confidence: float
    verdict: Verdict
    segments: list[Segment]
    note: str = ""
    """A remark (:attr:`visil.Match.note`)."""
    media: tuple[Media, Media] | None = None
    """Query and target as files, where more is known of them than their paths."""

    @property
    def query_media(self) -> Media:
        """The query as a file."""
        return Media(self.query) if self.media is None else self.media[0]

    @property
    def target_media(self) -> Media:
        """The target as a file."""
        return Media(self.target) if self.media is None else self.media[1]

    @classmethod
    def of_match(cls, match: Match) -> Relation:
        """The relation that a comparison found."""
        paths = match.query_path or "", match.target_path or ""
        return cls(*paths, match.score, match.confidence, match.verdict, match.segments, match.note)

    @classmethod
    def of_hit(cls, query: str, hit: Hit) -> Relation:
        """The relation of a query and one of its hits."""
        return cls(query, hit.path, hit.score, hit.confidence, hit.verdict, hit.segments, hit.note)

    @property
    def shared(self) -> list[Segment]:
        """The stretches that are called shared; none unless they are called copies, or related."""
        return self.segments if shares(self.verdict) else []

    def to_dict(self) -> dict[str, object]:
        """As ``visil compare --json`` prints it."""
        return {
            "query": self.query,
            "target": self.target,
            "score": self.score,
            "confidence": self.confidence,
            "verdict": self.verdict,
            "segments": [segment.to_dict() for segment in self.segments],
            "note": self.note,
        }


@dataclass(frozen=True)
class Media:
    """A file that a timeline is made of."""

    path: str
    told: tuple[float | None, float | None] | None = None
    """Frames a second and seconds, of a file that need not be opened to know them."""

    @property
    def name(self) -> str:
        """Of the file."""
        return os.path.basename(self.path) or self.path

    @cached_property
    def _facts(self) -> tuple[float | None, float | None]:
        from visil.video import probe

        if self.told is not None:
            return self.told
        try:
            info = probe(self.path)
        except (VisilError, OSError, ValueError):
            return None, None
        return info.fps, info.duration

    @property
    def rate(self) -> float:
        """Its frames a second."""
        return self._facts[0] or USUAL_RATE

    @property
    def duration(self) -> float | None:
        """Its seconds, if they are known."""
        return self._facts[1]


def by_query(relations: Iterable[Relation]) -> dict[str, list[Relation]]:
    """The relations of each query that shares something with another file, in the order they came in."""
    found: dict[str, list[Relation]] = {}
    for relation in relations:
        if relation.shared and os.path.abspath(relation.query) != os.path.abspath(relation.target):
            found.setdefault(relation.query, []).append(relation)
    return found
