"""Recipes: the same seed the same result in any batch, all frames alike, nothing read back from the device."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from visil.edits.clips import Composite, Heavy, Mild, PaperPositive, PictureTransform
from visil.edits.clips.parameters import BUDGET, Draws, on_chosen
from visil.errors import UsageError

ALWAYS = Heavy(
    rotate=1, tilt=1, shrink=1, mix=1, tint=1, bars=1, boxes=1, text=1, sign=1, logo=1, pixelate=1, blur=1, lower=1,
    strong=1, gamma=1, dark=1, negative=1, sides=1, filmed=1, subtitle=1
)  # fmt: skip
NEVER = Heavy(
    flip_horizontal=0,
    flip_vertical=0,
    rotate=0,
    quarter_turn=0,
    tilt=0,
    shrink=0,
    jitter=0,
    mix=0,
    tint=0,
    grayscale=0,
    strong=0,
    gamma=0,
    dark=0,
    negative=0,
    sides=0,
    filmed=0,
    subtitle=0,
    bars=0,
    boxes=0,
    text=0,
    sign=0,
    logo=0,
    pixelate=0,
    blur=0,
    lower=0,
    noise=0,
    recompress=0,
)
"""A heavy recipe in which nothing but the crop is left."""

RECIPES: list[PictureTransform] = [PaperPositive(), Heavy(), Heavy(0.4), Heavy(2.0), ALWAYS, Mild()]


def footage(batch: int, frames: int = 2, height: int = 40, width: int = 48) -> Tensor:
    generator = torch.Generator().manual_seed(batch)
    coarse = torch.rand(batch * frames, 3, 8, 8, generator=generator)
    fine = torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear")
    return fine.view(batch, frames, 3, height, width)


@pytest.mark.parametrize("recipe", RECIPES)
def test_pictures_stay_pictures(recipe: PictureTransform) -> None:
    clips = footage(24)
    before = clips.clone()
    changed = recipe(clips, range(24))
    assert changed.shape == clips.shape
    assert changed.dtype == clips.dtype
    assert torch.isfinite(changed).all()
    assert changed.min() >= 0
    assert changed.max() <= 1
    assert torch.equal(clips, before)
    difference = (changed - clips).abs().mean(dim=(1, 2, 3, 4))
    assert (difference > 1e-4).all()


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_clip_does_not_depend_on_its_batch(recipe: PictureTransform) -> None:
    clips, seeds = footage(12), [3, 1 << 40, 5, -1, 12, 0, 99, 2**70, 8, 4, 6, 7]
    together = recipe(clips, seeds)
    for number in range(12):
        alone = recipe(clips[number : number + 1], seeds[number : number + 1])[0]
        # Rounding within a JPEG block may tip over on the last bit of a sum; a wrong parameter would change all.
        off = (alone - together[number]).abs() > 1e-5
        assert off.float().mean() < 0.05
    assert torch.equal(together, recipe(clips, seeds))
    assert not torch.allclose(recipe(clips, [seed + 1 for seed in seeds]), together)


@pytest.mark.parametrize("recipe", [PaperPositive(), Heavy(recompress=0), replace(ALWAYS, recompress=0)])
def test_without_rounding_it_is_equal_to_the_last_digits(recipe: PictureTransform) -> None:
    clips, seeds = footage(10), list(range(100, 110))
    together = recipe(clips, seeds)
    apart = torch.cat([recipe(clips[k : k + 1], seeds[k : k + 1]) for k in range(10)])
    torch.testing.assert_close(apart, together, atol=1e-5, rtol=0)


@pytest.mark.parametrize("recipe", [PaperPositive(), Heavy(noise=0), replace(ALWAYS, noise=0), Mild()])
def test_frames_of_a_clip_share_everything(recipe: PictureTransform) -> None:
    clips = footage(16, frames=1).expand(-1, 3, -1, -1, -1)
    changed = recipe(clips, range(16))
    for frame in (1, 2):
        off = (changed[:, frame] - changed[:, 0]).abs() > 1e-5
        assert off.float().mean() < 0.01


@pytest.mark.parametrize("recipe", RECIPES)
def test_nothing_is_read_back_from_the_device(recipe: PictureTransform) -> None:
    """The meta device has shapes only: reading a value, or mixing in a tensor left on the CPU, is an error there."""
    clips = torch.empty(24, 1, 3, 32, 32, device="meta")
    assert recipe(clips, range(24)).shape == clips.shape
    mixed, share = Composite()(clips, clips, range(24))
    assert (mixed.shape, share.shape) == (clips.shape, (24,))


def test_no_strength_changes_nothing() -> None:
    clips = footage(8)
    torch.testing.assert_close(Heavy(0.0)(clips, range(8)), clips, atol=1e-5, rtol=0)


def test_the_paper_draws_one_colour_and_one_geometric_transform() -> None:
    """Grey footage is left alone by hue, saturation and grayscale, flat footage by flips, crop, resize and zoom."""
    count = 600
    grey = torch.linspace(0.2, 0.6, 16).expand(count, 1, 3, 16, 16)
    still = PaperPositive(rotation=(0, 0), crop_side=(1, 1), resize=(1, 1), rescale=(1, 1))
    changed = still(grey, range(count))
    as_it_was = (changed - grey).abs().amax(dim=(1, 2, 3, 4)) < 1e-4
    flipped = (changed - grey.flip(-1)).abs().amax(dim=(1, 2, 3, 4)) < 1e-4
    assert float(as_it_was.float().mean()) == pytest.approx(3 / 5 * 5 / 6, abs=0.07)
    assert float(flipped.float().mean()) == pytest.approx(3 / 5 / 6, abs=0.04)
    flat = torch.full((count, 1, 3, 16, 16), 0.5)
    colours_only = PaperPositive(brightness=(1, 1), contrast=(1, 1), rescale=(0.4, 0.6), rotation=(20, 30))
    corners = colours_only(flat, range(count))[:, 0, 0, 0, 0]
    assert float((corners == 0).float().mean()) == pytest.approx(2 / 6, abs=0.06)


def test_heavy_crops_down_to_a_quarter_and_no_further() -> None:
    """On a ramp from 0 to 1 the difference of the ends is the share of the width that is left."""
    only_crop = replace(NEVER, crop_aspect=(1, 1))
    ramp = ((torch.arange(64) + 0.5) / 64).expand(300, 1, 3, 64, 64)
    rows = only_crop(ramp, range(300))[:, 0, 0, 32]
    width = (rows[:, 48] - rows[:, 16]) * 2
    assert 0.49 < float(width.min()) < 0.53
    assert 0.97 < float(width.max()) < 1.01


def test_a_probability_is_how_often_it_happens() -> None:
    clips = footage(400, 1, 16, 16)
    only_boxes = replace(NEVER, boxes=0.3, crop_area=(1, 1), crop_aspect=(1, 1))
    changed = (only_boxes(clips, range(400)) - clips).abs().amax(dim=(1, 2, 3, 4)) > 1e-3
    assert float(changed.float().mean()) == pytest.approx(1 - 0.7**2, abs=0.08)


def test_composites_tell_how_much_is_the_clips() -> None:
    count = 60
    own, other = torch.ones(count, 1, 3, 40, 40), torch.zeros(count, 1, 3, 40, 40)
    mixed, share = Composite(thirds=0.5)(own, other, range(count))
    torch.testing.assert_close(mixed.mean(dim=(1, 2, 3, 4)), share, atol=0.04, rtol=0)
    assert (mixed == 0).any()
    assert {0.5, 0.333} <= {round(value, 3) for value in share.tolist()}
    assert len(set(share.tolist())) > 20
    again, _ = Composite(thirds=0.5)(own[7:8], other[7:8], [7])
    assert torch.equal(again[0], mixed[7])


def test_mistakes_are_told() -> None:
    with pytest.raises(UsageError, match="a seed for each of 2 clips, got 3"):
        Mild()(footage(2), range(3))
    with pytest.raises(UsageError, match=r"float32 clips \[B, T, 3, H, W\], got torch.uint8"):
        Heavy()(footage(2).byte(), range(2))
    with pytest.raises(UsageError, match="float32 clips"):
        PaperPositive()(footage(2)[0], range(2))


def test_draws_are_each_seeds_own() -> None:
    both, one = Draws([4, 5]), Draws([5])
    for draws in (both, one):
        draws.chance(0.5)
    assert both.uniform((2, 3))[1] == one.uniform((2, 3))[0]
    assert 2 <= float(Draws([1]).uniform((2, 3))) < 3
    counts = torch.bincount(Draws(range(900)).choice(3))
    assert counts.tolist() == pytest.approx([300] * 3, abs=60)
    with pytest.raises(RuntimeError, match="at most"):
        one.block(BUDGET)


def test_on_chosen_touches_only_the_chosen() -> None:
    clips = torch.zeros(3, 1, 3, 2, 2)
    amounts = torch.tensor([1.0, 2.0, 3.0])
    changed = on_chosen(
        clips,
        torch.tensor([True, False, True]),
        lambda part, by: part + by[:, None, None, None, None],
        amounts,
    )
    assert changed[:, 0, 0, 0, 0].tolist() == [1, 0, 3]
