"""Similarities of frames that were kept as signs mean what those of the frames themselves do."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from visil.kernels.frame_matrix import FrameMatrix
from visil.kernels.signs import excess
from visil.model.codes import decode, encode
from visil.model.formula import Formula

POOLS = Formula(("max", "top3"), symmetric=True)


def frames(count: int, seed: int, regions: int = 9) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(count, regions, 64, generator=generator), dim=-1)


def kept(vectors: Tensor) -> Tensor:
    return decode(encode(vectors, "binary")).float()


@pytest.mark.parametrize("both", [False, True], ids=["target", "both"])
def test_unrelated_frames_are_as_alike_as_before(both: bool) -> None:
    query, target = frames(40, 1), frames(50, 2)
    whole = FrameMatrix(query, target, POOLS).full().mean()
    coded = FrameMatrix(kept(query) if both else query, kept(target), POOLS).full().mean()
    assert abs(coded - whole) < 0.006
    assert excess(POOLS, (9, 9), 64, both=both) > 0.05  # that far off without


@pytest.mark.parametrize("both", [False, True], ids=["target", "both"])
def test_a_frame_is_as_good_as_itself(both: bool) -> None:
    query = frames(20, 3)
    own = FrameMatrix(kept(query) if both else query, kept(query), POOLS).full().diagonal()
    assert (own - 1).abs().max() < 0.08


def test_regions_with_norms_of_their_own_are_left_as_they_are() -> None:
    weights = torch.linspace(0.2, 1, 9)[:, None]
    query, target = frames(8, 4) * weights, kept(frames(8, 5) * weights)
    plain = POOLS.frame_matrix(query, target) * (torch.pi / 2) ** 0.5
    torch.testing.assert_close(FrameMatrix(query, target, POOLS).full(), plain.clamp(-1, 1))
