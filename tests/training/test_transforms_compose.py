"""Two clips in one picture, pixel for pixel."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from visil.errors import UsageError
from visil.training.transforms.compose import picture_in_picture, split_screen


def clips(count: int, height: int = 40, width: int = 40, seed: int = 0) -> Tensor:
    coarse = torch.rand(count * 2, 3, 5, 5, generator=torch.Generator().manual_seed(seed))
    fine = F.interpolate(coarse, (height, width), mode="bicubic").clamp(0, 1)
    return fine.view(count, 2, 3, height, width)


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def flags(*values: bool) -> Tensor:
    return torch.tensor(values)


def test_the_small_picture_is_the_shrunk_clip_and_the_rest_the_other() -> None:
    own, other = clips(2), clips(2, seed=1)
    scale, left, top = numbers(0.5, 0.5), numbers(0.25, 0.25), numbers(0.1, 0.1)
    mixed, share = picture_in_picture(own, other, scale, left, top, flags(True, False))
    assert share.tolist() == pytest.approx([0.25, 0.75])
    outside = torch.ones(40, 40, dtype=torch.bool)
    outside[4:24, 10:30] = False
    for number, (small, large) in enumerate(((own[0], other[0]), (other[1], own[1]))):
        shrunk = F.interpolate(small, (20, 20), mode="bilinear", antialias=True)
        error = (mixed[number, ..., 4:24, 10:30] - shrunk).abs()
        assert error.max() < 0.05  # the rim; two ways of shrinking
        assert error.mean() < 0.005
        assert torch.equal(mixed[number][..., outside], large[..., outside])


def test_split_screens_cut_the_middle() -> None:
    own, other = clips(2), clips(2, seed=1)
    mixed, share = split_screen(own, other, torch.tensor([0, 1]), flags(False, True), flags(False, False))
    assert share.tolist() == [0.5, 0.5]
    expected = torch.cat([own[0, ..., 10:30], other[0, ..., 10:30]], dim=-1)
    torch.testing.assert_close(mixed[0], expected, atol=1e-5, rtol=0)
    expected = torch.cat([other[1, ..., 10:30, :], own[1, ..., 10:30, :]], dim=-2)
    torch.testing.assert_close(mixed[1], expected, atol=1e-5, rtol=0)


def test_split_screens_squeeze_all_of_it() -> None:
    own, other = clips(1), clips(1, seed=1)
    mixed, _ = split_screen(own, other, torch.tensor([1]), flags(False), flags(True))
    expected = torch.cat(
        [F.interpolate(part[0], (40, 20), mode="bilinear", antialias=True) for part in (other, own)], dim=-1
    )
    assert (mixed[0] - expected).abs().mean() < 0.005


def test_three_parts_and_odd_sides() -> None:
    own, other = clips(1, 31, 33), clips(1, 31, 33, seed=1)
    mixed, share = split_screen(own, other, torch.tensor([2]), flags(False), flags(False), parts=3)
    assert share.tolist() == pytest.approx([1 / 3])
    expected = torch.cat([other[0, ..., 11:22], other[0, ..., 11:22], own[0, ..., 11:22]], dim=-1)
    torch.testing.assert_close(mixed[0], expected, atol=1e-5, rtol=0)
    odd, _ = split_screen(own * 0, own * 0, torch.tensor([0]), flags(True), flags(True))
    assert odd.max() == 0


def test_shapes_must_agree() -> None:
    with pytest.raises(UsageError, match="one shape"):
        split_screen(clips(1), clips(1, 20, 20), torch.tensor([0]), flags(True), flags(True))
