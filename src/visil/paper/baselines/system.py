"""What every compared system is: features of a video in, a description of it, and scores between descriptions.

A table is a list of names (:mod:`visil.paper.tables`); each name is one of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError
from visil.model.features import VideoFeatures

Description = TypeVar("Description")
Scores = NDArray[np.float64]


class System(Protocol, Generic[Description]):
    """One way to say how alike two videos are."""

    name: str
    """As the paper's tables call it."""
    reads: str
    """Which features it takes, by their name in :mod:`visil.paper.features`."""

    def learn(self, videos: Sequence[VideoFeatures], *, seed: int = 0) -> None:
        """Fit what has to be fitted, on videos that are not evaluated on; systems without such parts do nothing."""

    def describe(self, video: VideoFeatures) -> Description:
        """What is kept of a video: made once, compared often."""

    def scores(self, query: Description, targets: Sequence[Description]) -> Scores:
        """The higher, the more alike; finite, float64 [targets]."""


def checked(video: VideoFeatures) -> Tensor:
    """A video's vectors, once they are known to be numbers."""
    if not torch.isfinite(video.vectors).all():
        raise UsageError(
            f"{video.path or 'a video'}: its features contain NaN or infinity: extract them again"
        )
    return video.vectors
