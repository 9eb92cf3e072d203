"""The edits of the wide copy benchmark: those of the narrow one and ten more, in families.

A chain of edits takes one of a family at most: shrunk twice, or dark and tinted, a copy would no longer be told by
eye. A negative is no part of a chain: small, blurred and negative, few people would know their own footage.
"""

from __future__ import annotations

import math
import random

import numpy as np
from PIL import Image as pillow
from PIL import ImageDraw

from shared import copyset_edits as narrow
from shared.copyset_edits import FPS, EditKind, Frames, Parameters, Values, between, number, numbers
from visil.edits import frames as library
from visil.video import Image

WORDS = (
    "so what happened next was",
    "you can see it right here",
    "and this is the part that",
    "nobody told me about it",
    "let us look at that again",
    "ok wait for it",
    "it gets better every time",
    "we start with the first one",
)


def draw_negative(rng: random.Random, heavy: bool) -> Parameters:
    """The contrast left."""
    return {"contrast": between(rng, 0.6, 0.8) if heavy else between(rng, 0.8, 1.0)}


def negative(frames: Frames, values: Values) -> Frames:
    """Every channel turned over."""
    return list(
        library.edited((255 - f for f in frames), library.colour(contrast=number(values, "contrast")))
    )


def draw_greyscale(rng: random.Random, heavy: bool) -> Parameters:
    """The contrast left."""
    return {"contrast": between(rng, 0.6, 0.85) if heavy else between(rng, 0.85, 1.2)}


def greyscale(frames: Frames, values: Values) -> Frames:
    """Black and white."""
    return list(library.colour(contrast=number(values, "contrast"), saturation=0.0)(frames))


def draw_tint(rng: random.Random, heavy: bool) -> Parameters:
    """One channel that is nearly gone; heavy: another that is weak."""
    low, high = (0.2, 0.4) if heavy else (0.3, 0.55)
    gains = [between(rng, low, high), between(rng, 0.5, 0.75) if heavy else 0.9, 1.0]
    rng.shuffle(gains)
    return {"gains": gains}


def tint(frames: Frames, values: Values) -> Frames:
    """As through coloured glass."""
    return list(library.tint(np.array(numbers(values, "gains"), np.float32))(frames))


def draw_dark(rng: random.Random, heavy: bool) -> Parameters:
    """The brightness left."""
    return {"brightness": between(rng, 0.2, 0.32) if heavy else between(rng, 0.22, 0.45)}


def dark(frames: Frames, values: Values) -> Frames:
    """Underexposed."""
    return list(library.colour(brightness=number(values, "brightness"))(frames))


def draw_subtitles(rng: random.Random, heavy: bool) -> Parameters:
    """A line for every two seconds, and a logo in a corner; heavy: larger."""
    return {
        "lines": rng.sample(WORDS, 4),
        "size": 0.11 if heavy else 0.075,
        "logo": between(rng, 0.16, 0.22) if heavy else between(rng, 0.1, 0.15),
        "corner": [rng.choice([0.03, 0.8]), rng.choice([0.04, 0.5])],
        "colour": [rng.randint(0, 255) for _ in range(3)],
    }


