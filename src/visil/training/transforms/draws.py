"""Random parameters of a batch, each clip's from its own seed and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor

from visil.errors import UsageError

BUDGET = 256
"""Random numbers drawn for each clip at once: one generator call for each, not one for each parameter."""

P = ParamSpec("P")
R = TypeVar("R")

Range = tuple[float, float]
"""Lowest and highest value of a parameter."""


class Draws:
    """Hands out columns of uniform numbers, on the CPU; whoever asks in the same order gets the same values."""

    def __init__(self, seeds: Sequence[int]) -> None:
        values = np.empty((len(seeds), BUDGET))
        for row, seed in zip(values, seeds, strict=True):
            np.random.default_rng(int(seed) % (1 << 64)).random(out=row)
        self._values = torch.from_numpy(values)
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
