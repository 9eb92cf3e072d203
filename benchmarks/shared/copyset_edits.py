"""The ten edits of the copy benchmark, each in two steps: draw its parameters, then apply them (:mod:`visil.edits`).

The parameters go into truth.json, so a query says exactly what was done to it. ``heavy`` draws from a harsher range.
Sizes of blur and letters are relative to the picture; all edits keep the frame rate at 15 per second.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from visil.edits import frames as library
from visil.edits import temporal
from visil.video import Image
from visil.video.writer import write_video

FPS = 15
SHORT_SIDE = 256

Frames = list[Image]
Parameters = dict[str, object]
Values = Mapping[str, object]


def encode(frames: Sequence[Image], path: Path, crf: int) -> None:
    """H.264 at 15 fps; one thread, so that the same frames give the same bytes on any machine."""
    height, width = frames[0].shape[:2]
    write_video(path, frames, FPS, crf=crf, size=(width // 2 * 2, height // 2 * 2), threads=1)


def resized(frames: Sequence[Image], width: int, height: int) -> Frames:
    """Every frame at one size."""
    return list(library.resize(width, height)(frames))


def number(values: Values, key: str) -> float:
    """A parameter that is a number."""
    value = values[key]
    assert isinstance(value, int | float)
    return float(value)


def numbers(values: Values, key: str) -> list[float]:
    """A parameter that is a list of numbers."""
    value = values[key]
    assert isinstance(value, list)
    return [float(v) for v in value]


def colour_of(values: Values, key: str) -> tuple[int, int, int]:
    """A parameter that is a colour."""
    red, green, blue = (int(v) for v in numbers(values, key))
    return red, green, blue


def between(rng: random.Random, low: float, high: float) -> float:
    """A number drawn from a range, short enough to be written down."""
    return round(rng.uniform(low, high), 3)


def _paint(rng: random.Random) -> list[int]:
    return [rng.randint(0, 255) for _ in range(3)]


def draw_crop(rng: random.Random, heavy: bool) -> Parameters:
    """What is kept of width and height, and from where."""
    low, high = (0.5, 0.68) if heavy else (0.68, 0.86)
    keep = [between(rng, low, high) for _ in range(2)]
    return {"keep": keep, "at": [between(rng, 0, 1) for _ in range(2)]}


def crop(frames: Frames, values: Values) -> Frames:
    """Cut a window out."""
    height, width = frames[0].shape[:2]
    w, h = (int(side * keep) for side, keep in zip((width, height), numbers(values, "keep"), strict=True))
    left, top = (
        int(room * at) for room, at in zip((width - w, height - h), numbers(values, "at"), strict=True)
    )
    return list(library.window(left, top, w, h)(frames))


def draw_mirror(rng: random.Random, heavy: bool) -> Parameters:
    """Nothing to draw."""
    del rng, heavy
    return {}


def mirror(frames: Frames, values: Values) -> Frames:
    """Left to right."""
    del values
    return list(library.mirror()(frames))


def draw_overlay(rng: random.Random, heavy: bool) -> Parameters:
    """A caption band, and one or two discs; heavy: three or four larger ones, and a thicker band."""
    words = rng.sample(["BREAKING", "watch till the end", "@user123", "PART 2", "LOL", "follow for more"], 2)
    low, high = (0.15, 0.24) if heavy else (0.12, 0.2)
    discs = [
        [between(rng, 0, 0.8), between(rng, 0, 0.8), between(rng, low, high), *_paint(rng)]
        for _ in range(rng.randint(3, 4) if heavy else rng.randint(1, 2))
    ]
    return {
        "text": " ".join(words),
        "band": rng.choice([0.04, 0.8]),
        "band_height": 0.16 if heavy else 0.12,
        "band_colour": _paint(rng),
        "text_colour": _paint(rng),
        "discs": discs,
    }


def overlay(frames: Frames, values: Values) -> Frames:
    """The same band, words and discs over every frame."""
    height, width = frames[0].shape[:2]
    band, thick = (number(values, key) * height for key in ("band", "band_height"))
    colours = (colour_of(values, key) for key in ("band_colour", "text_colour"))
    text = str(values["text"])
    discs = values["discs"]
    assert isinstance(discs, list)
    return list(
        library.edited(
            frames,
            library.banner(
                text, band, band + thick, *colours, text_top=band + thick * 0.15, size=thick * 0.6
            ),
            *(
                library.disc(x * width, y * height, size * min(width, height), (red, green, blue))
                for x, y, size, red, green, blue in discs
            ),
        )
    )


def draw_colour(rng: random.Random, heavy: bool) -> Parameters:
    """Factors of brightness, contrast and saturation, and one gain for each channel."""
    spread = 0.4 if heavy else 0.25
    values: Parameters = {
        # Much of the footage is bright: pushed up as far as down, it would turn white.
        "brightness": between(rng, 1 - spread, 1 + spread / 2),
        "contrast": between(rng, 1 - spread, 1 + spread / 2),
        "saturation": between(rng, 1 - spread, 1 + spread),
    }
    if heavy and rng.random() < 0.3:
        values["saturation"] = 0.0
    values["gains"] = [between(rng, 1 - spread / 2, 1 + spread / 4) for _ in range(3)]
    return values


def colour(frames: Frames, values: Values) -> Frames:
    """Brightness, contrast, saturation, then the channels."""
    factors = (number(values, key) for key in ("brightness", "contrast", "saturation"))
    gains = np.array(numbers(values, "gains"), np.float32)
    return list(library.edited(frames, library.colour(*factors), library.tint(gains)))


def draw_rotation(rng: random.Random, heavy: bool) -> Parameters:
    """5 to 15 degrees either way; heavy 15 to 35, or a quarter turn, or half a turn."""
    if heavy and rng.random() < 0.35:
        return {"degrees": rng.choice([90, 180, 270])}
    low, high = (15, 35) if heavy else (5, 15)
    return {"degrees": between(rng, low, high) * rng.choice([1, -1])}


def rotation(frames: Frames, values: Values) -> Frames:
    """Turn about the middle; corners are cut off or black, quarter turns swap the sides."""
    return list(library.rotation(number(values, "degrees"))(frames))


def draw_border(rng: random.Random, heavy: bool) -> Parameters:
    """The picture's share of each side."""
    low, high = (0.55, 0.7) if heavy else (0.72, 0.88)
    return {"share": [between(rng, low, high) for _ in range(2)], "colour": _paint(rng)}


