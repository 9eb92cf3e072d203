"""The two graphs that are exported: frames to region vectors, and two videos' vectors to matrices and a score.

The formulas of :mod:`visil.model.formula`, written so that a tracer sees every length as a variable: no Python branch
on a length, and the repetition of very short videos is arithmetic on row numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from visil.compare.visil import ViSiL
from visil.errors import ModelError
from visil.model.backbones.folding import folded
from visil.model.comparator import SHORTEST
from visil.model.formula import Formula
from visil.model.similarity import Reduction, best_few, reduced

LOWEST = -1e30
"""Stands where a video has no more frames."""


class Extractor(nn.Module):
    """RGB uint8 frames [T, H, W, 3] to refined region vectors float32 [T, R, C]."""

    def __init__(self, model: ViSiL) -> None:
        super().__init__()
        if model.backbone is None:
            raise ModelError(model.why_no_backbone)
        self.model = model
        self.backbone = folded(model.backbone)

    def forward(self, frames: Tensor) -> Tensor:
        """Preprocessing, the folded backbone, regions, whitening and attention."""
        maps = self.backbone.stages(self.backbone.preprocess(frames))
        return self.model.refine(self.model.pooled(maps))


class Similarity(nn.Module):
    """Refined vectors [X, R, C] and [Y, R, C] to S_f [X, Y], S_v [X', Y'] where there is a comparator, and CS_v []."""

    def __init__(self, formula: Formula) -> None:
        super().__init__()
        self.formula = formula
        self.comparator = formula.comparator

    @property
    def outputs(self) -> list[str]:
        """Names of what comes out, in order."""
        return ["frame_matrix", *(["output_matrix"] if self.comparator is not None else []), "score"]

    def forward(self, query: Tensor, target: Tensor) -> tuple[Tensor, ...]:
        """In the order of :attr:`outputs`."""
        frames = self.frame_matrix(query, target)
        if self.comparator is None:
            return frames, self.score(frames)
        output = self.formula.output_matrix(repeated(repeated(frames, 0), 1))
        return frames, output, self.score(output)

    def frame_matrix(self, query: Tensor, target: Tensor) -> Tensor:
        """S_f of Eq. 5, from one product for each region of the target."""
        inner, outer = self.formula.frame_pool
        products = [query @ target[:, j].transpose(0, 1) for j in range(target.shape[1])]  # each [X, R, Y]
        forward = _over(_over(products, inner).unbind(1), outer)
        if not self.formula.symmetric:
            return forward
        backward = _over([_over(product.unbind(1), inner) for product in products], outer)
        return (forward + backward) / 2

    def score(self, matrix: Tensor) -> Tensor:
        """CS_v of Eq. 6."""
        inner, outer = self.formula.video_pool
        forward = reduced_by_graph(reduced_by_graph(matrix, inner), outer)
        if not self.formula.symmetric:
            return forward
        return (forward + reduced_by_graph(reduced_by_graph(matrix.transpose(0, 1), inner), outer)) / 2


def repeated(matrix: Tensor, dim: int) -> Tensor:
    """Rows or columns of 1 to 3 frames repeated (1→4, 2→4, 3→6), as by :func:`visil.model.comparator.repeated`."""
    count = torch.as_tensor(matrix.shape[dim])  # a variable to the tracer, where ``int`` would be a constant
    times = 1 + (count < SHORTEST).long() + 2 * (count < SHORTEST // 2).long()
    return matrix.index_select(dim, torch.arange(cast(int, count * times)) % count)


def _over(parts: Iterable[Tensor], how: Reduction) -> Tensor:
    """Equally shaped tensors, as many as there are regions, become one: the largest, the mean, the mean of a few."""
    first, *others = parts
    few = {"max": 1, "mean": None}.get(how, best_few(how))
    if few is None:
        for part in others:
            first = first + part
        return first / (1 + len(others))
    places = [first]  # sorted, the largest first
    for value in others:
        for i, place in enumerate(places):
            places[i] = torch.maximum(place, value)
            if i + 1 < few:  # what drops out of the last place is not needed
                value = torch.minimum(place, value)
        if len(places) < few:
            places.append(value)
    return _over(places, "mean")


def reduced_by_graph(values: Tensor, how: Reduction) -> Tensor:
    """As :func:`visil.model.similarity.reduced`, for a last axis whose length the graph does not know."""
    few = best_few(how)
    if few is None:
        return reduced(values, how)
    best = F.pad(values, (0, few), value=LOWEST).topk(few, dim=-1).values
    real = (best > LOWEST / 2).to(values.dtype)
    return (best * real).sum(dim=-1) / real.sum(dim=-1)
