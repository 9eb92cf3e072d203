"""From a score to a probability: what a number means, for this model, on footage it was never fitted on."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Literal

Verdict = Literal["copy", "related", "unrelated"]


@dataclass(frozen=True)
class Calibration:
    """A logistic curve over the score and the strength of the best matching stretch; both only ever raise it."""

    bias: float
    score: float
    """Weight of CS_v, at least 0."""
    stretch: float
    """Weight of the best stretch's gain (see :class:`visil.localize.Path`), at least 0."""
    stretch_cap: float
    """Gain above which a longer stretch adds nothing."""
    copy: float = 0.9
    """Confidence from which a pair is called a copy."""
    related: float = 0.5
    """Confidence from which it is called related."""

    def evidence(self, score: float, gain: float) -> float:
        """The logit of :meth:`confidence`."""
        return self.bias + self.score * score + self.stretch * min(max(gain, 0.0), self.stretch_cap)

    def confidence(self, score: float, gain: float) -> float:
        """Probability that the two videos share footage, in [0, 1]."""
        logit = self.evidence(score, gain)
        return 1 / (1 + exp(-logit)) if logit > -500 else 0.0

    def verdict(self, confidence: float) -> Verdict:
        """The confidence in one word."""
        return verdict(confidence, self.copy, self.related)


def verdict(confidence: float, copy: float = 0.9, related: float = 0.5) -> Verdict:
    """The confidence in one word."""
    if confidence >= copy:
        return "copy"
    return "related" if confidence >= related else "unrelated"
