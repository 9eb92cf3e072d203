"""From the nearest frames of a query's probes to the videos that could match: a vote over frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

VOTE_POWER = 16
"""Of the similarity: one close frame says more than many vague ones."""

Ranks = Callable[[NDArray[np.int64]], NDArray[np.int64]]
"""From numbers of videos to their ranks."""


@dataclass(frozen=True)
class Candidate:
    """A video that may match, and the weight of the votes for it."""

    number: int
    votes: float


@dataclass(frozen=True)
class Nearest:
    """The nearest frames of some probes, in no order: which probe, how similar, which video the frame belongs to."""

    probes: NDArray[np.int64]
    similarity: NDArray[np.float32]
    videos: NDArray[np.int64]

    def cut(self, neighbours: int, most: int | None = None) -> Nearest:
        """The best few of each probe, and all that are as near as the last of them: no matter of what came first.

        ``most`` of each probe in all, as they come. The result is in order: by probe, the nearest first.
        """
        order = np.lexsort((-self.similarity, self.probes))
        ordered = Nearest(self.probes[order], self.similarity[order], self.videos[order])
        starts, sizes = ordered.runs()
        last = ordered.similarity[starts + np.minimum(sizes, neighbours) - 1]
        kept = ordered.similarity >= np.repeat(last, sizes)
        if most is not None:
            kept &= np.arange(len(order)) - np.repeat(starts, sizes) < most
        return Nearest(ordered.probes[kept], ordered.similarity[kept], ordered.videos[kept])

    def runs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where each probe's frames begin, and how many they are, where they are in order."""
        starts = np.flatnonzero(np.diff(self.probes, prepend=-1))
        return starts, np.diff(starts, append=len(self.probes))

    def part(self, first: int, stop: int) -> Nearest:
        """Of the probes from ``first`` to before ``stop``, counted from there; where they are in order."""
        low, high = np.searchsorted(self.probes, [first, stop])
        return Nearest(self.probes[low:high] - first, self.similarity[low:high], self.videos[low:high])

    def votes(self, frames: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Videos, rising, and the weight of the votes for each; ``frames``: which frame each probe belongs to."""
        # A frame of the query votes once for a video: for its best match there.
        voters = frames[self.probes]
        order = np.lexsort((-self.similarity, self.videos, voters))
        voters, similarity, numbers = voters[order], self.similarity[order], self.videos[order]
        first = np.ones(len(order), bool)
        first[1:] = (voters[1:] != voters[:-1]) | (numbers[1:] != numbers[:-1])
        videos, places = np.unique(numbers[first], return_inverse=True)
        weights = np.bincount(places, similarity[first].astype(np.float64) ** VOTE_POWER, len(videos))
        return videos, weights.astype(np.float64)

    def strongest(self, frames: NDArray[np.int64], limit: int, ranks: Ranks | None = None) -> list[Candidate]:
        """The videos with the most votes; of equals the one of the lowest rank, which is its number by default."""
        videos, weights = self.votes(frames)
        order = videos if ranks is None or not _tied(weights, limit) else ranks(videos)
        best = np.lexsort((order, -weights))[:limit]
        return [Candidate(int(videos[i]), float(weights[i])) for i in best]

    @classmethod
    def joined(cls, parts: Iterable[Nearest]) -> Nearest:
        """Of several searches, as they are."""
        fields = [(one.probes, one.similarity, one.videos) for one in parts]
        if not fields:
            return cls(np.empty(0, np.int64), np.empty(0, np.float32), np.empty(0, np.int64))
        return cls(*(np.concatenate(some) for some in zip(*fields, strict=True)))


def _tied(weights: NDArray[np.float64], limit: int) -> bool:
    """Whether any that get in have the same votes as others: only then does it matter which comes first."""
    falling = np.sort(weights)[::-1][: limit + 1]
    return bool((falling[1:] == falling[:-1]).any())
