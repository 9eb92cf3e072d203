"""A closer look: more frames a second around the ends of each stretch, where the files are at hand.

A frame a second tells where two videos match to a second or so. Here frames are decoded and embedded four to the
second, around the ends of the strongest stretches only, and all over short ones. They set the ends and the speed, and
tell whether what moves in the one moves in the other. Of one video at most :data:`MOST_FRAMES` are looked at; pictures
are gone once they are embedded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.compare.judge import Judged, Pair, blank_of, evenly
from visil.matching.lines import PER_SECOND, Line, Seen, ends, fitted, within
from visil.matching.localize import Segment
from visil.matching.moves import moves
from visil.matching.straight import SPEEDS, Relief, changes
from visil.model.features import VideoFeatures

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

WINDOW = 2.0
"""Seconds to either side of an end that are looked at."""

SHORT = 16.0
"""Seconds up to which all of a stretch is looked at."""

MOST_STRETCHES = 8
"""Stretches that are looked at, the strongest."""

MOST_FRAMES = 240
"""Frames of one video that are looked at."""

FRAMES_COMPARED = 40
"""Frames of a stretch whose changes are compared."""

PRICE = 2.5
"""The cost of each piece of a stretch, in worths of frames (see :data:`visil.matching.straight.LINE`)."""

SHORTEST = 0.75
"""Seconds below which a piece is none."""

MEET = 0.6
"""Seconds that two pieces of one line may lie apart, or beside each other."""

AS_ALIKE = 0.98
"""Part of a surer segment's likeness that a second one of the same seconds must reach."""

AS_AGREED, AS_LONG, WHOLE_AGREED = 0.75, 0.8, 0.5
"""Or the part of how far what moves in that one agrees; less if it is nearly as long, as footage shown again is."""

AS_STRAIGHT = 0.9
"""Part of the worth of two neighbours that one line must have."""

STILL_ALIKE = 0.97
"""Part of what frames inside a piece are alike, from which those after its ends belong to it, too."""

LEAST_DROP = 0.1
"""Difference between what is most and what is least alike, below which all that was looked at is alike."""

BOTH_BLANK = 1e-3
"""Worth of a cell of two blank frames: a copied fade belongs to the copy, and says nothing by itself."""

FramesAt = Callable[[Sequence[float]], VideoFeatures]
"""Times in seconds to the frames on display then."""


@dataclass(frozen=True, eq=False)
class Dense:
    """Frames of one video at some times of the grid of the closer look."""

    times: Floats
    vectors: Tensor
    blank: Flags
    duration: float

    def within(self, low: float, high: float) -> NDArray[np.int64]:
        """The places of its frames from one time to another."""
        return np.flatnonzero((self.times >= low - 1e-6) & (self.times <= high + 1e-6))


def looked_at(pair: Pair, found: Sequence[Judged], looks: Sequence[FramesAt | None]) -> list[Judged] | None:
    """Stretches as looks at both files show them; None where there are none, or a file is not at hand."""
    there = [look for look in looks if look is not None]
    return refined(pair, found, (there[0], there[1])) if found and len(there) == 2 else None


def refined(pair: Pair, found: Sequence[Judged], looks: tuple[FramesAt, FramesAt]) -> list[Judged]:
    """The strongest stretches looked at more closely; what could not be is as it was."""
    chosen = sorted(found, key=lambda one: -one.evidence)[:MOST_STRETCHES]
    spans = [one.segment for one in chosen]
    query, target = (
        _looked(video, look, [(getattr(span, side), _is_short(span)) for span in spans])
        for video, look, side in zip((pair.query, pair.target), looks, ("query", "target"), strict=True)
    )
    seen = _once([piece for one in chosen for piece in _pieces(pair, one, query, target)])
    return _once(_straightened(pair, seen, query, target))


def _is_short(segment: Segment) -> bool:
    """Whether all of a stretch is looked at, in both videos."""
    return min(end - start for start, end in (segment.query, segment.target)) <= SHORT


