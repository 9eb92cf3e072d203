"""Where a binary code begins: the rotation under which signs lose least of the training vectors.

ITQ (Gong and Lazebnik, "Iterative quantization: a Procrustean approach to learning binary codes", CVPR 2011), which the
authors of DnS begin with, too: in turn, the nearest signs of the rotated vectors, and the rotation nearest to those.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from visil.compare.visil import ViSiL
from visil.model.attention import BinaryCode
from visil.training.footage import Footage

ITERATIONS = 50

VECTORS = 50_000
"""Region vectors that are learned from, about."""


@torch.no_grad()
def fit_rotation(model: ViSiL, footage: Footage, vectors: int = VECTORS) -> None:
    """Turn the binary code of a model whose whitening is fitted."""
    assert isinstance(model.attention, BinaryCode)
    counts = [len(footage.times(video)) for video in range(len(footage))]
    first = model.region_vectors(footage.images(0, [0]))
    every = max(1, round(sum(counts) * first.shape[1] / vectors))
    parts = []
    for video, count in enumerate(counts):
        raw = model.region_vectors(footage.images(video, range(video % every, count, every) or [0]))
        parts.append(raw if model.whitening is None else model.whitening(raw))
    model.attention.rotation.copy_(itq(torch.cat(parts).flatten(0, 1)))


def itq(vectors: Tensor, iterations: int = ITERATIONS, seed: int = 0) -> Tensor:
    """A rotation R [C, C] that makes |sign(V R) - V R|² small, V vectors [N, C] of unit length."""
    unit = F.normalize(vectors.double(), dim=-1)
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(unit.shape[1], unit.shape[1], generator=generator, dtype=torch.float64)
    rotation = torch.linalg.qr(start).Q.to(unit)
    for _ in range(iterations):
        signs = torch.sign(unit @ rotation)
        left, _, right = torch.linalg.svd(signs.T @ unit)
        rotation = right.T @ left.T
    return rotation
