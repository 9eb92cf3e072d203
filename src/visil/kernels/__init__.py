"""The maths of :mod:`visil.model`, fast and in bounded memory, equal to it; :class:`Scorer` is the door to scores."""

from visil.kernels.frame_matrix import FrameMatrix
from visil.kernels.pooling import RunningPool
from visil.kernels.scoring import Best, Scorer

__all__ = ["Best", "FrameMatrix", "RunningPool", "Scorer"]
