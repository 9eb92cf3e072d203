"""Votes over the frames of all shards: the same candidates as from one index with all the frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visil.cluster.catalogue import number_of
from visil.cluster.manifest import MOST
from visil.collection.candidates import NEIGHBOURS, Candidate, CandidateIndex, Nearest, Probes

if TYPE_CHECKING:
    from visil.cluster.sharded import ShardedIndex


class ShardedCandidates(CandidateIndex):
    """What :class:`visil.collection.candidates.CandidateIndex` is asked for, over the shards of ``index``."""

    def __init__(self, index: ShardedIndex) -> None:  # no FAISS file of its own
        self._sharded = index

    @property
    def frames(self) -> int:
        """How many frames the collection has."""
        return self._sharded.catalogue.count()[1]

    def vote(self, probes: Probes, limit: int, *, neighbours: int = NEIGHBOURS) -> list[Candidate]:
        """The videos whose frames are nearest to the query's in any shard, strongest first."""
        answers = self._sharded.shards.each("nearest", probes.vectors, neighbours)
        return self.tally(probes, answers, limit, neighbours)

    def vote_for_many(self, queries: Sequence[Probes], limit: int) -> list[list[Candidate]]:
        """:meth:`vote` for several queries, with one call to each shard."""
        answers = self._sharded.shards.each("nearest_of_many", [probes.vectors for probes in queries])
        return [self.tally(probes, [some[i] for some in answers], limit) for i, probes in enumerate(queries)]

    def tally(
        self, probes: Probes, answers: Sequence[Nearest], limit: int, neighbours: int = NEIGHBOURS
    ) -> list[Candidate]:
        """From the nearest frames in each shard to candidates; of equal votes, those that came first."""
        catalogue = self._sharded.catalogue
        merged = Nearest(
            np.concatenate([one.probes for one in answers]),
            np.concatenate([one.similarity for one in answers]),
            np.concatenate([one.videos * MOST + number_of(place, 0) for place, one in enumerate(answers)]),
        )
        if self._sharded.manifest.moving:
            real = ~np.isin(merged.videos, catalogue.order().doubled)
            merged = Nearest(merged.probes[real], merged.similarity[real], merged.videos[real])
        videos, weights = merged.cut(neighbours).votes(probes.frames)
        ranks = catalogue.ranks(videos) if _tied(weights, limit) else videos
        best = np.lexsort((ranks, -weights))[:limit]
        return [Candidate(int(videos[i]), float(weights[i])) for i in best]


def _tied(weights: NDArray[np.float64], limit: int) -> bool:
    """Whether any that get in have the same votes as others: only then does it matter which came first."""
    falling = np.sort(weights)[::-1][: limit + 1]
    return bool((falling[1:] == falling[:-1]).any())
