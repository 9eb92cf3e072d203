"""From a score to a probability: what a number means, for this model, on footage it was never fitted on."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log10
from typing import Literal

Verdict = Literal["copy", "related", "unrelated"]


@dataclass(frozen=True)
class Calibration:
    """A logistic curve over the score, the strength of the best matching stretch, and the lengths.

    Score and stretch can only raise it. The longer two videos are, the stronger a stretch turns up between them by
    chance, so lengths can only lower it.
    """

    bias: float
    score: float
    """Weight of CS_v, at least 0."""
    stretch: float
    """Weight of the best stretch's strength (see :class:`visil.matching.localize.Path`), at least 0."""
    stretch_cap: float
    """Strength above which a better stretch adds nothing."""
    length: float = 0.0
    """Taken off for every factor of ten in frame pairs beyond a hundred, at least 0."""
    copy: float = 0.9
    """Confidence from which a pair is called a copy."""
    related: float = 0.5
    """Confidence from which it is called related."""

    def evidence(self, score: float, stretch: float, frame_pairs: int) -> float:
        """The logit of the confidence: what matches are ranked by, since it does not flatten out near 1."""
        capped = min(max(stretch, 0.0), self.stretch_cap)
        chances = max(0.0, log10(max(frame_pairs, 1)) - 2)
        return self.bias + self.score * score + self.stretch * capped - self.length * chances

    def confidence(self, score: float, stretch: float, frame_pairs: int = 100) -> float:
        """Probability that the two videos share footage, in [0, 1]."""
        evidence = self.evidence(score, stretch, frame_pairs)
        return 1 / (1 + exp(-evidence)) if evidence > -500 else 0.0

    def verdict(self, confidence: float) -> Verdict:
        """The confidence in one word."""
        return verdict(confidence, self.copy, self.related)


def verdict(confidence: float, copy: float = 0.9, related: float = 0.5) -> Verdict:
    """The confidence in one word."""
    if confidence >= copy:
        return "copy"
    return "related" if confidence >= related else "unrelated"
