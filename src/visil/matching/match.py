"""How two videos relate: what :meth:`visil.ViSiL.compare` answers."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from visil.matching.calibration import Verdict, shares
from visil.matching.localize import Segment

Matrices = tuple[NDArray[np.float32], NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class Match:
    """One query against one target."""

    score: float
    """CS_v(query, target) of Eq. 6, in [-1, 1]."""
    confidence: float
    """Probability that the two share footage, in [0, 1]."""
    verdict: Verdict
    segments: list[Segment]
    """Where they match, in seconds, in the order of the query."""
    calibrated: bool
    """Whether ``confidence`` was fitted for this model; if not, it is only the score clipped to [0, 1]."""
    query_path: str | None
    target_path: str | None
    query_times: NDArray[np.float64]
    target_times: NDArray[np.float64]
    """When each frame was on screen, seconds."""
    _matrices: Callable[[], Matrices] = field(repr=False)
    evidence: float = 0.0
    """Matches are ranked by this: the logit of ``confidence``, which does not flatten out near 1."""
    stretch: float = 0.0
    """:func:`visil.matching.localize.strength` of the strongest stretch, also of one too weak for ``segments``."""
    note: str = ""
    """A remark: that the files have the same bytes, or why nothing can be told."""

    @property
    def shares(self) -> bool:
        """Whether the two are called copies, or related."""
        return shares(self.verdict)

    @cached_property
    def _both(self) -> Matrices:
        return self._matrices()

    @property
    def frame_matrix(self) -> NDArray[np.float32]:
        """S_f of Eq. 5, [X, Y]. For very long pairs it is computed when first asked for, not kept from the start."""
        return self._both[0]

    @property
    def output_matrix(self) -> NDArray[np.float32]:
        """S_v of Eq. 6 after hard tanh, [X', Y']; S_f where the model has no comparator."""
        return self._both[1]

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the match: both videos' frames along the axes, S_f, S_v, the segments. The suffix names the format."""
        from visil.plots import plot_match

        plot_match(self, path)

    def to_dict(self) -> dict[str, object]:
        """As ``visil compare --json`` prints it."""
        return {
            "query": self.query_path,
            "target": self.target_path,
            "score": self.score,
            "confidence": self.confidence,
            "verdict": self.verdict,
            "segments": [segment.to_dict() for segment in self.segments],
            "note": self.note,
        }
