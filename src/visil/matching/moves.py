"""Motion must match: whether two stretches change in step, or only show the same place.

Two moments before one camera are as alike as an original and its copy. But whatever changes in a copy changes with the
original. So the mean over the stretch is taken out of the likeness of its frames (the likeness is a kernel: centred, it
is the inner product of what is left of two frames without their means), and what is left must agree, and agree better
than with the one shifted against the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]

LEAST_CHANCE = 0.05
"""The least that shifted stretches are taken to agree by chance."""

USUAL_CHANCE, USUAL_SHIFTS = 0.15, 4
"""The usual spread by chance, and as how many shifts it counts: three shifts alone may agree by accident."""

MOST = 6.0
"""In multiples of chance, the agreement beyond which more says nothing more."""

FEWEST = 4
"""Frames, and ways to shift them, without which nothing is said."""

NOISE = 0.04
"""Change of which half may be how frames were encoded."""

FEW = 6
"""Frames of which the agreement counts for half."""

ALIGNED = 0.5
"""How much of one change a line brings in step by being laid through it."""


@dataclass(frozen=True)
class Moves:
    """How two stretches change."""

    agreement: float
    """Correlation of the changes, in [-1, 1]: 1 where one is the other, about 0 at another moment."""
    chance: float
    """How far the agreement varies when one of them is shifted."""
    frames: int
    change: float = 0.0
    """How much they change at all: 0 is a still shot."""
    changes: float = np.inf
    """How many of them differ from each other: 1 for one cut between two still pictures. Not counted: without end."""

    @property
    def in_step(self) -> float:
        """The agreement in multiples of chance."""
        return min(max(self.agreement / max(self.chance, LEAST_CHANCE), -1.0), MOST)

    @property
    def weight(self) -> float:
        """How much that says, in [0, 1]: little in a still shot, nothing where there are too few frames to shift."""
        if self.frames < FEWEST:
            return 0.0
        return self.frames / (self.frames + FEW) * self.change / (self.change + NOISE)

    @property
    def proven(self) -> float:
        """The part of an agreement that the line did not make by itself, in [0.5, 1]."""
        return 1 - ALIGNED / self.changes


STILL = Moves(0.0, 0.0, 1)
"""Nothing is known of the changes."""

SAME = Moves(1.0, 0.0, 1000, 1.0)
"""The very same frames: no two moments are that alike, nor an original and a copy that was encoded again."""

VERY_SAME = 0.998
"""Likeness from which frames are the very same."""


def moves(across: Floats, query: Floats, target: Floats, apart: int = 1) -> Moves:
    """From likenesses [N, N] of N frames with their counterparts, of the query's among themselves, of the target's.

    ``apart``: frames by which stretches are shifted at least; closer ones still show the same.
    """
    frames = len(across)
    if across.diagonal().min() >= VERY_SAME:
        return SAME
    if frames < 2:
        return STILL
    alone = [_centred(one) for one in (query, target)]
    own = [max(float(one.diagonal().mean()), 0.0) for one in alone]
    change = float(np.sqrt(own[0] * own[1]))
    left = _centred(across) / max(change, 1e-6)
    rows = np.arange(frames)
    shifted = [left[rows, (rows + k) % frames].mean() for k in range(apart, frames - apart + 1)]
    chance = _chance(shifted) if len(shifted) > 1 else 0.0
    agreement = min(max(float(left.diagonal().mean()), -1.0), 1.0)
    told = frames if len(shifted) >= FEWEST - 1 else 1
    # A frame a second is too few to count them by.
    differing = np.inf if apart == 1 else min(_differing(one) for one in alone)
    return Moves(agreement, chance, told, change, differing)


def _differing(centred: Floats) -> float:
    """How many directions the changes of a video take: the participation ratio of its kernel's eigenvalues."""
    return max(1.0, float(centred.trace()) ** 2 / max(float(np.square(centred).sum()), 1e-12))


def _chance(shifted: list[float]) -> float:
    """How far the agreement varies over some shifts, and over as many more of the usual kind."""
    count = len(shifted)
    own, usual = count * float(np.var(shifted)), USUAL_SHIFTS * USUAL_CHANCE**2
    return float(np.sqrt((own + usual) / (count + USUAL_SHIFTS)))


def _centred(kernel: Floats) -> Floats:
    """A kernel without the mean of either side."""
    kernel = np.asarray(kernel, np.float64)
    return kernel - kernel.mean(axis=0) - kernel.mean(axis=1)[:, None] + kernel.mean()
