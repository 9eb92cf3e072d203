"""Families of pair cases: each makes two videos of which it is known what they share, and what may be said of them.

A family is a function of the footage of one split and a seeded generator; it returns what one case is made of.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from copyset import load
from shared.copyset_edits import EDITS, FPS, Frames
from shared.copyset_edits import recode as recoded
from shared.pair_footage import CANVAS, PairFootage, canvas, held, template_deck
from shared.pair_truth import Span, TrueStretch
from visil.edits.temporal import at_speed

COPY = ("copy",)
FOUND = ("copy", "related")
NOT_A_COPY = ("related", "unrelated")
STRANGERS = ("unrelated",)


@dataclass
class Made:
    """Two videos, what they share, and the verdicts that are right."""

    query: Frames
    target: Frames
    verdicts: tuple[str, ...]
    stretches: list[TrueStretch] = field(default_factory=list)
    same_file: bool = False


Family = Callable[[PairFootage, random.Random, int], Made]


def seconds(frames: int) -> float:
    """Frames as seconds."""
    return round(frames / FPS, 3)


def span(first: int, stop: int) -> Span:
    """Frames [first, stop) as seconds."""
    return seconds(first), seconds(stop)


def part(frames: Frames, rng: random.Random, shortest: float, longest: float) -> tuple[int, int]:
    """A stretch of a video, of a length between two shares of it."""
    length = max(2, round(len(frames) * rng.uniform(shortest, longest)))
    first = rng.randint(0, len(frames) - length)
    return first, first + length


def placed(before: Frames, copy: Frames, after: Frames) -> tuple[Frames, Span]:
    """A copy among other footage, and where it is."""
    return [*before, *copy, *after], span(len(before), len(before) + len(copy))


def one_edit(footage: PairFootage, rng: random.Random, number: int) -> Made:
    """A clip under one edit, every other time inside other footage."""
    original = footage.clip(rng, footage.films)
    edit = list(EDITS.values())[number % len(EDITS)]
    first, stop = part(original, rng, 0.6, 1.0)
    copy = edit.apply(original[first:stop], edit.draw(rng, False))
    if number // len(EDITS) % 2 == 0:
        return Made(original, copy, COPY, [TrueStretch(span(first, stop), span(0, len(copy)))])
    before, after = (footage.foreign(rng, rng.uniform(2, 6), copy) for _ in range(2))
    target, at = placed(before, copy, after)
    return Made(original, target, COPY, [TrueStretch(span(first, stop), at)])


def same_camera(footage: PairFootage, rng: random.Random, _: int) -> Made:
    """Two pieces of one clip of a camera that stands still, with a second or more between."""
    frames = footage.still_camera(rng, 9.0)
    gap = round(rng.uniform(1.0, 2.0) * FPS)
    middle = len(frames) // 2
    return Made(frames[: middle - gap // 2], frames[middle + gap // 2 :], NOT_A_COPY)


def same_place(footage: PairFootage, _: random.Random, number: int) -> Made:
    """Two clips of one place."""
    one, other = footage.places[number % len(footage.places)]
    return Made(load(one), load(other), NOT_A_COPY)


def one_template(footage: PairFootage, rng: random.Random, number: int) -> Made:
    """Different slides in one template: of two made decks, or of two halves of one talk."""
    if number % 2:
        one, other = (template_deck(number, rng, rng.randint(4, 6)) for _ in range(2))
        return Made(one, other, NOT_A_COPY)
    talk = footage.decks[(3 * number) % len(footage.decks)]
    halves = (talk[: len(talk) // 2][:5], talk[len(talk) // 2 :][-5:])
    one, other = (held(p, [rng.uniform(1.6, 4.2) for _ in p]) for p in map(footage.pictures, halves))
    return Made(one, other, NOT_A_COPY)


def one_program(footage: PairFootage, rng: random.Random, number: int) -> Made:
    """Two screencasts of one program."""
    pool = list(footage.programs.values())[number % len(footage.programs)]
    one, other = rng.sample(pool, 2)
    return Made(load(one), load(other), NOT_A_COPY)


def trimmed(footage: PairFootage, rng: random.Random, number: int) -> Made:
    """A part of a screencast or of a deck, encoded again."""
    frames = footage.deck(rng, 6) if number % 2 else footage.clip(rng, footage.screencasts, 6.0)
    first, stop = part(frames, rng, 0.4, 0.7)
    copy = recoded(frames[first:stop], {"short_side": 192, "crf": 30})
    return Made(frames, copy, COPY, [TrueStretch(span(first, stop), span(0, len(copy)))])


def played_twice(footage: PairFootage, rng: random.Random, number: int) -> Made:
    """A clip, and a video that shows it twice: in a row, or with other footage between."""
    frames = footage.clip(rng, footage.films, 5.0)[: 9 * FPS]
    between = [] if number % 2 else footage.foreign(rng, rng.uniform(2, 5), frames)
    second = len(frames) + len(between)
    whole = span(0, len(frames))
    found = [TrueStretch(whole, whole), TrueStretch(whole, span(second, second + len(frames)))]
    return Made(frames, [*frames, *between, *frames], COPY, found)


def still_shot(footage: PairFootage, rng: random.Random, _: int) -> Made:
    """A picture held for some seconds in both, among other footage."""
    picture = footage.pictures(rng.sample(footage.photographs, 1))
    shown = held(picture, [rng.uniform(3.0, 7.0)])
    sides = []
    for _ in range(2):
        before, after = (footage.foreign(rng, rng.uniform(2, 6), shown) for _ in range(2))
        sides.append(placed(before, shown, after))
    (query, at_query), (target, at_target) = sides
    return Made(query, target, FOUND, [TrueStretch(at_query, at_target)])


def seconds_cut(footage: PairFootage, rng: random.Random, _: int) -> Made:
    """A copy without some seconds of the middle."""
    frames = footage.clip(rng, footage.films, 10.0)
    gap = round(rng.uniform(2.0, 4.5) * FPS)
    at = rng.randint(round(3 * FPS), max(round(3 * FPS), len(frames) - gap - round(3 * FPS)))
    found = [
        TrueStretch(span(0, at), span(0, at)),
        TrueStretch(span(at + gap, len(frames)), span(at, len(frames) - gap)),
    ]
    return Made(frames, [*frames[:at], *frames[at + gap :]], COPY, found)


def seconds_inserted(footage: PairFootage, rng: random.Random, number: int) -> Made:
    """A copy with some seconds of black, or of other footage, in the middle."""
    frames = footage.clip(rng, footage.films, 8.0)
    length = round(rng.uniform(1.5, 4.0) * FPS)
    at = rng.randint(round(3 * FPS), len(frames) - round(3 * FPS))
    black = [np.zeros_like(frames[0])] * length
    inserted = footage.foreign(rng, length / FPS, frames) if number % 2 else black
    found = [
        TrueStretch(span(0, at), span(0, at)),
        TrueStretch(span(at, len(frames)), span(at + len(inserted), len(frames) + len(inserted))),
    ]
    return Made(frames, [*frames[:at], *inserted, *frames[at:]], COPY, found)


SPEEDS = (0.5, 0.75, 1.5, 2.0, 4.0)


def other_speed(footage: PairFootage, rng: random.Random, number: int) -> Made:
    """A copy that runs slower or faster, every other time inside other footage."""
    factor = SPEEDS[number % len(SPEEDS)]
    frames = footage.clip(rng, footage.films, 8.0)
    copy = [frames[i] for i in at_speed(len(frames), factor)]
    if number // len(SPEEDS) % 2 == 0:
        return Made(frames, copy, COPY, [TrueStretch(span(0, len(frames)), span(0, len(copy)))])
    before, after = (footage.foreign(rng, rng.uniform(2, 4), copy) for _ in range(2))
    target, at = placed(before, copy, after)
    return Made(frames, target, COPY, [TrueStretch(span(0, len(frames)), at)])


def reversed_playback(footage: PairFootage, rng: random.Random, number: int) -> Made:
    """A clip from its last frame to its first, every other time inside other footage."""
    frames = footage.clip(rng, footage.films, 7.0)
    copy = frames[::-1]
    before, after = ((footage.foreign(rng, rng.uniform(2, 5), copy) if number % 2 else []) for _ in range(2))
    target, at = placed(before, copy, after)
    return Made(frames, target, COPY, [TrueStretch(span(0, len(frames)), at, reversed=True)])


def negative(footage: PairFootage, rng: random.Random, _: int) -> Made:
    """A clip with its colours turned round."""
    frames = footage.clip(rng, footage.films)
    whole = span(0, len(frames))
    return Made(frames, [255 - picture for picture in frames], FOUND, [TrueStretch(whole, whole)])


def very_dark(footage: PairFootage, rng: random.Random, _: int) -> Made:
    """A clip at an eighth to a fifth of its brightness."""
    frames = footage.clip(rng, footage.films)
    level = rng.uniform(0.12, 0.2)
    whole = span(0, len(frames))
    dark = [(picture * level).astype(np.uint8) for picture in frames]
    return Made(frames, dark, FOUND, [TrueStretch(whole, whole)])


def one_second(footage: PairFootage, rng: random.Random, number: int) -> Made:
    """A second of a clip, alone or inside other footage."""
    frames = footage.clip(rng, footage.films)
    first = rng.randint(0, len(frames) - FPS)
    copy = frames[first : first + FPS]
    before, after = ((footage.foreign(rng, rng.uniform(2, 5), copy) if number % 2 else []) for _ in range(2))
    target, at = placed(before, copy, after)
    return Made(frames, target, FOUND, [TrueStretch(span(first, first + FPS), at)])


def snow(_: PairFootage, rng: random.Random, __: int) -> Made:
    """A television without a station, twice."""

    def side() -> Frames:
        noise = np.random.default_rng(rng.randrange(1 << 30))
        size = (round(rng.uniform(6, 9) * FPS), CANVAS[1] // 2, CANVAS[0] // 2, 1)
        return [g.repeat(2, 0).repeat(2, 1).repeat(3, 2) for g in noise.integers(0, 256, size, np.uint8)]

    return Made(side(), side(), NOT_A_COPY)


def one_source(footage: PairFootage, rng: random.Random, number: int) -> Made:
    """Two clips of one source: other halls, other faces."""
    folder = footage.split.videos[number % len(footage.split.videos)]
    pool = [path for path in footage.films if path.parent.name == folder]
    one, other = rng.sample(pool, 2)
    return Made(load(one), load(other), NOT_A_COPY)


def strangers(footage: PairFootage, rng: random.Random, number: int) -> Made:
    """Two videos of different kinds or sources."""
    kinds = (
        lambda: footage.clip(rng, footage.films),
        lambda: footage.clip(rng, footage.screencasts),
        lambda: footage.deck(rng, 5),
        lambda: held(
            [canvas(p) for p in footage.pictures(rng.sample(footage.photographs, 3))], [3.2, 2.8, 3.0]
        ),
    )
    one, other = rng.sample(range(len(kinds)), 2) if number % 3 else (number % 2, number % 2)
    return Made(kinds[one](), kinds[other](), STRANGERS)


def identical(footage: PairFootage, rng: random.Random, number: int) -> Made:
    """One file twice: filmed, a screencast, a deck, a clip of a still camera."""
    made = (
        lambda: footage.clip(rng, footage.films),
        lambda: footage.clip(rng, footage.screencasts),
        lambda: footage.deck(rng, 5),
        lambda: footage.still_camera(rng, 6.0),
    )
    frames = made[number % len(made)]()
    whole = span(0, len(frames))
    return Made(frames, frames, COPY, [TrueStretch(whole, whole)], same_file=True)


FAMILIES: dict[str, tuple[Family, int]] = {
    "one edit": (one_edit, 20),
    "other speed": (other_speed, 10),
    "reversed": (reversed_playback, 4),
    "seconds cut": (seconds_cut, 5),
    "seconds inserted": (seconds_inserted, 6),
    "played twice": (played_twice, 4),
    "still shot": (still_shot, 4),
    "trimmed screen or deck": (trimmed, 6),
    "identical": (identical, 4),
    "negative": (negative, 3),
    "very dark": (very_dark, 3),
    "one second": (one_second, 4),
    "same camera, other moment": (same_camera, 8),
    "same place": (same_place, 8),
    "one template": (one_template, 6),
    "one program": (one_program, 6),
    "one source": (one_source, 6),
    "snow": (snow, 2),
    "strangers": (strangers, 6),
}
"""How each family is made, and how many of it a split gets."""
