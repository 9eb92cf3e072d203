"""Whether the sound of one file is heard in another: all of it, also where there is nothing to see.

Pictures say how far apart in time two files are. Each moment of a track, also one over black or after the last picture,
is compared at the distance of the nearest stretch that pictures show.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visil.video.sound import BLOCKS, SILENCE, VOICE

if TYPE_CHECKING:
    from visil.footage.containment import Stretch
    from visil.video.sound import Bands, Track

Flags = NDArray[np.bool_]

LOUD = (-65.0, 60.0)
"""Decibels that a moment must reach to be heard: outright, and below the loudest."""
DEPTH = 30.0
"""Decibels below the loudest band of a moment at which a band is no longer heard beside it."""
LOUDER = 18.0
"""Decibels by which all of a track may be louder or softer: what is silent is not the same, only softer."""
SAME = 6.0
"""Decibels by which the bands of one moment that are heard may differ, on the average."""
STRONG, WEAKER = 12.0, 12.0
"""Decibels below the loudest band of a moment down to which a band must be there by itself, no more than so many softer
or louder: a whistle over rain is one band of eight."""
MOSTLY = 0.9
"""Part of the moments that are heard which must sound the same,"""
FEW = 6
"""and how many within one second of them may not: three eighths of a second. Coding may miss these, never a word."""
LATENESS = range(-BLOCKS // 2, BLOCKS // 2 + 1)
"""Halves of moments by which sound may be ahead or behind in the other file: a quarter of a second."""


HIGH = 45.0
"""Decibels below the loudest moment at which high pitches are still heard,"""
DULLER = 15.0
"""and by how many they must be softer in another track for that to be the duller one."""
MORE_BITS = 2.0
"""How many times the bits the one of two alike must have to be the better."""
LOSSLESS = ("pcm_s", "pcm_f", "pcm_b", "flac", "alac", "wavpack", "truehd", "mlp", "tta", "ape")
EFFICIENCY = {"opus": 1.5, "mp3": 0.8, "vorbis": 0.9, "ac3": 0.6, "eac3": 0.8, "mp2": 0.5}
"""How much one bit of a codec holds, against one of AAC."""


def lost_with(mine: Sequence[Track], theirs: Sequence[Track], stretches: Sequence[Stretch]) -> str | None:
    """What is no longer heard without a file whose pictures another shows; None where that is nothing."""
    for one in mine:
        if _is_silent(one.bands):
            continue
        same = [two for two in theirs if _same(one.bands[:, :VOICE], two.bands[:, :VOICE], stretches)]
        if not same:
            return "sounds different"
        better = [_better(one, two) for two in same]
        if None not in better:
            return better[0]
    return None


def _is_silent(track: Bands) -> bool:
    return not len(track) or float(track.max()) < LOUD[0]


def _better(one: Track, two: Track) -> str | None:
    """What a track has more than another that sounds the same."""
    if one.channels > two.channels:
        return f"has sound in {one.channels} channels"
    if _is_lossless(one) and not _is_lossless(two):
        return "has lossless sound"
    bits = [track.bits * EFFICIENCY.get(track.codec.removeprefix("lib"), 1.0) for track in (one, two)]
    if (_duller(two.bands, one.bands) or bits[0] > MORE_BITS * bits[1]) and not _is_lossless(two):
        return "has clearer sound"
    return None


def _is_lossless(track: Track) -> bool:
    return track.codec.startswith(LOSSLESS)


def _duller(one: Bands, two: Bands) -> bool:
    """Whether a track lacks high pitches that another has."""
    here, there = (_pitches(track) for track in (one, two))
    return bool(((there > -HIGH) & (here < there - DULLER)).any())


def _pitches(track: Bands) -> Bands:
    """How loud each of the high bands gets, below the loudest that is heard at all."""
    loud: Bands = np.quantile(track[:, VOICE:], 0.95, axis=0) - np.quantile(track.max(axis=1), 0.95)
    return loud


def _same(one: Bands, two: Bands, stretches: Sequence[Stretch]) -> bool:
    loudness = one.max(axis=1)
    heard = np.flatnonzero(loudness > max(LOUD[0], float(loudness.max()) - LOUD[1]))
    nearest = _nearest(heard, stretches)
    same = np.zeros(len(heard), np.bool_)
    for number, (_, _, offset) in enumerate(stretches):
        part = heard[nearest == number]
        if len(part):
            there = part + round(offset * BLOCKS)
            tries = (_alike(one[part], _at(two, there, late / 2)) for late in LATENESS)
            same[nearest == number] = max(tries, key=np.count_nonzero)
    other = np.convolve(~same, np.ones(BLOCKS, np.int64))
    return float(same.mean()) >= MOSTLY and int(other.max()) <= FEW


def _nearest(moments: NDArray[np.intp], stretches: Sequence[Stretch]) -> NDArray[np.intp]:
    """Which stretch is the nearest to each moment."""
    distance = np.full(len(moments), np.inf)
    nearest = np.zeros(len(moments), np.intp)
    for number, (start, end, _) in enumerate(stretches):
        away = np.maximum(np.maximum(start - moments / BLOCKS, moments / BLOCKS - end), 0.0)
        nearest[away < distance] = number
        distance = np.minimum(distance, away)
    return nearest


def _at(track: Bands, moments: NDArray[np.intp], late: float) -> Bands:
    """A track some moments later, if need be between two; silence before and after it."""
    if late % 1:
        between: Bands = np.float32(0.5) * (_at(track, moments, late - 0.5) + _at(track, moments, late + 0.5))
        return between
    moments = moments + int(late)
    found = np.full((len(moments), track.shape[1]), SILENCE, np.float32)
    inside = (moments >= 0) & (moments < len(track))
    found[inside] = track[moments[inside]]
    return found


def _alike(mine: Bands, theirs: Bands) -> Flags:
    """Which moments sound the same, louder or softer as a whole apart."""
    clear = mine > mine.max(axis=1, keepdims=True) - DEPTH
    theirs = theirs + np.clip(np.median((mine - theirs)[clear]), -LOUDER, LOUDER)
    floor = np.maximum(mine, theirs).max(axis=1, keepdims=True) - DEPTH
    mine, theirs = np.maximum(mine, floor), np.maximum(theirs, floor)
    heard = np.maximum(mine, theirs) > floor
    apart = np.abs(mine - theirs) * heard
    strong = np.maximum(mine, theirs) > floor + DEPTH - STRONG
    alike: Flags = (apart.sum(axis=1) < SAME * heard.sum(axis=1)) & ((apart * strong).max(axis=1) < WEAKER)
    return alike
