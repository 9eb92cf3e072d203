"""Which frames show too little to go by."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from visil.matching.blank import GROUND_LEFT_TO_READER, blank_frames

Picture = NDArray[np.uint8]


def is_blank(picture: Picture) -> bool:
    return bool(blank_frames(torch.from_numpy(picture[None]))[0])


def card(text: str, ground: tuple[int, int, int], size: int = 24) -> Picture:
    image = Image.new("RGB", (224, 224), ground)
    ImageDraw.Draw(image).multiline_text((24, 80), text, fill="white", font_size=size)
    return np.asarray(image).copy()


def scene(seed: int = 0) -> Picture:
    """Blocks of many colours."""
    blocks = np.random.default_rng(seed).integers(0, 256, (7, 7, 3), np.uint8)
    return blocks.repeat(32, 0).repeat(32, 1)


@pytest.mark.parametrize("level", [0, 20, 128, 255])
def test_one_colour(level: int) -> None:
    assert is_blank(np.full((224, 224, 3), level, np.uint8))


@pytest.mark.parametrize("ground", [(0, 0, 0), (200, 30, 30), (10, 90, 160)])
def test_words_on_a_plain_ground(ground: tuple[int, int, int]) -> None:
    assert is_blank(card("The Long Way\nHome", ground))
    noise = np.random.default_rng(0).integers(-4, 5, (224, 224, 3))
    assert is_blank(np.clip(card("Chapter Four", ground).astype(int) + noise, 0, 255).astype(np.uint8))


def test_a_page_full_of_words_is_something_to_go_by() -> None:
    assert not is_blank(card("\n".join(["many words that fill a page"] * 9), (0, 0, 0), 16))


def test_scenes_are_not_blank() -> None:
    assert not is_blank(scene())
    dark = (scene() // 6).astype(np.uint8)  # a night shot: dark, but not flat
    assert not is_blank(dark)


def test_the_share_of_the_ground_decides() -> None:
    for share, expected in ((0.80, False), (0.95, True)):
        picture = np.full((224, 224, 3), 40, np.uint8)
        rows = round((1 - share) * 224)
        picture[:rows] = np.random.default_rng(1).integers(100, 256, (rows, 224, 3), np.uint8)
        assert is_blank(picture) is expected


def test_colour_bars() -> None:
    colours = np.array(
        [(235, 235, 235), (235, 235, 16), (16, 235, 235), (16, 235, 16), (235, 16, 235), (16, 16, 235)]
    )
    picture = colours.astype(np.uint8).repeat(38, 0)[None, :224].repeat(224, 0)
    assert is_blank(picture)
    smpte = picture.copy()
    smpte[160:] = np.random.default_rng(0).integers(0, 256, (64, 224, 3), np.uint8)  # other patches below
    assert is_blank(smpte)
    assert not is_blank(picture.transpose(1, 0, 2) // 2 + scene() // 2)


def test_each_frame_by_itself() -> None:
    frames = np.stack([scene(), np.zeros((224, 224, 3), np.uint8), card("End", (0, 0, 60)), scene(1)])
    assert blank_frames(torch.from_numpy(frames)).tolist() == [False, True, True, False]


def test_small_pictures() -> None:
    assert blank_frames(torch.zeros(2, 1, 1, 3, dtype=torch.uint8)).tolist() == [True, True]


def test_a_reader_is_left_to_judge_slides_of_a_few_lines_but_not_empty_ones() -> None:
    slide = card("A few lines\nof a plain slide\nand one more", (20, 60, 20), size=32)
    empty = card(".", (20, 60, 20))
    assert is_blank(slide)
    frames = torch.from_numpy(np.stack([slide, empty]))
    assert blank_frames(frames, GROUND_LEFT_TO_READER).tolist() == [False, True]
