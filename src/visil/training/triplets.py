"""Triplets of snippets (Sec. 4.5): which frames of which videos are anchor, positive and negative.

Nothing here looks at a picture: a snippet is a list of (video, position), and a seed where pictures are to be changed.
Every triplet has random numbers of its own, made from the seed, the epoch, the pool and its place there, so that an
epoch is the same on every machine and in every process.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from visil.edits import temporal
from visil.errors import UsageError
from visil.training.pools import AnnotatedPool, ArtificialPool, Pool, Related, drawn
from visil.training.segments import MIN_OVERLAP, SegmentPair, Span, within
from visil.training.snippets import ForeignClips, Frame, Snippet

TRIES = 8
"""Temporal transforms drawn before the footage is left as it runs: a short one may lose too much of it."""


@dataclass(frozen=True)
class Triplet:
    """An anchor, a snippet that shows some of its footage, and one that does not."""

    anchor: Snippet
    positive: Snippet
    negative: Snippet


class TripletSampler:
    """Draws triplets from pools: ``triplets`` (T) from each an epoch, in snippets of up to ``frames`` (W) frames.

    ``times`` are those of all the footage. Anchor and positive share at least ``min_overlap`` seconds, or all there
    is where the anchor or the annotated segment is shorter. ``related`` holds for each video those that may show
    its footage (:meth:`visil.training.hard_negatives.Miner.related`): none of them appears in the anchor's negative or
    among inserted frames; by default only the video itself.

    ``strings`` above 0 is for collections of short clips, beyond the paper: videos are strung together from clips.
    The anchor of a made pair is then one clip to ``strings`` of them, its positive a changed part of that footage
    between foreign clips, its negative the hard negative between foreign clips, both W frames long.
    """

    def __init__(
        self,
        pools: Sequence[Pool],
        times: Sequence[Tensor],
        triplets: int = 1000,
        frames: int = 64,
        *,
        min_overlap: float = MIN_OVERLAP,
        seed: int = 0,
        strings: int = 0,
        related: Related | None = None,
    ) -> None:
        for name, value, least in (
            ("triplets", triplets, 1),
            ("frames", frames, 1),
            ("seed", seed, 0),
            ("strings", strings, 0),
        ):
            if value < least:
                raise UsageError(f"{name} must be {least} or more, not {value}")
        if not min_overlap >= 0:
            raise UsageError(f"min_overlap must be 0 or more, not {min_overlap}")
        self.triplets, self.frames, self.seed, self.strings = triplets, frames, seed, strings
        self.min_overlap = min_overlap
        self._times: list[NDArray[np.float64]] = [seconds.numpy() for seconds in times]
        self._steps = _steps(self._times)
        if related is None:
            related = [frozenset((video,)) for video in range(len(times))]
        elif len(related) != len(times):
            raise UsageError(f"{len(times)} videos were given relations for {len(related)}")
        self._related = mutual(related)
        self.pools = [self._trimmed(pool).usable(self._related) for pool in pools]
        """The pairs of the given pools that have negatives and lie inside their videos."""
        if not any(len(pool) for pool in self.pools):
            raise UsageError("no triplets can be drawn: no positive pair has a negative")
        self._foreign = ForeignClips([len(seconds) for seconds in times])

    def epoch(self, number: int) -> list[Triplet]:
        """The triplets of an epoch, T from each pool that has any, mixed."""
        found: list[Triplet] = []
        for which, pool in enumerate(self.pools):
            if not len(pool):
                continue
            order = drawn(self.triplets, len(pool), self._random(number, which, 0))
            for place, item in enumerate(order):
                found.append(self._triplet(pool, item, self._random(number, which, place + 1)))
        mixed = self._random(number, len(self.pools), 0).permutation(len(found))
        return [found[i] for i in mixed]

    def _random(self, epoch: int, pool: int, place: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, epoch, pool, place])

    def _triplet(self, pool: Pool, item: int, rng: np.random.Generator) -> Triplet:
        choices = pool.negatives[item]
        negative = choices[int(rng.integers(len(choices)))]
        if isinstance(pool, AnnotatedPool):
            return self._annotated(pool.pairs[item], negative, rng)
        if self.strings:
            return self._strung(pool.videos[item], negative, rng)
        return self._artificial(pool.videos[item], negative, rng)

    # ------------------------------------------------------------------ the first pool

    def _annotated(self, pair: SegmentPair[int], negative: int, rng: np.random.Generator) -> Triplet:
        """Two snippets that both hold one stretch of the shared footage, at a random place in it."""
        sides = [(pair.query, pair.query_span), (pair.target, pair.target_span)]
        if rng.integers(2):
            sides.reverse()
        lengths = [end - start for _, (start, end) in sides]
        shared = min(self.min_overlap, *lengths)
        # Where a snippet is shorter than that, they share what fits: W frames surely hold W - 1 intervals.
        fits = [
            (self.frames - 1) * self._steps[video] / length
            for (video, _), length in zip(sides, lengths, strict=True)
        ]
        part = min(shared / min(lengths), *fits)
        begin = float(rng.uniform(0, 1 - part)) if part < 1 else 0.0
        snippets = []
        for (video, (start, end)), length in zip(sides, lengths, strict=True):
            core = (start + begin * length, min(end, start + (begin + part) * length))
            snippets.append(self._window(video, self._on_display(video, core), rng))
        return Triplet(snippets[0], snippets[1], self._anywhere(negative, rng))

    def _on_display(self, video: int, span: Span) -> tuple[int, int]:
        """First and last position on display in a span of seconds, at least one, inside the video."""
        times = self._times[video]
        first = min(max(0, int(np.searchsorted(times, span[0], "right")) - 1), len(times) - 1)
        return first, max(first, int(np.searchsorted(times, span[1], "left")) - 1)

    def _window(self, video: int, inside: tuple[int, int], rng: np.random.Generator) -> Snippet:
        """Up to W frames of a video that hold the positions from first to last, as far as they fit."""
        first, last = inside
        count = min(self.frames, len(self._times[video]))
        least, most = max(0, last - count + 1), min(first, len(self._times[video]) - count)
        start = int(rng.integers(min(least, most), max(least, most) + 1))
        return Snippet(tuple((video, position) for position in range(start, start + count)))

    def _trimmed(self, pool: Pool) -> Pool:
        """Annotated pairs cut to what the videos have; those with nothing left are taken out."""
        if isinstance(pool, ArtificialPool):
            return pool
        trimmed = [within(p, self._duration(p.query), self._duration(p.target)) for p in pool.pairs]
        kept = [(p, some) for p, some in zip(trimmed, pool.negatives, strict=True) if p is not None]
        return AnnotatedPool([p for p, _ in kept], [some for _, some in kept])

    # ------------------------------------------------------------------ the second pool

    def _artificial(self, video: int, negative: int, rng: np.random.Generator) -> Triplet:
        """A snippet, and another made from a longer stretch of the video that overlaps it."""
        length = len(self._times[video])
        count = min(self.frames, length)
        start = int(rng.integers(length - count + 1))
        need = self._needed(video, count)
        # Twice as long as a snippet, so that there is enough of it even in fast motion.
        longer = min(2 * self.frames, length)
        least, most = max(0, start + need - longer), min(length - longer, start + count - need)
        begin = int(rng.integers(least, most + 1))
        source = np.arange(begin, begin + longer)
        shared = np.where((source >= start) & (source < start + count), source, -1)
        frames = [(video, int(position)) for position in source]
        changed = self._changed(frames, shared, need, self._related[video], rng)
        anchor = Snippet(tuple((video, position) for position in range(start, start + count)))
        return Triplet(anchor, Snippet(tuple(changed), _seed(rng)), self._anywhere(negative, rng))

    def _strung(self, video: int, negative: int, rng: np.random.Generator) -> Triplet:
        """The same with short clips: what stands around the shared footage is other clips."""
        clips = [self._foreign.window(video, self.frames, rng)]
        own: frozenset[int] = self._related[video]
        for _ in range(int(rng.integers(self.strings))):
            other = self._foreign.video(own | self._related[negative], rng)
            room = self.frames - sum(map(len, clips))
            if other is None or room < 1:
                break
            clips.append(self._foreign.window(other, room, rng))
            own |= self._related[other]
        anchor = [frame for clip in rng.permutation(len(clips)) for frame in clips[clip]]
        need = self._needed(video, len(anchor))
        count = int(rng.integers(need, len(anchor) + 1))
        start = int(rng.integers(len(anchor) - count + 1))
        part = slice(start, start + count)
        changed = self._changed(anchor[part], np.arange(start, start + count), need, own, rng)
        positive = self._foreign.around(changed, self.frames, own, rng)
        hard = self._foreign.window(negative, self.frames, rng)
        return Triplet(
            Snippet(tuple(anchor)),
            Snippet(tuple(positive), _seed(rng)),
            Snippet(tuple(self._foreign.around(hard, self.frames, own, rng))),
        )

    def _changed(
        self,
        source: list[Frame],
        shared: NDArray[np.int64],
        need: int,
        own: Set[int],
        rng: np.random.Generator,
    ) -> list[Frame]:
        """Up to W frames of ``source`` under a temporal transform, with foreign frames where it inserts some.

        ``shared`` numbers the frames of the source that are the anchor's, -1 for others; those kept span at least
        ``need`` numbers, so that as much footage is shared however fast it runs.
        """
        for attempt in range(TRIES + 1):
            order = temporal.draw(len(source), rng)[1] if attempt < TRIES else range(len(source))
            positions = np.array(order, np.int64)
            spans = _spans(np.where(positions < 0, -1, shared[positions]), min(len(positions), self.frames))
            starts = np.flatnonzero(spans >= need)
            if len(starts):
                break
        start = int(starts[rng.integers(len(starts))])
        frames: list[Frame] = []
        inserted = 0
        for position in [*positions[start : start + self.frames].tolist(), None]:
            if position is not None and position < 0:
                inserted += 1
                continue
            frames += self._foreign.run(inserted, own, rng)
            inserted = 0
            if position is not None:
                frames.append(source[position])
        return frames

    def _needed(self, video: int, count: int) -> int:
        """Frames in ``min_overlap`` seconds of a video, of the ``count`` there are; at least one."""
        # A millionth less: 5 s at 0.1 s a frame are 50 frames, not 51.
        return min(count, max(1, int(np.ceil(self.min_overlap / self._steps[video] - 1e-6))))

    # ------------------------------------------------------------------ videos

    def _anywhere(self, video: int, rng: np.random.Generator) -> Snippet:
        return Snippet(tuple(self._foreign.window(video, self.frames, rng)))

    def _duration(self, video: int) -> float:
        return float(self._times[video][-1]) + self._steps[video]


def _steps(times: Sequence[NDArray[np.float64]]) -> list[float]:
    """Seconds from a frame to the next in each video; a video of one frame has that of the others."""
    known = [float(np.median(np.diff(seconds))) for seconds in times if len(seconds) > 1]
    usual = float(np.median(known)) if known else 1.0
    found = iter(known)
    return [next(found) if len(seconds) > 1 else usual for seconds in times]


def mutual(related: Related) -> list[frozenset[int]]:
    """The relations with each video among its own, and each of two related videos among the other's."""
    both = [{video} for video in range(len(related))]
    for video, some in enumerate(related):
        both[video].update(some)
        for other in some:
            both[other].add(video)
    return [frozenset(some) for some in both]


def _spans(numbers: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """For each window of ``width`` entries, from its least to its greatest number that is not -1; 0 without any."""
    windows = np.lib.stride_tricks.sliding_window_view(numbers, width)
    least = np.where(windows < 0, np.iinfo(np.int64).max, windows).min(axis=1)
    greatest = windows.max(axis=1)
    return np.where(greatest < 0, 0, greatest - least + 1)


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(1 << 31))
