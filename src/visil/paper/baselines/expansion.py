"""QE, average query expansion: ask again with the mean of the query and its first hits.

As used for EVVE by Douze, Revaud, Schmid and Jégou, "Stable hyper-pooling and query expansion for event detection",
ICCV 2013, after Chum et al. 2007. The ten nearest are taken, as LAMV's published evaluation does; scores are those of
the second search alone.

A wrapper over any system whose descriptions can be averaged: vectors or arrays of one shape, or whatever the system's
own ``mean`` takes (CTE, TMK and LAMV move each neighbour by its best shift first).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar, cast, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError
from visil.model.features import VideoFeatures
from visil.paper.baselines.system import ComparedSystem, ScoreArray
from visil.paper.baselines.triplets import TripletSource

Description = TypeVar("Description")

NEIGHBOURS = 10


@runtime_checkable
class Averages(Protocol):
    """A system that knows how its descriptions are averaged."""

    def mean(self, query: object, neighbours: Sequence[object]) -> object:
        """The query's description averaged with those of its neighbours."""


class QE(ComparedSystem[Description]):
    """A system with average query expansion."""

    collection_wide = True  # the nearest of all targets are averaged with the query

    def __init__(self, system: ComparedSystem[Description], neighbours: int = NEIGHBOURS) -> None:
        if neighbours < 1:
            raise UsageError(f"neighbours must be at least 1, not {neighbours}")
        self.system, self.neighbours = system, neighbours
        self.name = f"{system.name}+QE"
        self.reads, self.learns, self.by_triplets = system.reads, system.learns, system.by_triplets

    def learn(
        self, videos: Sequence[VideoFeatures], *, seed: int = 0, triplets: TripletSource | None = None
    ) -> None:
        """Let the system learn."""
        self.system.learn(videos, seed=seed, triplets=triplets)

    def describe(self, video: VideoFeatures) -> Description:
        """As the system does."""
        return self.system.describe(video)

    def scores(self, query: Description, targets: Sequence[Description]) -> ScoreArray:
        """Scores of the expanded query; a target that is the query itself is no neighbour."""
        first = self.system.scores(query, targets)
        order = np.argsort(-first, kind="stable")
        nearest = [targets[i] for i in order.tolist() if targets[i] is not query][: self.neighbours]
        if not nearest:
            return first
        return self.system.scores(self._mean(query, nearest), targets)

    def _mean(self, query: Description, nearest: Sequence[Description]) -> Description:
        if isinstance(self.system, Averages):
            return cast("Description", self.system.mean(query, nearest))
        vectors = [query, *nearest]
        shapes = {tuple(v.shape) for v in vectors if isinstance(v, Tensor | np.ndarray)}
        if len(shapes) == 1:
            if all(isinstance(v, Tensor) for v in vectors):
                return cast("Description", torch.stack(cast("list[Tensor]", vectors)).mean(dim=0))
            if all(isinstance(v, np.ndarray) for v in vectors):
                return cast("Description", np.mean(cast("list[NDArray[np.number]]", vectors), axis=0))
        raise UsageError(f"{self.system.name} cannot be expanded: its descriptions have no mean")
