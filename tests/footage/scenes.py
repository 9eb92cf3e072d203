"""Footage of kinds that are mistaken for each other: a camera that stays, slides of one template, repeated moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from synthetic import Image, moving_scene

FPS = 8
SIZE = (72, 96)
"""Height and width."""

Frames = list[Image]


def shots(seed: int, seconds: float) -> Frames:
    """A film: a new shot every two seconds."""
    return list(moving_scene(seed, seconds, FPS, SIZE, shot=2.0))


def room(seed: int = 0) -> Image:
    """What a camera sees that stays where it is."""
    return next(iter(moving_scene(1000 + seed, 1, FPS, SIZE)))


def watched(seed: int, seconds: float, busy: float = 1.0, grain: float = 2.0, place: int = 0) -> Frames:
    """A camera over one room: grain, and someone who walks about for ``busy`` of the time."""
    random = np.random.default_rng(seed)
    background = room(place).astype(np.float32)
    height, width = SIZE
    rows, columns = np.ogrid[:height, :width]
    steps = random.normal(0, 1.6, (round(seconds * FPS), 2)).cumsum(axis=0)
    here = random.random(round(seconds) + 1) < busy
    frames = []
    for number, (dy, dx) in enumerate(steps):
        image = background.copy()
        if here[number // FPS]:
            y, x = (height / 2 + dy) % height, (width / 2 + dx) % width
            body = (rows - y) ** 2 / 4 + (columns - x) ** 2 <= (height * 0.12) ** 2
            image[body] = (200, 60, 40)
        image += random.normal(0, grain, image.shape)
        frames.append(np.clip(image, 0, 255).astype(np.uint8))
    return frames


def still(seconds: float, seed: int = 0, grain: float = 2.0) -> Frames:
    """A camera before which nothing happens."""
    return watched(seed, seconds, busy=0.0, grain=grain)


def blinking(seconds: float, seed: int = 0) -> Frames:
    """A still room with a lamp that is on every other second."""
    frames = still(seconds, seed)
    for number, image in enumerate(frames):
        if number // FPS % 2:
            image[8:28, 10:30] = 250
    return frames


def slide(words: int, template: int = 0) -> Image:
    """One slide of a template: its own lines of text on the ground that all have."""
    height, width = SIZE
    image = np.full((height, width, 3), (250, 250, 245), np.uint8)
    image[:8] = (30 + 40 * template, 60, 120)
    random = np.random.default_rng([words, template])
    for line in range(14, height - 8, 7):
        for start in range(8, width - 16, 14):
            if random.random() < 0.7:
                image[line : line + 3, start : start + int(random.integers(3, 13))] = (20, 20, 30)
    return image


def deck(slides: Sequence[int], seconds: float = 2.0) -> Frames:
    """Slides one after the other."""
    return [slide(words) for words in slides for _ in range(round(seconds * FPS))]


def enlarged(frames: Frames, times: float, how: str = "BICUBIC") -> Frames:
    from PIL import Image as pillow

    height, width = (round(side * times) // 2 * 2 for side in frames[0].shape[:2])
    return [
        np.asarray(pillow.fromarray(frame).resize((width, height), pillow.Resampling[how]))
        for frame in frames
    ]


def without(frames: Frames, start: float, end: float) -> Frames:
    """With some seconds cut out."""
    return frames[: round(start * FPS)] + frames[round(end * FPS) :]
