"""What a first look scores, by the definition: for the tests of it."""

from __future__ import annotations

from math import cos, pi

import numpy as np
from numpy.typing import NDArray

from collection.random_collection import Made


def true_scores(asked: Made, videos: list[Made], common: NDArray[np.float32] | None) -> NDArray[np.float64]:
    """By the definition, one pair of regions at a time."""
    scores = []
    for video in videos:
        rows = []
        for x in np.flatnonzero(~asked.blank.numpy()):
            alike = [
                cos(pi * float(np.mean((one.numpy() >= 0) != (other.numpy() >= 0))))
                for one in asked.vectors[x].half()
                for y in np.flatnonzero(~video.blank.numpy())
                for other in video.vectors[y].half()
            ]
            if alike:
                rows.append(max(alike) - (0.0 if common is None else float(common[x])))
        scores.append(np.mean(sorted(rows)[-2:]) if rows else -2.0)
    return np.array(scores)
