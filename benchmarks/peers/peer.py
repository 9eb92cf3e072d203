"""What a peer is to the runner: it describes each video once, then compares all descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]
Scores = dict[str, dict[str, float]]
"""Query → target → score, higher is more alike."""


@dataclass(frozen=True)
class Video:
    """One file and its frames (RGB), decoded once for all peers."""

    path: Path
    frames: list[Picture]
    fps: float

    def every(self, seconds: float) -> list[Picture]:
        """One frame for each such stretch of time, the first at 0."""
        step = seconds * self.fps
        count = max(1, int((len(self.frames) - 1) / step + 1e-6) + 1)
        return [self.frames[min(round(i * step), len(self.frames) - 1)] for i in range(count)]


class Peer(Protocol):
    """One public method under test."""

    packages: tuple[str, ...]
    note: str

    def describe(self, video: Video) -> Any:
        """What is kept of a video."""

    def compare(self, queries: Mapping[str, Any], targets: Mapping[str, Any]) -> dict[str, Scores]:
        """All scores, for each variant of the method."""


def all_pairs(queries: Mapping[str, Any], targets: Mapping[str, Any], score: Any) -> Scores:
    """``score(query, target)`` of every pair."""
    return {
        query: {target: float(score(a, b)) for target, b in targets.items()} for query, a in queries.items()
    }
