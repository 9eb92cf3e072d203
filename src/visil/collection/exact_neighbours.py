"""The nearest frames of many vectors among all frames of a collection, exactly: large products, few survivors.

Products of a block of frames with all vectors at once are several times as fast as one vector after another, but their
last bits depend on where in a block a frame stands. So they only tell who may be among the nearest; the similarity
of those few is then computed by itself, and equal frames are equally near, wherever they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from visil.collection.votes import Nearest

CELLS = 1 << 22
"""Similarities that are computed at once (16 MB)."""

VECTORS = 1024
"""Vectors that look at once."""

TIES = 1 << 14
"""Frames that are as near as the last of a vector's nearest which are kept, at the most."""

ROUNDING = 1e-5
"""By which a product of unit vectors may be off, at the most."""


def nearest(
    vectors: NDArray[np.float32], frames: NDArray[np.float16], videos: NDArray[np.int64], count: int
) -> Iterator[Nearest]:
    """For each of ``vectors`` [N, C] its ``count`` nearest of ``frames`` [M, C], of those that are nearer than 0.

    All that are as near as the last of them are among them. ``videos`` [M] says which video each frame belongs to; a
    negative number: to none, and it is nobody's neighbour.
    """
    for start in range(0, len(vectors), VECTORS):
        found = _nearest(vectors[start : start + VECTORS], frames, videos, count)
        yield Nearest(found.probes + start, found.similarity, found.videos)


@torch.inference_mode()
def _nearest(
    vectors: NDArray[np.float32], frames: NDArray[np.float16], videos: NDArray[np.int64], count: int
) -> Nearest:
    asking = torch.from_numpy(np.ascontiguousarray(vectors))
    least = torch.zeros(len(vectors), 1)  # less similar frames are not among the nearest
    kept = Nearest.joined(())
    step = max(count + 1, CELLS // len(vectors))
    for start in range(0, len(frames), step):
        block = torch.from_numpy(frames[start : start + step]).float()
        owners = videos[start : start + step]
        products = asking @ block.T
        products[:, torch.from_numpy(owners < 0)] = -torch.inf
        if start == 0 and len(block) > count:
            least = products.topk(count, dim=1).values[:, -1:].clamp(min=0.0)
        rows, places = (products >= least - ROUNDING).nonzero(as_tuple=True)
        similarity = (asking[rows] * block[places]).sum(dim=1)
        near = ((similarity > 0) & (products[rows, places] > -torch.inf)).numpy()
        fresh = Nearest(rows.numpy()[near], similarity.numpy()[near], owners[places.numpy()[near]])
        kept = Nearest.joined([kept, fresh]).cut(count, TIES)
        starts, sizes = kept.runs()
        full = sizes >= count
        least[torch.from_numpy(kept.probes[starts[full]]), 0] = torch.from_numpy(
            kept.similarity[starts[full] + count - 1]
        )
    return kept
