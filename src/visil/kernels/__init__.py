"""The maths of :mod:`visil.model.similarity` and :mod:`visil.model.comparator`, fast and in bounded memory, equal
to them.
"""

from visil.kernels.frame_matrix import FrameMatrix
from visil.kernels.scoring import RunningPool, score_pair

__all__ = ["FrameMatrix", "RunningPool", "score_pair"]