def border(frames: Frames, values: Values) -> Frames:
    """A smaller picture on one colour."""
    height, width = frames[0].shape[:2]
    w, h = (int(side * share) for side, share in zip((width, height), numbers(values, "share"), strict=True))
    return list(library.framed(w, h, colour_of(values, "colour"))(frames))


def draw_speed(rng: random.Random, heavy: bool) -> Parameters:
    """1.15 to 1.35 times faster or slower; heavy 1.4 to 1.8."""
    factor = rng.uniform(1.4, 1.8) if heavy else rng.uniform(1.15, 1.35)
    return {"factor": round(factor if rng.random() < 0.5 else 1 / factor, 3)}


def speed(frames: Frames, values: Values) -> Frames:
    """Frames dropped or repeated, at the same rate."""
    return [frames[position] for position in temporal.at_speed(len(frames), number(values, "factor"))]


def draw_blur(rng: random.Random, heavy: bool) -> Parameters:
    """Sigma in hundredths of the short side."""
    low, high = (1.1, 1.8) if heavy else (0.6, 1.1)
    return {"sigma_percent": between(rng, low, high)}


def blur(frames: Frames, values: Values) -> Frames:
    """Gaussian."""
    sigma = number(values, "sigma_percent") / 100 * min(frames[0].shape[:2])
    return list(library.blur(sigma)(frames))


def draw_perspective(rng: random.Random, heavy: bool) -> Parameters:
    """How far each corner moves inwards, as shares of width and height."""
    low, high = (0.1, 0.22) if heavy else (0.03, 0.1)
    return {"corners": [between(rng, low, high) if rng.random() < 0.75 else 0.0 for _ in range(8)]}


def perspective(frames: Frames, values: Values) -> Frames:
    """The picture on a leaning plane, black around it."""
    return list(library.perspective(numbers(values, "corners"))(frames))


def draw_recode(rng: random.Random, heavy: bool) -> Parameters:
    """Short side and CRF of a poor copy that is then brought back to size."""
    if heavy:
        return {"short_side": rng.choice([96, 112]), "crf": rng.randint(36, 38)}
    return {"short_side": 144, "crf": rng.randint(33, 35)}


def recode(frames: Frames, values: Values) -> Frames:
    """Encoded small and strongly, decoded, brought back to the old size."""
    crf, short_side = (int(number(values, key)) for key in ("crf", "short_side"))
    return list(library.recode(fps=FPS, crf=crf, short_side=short_side)(frames))


@dataclass(frozen=True)
class EditKind:
    """One edit: how its parameters are drawn, given a source of chance and whether it is to be heavy; how they apply.

    A chain has one edit of a ``family`` at most, and none that is not ``chained``.
    """

    draw: Callable[[random.Random, bool], Parameters]
    apply: Callable[[Frames, Values], Frames]
    family: str
    chained: bool = True


EDITS = {
    "crop": EditKind(draw_crop, crop, "crop"),
    "mirror": EditKind(draw_mirror, mirror, "mirror"),
    "overlay": EditKind(draw_overlay, overlay, "overlay"),
    "colour": EditKind(draw_colour, colour, "colour"),
    "rotation": EditKind(draw_rotation, rotation, "rotation"),
    "border": EditKind(draw_border, border, "border"),
    "speed": EditKind(draw_speed, speed, "speed"),
    "blur": EditKind(draw_blur, blur, "blur"),
    "perspective": EditKind(draw_perspective, perspective, "perspective"),
    "recode": EditKind(draw_recode, recode, "recode"),
}
