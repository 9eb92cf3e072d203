"""What every compared system is: features of a video in, a description of it, and scores between descriptions.

A table is a list of names (:mod:`visil.paper.tables`); each name is one of these, and ``visil evaluate``'s scoring
(:mod:`visil.evaluation.scoring`) runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError
from visil.evaluation import scoring
from visil.kernels import Scorer
from visil.model.features import VideoFeatures
from visil.model.formula import Formula

Description = TypeVar("Description")
Scores = NDArray[np.float64]


class System(scoring.System[Description], Protocol[Description]):
    """One way to say how alike two videos are, with what it reads and learns from."""

    name: str
    """As the paper's tables call it."""
    reads: str
    """Which features it takes, by their name in :mod:`visil.paper.feature_kinds`."""

    @property
    def learns(self) -> bool:
        """Whether ``learn`` does anything."""

    def learn(self, videos: Sequence[VideoFeatures], *, seed: int = 0) -> None:
        """Fit what has to be fitted, on videos that are not evaluated on; systems without such parts do nothing."""


class ComparedSystem:
    """What most systems have in common: they learn nothing, and compare two descriptions in their own way."""

    name: str
    reads: str

    @property
    def formula(self) -> Formula | None:
        """Only systems whose descriptions are region vectors have one."""
        return None

    @property
    def scorer(self) -> Scorer | None:
        """By the formula, where there is one."""
        return None if self.formula is None else Scorer(self.formula, self.device)

    @property
    def device(self) -> torch.device:
        """The CPU."""
        return torch.device("cpu")

    @property
    def collection_wide(self) -> bool:
        """A score depends on two videos alone."""
        return False

    @property
    def learns(self) -> bool:
        """Nothing is learned."""
        return False

    def learn(self, videos: Sequence[VideoFeatures], *, seed: int = 0) -> None:
        """Nothing is learned."""


def checked(video: VideoFeatures) -> Tensor:
    """A video's vectors, once they are known to be numbers."""
    if not torch.isfinite(video.vectors).all():
        raise UsageError(
            f"{video.path or 'a video'}: its features contain NaN or infinity: extract them again"
        )
    return video.vectors
