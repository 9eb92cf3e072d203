"""Short videos made of pictures, as slide shows and documentaries are: one after another, still or with a slow move."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image as pillow
from PIL import ImageDraw

from shared.copyset_edits import FPS, Frames

WIDE, SQUARER, TALL = (456, 256), (342, 256), (256, 456)
SHOWN_S = (1.6, 3.0)
LENGTH_S = (8.0, 15.0)
TITLES = (
    "Chapter",
    "The Long",
    "Introduction to",
    "Part",
    "Notes on",
    "A Day in",
    "Lessons from",
    "Welcome to",
)
SUBJECTS = (
    "Winter",
    "Way Home",
    "Systems",
    "Four",
    "the River",
    "Numbers",
    "Tomorrow",
    "Glass",
    "the North",
    "Design",
)

Box = tuple[float, float, float, float]
Colour = tuple[int, int, int]


def show(paths: Sequence[Path], rng: random.Random) -> Frames:
    """8 to 15 s of pictures in their order, as many of them as there is time for.

    Either each is still and whole on a plain ground, or the view moves slowly over each.
    """
    pictures = [pillow.open(path).convert("RGB") for path in paths]
    shapes = sorted(picture.width / picture.height for picture in pictures)
    canvas = TALL if shapes[len(shapes) // 2] < 0.8 else rng.choice([WIDE, WIDE, SQUARER])
    moving = rng.random() < 0.5
    any_colour = (rng.randint(0, 255), rng.randint(0, 255), rng.randint(0, 255))
    ground = rng.choice([(0, 0, 0), (255, 255, 255), any_colour])
    length = round(rng.uniform(*LENGTH_S) * FPS)
    frames: Frames = []
    for picture in pictures:
        shown = round(rng.uniform(*SHOWN_S) * FPS)
        if moving:
            frames += _moved_over(picture, canvas, shown, rng)
        else:
            frames += [_whole(picture, canvas, ground)] * shown
        if len(frames) >= length:
            break
    return frames


def most_pictures() -> int:
    """As many as the longest video of the shortest looks can show."""
    return int(LENGTH_S[1] / SHOWN_S[0]) + 1


def _whole(picture: pillow.Image, canvas: tuple[int, int], ground: Colour) -> np.ndarray:
    width, height = canvas
    scale = min(width / picture.width, height / picture.height)
    small = picture.resize((max(1, round(picture.width * scale)), max(1, round(picture.height * scale))))
    card = pillow.new("RGB", canvas, ground)
    card.paste(small, ((width - small.width) // 2, (height - small.height) // 2))
    return np.asarray(card)


def _moved_over(picture: pillow.Image, canvas: tuple[int, int], count: int, rng: random.Random) -> Frames:
    """From one view of the picture to another, straight and evenly."""
    start, end = (np.array(_view(picture, canvas, rng)) for _ in range(2))
    frames = []
    for i in range(count):
        left, top, right, bottom = (start + (end - start) * i / max(1, count - 1)).tolist()
        frames.append(
            np.asarray(picture.resize(canvas, pillow.Resampling.BILINEAR, box=(left, top, right, bottom)))
        )
    return frames


def _view(picture: pillow.Image, canvas: tuple[int, int], rng: random.Random) -> Box:
    """A window of the canvas's shape, as large as the picture allows or up to a quarter smaller."""
    width, height = canvas
    scale = min(picture.width / width, picture.height / height) * rng.uniform(0.75, 1)
    left = rng.uniform(0, picture.width - width * scale)
    top = rng.uniform(0, picture.height - height * scale)
    return left, top, left + width * scale, top + height * scale


def title_card(size: tuple[int, int], rng: random.Random) -> np.ndarray:
    """A few words on a plain ground."""
    ground, ink = rng.choice(
        [((0, 0, 0), "white"), ((255, 255, 255), "black"), ((25, 40, 90), "white"), ((120, 20, 30), "white")]
    )
    card = pillow.new("RGB", size, ground)
    text = f"{rng.choice(TITLES)}\n{rng.choice(SUBJECTS)}"
    ImageDraw.Draw(card).multiline_text(
        (size[0] / 2, size[1] / 2), text, fill=ink, font_size=min(size) / 9, anchor="mm", align="center"
    )
    return np.asarray(card)
