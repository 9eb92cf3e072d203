"""The formula from two videos' region vectors to a score, stated once: poolings, symmetry, comparator.

:class:`Formula` carries out the plain formulas of :mod:`visil.model.similarity` itself, differentiably; the fast ways
of :mod:`visil.kernels` take one and compute the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from visil.model.comparator import Comparator, hard_tanh
from visil.model.similarity import MP_AP, Reduction, frame_matrix, video_similarity


@dataclass(frozen=True)
class Formula:
    """From region vectors [X, R, C] and [Y, S, C] to S_f, to S_v, to CS_v."""

    frame_pool: tuple[Reduction, Reduction] = MP_AP
    """How the similarities of two frames' regions become one: over the target's regions, then over the query's."""
    video_pool: tuple[Reduction, Reduction] = MP_AP
    """How a matrix becomes a score: over the target's frames, then over the query's."""
    symmetric: bool = False
    """Both poolings also the other way round, and the mean of the two."""
    comparator: Comparator | None = None
    """None: the score is read off S_f (ViSiL_f)."""
    binary: bool = False
    """Whether vectors of signs are the features themselves, whose products count, and not codes of others."""

    def frame_matrix(self, query: Tensor, target: Tensor) -> Tensor:
        """S_f of Eq. 5, [X, Y]."""
        inner, outer = self.frame_pool
        return frame_matrix(query, target, symmetric=self.symmetric, inner=inner, outer=outer)

    def output_matrix(self, frames: Tensor) -> Tensor:
        """S_v after hard tanh, from S_f [..., X, Y]; without a comparator S_f itself."""
        return frames if self.comparator is None else hard_tanh(self.comparator(frames))

    def video_similarity(self, output: Tensor) -> Tensor:
        """CS_v of Eq. 6, from S_v [..., X', Y']."""
        inner, outer = self.video_pool
        return video_similarity(output, symmetric=self.symmetric, inner=inner, outer=outer)
