"""The two pools of positive pairs that triplets are drawn from (Sec. 4.5), each pair with its hard negatives."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from visil.errors import UsageError
from visil.training.segments import SegmentPair

Item = TypeVar("Item")
Related = Sequence[Set[int]]
"""For each video, the videos that may show its footage, itself among them."""


@dataclass(frozen=True)
class AnnotatedPool:
    """First pool: annotated pairs. A pair without negatives is never drawn."""

    pairs: Sequence[SegmentPair[int]]
    negatives: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        _check(self.negatives, [(pair.query, pair.target) for pair in self.pairs])
        if any(pair.query == pair.target for pair in self.pairs):
            raise UsageError("a video cannot be its own annotated positive")

    def __len__(self) -> int:
        return len(self.pairs)

    def usable(self, related: Related) -> AnnotatedPool:
        """The pairs that have negatives, without those that may show the footage of either video."""
        anchors = [related[pair.query] | related[pair.target] for pair in self.pairs]
        pairs, negatives = _usable(self.pairs, self.negatives, anchors)
        return AnnotatedPool(pairs, negatives)


@dataclass(frozen=True)
class ArtificialPool:
    """Second pool: videos whose positives are made by transforms. A video without negatives is never drawn."""

    videos: Sequence[int]
    negatives: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        _check(self.negatives, [(video,) for video in self.videos])

    def __len__(self) -> int:
        return len(self.videos)

    def usable(self, related: Related) -> ArtificialPool:
        """The videos that have negatives, without those that may show the video's own footage."""
        videos, negatives = _usable(self.videos, self.negatives, [related[video] for video in self.videos])
        return ArtificialPool(videos, negatives)


Pool = AnnotatedPool | ArtificialPool


def drawn(count: int, items: int, rng: np.random.Generator) -> list[int]:
    """``count`` of the numbers below ``items``, in random order, each as often as any other or once more."""
    rounds = -(-count // items)
    return np.concatenate([rng.permutation(items) for _ in range(rounds)])[:count].tolist()


def _usable(
    items: Sequence[Item], negatives: Sequence[Sequence[int]], anchors: Sequence[Set[int]]
) -> tuple[list[Item], list[list[int]]]:
    kept = [
        (item, allowed)
        for item, some, own in zip(items, negatives, anchors, strict=True)
        if (allowed := [video for video in some if video not in own])
    ]
    return [item for item, _ in kept], [allowed for _, allowed in kept]


def _check(negatives: Sequence[Sequence[int]], anchors: Sequence[tuple[int, ...]]) -> None:
    if len(negatives) != len(anchors):
        raise UsageError(f"{len(anchors)} positives were given negatives for {len(negatives)}")
    for some, own in zip(negatives, anchors, strict=True):
        if not set(own).isdisjoint(some):
            raise UsageError(f"video {own[0]} is among its own negatives")
