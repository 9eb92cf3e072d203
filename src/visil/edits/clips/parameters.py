"""Random parameters of a batch, each clip's from its own seed and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError

BUDGET = 256
"""Random numbers drawn for each clip."""

GOLDEN = 0x9E3779B97F4A7C15
"""2⁶⁴ over the golden ratio: steps by which SplitMix64 counts."""

P = ParamSpec("P")
R = TypeVar("R")

Range = tuple[float, float]
"""Lowest and highest value of a parameter."""


class Draws:
    """Hands out columns of uniform numbers, on the CPU; whoever asks in the same order gets the same values."""

    def __init__(self, seeds: Sequence[int]) -> None:
        own = np.array([int(seed) % (1 << 64) for seed in seeds], np.uint64)
        self._values = torch.from_numpy(_uniform(own, BUDGET))
        self._next = 0

    def block(self, columns: int) -> Tensor:
        """Uniform numbers in [0, 1), float64 [B, columns]."""
        first, self._next = self._next, self._next + columns
        if self._next > BUDGET:
            raise RuntimeError(f"a recipe may use at most {BUDGET} random numbers for each clip")
        return self._values[:, first : self._next]

    def uniform(self, bounds: Range) -> Tensor:
        """Uniform numbers between two bounds, float64 [B]."""
        low, high = bounds
        return low + (high - low) * self.block(1)[:, 0]

    def chance(self, probability: float) -> Tensor:
        """True with this probability, bool [B]."""
        return self.block(1)[:, 0] < probability

    def choice(self, options: int) -> Tensor:
        """One of 0 … options - 1, int64 [B]."""
        return (self.block(1)[:, 0] * options).long()


def _uniform(seeds: NDArray[np.uint64], columns: int) -> NDArray[np.float64]:
    """[B, columns] in [0, 1): the seeds' SplitMix64 sequences (Steele et al. 2014), all at once.

    A generator of numpy's for each clip costs more than the edits themselves. Seeds are scrambled first: neighbouring
    ones would else give sequences that are each other's, one step on.
    """
    counted = np.arange(1, columns + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    bits = _mixed(_mixed(seeds)[:, None] + counted)
    return np.asarray((bits >> np.uint64(11)).astype(np.float64) / (1 << 53))


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    for shift, multiplier in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(multiplier)
    return bits ^ (bits >> np.uint64(31))


def check(clips: Tensor, seeds: Sequence[int]) -> None:
    """Refuse anything but float32 clips [B, T, 3, H, W] with a seed for each."""
    if clips.ndim != 5 or clips.shape[2] != 3 or clips.dtype != torch.float32:
        raise UsageError(f"expected float32 clips [B, T, 3, H, W], got {clips.dtype} {list(clips.shape)}")
    if len(seeds) != len(clips):
        raise UsageError(f"expected a seed for each of {len(clips)} clips, got {len(seeds)}")


def on_chosen(
    clips: Tensor, chosen: Tensor, change: Callable[..., Tensor], *parameters: Tensor, **options: bool
) -> Tensor:
    """``change(clips, *parameters)`` for the chosen clips only; the choice and the parameters are on the CPU."""
    rows = chosen.nonzero()[:, 0]
    if not len(rows):
        return clips
    index = rows.to(clips.device)
    changed = change(clips[index], *(values[rows] for values in parameters), **options)
    return clips.index_copy(0, index, changed)


def full_precision(recipe: Callable[P, R]) -> Callable[P, R]:
    """No gradients, and no half precision: a caller's autocast would round places and colours."""

    @wraps(recipe)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with torch.no_grad(), torch.autocast("cuda", enabled=False), torch.autocast("cpu", enabled=False):
            return recipe(*args, **kwargs)

    return run


def only(chosen: Tensor, values: Tensor, neutral: float) -> Tensor:
    """The values where chosen, else what changes nothing."""
    return torch.where(chosen, values, torch.full_like(values, neutral))


def aspect(clips: Tensor) -> float:
    """Width over height."""
    height, width = clips.shape[-2:]
    return width / height
