"""Frame features compared by dot product, frame by frame and then video by video: the rows of Table 2.

MAC, SPoC, R-MAC, GeM and iMAC have one vector a frame, so that S_f is their dot products; L2- and L3-iMAC have four
and nine, compared as ViSiL_f does (Eq. 5). The video's score is the raw Chamfer similarity of S_f.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from visil.baselines.system import Scores, System, checked
from visil.comparator import Comparator
from visil.comparing import WIDE_CELLS, WIDE_FRAMES, read_matrix, repeated
from visil.errors import UsageError
from visil.features import VideoFeatures
from visil.kernels import FrameMatrix, RunningPool, score_pair
from visil.similarity import Reduction

KINDS: dict[str, str] = {
    "MAC": "mac",
    "SPoC": "spoc",
    "R-MAC": "rmac",
    "GeM": "gem",
    "iMAC": "imac",
    "L2-iMAC": "l2-imac",
    "L3-iMAC": "l3-imac",
}
"""Names of Table 2, and the features that each reads."""

VARIANTS: dict[str, str] = {"": "", " +PCA": "+pca", " reduced": "+reduced"}
"""As they are; whitened; or, as the paper's small rows, reduced by PCA without whitening."""

MP_AP: tuple[Reduction, Reduction] = ("max", "mean")
"""Chamfer similarity: the best, then the mean."""


class FrameFeatures:
    """One row of Table 2: any frame vectors, Eq. 5 and Chamfer similarity. Nothing is learned."""

    def __init__(self, name: str, reads: str) -> None:
        self.name, self.reads = name, reads

    def learn(self, videos: Sequence[VideoFeatures], *, seed: int = 0) -> None:
        """Nothing: what PCA needs is fitted with the features."""

    def describe(self, video: VideoFeatures) -> Tensor:
        """The frames' vectors, [T, R, C]."""
        return checked(video)

    def scores(self, query: Tensor, targets: Sequence[Tensor]) -> Scores:
        """CS of the frame-to-frame similarities with each target."""
        return matrix_scores(query, targets)


FRAME_SYSTEMS = {
    f"{name}{variant}": partial(FrameFeatures, f"{name}{variant}", f"{kind}{suffix}")
    for name, kind in KINDS.items()
    for variant, suffix in VARIANTS.items()
}
"""Every name above in every variant."""


@torch.inference_mode()
def matrix_scores(
    query: Tensor,
    targets: Sequence[Tensor],
    *,
    symmetric: bool = False,
    frame_pool: tuple[Reduction, Reduction] = MP_AP,
    video_pool: tuple[Reduction, Reduction] = MP_AP,
    comparator: Comparator | None = None,
) -> Scores:
    """CS_v of one query [X, R, C] with many targets, by the product's own engine: float64 [targets].

    The frames of several targets stand side by side in one matrix, so that products are few and large; a long pair is
    read by itself, strip by strip. Equal to the score of :meth:`visil.ViSiL.compare` with the same settings.
    """
    results = np.empty(len(targets), np.float64)
    matrix = partial(FrameMatrix, symmetric=symmetric, inner=frame_pool[0], outer=frame_pool[1])
    for start, stop in _batches(len(query), [len(target) for target in targets]):
        batch = targets[start:stop]
        _check_widths(query, batch)
        if len(query) * len(batch[0]) > WIDE_CELLS:
            pair = matrix(repeated(query, comparator), repeated(batch[0], comparator))
            results[start] = score_pair(pair, comparator, RunningPool(*video_pool, symmetric=symmetric))
            continue
        together = matrix(query, torch.cat(list(batch))).full()
        for place, strip in enumerate(together.split([len(target) for target in batch], dim=1), start):
            pool = RunningPool(*video_pool, symmetric=symmetric)
            results[place], _ = read_matrix(strip, comparator, pool)
    return results


def _batches(query: int, lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Runs of targets, start and end, whose frames fit side by side; one that is too long is a run of its own."""
    most = max(1, min(WIDE_FRAMES, WIDE_CELLS // query))
    start, frames = 0, 0
    for place, length in enumerate(lengths):
        if place > start and frames + length > most:
            yield start, place
            start, frames = place, 0
        frames += length
    if start < len(lengths):
        yield start, len(lengths)


def _check_widths(query: Tensor, targets: Sequence[Tensor]) -> None:
    for target in targets:
        if target.shape[1:] != query.shape[1:]:
            raise UsageError(
                f"videos to compare must have the same regions and channels, got {list(query.shape[1:])} and "
                f"{list(target.shape[1:])}: make their features alike"
            )


def frame_system(name: str) -> System[Tensor]:
    """A row of Table 2 by its name, as :data:`FRAME_SYSTEMS` lists them."""
    if name not in FRAME_SYSTEMS:
        raise UsageError(f"unknown frame features {name!r}: choose one of {', '.join(FRAME_SYSTEMS)}")
    return FRAME_SYSTEMS[name]()
