"""What unrelated videos have in common by custom, and must not match by: black, bars, cards, letterbox, logos, intros.

    python benchmarks/pack_frames.py VIDEOS PACKS
    python benchmarks/false_alarms.py PACKS

Pairs of real clips from different sources get the same dressing on both sides. For every dressing: how many pairs are
called copies or related, and how many matching stretches there are. An identical intro is shared footage; there the
question is whether the stretch found is the intro and nothing else.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

import visil
from shared.packs import read_pack
from shared.results import keep

Frames = NDArray[np.uint8]
SIDE = visil.load().config.sampling.crop
INTRO = 5


def flat(level: int, frames: int = 3) -> Frames:
    """One colour."""
    return np.full((frames, SIDE, SIDE, 3), level, np.uint8)


def bars() -> Frames:
    """Three seconds of colour bars."""
    colours = [
        (235, 235, 235),
        (235, 235, 16),
        (16, 235, 235),
        (16, 235, 16),
        (235, 16, 235),
        (235, 16, 16),
        (16, 16, 235),
    ]
    picture = np.zeros((SIDE, SIDE, 3), np.uint8)
    for i, colour in enumerate(colours):
        picture[:, i * SIDE // 7 : (i + 1) * SIDE // 7] = colour
    return np.repeat(picture[None], 3, axis=0)


def faded(clip: Frames) -> Frames:
    """In from black and out to it."""
    steps = (np.array([0.0, 0.04, 0.12])[:, None, None, None] * clip[:1]).astype(np.uint8)
    ends = (np.array([0.12, 0.04, 0.0])[:, None, None, None] * clip[-1:]).astype(np.uint8)
    return np.concatenate([steps, clip, ends])


def card(text: str) -> Frames:
    """Three seconds of white letters on black."""
    image = Image.new("RGB", (SIDE, SIDE))
    ImageDraw.Draw(image).multiline_text((24, 90), text, fill="white", font_size=24)
    return np.repeat(np.asarray(image)[None], 3, axis=0)


def letterboxed(clip: Frames) -> Frames:
    """Black above and below."""
    boxed = clip.copy()
    edge = SIDE * 36 // 224
    boxed[:, :edge] = boxed[:, -edge:] = 0
    return boxed


def logo(clip: Frames) -> Frames:
    """The same mark in the corner."""
    marked = clip.copy()
    marked[:, 12:44, 170:212] = (200, 20, 40)
    marked[:, 20:36, 180:202] = 255
    return marked


def main() -> None:
    """Dress, compare, count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packs", type=Path)
    parser.add_argument("--pairs", type=int, default=30)
    args = parser.parse_args()
    model = visil.load()
    clips = [video for pack in sorted(args.packs.glob("originals*.npz")) for video in read_pack(pack)]
    rng = random.Random(5)
    largest = max(
        {name.split("/")[0] for name, _ in clips}, key=lambda f: sum(n.startswith(f) for n, _ in clips)
    )
    one = [frames for name, frames in clips if name.startswith(f"{largest}/")]
    other = [frames for name, frames in clips if not name.startswith(f"{largest}/")]
    pairs = list(zip(rng.sample(one, args.pairs), rng.sample(other, args.pairs), strict=True))
    intro = rng.choice([frames for _, frames in clips if len(frames) >= INTRO])[:INTRO]
    dressings: dict[str, Callable[[Frames, int], Frames]] = {
        "none": lambda clip, _: clip,
        "3 s of black before and after": lambda clip, _: np.concatenate([flat(0), clip, flat(0)]),
        "3 s of white before": lambda clip, _: np.concatenate([flat(255), clip]),
        "fades": lambda clip, _: faded(clip),
        "letterbox": lambda clip, _: letterboxed(clip),
        "logo in the corner": lambda clip, _: logo(clip),
        "title cards with other words": lambda clip, side: np.concatenate(
            [card(("The Long Way\nHome", "Chapter Four:\nWinter")[side]), clip]
        ),
        "the same 3 s of colour bars": lambda clip, _: np.concatenate([bars(), clip]),
        "the same intro of 5 s": lambda clip, _: np.concatenate([intro, clip]),
    }
    result: dict[str, object] = {}
    for name, dress in dressings.items():
        verdicts: list[str] = []
        stretches = beyond = 0
        for a, b in pairs:
            match = model.compare(model.embed_frames(dress(a, 0)), model.embed_frames(dress(b, 1)))
            verdicts.append(match.verdict)
            stretches += len(match.segments)
            beyond += any(s.query[1] > INTRO + 1 and s.target[1] > INTRO + 1 for s in match.segments)
        result[name] = {
            "pairs": len(pairs),
            "copy": verdicts.count("copy"),
            "related": verdicts.count("related"),
            "pairs with a stretch beyond the first 6 s": beyond,
            "stretches": stretches,
        }
        print(name, result[name], flush=True)
    keep("false_alarms", result)


if __name__ == "__main__":
    main()
