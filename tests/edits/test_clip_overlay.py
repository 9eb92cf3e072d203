"""Things laid over the picture, and two clips in one picture: where they lie, and that nothing else changes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from visil.edits.clips import overlay, stamps
from visil.edits.clips.overlay import picture_in_picture, split_screen
from visil.errors import UsageError


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_a_box_covers_its_rectangle_and_nothing_else() -> None:
    clips = torch.rand(2, 2, 3, 20, 40)
    colour = torch.tensor([[1.0, 0, 0.5], [0, 1, 0]])
    boxed = overlay.box(
        clips, numbers(0.25, -0.1), numbers(0.5, 0), numbers(0.5, 0.2), numbers(0.25, 2), colour
    )
    expected = clips.clone()
    expected[0, :, :, 10:15, 10:30] = colour[0][:, None, None]
    expected[1, :, :, :, :4] = colour[1][:, None, None]  # 0.1 of it is left of the picture
    assert torch.equal(boxed, expected)


def test_bars_leave_the_middle() -> None:
    clips = torch.rand(1, 2, 3, 20, 40)
    framed = overlay.bars(clips, numbers(0.1), numbers(0.2), numbers(0), numbers(0.3), torch.zeros(1, 3))
    expected = torch.zeros_like(clips)
    expected[..., 4:14, 4:] = clips[..., 4:14, 4:]
    assert torch.equal(framed, expected)


def test_a_stamp_lies_where_it_should_in_its_size_and_colour() -> None:
    clips = torch.full((2, 2, 3, 40, 60), 0.2)
    stamp = torch.ones(2, 4, 6, 12)  # white, twice as wide as high
    place = (numbers(0.5, 0.25), numbers(0.25, 0.5), numbers(0.4, 0.4), numbers(0, 90), numbers(1, 0.5))
    pasted = overlay.paste(clips, stamp, *place, tint=torch.tensor([[1.0, 0.5, 0], [1, 1, 1]]))
    # The first: 24 × 12 pixels about (30, 10); its rim is soft, so look a pixel in and a pixel out.
    first = pasted[0, 1]
    assert torch.allclose(first[:, 5:15, 19:41], torch.tensor([1.0, 0.5, 0])[:, None, None])
    untouched = torch.ones(40, 60, dtype=torch.bool)
    untouched[3:17, 16:44] = False
    assert (first[:, untouched] == 0.2).all()
    # The second stands upright: 12 × 24 about (15, 20), half seen through.
    second = pasted[1, 0]
    assert torch.allclose(second[:, 9:31, 10:20], torch.tensor(0.6))
    untouched = torch.ones(40, 60, dtype=torch.bool)
    untouched[6:34, 7:23] = False
    assert (second[:, untouched] == 0.2).all()
    assert torch.equal(pasted[:, 0], pasted[:, 1])


def test_a_turned_stamp_turns_counter_clockwise() -> None:
    stamp = torch.zeros(1, 4, 8, 8)
    stamp[:, :, :, 4:] = 1  # white on the right
    half = (numbers(0.5), numbers(0.5), numbers(1.0))
    pasted = overlay.paste(torch.zeros(1, 1, 3, 32, 32), stamp, *half, numbers(90), numbers(1))[0, 0, 0]
    assert pasted[4:12, 4:28].min() == 1
    assert pasted[20:28].max() == 0


def test_stamps_are_premultiplied_visible_and_different() -> None:
    device = torch.device("cpu")
    for bank, count, shape in (
        (stamps.texts(device), stamps.TEXTS, stamps.TEXT_SHAPE),
        (stamps.signs(device), stamps.SIGNS, stamps.SIGN_SHAPE),
    ):
        assert bank.shape == (count, 4, *shape)
        assert (bank[:, :3] <= bank[:, 3:] + 1e-6).all()
        assert (bank[:, 3].mean(dim=(1, 2)) > 0.03).all()
        assert len({stamp.numpy().tobytes() for stamp in bank}) > 0.9 * count


# ---------------------------------------------------------------- two clips in one picture


def clips(count: int, height: int = 40, width: int = 40, seed: int = 0) -> Tensor:
    coarse = torch.rand(count * 2, 3, 5, 5, generator=torch.Generator().manual_seed(seed))
    fine = F.interpolate(coarse, (height, width), mode="bicubic").clamp(0, 1)
    return fine.view(count, 2, 3, height, width)


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


def test_blurred_sides_show_the_clip_in_a_band_and_itself_beside_it() -> None:
    clips = torch.zeros(2, 1, 3, 40, 40)
    clips[:, :, 0, :, 20:] = 1  # black on the left, red on the right
    args = (numbers(0.5, 0.5), torch.tensor([True, False]), torch.tensor([False, False]))
    framed = overlay.blurred_sides(clips, *args, numbers(2, 2), numbers(0.5, 1))
    upright, flat = framed[:, 0, 0]
    assert torch.allclose(
        upright[:, 12:19], torch.tensor(0.0), atol=1e-4
    )  # all of the clip, pressed together
    assert torch.allclose(upright[:, 22:29], torch.tensor(1.0), atol=1e-4)
    assert upright[:, 35:].mean() == pytest.approx(0.5, abs=0.02)  # its right half again, at half the light
    assert torch.allclose(flat[12:28, 24:38], torch.tensor(1.0), atol=1e-4)
    assert flat[:8, 36:].mean() == pytest.approx(1, abs=0.02)


def test_stripes_take_light_and_come_as_often_as_asked() -> None:
    clips = torch.ones(1, 1, 3, 8, 64)
    striped = overlay.moire(clips, torch.tensor([[4.0, 0.0]]), torch.zeros(1, 3), numbers(0.5))
    row = striped[0, 0, 0, 0]
    assert row.min() == pytest.approx(0.5, abs=0.02)
    assert row.max() == pytest.approx(1, abs=0.02)
    assert int((torch.fft.rfft(row - row.mean()).abs()).argmax()) == 4


def test_uneven_light_falls_off_to_one_side() -> None:
    lit = overlay.uneven_light(torch.full((1, 1, 3, 9, 10), 0.5), torch.tensor([[0.2, 0.0]]))
    assert lit[0, 0, 0, 4, 0] == pytest.approx(0.5 * (1 - 0.2 * 0.9))
    assert lit[0, 0, 0, 4, 9] == pytest.approx(0.5 * (1 + 0.2 * 0.9))
