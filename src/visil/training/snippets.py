"""Snippets: frames of videos in order; and foreign clips to put around them."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np

Frame = tuple[int, int]
"""Video and position."""

GUESSES = 32
"""Videos drawn before those that are allowed are listed: among many videos few are excluded."""


@dataclass(frozen=True)
class Snippet:
    """Frames in order, and how their pictures are changed."""

    frames: tuple[Frame, ...]
    """(video, position) of each; inserted foreign frames simply name another video."""
    seed: int | None = None
    """None: footage as it stands; else the seed of the picture transforms, which the whole snippet shares."""


class ForeignClips:
    """Draws foreign clips out of videos of the given ``lengths`` in frames."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = lengths

    def video(self, excluded: Set[int], rng: np.random.Generator) -> int | None:
        """Any video but the excluded ones; None where there is no other."""
        for _ in range(GUESSES):
            guess = int(rng.integers(len(self.lengths)))
            if guess not in excluded:
                return guess
        allowed = [video for video in range(len(self.lengths)) if video not in excluded]
        return allowed[rng.integers(len(allowed))] if allowed else None

    def window(self, video: int, count: int, rng: np.random.Generator) -> list[Frame]:
        """``count`` frames on end of a video, from a random place; all it has where it is shorter."""
        length = self.lengths[video]
        count = min(count, length)
        start = int(rng.integers(length - count + 1))
        return [(video, position) for position in range(start, start + count)]

    def run(
        self, count: int, excluded: Set[int], rng: np.random.Generator, used: set[int] | None = None
    ) -> list[Frame]:
        """``count`` frames of clips one after the other, none of an excluded video; none where all are excluded.

        No clip comes twice, nor one already ``used``, while there are others; ``used`` learns of those taken.
        """
        used = set() if used is None else used
        frames: list[Frame] = []
        while len(frames) < count:
            video = self.video(excluded | used, rng)
            if video is None:
                video = self.video(excluded, rng)
            if video is None:
                break
            used.add(video)
            frames += self.window(video, count - len(frames), rng)
        return frames

    def around(
        self, core: list[Frame], total: int, excluded: Set[int], rng: np.random.Generator
    ) -> list[Frame]:
        """``core`` at a random place between foreign clips, ``total`` frames in all."""
        room = max(0, total - len(core))
        before = int(rng.integers(room + 1))
        used = {video for video, _ in core}
        first = self.run(before, excluded, rng, used)
        return first + core + self.run(room - before, excluded, rng, used)
