"""Edits as people make them, on real decoded frames, each mild and heavy; every edited copy is encoded again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Picture = NDArray[np.uint8]


@dataclass
class Clip:
    """Decoded frames at a constant rate, and how they are to be encoded."""

    frames: list[Picture]
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
    height, width = height // 2 * 2, width // 2 * 2
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=Fraction(clip.fps).limit_denominator(1000))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.options = {"crf": str(clip.crf), "preset": "veryfast"}
        for picture in clip.frames:
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            container.mux(stream.encode(frame.reformat(width, height, "yuv420p")))
        container.mux(stream.encode(None))


def crop(clip: Clip, rng: random.Random, heavy: bool) -> Clip:
    """Keep 80 % (heavy: 50 %) of each side, somewhere."""
    keep = 0.5 if heavy else 0.8
    height, width = clip.frames[0].shape[:2]
    h, w = int(height * keep), int(width * keep)
    top, left = rng.randint(0, height - h), rng.randint(0, width - w)
    return Clip([np.ascontiguousarray(f[top : top + h, left : left + w]) for f in clip.frames], clip.fps)


def mirror(clip: Clip, rng: random.Random, heavy: bool) -> Clip:
    """Left to right; heavy: and cropped to 80 %."""
    flipped = Clip([np.ascontiguousarray(f[:, ::-1]) for f in clip.frames], clip.fps)
    return crop(flipped, rng, False) if heavy else flipped


def overlay(clip: Clip, rng: random.Random, heavy: bool) -> Clip:
    """A caption and a logo; heavy: a picture frame of colour around a smaller picture as well."""
    height, width = clip.frames[0].shape[:2]
    colours = [tuple(rng.randint(0, 255) for _ in range(3)) for _ in range(3)]
    text = " ".join(
        rng.choice(["BREAKING", "watch till the end", "@user123", "PART 2", "LOL"]) for _ in range(3)
    )
    box = rng.choice([0.08, 0.8])
    corner = (rng.choice([0.05, 0.75]) * width, rng.choice([0.05, 0.7]) * height)

    def draw(picture: Picture) -> Picture:
        image = Image.fromarray(picture)
        if heavy:
            small = image.resize((int(width * 0.7), int(height * 0.7)), Image.Resampling.BILINEAR)
            image = Image.new("RGB", (width, height), colours[2])
            image.paste(small, (int(width * 0.15), int(height * 0.15)))
        pen = ImageDraw.Draw(image)
        pen.rectangle((0, height * box, width, height * (box + 0.13)), fill=colours[0])
        pen.text((width * 0.04, height * (box + 0.01)), text, fill=colours[1], font_size=height * 0.09)
        pen.ellipse((*corner, corner[0] + width * 0.18, corner[1] + width * 0.18), fill=colours[1])
        return np.asarray(image)

    return Clip([draw(f) for f in clip.frames], clip.fps)


def recode(clip: Clip, rng: random.Random, heavy: bool) -> Clip:
    """Smaller and strongly compressed: 144 px at CRF 34, heavy 96 px at CRF 38 with shifted colours."""
    frames = clip.frames
    if heavy:
        gain = np.array([rng.uniform(0.6, 1.3) for _ in range(3)])
        frames = [np.clip(f * gain, 0, 255).astype(np.uint8) for f in frames]
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
