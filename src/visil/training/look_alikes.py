"""Which frames a model takes for each other though they show different things: the strangers worth learning from.

Among a batch of anybody, few strangers are hard: a slide meets photographs. Here each frame gets those of other videos
and pictures that the model, as it starts, finds most like it, so that a batch can show slides of one deck together.
What is nearly the same picture is left out: that may be the same footage under another name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

MOST = 16
"""Look-alikes of a frame."""

COPIES = 0.9
"""Similarity from which on another video's frame may be a copy."""

IDENTICAL = 0.02
"""Mean difference of small pictures, of 1, below which two frames may be one picture; two charts of a style are not."""

ROWS = 64
"""Frames compared with all others at once."""


@torch.no_grad()
def look_alikes(
    vectors: Tensor,
    matrix: Callable[[Tensor, Tensor], Tensor],
    owners: NDArray[np.int64],
    thumbs: NDArray[np.float32],
) -> list[NDArray[np.int64]]:
    """For each of N frames, those most like it that belong to another owner and are no copies of it.

    ``vectors`` [N, R, C] are compared by ``matrix``, the model's S_f; ``thumbs`` [N, D] show the frames in small.
    """
    belongs = torch.from_numpy(owners).to(vectors.device)
    found: list[NDArray[np.int64]] = []
    for start in range(0, len(vectors), ROWS):
        rows = slice(start, start + ROWS)
        similarity = _beside(vectors[rows], vectors, matrix)
        strangers = (belongs[rows, None] != belongs[None]) & (similarity < COPIES)
        similarity = similarity.masked_fill(~strangers, -torch.inf)
        best = similarity.topk(min(MOST, len(vectors)), dim=1)
        there = best.values.isfinite().cpu().numpy()
        for row, (columns, real) in enumerate(zip(best.indices.cpu().numpy(), there, strict=True)):
            some = columns[real]
            apart = np.abs(thumbs[some] - thumbs[start + row]).mean(axis=1) > IDENTICAL
            found.append(some[apart])
    return found


def _beside(some: Tensor, others: Tensor, matrix: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """S_f of some frames with all, a part at a time."""

    def parts() -> Iterator[Tensor]:
        for part in others.split(2048):
            yield matrix(some.float(), part.float())

    return torch.cat(list(parts()), dim=1)
