"""The interface of a compared system: features of a video in, a description of it, and scores between descriptions.

A table is a list of names (:mod:`visil.paper.tables`); each name is one of these, and ``visil evaluate``'s scoring
(:mod:`visil.evaluation.scoring`) runs it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError
from visil.kernels import Scorer
from visil.model.features import VideoFeatures
from visil.model.formula import Formula
from visil.paper.baselines.triplets import TripletSource

Description = TypeVar("Description")

ScoreArray = NDArray[np.float64]
"""Scores of one query, float64 [targets]."""


class ComparedSystem(ABC, Generic[Description]):
    """One way to say how alike two videos are: a :class:`visil.evaluation.scoring.System` that may learn first.

    Unless it says otherwise it learns nothing, compares two descriptions in its own way, and runs on the CPU.
    """

    name: str
    """As the paper's tables call it."""
    reads: str
    """Which features it takes, by their name in :mod:`visil.paper.feature_kinds`."""
    learns: bool = False
    """Whether :meth:`learn` does anything."""
    by_triplets: bool = False
    """Whether it is triplets that it learns from."""
    collection_wide: bool = False
    """Whether a score depends on all targets, not on two videos alone."""

    @property
    def formula(self) -> Formula | None:
        """The formula for two descriptions, where these are region vectors."""
        return None

    @property
    def scorer(self) -> Scorer | None:
        """By the formula, where there is one."""
        return None if self.formula is None else Scorer(self.formula, self.device)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return torch.device("cpu")

    def learn(
        self, videos: Sequence[VideoFeatures], *, seed: int = 0, triplets: TripletSource | None = None
    ) -> None:
        """Fit the system, on videos that are not evaluated on; a system with ``by_triplets``, on those."""

    @abstractmethod
    def describe(self, video: VideoFeatures) -> Description:
        """The description of a video: made once, compared often."""

    @abstractmethod
    def scores(self, query: Description, targets: Sequence[Description]) -> ScoreArray:
        """The higher, the more alike; finite."""


@runtime_checkable
class Keepable(Protocol):
    """A system whose lessons are long enough to be kept."""

    def learned(self) -> dict[str, Tensor]:
        """Its learned tensors."""

    def restore(self, learned: dict[str, Tensor]) -> None:
        """As if it had just learned this."""


class PlacedSystem(ComparedSystem[Tensor]):
    """A system on region vectors that computes where it is placed; on the CPU until then."""

    _device = torch.device("cpu")

    @property
    def device(self) -> torch.device:
        """Where vectors are compared."""
        return self._device

    def place(self, device: str | torch.device) -> None:
        """Compute there from now on."""
        self._device = torch.device(device)


def checked(video: VideoFeatures) -> Tensor:
    """A video's vectors, once they are known to be numbers."""
    if not torch.isfinite(video.vectors).all():
        raise UsageError(
            f"{video.path or 'a video'}: its features contain NaN or infinity: extract them again"
        )
    return video.vectors


def needed(triplets: TripletSource | None, name: str) -> TripletSource:
    """The triplets, once they are known to be there."""
    if triplets is None:
        raise UsageError(f"{name} learns from triplets: give videos to train on (--training)")
    return triplets
