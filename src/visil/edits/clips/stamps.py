"""Things to paste onto pictures, rendered once for each process: lines of text, faces, signs and logos.

All are [N, 4, h, w] float tensors: colour already multiplied by coverage, then coverage.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

TEXT_SHAPE = (48, 144)
SIGN_SHAPE = (48, 48)
"""Height and width of a stamp in pixels: near the size at which they are pasted on a picture 224 wide."""

TEXTS, SIGNS = 128, 96
OVERSIZE = 4
"""Drawn this many times larger, then shrunk: smooth edges."""

SEED = 20190827
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
MARKS = ("", "", "", "!", "?", "...", ":", "#", "@", "&")

Colour = tuple[int, int, int, int]
BLACK: Colour = (0, 0, 0, 255)


@cache
def texts(device: torch.device) -> Tensor:
    """White words, some with a black outline or on a black plate."""
    rng = np.random.default_rng(SEED)
    return _bank([_text(rng) for _ in range(TEXTS)], device)


@cache
def signs(device: torch.device) -> Tensor:
    """Faces, hearts, stars and logos in colour."""
    rng = np.random.default_rng(SEED + 1)
    kinds = (_face, _face, _heart, _star, _logo)
    return _bank([kinds[number % len(kinds)](rng) for number in range(SIGNS)], device)


def _bank(stamps: list[Image.Image], device: torch.device) -> Tensor:
    pixels = torch.from_numpy(np.stack([np.asarray(stamp) for stamp in stamps])).float() / 255
    colour, cover = pixels[..., :3], pixels[..., 3:]
    return torch.cat([colour * cover, cover], dim=-1).permute(0, 3, 1, 2).contiguous().to(device)


def _text(rng: np.random.Generator) -> Image.Image:
    lines = [_words(rng) for _ in range(rng.integers(1, 3))]
    content = "\n".join(lines)
    style = rng.integers(3)
    outline = 8 if style == 1 else 0
    font = ImageFont.load_default(size=80)
    probe = ImageDraw.Draw(Image.new("RGBA", (1, 1)))
    left, top, right, bottom = probe.multiline_textbbox((0, 0), content, font=font, stroke_width=outline)
    margin = 12
    ground = (0, 0, 0, 255 if style == 2 else 0)
    size = (round(right - left) + 2 * margin, round(bottom - top) + 2 * margin)
    picture = Image.new("RGBA", size, ground)
    ImageDraw.Draw(picture).multiline_text(
        (margin - left, margin - top),
        content,
        font=font,
        fill="white",
        stroke_width=outline,
        stroke_fill=BLACK,
        align="center",
    )
    height, width = TEXT_SHAPE
    scale = min(width / size[0], height / size[1])
    fitted = picture.resize(
        (max(1, round(size[0] * scale)), max(1, round(size[1] * scale))), Image.Resampling.BOX
    )
    stamp = Image.new("RGBA", (width, height))
    stamp.paste(fitted, ((width - fitted.width) // 2, (height - fitted.height) // 2))
    return stamp


def _words(rng: np.random.Generator) -> str:
    words = ["".join(rng.choice(list(LETTERS), rng.integers(1, 8))) for _ in range(rng.integers(1, 4))]
    joined = " ".join(words) + str(rng.choice(MARKS))
    return joined.upper() if rng.random() < 0.4 else joined


def _canvas() -> tuple[Image.Image, ImageDraw.ImageDraw, int]:
    side = SIGN_SHAPE[0] * OVERSIZE
    picture = Image.new("RGBA", (side, side))
    return picture, ImageDraw.Draw(picture), side


def _finished(picture: Image.Image) -> Image.Image:
    return picture.resize((SIGN_SHAPE[1], SIGN_SHAPE[0]), Image.Resampling.BOX)


def _colour(rng: np.random.Generator) -> Colour:
    red, green, blue = (int(value) for value in rng.integers(30, 256, 3))
    return red, green, blue, 255


def _face(rng: np.random.Generator) -> Image.Image:
    picture, pen, side = _canvas()
    yellow = (255, int(rng.integers(180, 225)), int(rng.integers(40, 90)), 255)
    pen.ellipse((4, 4, side - 4, side - 4), fill=yellow, outline=(160, 110, 0, 255), width=4)
    height, width = rng.uniform(0.07, 0.14) * side, rng.uniform(0.05, 0.1) * side
    for centre in (0.34 * side, 0.66 * side):
        eye = (centre - width, 0.38 * side - height, centre + width, 0.38 * side + height)
        pen.ellipse(eye, fill=(60, 40, 10, 255))
    mouth = (0.25 * side, 0.4 * side, 0.75 * side, rng.uniform(0.7, 0.85) * side)
    kind = rng.integers(4)
    if kind == 0:
        pen.chord(mouth, 0, 180, fill=(110, 30, 20, 255))
    elif kind == 1:
        pen.arc(mouth, 20, 160, fill=(60, 40, 10, 255), width=10)
    elif kind == 2:
        pen.arc(
            (0.3 * side, 0.62 * side, 0.7 * side, 0.95 * side), 200, 340, fill=(60, 40, 10, 255), width=10
        )
    else:
        pen.ellipse((0.4 * side, 0.6 * side, 0.6 * side, 0.82 * side), fill=(110, 30, 20, 255))
    return _finished(picture)


def _heart(rng: np.random.Generator) -> Image.Image:
    picture, pen, side = _canvas()
    angle = np.linspace(0, 2 * np.pi, 80)
    x = 16 * np.sin(angle) ** 3
    y = 13 * np.cos(angle) - 5 * np.cos(2 * angle) - 2 * np.cos(3 * angle) - np.cos(4 * angle)
    outline = np.stack([0.5 + x / 36, 0.47 - y / 36], axis=1) * side
    pen.polygon([(float(a), float(b)) for a, b in outline], fill=(230, *_colour(rng)[1:3], 255))
    return _finished(picture)


def _star(rng: np.random.Generator) -> Image.Image:
    picture, pen, side = _canvas()
    spikes = int(rng.integers(4, 9))
    angle = np.arange(2 * spikes) * np.pi / spikes - np.pi / 2
    radius = np.where(np.arange(2 * spikes) % 2 == 0, 0.48, rng.uniform(0.18, 0.35)) * side
    corners = zip(side / 2 + radius * np.cos(angle), side / 2 + radius * np.sin(angle), strict=True)
    pen.polygon([(float(a), float(b)) for a, b in corners], fill=_colour(rng))
    return _finished(picture)


def _logo(rng: np.random.Generator) -> Image.Image:
    picture, pen, side = _canvas()
    plate = (8, 8, side - 8, side - 8)
    if rng.random() < 0.5:
        pen.rounded_rectangle(plate, radius=int(rng.integers(0, 60)), fill=_colour(rng))
    else:
        pen.ellipse(plate, outline=_colour(rng), width=int(rng.integers(10, 30)))
    name = "".join(rng.choice(list(LETTERS), rng.integers(1, 4)))
    font = ImageFont.load_default(size=90 if len(name) < 3 else 64)
    pen.text(
        (side / 2, side / 2), name, font=font, fill="white" if rng.random() < 0.5 else BLACK, anchor="mm"
    )
    return _finished(picture)
