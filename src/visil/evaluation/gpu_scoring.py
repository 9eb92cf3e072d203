"""Every query of a benchmark against its database on a GPU: all queries at once, targets as they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.kernels import gpu
from visil.kernels.gpu_pools import supports
from visil.kernels.signs import signs_only
from visil.model.formula import Formula

LONGEST = 1 << 16
"""Frames of a target that the engine is given: of a longer one, the matrices of all queries take gigabytes."""

WORTH = 0.5
"""Share of all pairs that must be wanted: the engine compares every query with every target."""

Scored = Callable[[Sequence[str], NDArray[np.float64]], None]
"""Called with the names of some targets and the scores of every query with each, [queries, targets]."""


def suits(
    formula: Formula,
    device: torch.device,
    held: Sequence[tuple[str, Tensor]],
    wanted: Mapping[str, frozenset[str]],
    targets: int,
) -> bool:
    """Whether the GPU's engine is there, knows the formula, and would not work in vain."""
    pairs = sum(len(names) for names in wanted.values())
    return (
        gpu.usable(device)
        and supports(formula.frame_pool, formula.video_pool)
        and pairs >= WORTH * targets * len(held)
        and not any(signs_only(vectors) for _, vectors in held)
    )


def score(
    formula: Formula,
    device: torch.device,
    held: Sequence[tuple[str, Tensor]],
    targets: Sequence[str],
    read: Callable[[str], Tensor | None],
    scored: Scored,
) -> list[str]:
    """CS_v of every query with every target that can be read; returns those that are for the ordinary path."""
    from visil.kernels.gpu_engine import GpuEngine

    engine = GpuEngine(
        [vectors for _, vectors in held],
        formula.comparator,
        symmetric=formula.symmetric,
        frame_pool=formula.frame_pool,
        video_pool=formula.video_pool,
        device=device,
    )
    names: list[str] = []
    aside: list[str] = []

    def stream() -> Iterator[Tensor]:
        for name in targets:
            vectors = read(name)
            if vectors is None:
                continue
            if len(vectors) > LONGEST or signs_only(vectors):
                aside.append(name)
                continue
            names.append(name)
            yield vectors

    for chunk, scores in engine.scores(stream()):
        some = names[chunk.first : chunk.first + len(chunk.lengths)]
        scored(some, scores.double().cpu().numpy())
    return aside