def _looked(video: VideoFeatures, look: FramesAt, spans: Sequence[tuple[tuple[float, float], bool]]) -> Dense:
    """A video's frames around the ends of some stretches of it, or all over them; those at hand are not made again."""
    duration = float(video.ends[-1])
    wanted: dict[int, None] = {}
    for (start, end), whole in spans:
        parts = [(start, end)] if whole else [(start, start), (end, end)]
        for low, high in parts:
            first = max(0, int(np.ceil((low - WINDOW) * PER_SECOND)))
            last = min(int(np.floor((high + WINDOW) * PER_SECOND)), int(np.ceil(duration * PER_SECOND)) - 1)
            wanted |= dict.fromkeys(range(first, last + 1))
        if len(wanted) > MOST_FRAMES:
            break
    places = sorted(list(wanted)[:MOST_FRAMES])
    times = np.array(places, np.float64) / PER_SECOND
    known = {round(float(t) * PER_SECOND, 6): i for i, t in enumerate(video.timestamps)}
    held = [known.get(float(place)) for place in places]
    fresh = [time for time, there in zip(times.tolist(), held, strict=True) if there is None]
    new = iter(_frames(look(fresh)) if fresh else ())
    known_frames = _frames(video)
    frames = [known_frames[i] if i is not None else next(new) for i in held]
    vectors = torch.stack([vector.float() for vector, _ in frames]) if frames else video.vectors[:0].float()
    return Dense(times, vectors, np.array([blank for _, blank in frames], bool), duration)


