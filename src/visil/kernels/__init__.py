"""The maths of :mod:`visil.similarity` and :mod:`visil.comparator`, fast and in bounded memory, equal to them."""

from visil.kernels.frame_matrix import FrameMatrix
from visil.kernels.scoring import RunningPool, score_pair

__all__ = ["FrameMatrix", "RunningPool", "score_pair"]
