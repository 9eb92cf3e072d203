"""Things laid over the picture: where they lie, and that nothing else changes."""

from __future__ import annotations

import torch
from torch import Tensor

from visil.training.transforms import overlay, stamps


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
