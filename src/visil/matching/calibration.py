"""From a score to a probability: what a number means, for this model, on footage it was never fitted on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import exp, log, log1p, log10
from typing import Literal

from visil.matching.moves import STILL, Moves

SURPRISE = 2.0
"""The most that a closer look may add to the evidence of a stretch that is too weak at first sight."""

Verdict = Literal["copy", "related", "unrelated", "unclear"]
"""How two videos relate; "unclear" where one shows too little to say."""


@dataclass(frozen=True)
class Calibration:
    """From the evidence about a stretch to the probability that it is shared footage: the logistic function of a sum.

    How alike it is, by its strength; the lengths of the videos, since the longer they are, the stronger a stretch turns
    up between them by chance; the paper's score: all of that up to ``untold``. And, since likeness alone does not tell
    one moment before a camera from another, whether what moves in the one moves in the other
    (:class:`visil.matching.moves.Moves`).
    """

    bias: float
    score: float
    """Weight of CS_v, at least 0."""
    stretch: float
    """Weight of a stretch's strength (see :func:`visil.matching.localize.strength`), at least 0."""
    stretch_cap: float
    """Strength above which a better stretch adds nothing."""
    length: float = 0.0
    """Taken off for every factor of ten in frame pairs beyond a hundred, at least 0."""
    curve: tuple[tuple[float, float], ...] = ()
    """Strengths, rising, and what each adds, in place of ``stretch``: in proportion between them, no more beyond."""
    likeness: tuple[tuple[float, float], ...] = ()
    """The same of how alike a stretch's frames are by S_f itself, on average: similarities, and what each adds."""
    untold: float = 100.0
    """The evidence beyond which likeness says no more: it does not tell one moment before a camera from another."""
    agreement: float = 0.0
    """Weight of how far the changes of both stretches agree, at least 0."""
    in_step: float = 0.0
    """Weight of the same in multiples of chance, at least 0."""
    out_of_step: float = 0.0
    """Taken off where that could be told, at least 0: agreement must make up for it."""
    copy: float = 0.9
    """Confidence from which a pair is called a copy."""
    related: float = 0.5
    """Confidence from which it is called related."""

    def alike(self, stretch: float) -> float:
        """The part of the evidence that comes from a stretch's strength."""
        if not self.curve:
            return self.stretch * min(max(stretch, 0.0), self.stretch_cap)
        return along(self.curve, stretch)

    def evidence(
        self,
        score: float,
        stretch: float,
        frame_pairs: int,
        moves: Moves = STILL,
        likeness: float = 0.0,
    ) -> float:
        """All of it, summed: what matches are ranked by, since it does not flatten out."""
        return self._alike(score, stretch, frame_pairs, likeness) + self._moving(moves)

    def confidence(
        self,
        score: float,
        stretch: float,
        frame_pairs: int = 100,
        moves: Moves = STILL,
        likeness: float = 0.0,
    ) -> float:
        """Probability that the two videos share footage, in [0, 1]: likeness counts up to ``untold`` alone."""
        alike = self._alike(score, stretch, frame_pairs, likeness)
        return probability(lower(alike, self.untold) + self._moving(moves))

    def _alike(self, score: float, stretch: float, frame_pairs: int, likeness: float) -> float:
        chances = max(0.0, log10(max(frame_pairs, 1)) - 2)
        similar = along(self.likeness, likeness) if self.likeness else 0.0
        return self.bias + self.score * score + self.alike(stretch) + similar - self.length * chances

    def _moving(self, moves: Moves) -> float:
        agreeing = self.agreement * moves.agreement + self.in_step * moves.in_step - self.out_of_step
        return moves.weight * agreeing * (moves.proven if agreeing > 0 else 1.0)

    @property
    def enough(self) -> float:
        """The evidence without which nothing is called related."""
        related = min(max(self.related, 1e-6), 1 - 1e-6)
        return log(related / (1 - related))

    @property
    def promising(self) -> float:
        """Strength of a stretch below which a pair is hardly ever called related, whatever moves in it."""
        most = self.score + (self.likeness[-1][1] if self.likeness else 0.0)
        wanted = self.enough - self.bias - SURPRISE - most
        if not self.curve:
            return max(0.0, wanted / self.stretch) if self.stretch else 0.0
        steps = [low for (low, _), (_, last) in pairwise(self.curve) if last >= wanted]
        return steps[0] if steps else self.curve[-1][0]

    def verdict(self, confidence: float) -> Verdict:
        """The confidence in one word."""
        return verdict(confidence, self.copy, self.related)


def along(curve: tuple[tuple[float, float], ...], at: float) -> float:
    """A curve through points at some place: straight between them and level beyond."""
    if at <= curve[0][0]:
        return curve[0][1]
    for (low, first), (high, last) in pairwise(curve):
        if at <= high:
            return first + (last - first) * (at - low) / (high - low)
    return curve[-1][1]


def verdict(confidence: float, copy: float = 0.9, related: float = 0.5) -> Verdict:
    """The confidence in one word."""
    if confidence >= copy:
        return "copy"
    return "related" if confidence >= related else "unrelated"


def shares(verdict: Verdict) -> bool:
    """Whether a verdict says that two videos share footage."""
    return verdict in ("copy", "related")


def probability(evidence: float) -> float:
    """The probability of a logit."""
    return 1 / (1 + exp(-evidence)) if evidence > -500 else 0.0


def lower(one: float, other: float) -> float:
    """The logit of a product of two probabilities, from their logits: about the lower of them, and rising with both."""
    low, high = min(one, other), max(one, other)
    return low - log1p(exp(low - high) + exp(-high)) if high > -500 else low + high
