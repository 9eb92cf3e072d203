"""Frame-to-frame matrices with a known path in them, and made videos, for the systems that read S_f."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from visil.model.features import VideoFeatures
from visil.paper.baselines.alignment import Alignment

Floats = NDArray[np.float64]


def video(frames: int, seed: int, regions: int = 2, channels: int = 16) -> VideoFeatures:
    noise = torch.randn(frames, regions, channels, generator=torch.Generator().manual_seed(seed))
    return VideoFeatures(F.normalize(noise, dim=-1), torch.arange(frames, dtype=torch.float64))


def drawn(shape: tuple[int, int], cells: list[tuple[int, int]], value: float = 0.9) -> Floats:
    matrix = np.full(shape, 0.1)
    for i, j in cells:
        matrix[i, j] = value
    return matrix


def path_of(found: Alignment) -> list[tuple[int, int]]:
    return [(int(i), int(j)) for i, j in found.cells]
