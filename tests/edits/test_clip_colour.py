"""Colour changes against numbers worked out by hand and against colorsys."""

from __future__ import annotations

import colorsys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from visil.edits.clips import colour


def flat(*pixels: tuple[float, float, float]) -> Tensor:
    """Clips of one 1×1 frame for each colour."""
    return torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 3, 1, 1)


def rgb(clips: Tensor) -> list[list[float]]:
    return clips.view(-1, 3).tolist()


def noise(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0))


def test_grayscale_weighs_green_most() -> None:
    grey = colour.adjust(flat((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)), grayscale=torch.ones(4))
    expected = [[0.299] * 3, [0.587] * 3, [0.114] * 3, [1.0] * 3]
    torch.testing.assert_close(torch.tensor(rgb(grey)), torch.tensor(expected))
    half = colour.adjust(flat((1, 0, 0)), grayscale=torch.tensor([0.5]))
    assert rgb(half)[0] == pytest.approx([0.6495, 0.1495, 0.1495])


def test_brightness_multiplies_and_is_cut() -> None:
    bright = colour.adjust(flat((0.1, 0.2, 0.4), (0.1, 0.6, 0.4)), brightness=torch.tensor([0.5, 2.0]))
    torch.testing.assert_close(torch.tensor(rgb(bright)), torch.tensor([[0.05, 0.1, 0.2], [0.2, 1.0, 0.8]]))


def test_contrast_zero_is_the_clips_mean_grey_and_one_is_the_clip() -> None:
    clips = noise(2, 3, 3, 4, 5)
    grey = torch.einsum("c,btchw->b", torch.tensor(colour.LUMA), clips) / 60
    none = colour.adjust(clips, contrast=torch.zeros(2))
    torch.testing.assert_close(none, grey.view(2, 1, 1, 1, 1).expand_as(clips))
    torch.testing.assert_close(colour.adjust(clips, contrast=torch.ones(2)), clips)


def test_contrast_stretches_about_the_mean() -> None:
    clips = torch.tensor([0.4, 0.6]).view(1, 1, 1, 1, 2).expand(1, 1, 3, 1, 2)
    assert colour.adjust(clips, contrast=torch.tensor([3.0]))[0, 0, 0, 0].tolist() == pytest.approx(
        [0.2, 0.8]
    )


def test_saturation_moves_away_from_the_pixels_own_grey() -> None:
    clips = flat((0.5, 0.3, 0.2))
    grey = 0.299 * 0.5 + 0.587 * 0.3 + 0.114 * 0.2
    expected = [grey + 1.5 * (value - grey) for value in (0.5, 0.3, 0.2)]
    assert rgb(colour.adjust(clips, saturation=torch.tensor([1.5])))[0] == pytest.approx(expected)
    assert rgb(colour.adjust(clips, saturation=torch.tensor([0.0])))[0] == pytest.approx([grey] * 3)


def test_a_third_of_a_turn_of_hue_passes_red_to_green_to_blue_to_red() -> None:
    primaries = flat((1, 0, 0), (0, 1, 0), (0, 0, 1))
    turned = colour.adjust(primaries, hue=torch.full((3,), 120.0))
    torch.testing.assert_close(turned, flat((0, 1, 0), (0, 0, 1), (1, 0, 0)), atol=1e-6, rtol=0)
    clips = noise(2, 1, 3, 4, 4)
    torch.testing.assert_close(
        colour.adjust(clips, hue=torch.tensor([360.0, -720.0])), clips, atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("degrees", [-100, -60, 15, 40, 90, 180])
def test_hue_turns_as_far_as_the_hue_of_hsv(degrees: int) -> None:
    """Weak colours: strong ones leave the cube. The two definitions of an angle agree at multiples of 60."""
    before = (0.52, 0.5, 0.49)
    after = rgb(colour.adjust(flat(before), hue=torch.tensor([float(degrees)])))[0]
    turn = (colorsys.rgb_to_hsv(*after)[0] - colorsys.rgb_to_hsv(*before)[0] - degrees / 360) % 1
    assert min(turn, 1 - turn) < 8 / 360
    assert sum(after) == pytest.approx(sum(before), abs=1e-6)


def test_mixing_and_gain() -> None:
    clips = flat((0.2, 0.4, 0.6))
    swap = torch.tensor([[[0.0, 0, 1], [0, 1, 0], [0.5, 0.5, 0]]])
    assert rgb(colour.adjust(clips, mixing=swap))[0] == pytest.approx([0.6, 0.4, 0.3])
    assert rgb(colour.adjust(clips, mixing=torch.diag_embed(torch.tensor([[2.0, 0.5, 1.0]]))))[
        0
    ] == pytest.approx([0.4, 0.2, 0.6])


@settings(max_examples=25, deadline=None)
@given(
    bright=st.floats(0.5, 1.0),
    saturate=st.floats(0.0, 1.0),
    turn=st.floats(-180, 180),
    stretch=st.floats(0.2, 1.0),
    grey=st.floats(0, 1),
)
def test_a_chain_in_one_product_is_its_steps_in_order(
    bright: float, saturate: float, turn: float, stretch: float, grey: float
) -> None:
    clips = 0.4 + 0.2 * noise(1, 2, 3, 4, 4)  # far enough from the ends that no step is cut

    def amount(value: float) -> Tensor:
        return torch.tensor([value], dtype=torch.float64)

    steps = colour.adjust(clips, brightness=amount(bright))
    steps = colour.adjust(steps, saturation=amount(saturate))
    steps = colour.adjust(steps, hue=amount(turn))
    steps = colour.adjust(steps, contrast=amount(stretch))
    steps = colour.adjust(steps, grayscale=amount(grey))
    at_once = colour.adjust(
        clips,
        brightness=amount(bright),
        saturation=amount(saturate),
        hue=amount(turn),
        contrast=amount(stretch),
        grayscale=amount(grey),
    )
    torch.testing.assert_close(at_once, steps, atol=1e-5, rtol=0)


def test_gamma_is_a_power_and_a_negative_of_a_negative_the_picture() -> None:
    clips = torch.rand(2, 1, 3, 4, 4)
    expected = torch.cat([clips[:1] ** 2, clips[1:] ** 0.5])
    torch.testing.assert_close(colour.gamma(clips, torch.tensor([2.0, 0.5])), expected)
    torch.testing.assert_close(colour.negative(colour.negative(clips)), clips)
    assert colour.negative(torch.zeros(1, 1, 3, 1, 1)).min() == 1
