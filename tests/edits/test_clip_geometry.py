"""Homographies against slicing, flipping, turning and torch's own resizing."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from visil.edits.clips import geometry as g


def noise(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(1))


def smooth(size: int = 48) -> Tensor:
    """One clip without fine detail: two ways of resampling it must agree."""
    coarse = noise(1, 3, 6, 6)
    return F.interpolate(coarse, (size, size), mode="bicubic").clamp(0, 1)[None]


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(actual: Tensor, expected: Tensor, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=0)


def test_flips_only_the_chosen() -> None:
    clips = noise(2, 3, 3, 20, 32)
    chosen = torch.tensor([True, False])
    across, down = g.warp(clips, g.flip_horizontal(chosen)), g.warp(clips, g.flip_vertical(chosen))
    close(across[0], clips[0].flip(-1), 1e-5)
    close(down[0], clips[0].flip(-2), 1e-5)
    close(across[1], clips[1], 1e-5)
    close(down[1], clips[1], 1e-5)


def test_quarter_turns_are_rot90() -> None:
    clips = noise(1, 2, 3, 32, 32).expand(4, -1, -1, -1, -1)
    turned = g.warp(clips, g.rotation(numbers(0, 90, 180, -90)))
    for quarters, actual in zip((0, 1, 2, 3), turned, strict=True):
        close(actual, torch.rot90(clips[0], quarters, (-2, -1)), 1e-5)


def test_turning_a_wide_picture_keeps_distances() -> None:
    clips = torch.zeros(1, 1, 3, 20, 60)
    clips[..., 9:11, 34:36] = 1  # five pixels right of the centre
    up = g.warp(clips, g.rotation(numbers(90), 3.0))
    expected = torch.zeros(1, 1, 3, 20, 60)
    expected[..., 4:6, 29:31] = 1
    close(up, expected, 1e-4)


def test_an_eighth_of_a_turn_leaves_an_octagon_in_black() -> None:
    turned = g.warp(torch.ones(1, 1, 3, 32, 32), g.rotation(numbers(45)))[0, 0, 0]
    assert turned[0, 0] == turned[-1, -1] == 0
    assert turned[16, 16] == 1
    assert float(turned.mean()) == pytest.approx(0.828, abs=0.02)  # the octagon: 2√2 - 2


def test_crop_is_slicing_and_resizing() -> None:
    clips = noise(1, 2, 3, 40, 48)
    seen = g.warp(clips, g.crop(numbers(0.25), numbers(0.1), numbers(0.5), numbers(0.8)))
    part = clips[0, :, :, 4:36, 12:36]
    expected = F.interpolate(part, (40, 48), mode="bilinear")
    close(
        seen[0, :, :, 2:-2, 2:-2], expected[:, :, 2:-2, 2:-2]
    )  # at the rim the crop still sees its surroundings


def test_window_undoes_crop() -> None:
    place = (numbers(0.1), numbers(0.2), numbers(0.3), numbers(0.7))
    close(g.combine([g.crop(*place), g.window(*place)]), torch.eye(3, dtype=torch.float64)[None], 1e-12)


def test_resize_changes_the_aspect_and_fills_the_frame() -> None:
    clips = smooth(48)
    wide, tall = g.warp(clips.expand(2, -1, -1, -1, -1), g.resize(numbers(2.0, 0.5)))
    close(wide[..., 2:-2], F.interpolate(clips[0, :, :, :, 12:36], (48, 48), mode="bilinear")[..., 2:-2])
    expected = F.interpolate(clips[0, :, :, 12:36], (48, 48), mode="bilinear")
    close(tall[..., 2:-2, :], expected[..., 2:-2, :])


@pytest.mark.parametrize(("scale", "tolerance"), [(0.25, 0.01), (0.5, 0.01), (0.75, 0.05)])
def test_rescale_shrinks_without_aliasing(scale: float, tolerance: float) -> None:
    clips = noise(1, 1, 3, 48, 48)  # pure detail: the worst case
    side = int(48 * scale)
    first = (48 - side) // 2
    inner = slice(first, first + side)
    shrunk = g.warp(clips, g.rescale(numbers(scale)))[0]
    expected = F.interpolate(clips[0], (side, side), mode="bilinear", antialias=True)
    away = slice(2, -2)
    error = (shrunk[..., inner, inner] - expected)[..., away, away].abs().mean()
    naive = (F.interpolate(clips[0], (side, side), mode="bilinear") - expected)[..., away, away].abs().mean()
    assert error < tolerance
    assert error < naive
    frame = torch.ones(48, 48, dtype=torch.bool)
    frame[inner, inner] = False
    assert shrunk[..., frame].abs().max() == 0


def test_rescale_can_move_and_fill_and_carry_the_edge_on() -> None:
    clips = smooth(32).expand(3, -1, -1, -1, -1)
    maps = g.rescale(numbers(0.5, 0.5, 0.5), numbers(0.5, 0.5, 0.5), numbers(-0.5, -0.5, -0.5))  # top right
    fill = torch.tensor([[0.0, 0, 0], [0.1, 0.2, 0.3], [0, 0, 0]])
    black, coloured, carried = g.warp(clips, maps, fill, torch.tensor([False, False, True]))
    assert black[..., 16:, :].abs().max() == 0
    assert coloured[0, :, 20, 5].tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert torch.equal(black[..., :16, 16:], coloured[..., :16, 16:])
    assert torch.equal(carried[..., 20, 20], carried[..., 31, 20])
    close(carried[..., 31, 20], clips[0, ..., 31, 9], 0.1)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-0.4, 0.4), min_size=8, max_size=8))
def test_perspective_takes_the_corners_where_it_says(moves: list[float]) -> None:
    corners = numbers(*moves).reshape(1, 4, 2)
    map_ = g.perspective(corners)[0]
    for x, y, moved in zip((-1, 1, 1, -1), (-1, -1, 1, 1), corners[0], strict=True):
        seen = map_ @ numbers(x, y, 1)
        torch.testing.assert_close(seen[:2] / seen[2], numbers(x, y) + moved, atol=1e-9, rtol=0)


def test_changes_happen_in_the_order_listed() -> None:
    clips = noise(1, 1, 3, 32, 32)
    turn, flip = g.rotation(numbers(90)), g.flip_horizontal(torch.tensor([True]))
    close(g.warp(clips, g.combine([turn, flip])), torch.rot90(clips, 1, (-2, -1)).flip(-1), 1e-5)
    half = g.rescale(numbers(0.5))
    moved = g.scaling(numbers(1), numbers(1), numbers(0.5), numbers(0))
    shrunk_then_moved = g.warp(torch.ones(1, 1, 3, 32, 32), g.combine([half, moved]))[0, 0, 0]
    assert shrunk_then_moved[16].tolist() == [0.0] * 16 + [1.0] * 16
