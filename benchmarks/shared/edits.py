"""Edits as people make them, on real decoded frames, each mild and heavy; every edited copy is encoded again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np

from visil.edits import frames as library
from visil.video import Image
from visil.video.writer import write_video


@dataclass
class Clip:
    """Decoded frames at a constant rate, and how they are to be encoded."""

    frames: list[Image]
    fps: float
    crf: int = 26
    short_side: int | None = None


def read_clip(path: Path) -> Clip:
    """Every frame of a short video."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        rate = float(stream.average_rate or 15)
        frames = [
            np.asarray(frame.to_ndarray(format="rgb24"), np.uint8) for frame in container.decode(stream)
        ]
        return Clip(frames, rate)


def write_clip(clip: Clip, path: Path) -> None:
    """Encode with H.264."""
    height, width = clip.frames[0].shape[:2]
    if clip.short_side is not None:
        scale = clip.short_side / min(height, width)
        height, width = round(height * scale), round(width * scale)
    write_video(path, clip.frames, clip.fps, crf=clip.crf, size=(width // 2 * 2, height // 2 * 2))


def changed(clip: Clip, *edits: library.Edit) -> Clip:
    """The clip under some edits, at the same rate."""
    return Clip(list(library.edited(clip.frames, *edits)), clip.fps)


def crop(clip: Clip, rng: random.Random, heavy: bool) -> Clip:
    """Keep 80 % (heavy: 50 %) of each side, somewhere."""
    keep = 0.5 if heavy else 0.8
    height, width = clip.frames[0].shape[:2]
    h, w = int(height * keep), int(width * keep)
    top, left = rng.randint(0, height - h), rng.randint(0, width - w)
    return changed(clip, library.window(left, top, w, h))


def mirror(clip: Clip, rng: random.Random, heavy: bool) -> Clip:
    """Left to right; heavy: and cropped to 80 %."""
    flipped = changed(clip, library.mirror())
    return crop(flipped, rng, False) if heavy else flipped


def overlay(clip: Clip, rng: random.Random, heavy: bool) -> Clip:
    """A caption and a logo; heavy: a picture frame of colour around a smaller picture as well."""
    height, width = clip.frames[0].shape[:2]
    band, text_colour, card = (_paint(rng) for _ in range(3))
    text = " ".join(
        rng.choice(["BREAKING", "watch till the end", "@user123", "PART 2", "LOL"]) for _ in range(3)
    )
    box = rng.choice([0.08, 0.8])
    corner = (rng.choice([0.05, 0.75]) * width, rng.choice([0.05, 0.7]) * height)
    inner, at = (int(width * 0.7), int(height * 0.7)), (int(width * 0.15), int(height * 0.15))
    small = [library.framed(*inner, card, at=at, fine=False)] if heavy else []
    top, bottom = height * box, height * (box + 0.13)
    lettering = {"text_top": height * (box + 0.01), "size": height * 0.09}
    return changed(
        clip,
        *small,
        library.banner(text, top, bottom, band, text_colour, **lettering),
        library.disc(*corner, width * 0.18, text_colour),
    )


def _paint(rng: random.Random) -> library.Colour:
    return rng.randint(0, 255), rng.randint(0, 255), rng.randint(0, 255)


def recode(clip: Clip, rng: random.Random, heavy: bool) -> Clip:
    """Smaller and strongly compressed: 144 px at CRF 34, heavy 96 px at CRF 38 with shifted colours."""
    frames = clip.frames
    if heavy:
        gain = np.array([rng.uniform(0.6, 1.3) for _ in range(3)])
        frames = list(library.tint(gain)(frames))
    return Clip(frames, clip.fps, crf=38 if heavy else 34, short_side=96 if heavy else 144)


def speed(clip: Clip, rng: random.Random, heavy: bool) -> Clip:
    """Faster or slower by 1.25 (heavy: 2)."""
    factor = 2.0 if heavy else 1.25
    return Clip(clip.frames, clip.fps * (factor if rng.random() < 0.5 else 1 / factor))


def chain(clip: Clip, rng: random.Random, heavy: bool) -> Clip:
    """Two of the above, one after the other (heavy: three, the last a heavy one)."""
    picked = rng.sample([crop, mirror, overlay, speed], 3 if heavy else 2)
    for i, edit in enumerate(picked):
        clip = edit(clip, rng, heavy and i == len(picked) - 1)
    return recode(clip, rng, False)


EDITS: dict[str, Callable[[Clip, random.Random, bool], Clip]] = {
    "crop": crop,
    "mirror": mirror,
    "overlay": overlay,
    "recode": recode,
    "speed": speed,
    "chain": chain,
}