def _frames(video: VideoFeatures) -> list[tuple[Tensor, bool]]:
    """The vectors of each frame, and whether it is blank."""
    blank = blank_of(video)
    return list(zip(video.vectors, [False] * len(video) if blank is None else blank.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Block:
    """The closer look around one stretch: similarities across, and within either video."""

    query: Floats
    target: Floats
    blank: tuple[Flags, Flags]
    across: NDArray[np.float32]
    own: NDArray[np.float32]
    other: NDArray[np.float32]

    @classmethod
    def around(cls, pair: Pair, segment: Segment, query: Dense, target: Dense) -> Block:
        """Of the frames that were looked at around a stretch."""
        rows = query.within(segment.query[0] - WINDOW, segment.query[1] + WINDOW)
        columns = target.within(segment.target[0] - WINDOW, segment.target[1] + WINDOW)
        a, b = query.vectors[rows], target.vectors[columns]
        across, own, other = (
            pair.scorer.frames(x, [y]).float().cpu().numpy()
            if len(x) and len(y)
            else np.empty((0, 0), np.float32)
            for x, y in ((a, b), (a, a), (b, b))
        )
        blank = query.blank[rows], target.blank[columns]
        return cls(query.times[rows], target.times[columns], blank, across, own, other)

    @property
    def unbroken(self) -> bool:
        """Whether no time between was left out."""
        return all(np.diff(times).max(initial=0.0) <= 1.5 / PER_SECOND for times in (self.query, self.target))


def _pieces(pair: Pair, one: Judged, query: Dense, target: Dense) -> list[Judged]:
    """A stretch as the closer look shows it: one piece, or several where it jumps."""
    block = Block.around(pair, one.segment, query, target)
    if min(block.across.shape) < 2:
        return [one]
    seen, relief = _seen(block)
    durations = query.duration, target.duration
    lines = _lines(block, relief, one.segment) or [Line.of(one.segment)]
    return [
        piece
        for line in lines
        if (piece := _set(pair, one, block, fitted(seen, line), seen, durations)) is not None
    ]


def _lines(block: Block, relief: Relief, segment: Segment) -> list[Line]:
    """Where a stretch that was looked at all over runs: at equal speed with jumps, or at its own without."""
    length = segment.query[1] - segment.query[0]
    if not block.unbroken or length < SHORTEST:
        return []
    way = -1 if segment.reversed else 1
    own = (segment.target[1] - segment.target[0]) / length
    speeds = {1.0, min(SPEEDS, key=lambda speed: abs(np.log(speed / max(own, 1e-3))))}
    runs = relief.runs(sorted(speeds, key=lambda speed: speed != 1.0), (way,), PRICE)
    lines = []
    for run in runs:
        (top, left), (bottom, right) = run.cells[0], run.cells[-1]
        step = way * abs(run.speed) / PER_SECOND
        line = Line(
            float(block.query[top]),
            float(block.query[bottom]) + 1 / PER_SECOND,
            float(block.target[left]),
            float(block.target[right]) + step,
        )
        if line.end - line.start >= SHORTEST:
            lines.append(line)
    return lines


def _set(
    pair: Pair, one: Judged, block: Block, rough: Line, seen: Seen, durations: tuple[float, float]
) -> Judged | None:
    """A piece with its ends and its evidence; None where all that it matches is blank."""
    line = rough.between(*ends(seen, rough, *durations))
    if 2 * (line.end - line.start) < rough.end - rough.start:
        line = rough.between(*within(rough, *durations))
    line = _as_far_as_alike(block, line, one.segment, durations)
    # What moves is looked at over all that was taken for the stretch: where only those ends were kept that happen to
    # agree, any two stretches would.
    low, high = min(line.start, rough.start), max(line.end, rough.end)
    inside = np.flatnonzero((block.query >= low - 1e-6) & (block.query < high - 1e-6))
    there = rough.at(block.query[inside])
    partner = np.abs(block.target[None, :] - there[:, None]).argmin(axis=1)
    close = np.flatnonzero(np.abs(block.target[partner] - there) <= 0.5 / PER_SECOND + 1e-6)
    if len(close) < 2:
        return one
    close = close[~block.blank[0][inside[close]] & ~block.blank[1][partner[close]]]
    if len(close) < 2:
        return None
    chosen = close[evenly(len(close), FRAMES_COMPARED)]
    i, j = inside[chosen], partner[chosen]
    moved = moves(block.across[np.ix_(i, j)], block.own[np.ix_(i, i)], block.other[np.ix_(j, j)], PER_SECOND)
    kept = (block.query[i] >= line.start - 1e-6) & (block.query[i] < line.end - 1e-6)
    score = float(block.across[i, j][kept].mean()) if kept.any() else one.segment.score
    evidence, confidence = pair.worth(one.strength, moved, score)
    first, last = sorted((line.first, line.last))
    spans = (line.start, line.end), (max(0.0, first), min(last, durations[1]))
    (a, b), (c, d) = ((round(float(low), 3), round(float(high), 3)) for low, high in spans)
    refined = Segment((a, b), (c, d), score, confidence, one.segment.reversed)
    return Judged(refined, evidence, one.strength, moved)


def _as_far_as_alike(block: Block, line: Line, segment: Segment, durations: tuple[float, float]) -> Line:
    """A piece that goes on to the ends of its stretch while its frames are as alike as inside.

    Footage that comes to rest has no moment that stands out, so that the piece would end there.
    """
    alike = Seen(block.query, block.target, block.across.astype(np.float64)).along(line)
    frames = block.query
    inside = (frames >= line.start - 1e-6) & (frames < line.end - 1e-6) & np.isfinite(alike)
    if not inside.any():
        return line
    first, last = within(line.between(*segment.query), *durations)
    goes_on = alike >= STILL_ALIKE * float(np.median(alike[inside]))
    start, end = line.start, line.end
    for frame in np.flatnonzero((frames < start) & (frames >= first - 1e-6))[::-1]:
        if not goes_on[frame]:
            break
        start = float(frames[frame])
    for frame in np.flatnonzero((frames >= end - 1e-6) & (frames < last - 1e-6)):
        if not goes_on[frame]:
            break
        end = min(float(frames[frame]) + 1 / PER_SECOND, last)
    return line.between(start, end)


def _once(found: Sequence[Judged]) -> list[Judged]:
    """Pieces of one line put together; of several over the same seconds the surest."""
    kept: list[Judged] = []
    for one in sorted(found, key=lambda one: -one.evidence):
        for place, other in enumerate(kept):
            if together := _joined(other.segment, one.segment):
                kept[place] = replace(other, segment=together)
                break
            if _shadows(other, one):
                break
        else:
            kept.append(one)
    return kept


def _joined(a: Segment, b: Segment) -> Segment | None:
    """Two segments as one, if one line runs through both and they meet."""
    if a.reversed != b.reversed or max(a.query[0], b.query[0]) > min(a.query[1], b.query[1]) + MEET:
        return None
    lines = Line.of(a), Line.of(b)
    corners = np.array([min(a.query[0], b.query[0]), max(a.query[1], b.query[1])])
    if np.abs(lines[0].at(corners) - lines[1].at(corners)).max() > MEET:
        return None
    start, end = (float(time) for time in corners)
    low, high = min(a.target[0], b.target[0]), max(a.target[1], b.target[1])
    return replace(a, query=(start, end), target=(low, high))


def _shadows(surer: Judged, one: Judged) -> bool:
    """Whether half of a segment or more lies within a surer one in both videos, or in one and is less alike there."""
    spans = ((surer.segment.query, one.segment.query), (surer.segment.target, one.segment.target))
    inside = [2 * (min(x[1], y[1]) - max(x[0], y[0])) >= y[1] - y[0] for x, y in spans]
    if all(inside) or not any(inside):
        return all(inside)
    if one.segment.score >= AS_ALIKE * surer.segment.score:
        return False
    lengths = [segment.query[1] - segment.query[0] for segment in (one.segment, surer.segment)]
    share = WHOLE_AGREED if lengths[0] >= AS_LONG * lengths[1] else AS_AGREED
    return one.moves.agreement < share * surer.moves.agreement


def _straightened(pair: Pair, found: Sequence[Judged], query: Dense, target: Dense) -> list[Judged]:
    """Neighbours put together where one line of another speed is worth as much as both: one speed, not a jump."""
    kept: list[Judged] = []
    for one in sorted(found, key=lambda one: one.segment.query):
        together = _straight(pair, kept[-1], one, query, target) if kept else None
        if together is None:
            kept.append(one)
        else:
            kept[-1] = together
    return kept


def _straight(pair: Pair, a: Judged, b: Judged, query: Dense, target: Dense) -> Judged | None:
    one, other = a.segment, b.segment
    if one.reversed != other.reversed or other.query[0] - one.query[1] > WINDOW:
        return None
    order = (other, one) if one.reversed else (one, other)
    if order[0].target[0] > order[1].target[0] or order[1].target[0] - order[0].target[1] > WINDOW:
        return None
    whole = replace(
        one, query=(one.query[0], other.query[1]), target=(order[0].target[0], order[1].target[1])
    )
    block = Block.around(pair, whole, query, target)
    if not block.unbroken:
        return None
    seen, _ = _seen(block)
    rough = fitted(seen, Line.of(whole))
    apart = np.fmax(*(_along(seen, Line.of(segment)) for segment in (one, other)))
    if np.nansum(_along(seen, rough)) < AS_STRAIGHT * np.nansum(apart):
        return None
    surer = max(a, b, key=lambda judged: judged.evidence)
    return _set(pair, replace(surer, segment=whole), block, rough, seen, (query.duration, target.duration))


def _along(seen: Seen, line: Line) -> Floats:
    """Worth of each frame of the query on a line; NaN for those that it does not reach."""
    inside = (seen.query >= line.start - 1e-6) & (seen.query < line.end - 1e-6)
    return np.where(inside, seen.along(line), np.nan)


def _seen(block: Block) -> tuple[Seen, Relief]:
    """Worth of the cells of a block."""
    rows, columns = block.blank
    shown = block.across[~rows][:, ~columns]
    middle = _middle(shown if shown.size else block.across)
    relief = Relief.of(block.across, middle, changes(block.own), changes(block.other))
    relief.worth[rows] = np.minimum(relief.worth[rows], 0.0)
    relief.worth[:, columns] = np.minimum(relief.worth[:, columns], 0.0)
    relief.worth[np.ix_(rows, columns)] = BOTH_BLANK
    return Seen(block.query, block.target, relief.worth.astype(np.float64)), relief


def _middle(across: NDArray[np.float32]) -> float:
    """Halfway between what is most and what is least alike among the frames looked at."""
    low, high = np.quantile(across, [0.05, 0.98])
    return float(low + high) / 2 if high - low > LEAST_DROP else float(low) - LEAST_DROP