def subtitles(frames: Frames, values: Values) -> Frames:
    """White letters with a black outline that change every two seconds, and a logo that stays."""
    lines, corner = values["lines"], numbers(values, "corner")
    assert isinstance(lines, list)
    done = []
    for i, frame in enumerate(frames):
        picture = pillow.fromarray(frame)
        width, height = picture.size
        pen = ImageDraw.Draw(picture)
        size = max(8.0, number(values, "size") * min(width, height))
        pen.text(
            (width / 2, height * 0.9),
            str(lines[i // (2 * FPS) % len(lines)]),
            fill="white",
            stroke_fill="black",
            stroke_width=max(1, round(size / 12)),
            font_size=size,
            anchor="mm",
        )
        left, top = corner[0] * width, corner[1] * height
        across = number(values, "logo") * min(width, height)
        pen.rounded_rectangle(
            (left, top, left + across, top + across), across / 5, fill=narrow.colour_of(values, "colour")
        )
        pen.text(
            (left + across / 2, top + across / 2), "TV", fill="white", font_size=across * 0.6, anchor="mm"
        )
        done.append(np.asarray(picture))
    return done


def draw_noise(rng: random.Random, heavy: bool) -> Parameters:
    """Standard deviation, of 255."""
    low, high = (20, 32) if heavy else (10, 20)
    return {"sigma": between(rng, low, high), "seed": rng.randint(0, 1 << 30)}


def noise(frames: Frames, values: Values) -> Frames:
    """Grain that is new in every frame."""
    rng = np.random.default_rng(int(number(values, "seed")))
    return [_grainy(frame, number(values, "sigma"), rng) for frame in frames]


def draw_low_resolution(rng: random.Random, heavy: bool) -> Parameters:
    """The short side meanwhile, in pixels."""
    return {"short_side": rng.choice([56, 64, 72]) if heavy else rng.choice([64, 80, 96])}


def low_resolution(frames: Frames, values: Values) -> Frames:
    """Made small, then enlarged again."""
    height, width = frames[0].shape[:2]
    scale = number(values, "short_side") / min(height, width)
    small = narrow.resized(frames, max(2, round(width * scale)), max(2, round(height * scale)))
    return narrow.resized(small, width, height)


def draw_letterbox(rng: random.Random, heavy: bool) -> Parameters:
    """What the bars add to one side, and to which."""
    return {"bars": between(rng, 0.5, 0.8) if heavy else between(rng, 0.25, 0.6), "above": rng.random() < 0.6}


def letterbox(frames: Frames, values: Values) -> Frames:
    """Black bars above and below, or left and right, of the whole picture."""
    height, width = frames[0].shape[:2]
    bar = round((height if values["above"] else width) * number(values, "bars") / 2)
    room = ((bar, bar), (0, 0), (0, 0)) if values["above"] else ((0, 0), (bar, bar), (0, 0))
    return [np.pad(frame, room) for frame in frames]


def draw_vertical(rng: random.Random, heavy: bool) -> Parameters:
    """How much of the long side is kept, and where."""
    return {
        "keep": between(rng, 0.45, 0.58) if heavy else between(rng, 0.5, 0.68),
        "at": between(rng, 0.2, 0.8),
    }


def vertical(frames: Frames, values: Values) -> Frames:
    """A part of the long side at its full size, what is beside it blurred: a wide video made tall and shown wide."""
    height, width = frames[0].shape[:2]
    wide = width >= height
    length = max(2, round(max(width, height) * number(values, "keep")))
    first = round((max(width, height) - length) * number(values, "at"))
    kept = [f[:, first : first + length] if wide else f[first : first + length] for f in frames]
    behind = library.edited(narrow.resized(kept, width, height), library.blur(min(width, height) / 16))
    middle = (max(width, height) - length) // 2
    left, top = (middle, 0) if wide else (0, middle)
    return [library.placed(b, k, left, top) for b, k in zip(behind, kept, strict=True)]


def draw_phone(rng: random.Random, heavy: bool) -> Parameters:
    """How the screen leans, its tint, the room's light, the waves of the pixel grid, grain, and the hand."""
    low, high = (0.05, 0.12) if heavy else (0.02, 0.08)
    return {
        "corners": [between(rng, low, high) for _ in range(8)],
        "room": [rng.randint(15, 60) for _ in range(3)],
        "gains": [between(rng, 0.72, 1.05) for _ in range(3)],
        "contrast": between(rng, 0.6, 0.85),
        "wave": between(rng, 4, 9),
        "angle": between(rng, 0.1, 1.4),
        "depth": between(rng, 0.06, 0.12) if heavy else between(rng, 0.04, 0.1),
        "sigma": between(rng, 6, 11) if heavy else between(rng, 4, 9),
        "shake": between(rng, 1, 4),
        "seed": rng.randint(0, 1 << 30),
    }


def phone(frames: Frames, values: Values) -> Frames:
    """A screen filmed with a phone: leaning, in a dim room, tinted, with moiré, grain and a hand that is not still."""
    rng = np.random.default_rng(int(number(values, "seed")))
    height, width = frames[0].shape[:2]
    rows, columns = np.mgrid[:height, :width].astype(np.float32)
    angle, wave = number(values, "angle"), number(values, "wave")
    place = (rows * math.sin(angle) + columns * math.cos(angle)) * 2 * math.pi / wave
    gains = np.array(numbers(values, "gains"), np.float32)
    room = np.array(numbers(values, "room"), np.float32)
    corners = numbers(values, "corners")
    screen = next(library.perspective(corners)([np.full((height, width, 3), 255, np.uint8)]))
    shown = screen.astype(np.float32) / 255
    done = []
    looked_at = library.edited(
        frames,
        library.colour(contrast=number(values, "contrast")),
        library.blur(0.004 * min(height, width)),
        library.perspective(corners),
    )
    for i, frame in enumerate(looked_at):
        moire = 1 + number(values, "depth") * np.sin(place + 0.7 * i)[..., None]
        picture = (frame * gains * moire) * shown + room * (1 - shown)
        away = [round(number(values, "shake") * math.sin(pace * i)) for pace in (0.31, 0.47)]
        picture = np.roll(picture, away, axis=(0, 1))
        done.append(_grainy(np.clip(picture, 0, 255).astype(np.uint8), number(values, "sigma"), rng))
    return done


def draw_speed(rng: random.Random, heavy: bool) -> Parameters:
    """0.75 to 1.5 times as fast; heavy 0.5 to 2."""
    low, high = (0.5, 2.0) if heavy else (0.75, 1.5)
    return {"factor": round(math.exp(rng.uniform(math.log(low), math.log(high))), 3)}


def reversal(frames: Frames, values: Values) -> Frames:
    """The last frame first."""
    del values
    return frames[::-1]


def _grainy(frame: Image, sigma: float, rng: np.random.Generator) -> Image:
    grain = rng.standard_normal(frame.shape[:2], np.float32)[..., None] * sigma
    return np.clip(frame + grain, 0, 255).astype(np.uint8)


def _taken(name: str, family: str) -> EditKind:
    kind = narrow.EDITS[name]
    return EditKind(kind.draw, kind.apply, family)


EDITS: dict[str, EditKind] = {
    "crop": _taken("crop", "shape"),
    "negative": EditKind(draw_negative, negative, "colour", chained=False),
    "subtitles": EditKind(draw_subtitles, subtitles, "over"),
    "blur": _taken("blur", "quality"),
    "speed": EditKind(draw_speed, narrow.speed, "time"),
    "mirror": _taken("mirror", "mirror"),
    "greyscale": EditKind(draw_greyscale, greyscale, "colour"),
    "letterbox": EditKind(draw_letterbox, letterbox, "shape"),
    "noise": EditKind(draw_noise, noise, "quality"),
    "tint": EditKind(draw_tint, tint, "colour"),
    "overlay": _taken("overlay", "over"),
    "vertical": EditKind(draw_vertical, vertical, "shape"),
    "dark": EditKind(draw_dark, dark, "colour"),
    "recode": _taken("recode", "quality"),
    "phone": EditKind(draw_phone, phone, "shape"),
    "colour": _taken("colour", "colour"),
    "rotation": _taken("rotation", "shape"),
    "low resolution": EditKind(draw_low_resolution, low_resolution, "quality"),
    "border": _taken("border", "shape"),
}
"""Names in the order that a plan goes through them."""
