"""Temporal changes as lists of positions: which frame of the source each frame of the copy shows."""

from __future__ import annotations

from math import ceil

import numpy as np

from visil.errors import UsageError

FOREIGN = -1
"""A frame that is not the source's: whoever asked fills it in."""

NAMES = ("slow motion", "fast forward", "insertion", "pause", "reversion")
"""The temporal transforms of Sec. 4.5."""

FACTORS = (1.25, 3.0)
"""Least and greatest change of speed drawn."""

LENGTHS = (0.1, 0.5)
"""Least and greatest share of the source's frames that a pause or an insertion adds."""


def slow_motion(frames: int, factor: float) -> list[int]:
    """Every frame is shown ``factor`` times as long: twice for 2, now once and now twice for 1.5."""
    _check(frames, factor)
    return [min(int(position / factor), frames - 1) for position in range(ceil(frames * factor))]


def fast_forward(frames: int, factor: float) -> list[int]:
    """Every ``factor``-th frame."""
    _check(frames, factor)
    positions = (int(step * factor) for step in range(frames))
    return [position for position in positions if position < frames]


def at_speed(frames: int, factor: float) -> list[int]:
    """Run ``factor`` times as fast, or slower below 1: frames left out or shown again, frames / factor in all."""
    shown = max(1, round(frames / factor))
    return [min(int(position * factor), frames - 1) for position in range(shown)]


def reversion(frames: int) -> list[int]:
    """The last frame first."""
    return list(range(frames - 1, -1, -1))


def pause(frames: int, at: int, length: int) -> list[int]:
    """The frame ``at`` stays for ``length`` more frames."""
    return [*range(at + 1), *[at] * length, *range(at + 1, frames)]


def insertion(frames: int, at: int, length: int) -> list[int]:
    """``length`` foreign frames (-1) before the frame ``at``; ``at == frames`` appends them."""
    return [*range(at), *[FOREIGN] * length, *range(at, frames)]


def draw(frames: int, rng: np.random.Generator) -> tuple[str, list[int]]:
    """One of the transforms, its strength drawn too: its name and its positions."""
    name = NAMES[rng.integers(len(NAMES))]
    factor = float(rng.uniform(*FACTORS))
    length = max(1, round(frames * float(rng.uniform(*LENGTHS))))
    at = int(rng.integers(frames))
    if name == "slow motion":
        return name, slow_motion(frames, factor)
    if name == "fast forward":
        return name, fast_forward(frames, factor)
    if name == "insertion":
        return name, insertion(frames, at, length)
    if name == "pause":
        return name, pause(frames, at, length)
    return name, reversion(frames)


def _check(frames: int, factor: float) -> None:
    if frames < 1 or factor < 1:
        raise UsageError(
            f"a change of speed needs frames and a factor of at least 1, got {frames} and {factor}"
        )
