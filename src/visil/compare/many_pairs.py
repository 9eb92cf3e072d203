"""Many queries, each with targets of its own: scores of all pairs first, and a reading of those that may share footage.

A model with a reader sees the same moment only where two frames are more alike than strangers' are
(:func:`visil.model.reader.promising`), which few pairs of a collection's candidates reach. For the others all is said
once their score is known: the same as :func:`visil.compare.matches.compare_many` says, without its work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from functools import partial

import numpy as np
from numpy.typing import NDArray

from visil.compare.judge import Pair, answer
from visil.compare.matches import NOTHING_SHOWN, Asked, check, compare_many, measured_together
from visil.kernels import Scorer
from visil.kernels.packing import runs
from visil.matching.match import Match
from visil.model.features import VideoFeatures, shown_vectors
from visil.model.network import Network
from visil.model.reader import least_promising

READ_CELLS = 1 << 20
"""Frame pairs that are read together."""


class Unread(Enum):
    """In place of a match."""

    nothing = "cannot share anything"
    left = "is left to others to read"


def can_screen(model: Network) -> bool:
    """Whether a pair's score tells that it cannot share anything."""
    return model.reader is not None and model.background is not None


def compare_each(
    model: Network, scorer: Scorer, asked: Sequence[Asked], *, sharing: bool = False, leave: int = 0
) -> list[list[Match | Unread]]:
    """The matches of each query with each of its targets.

    ``sharing``: none of those that cannot share anything. ``leave``: pairs that may, and have so many frame pairs at
    the most, are left to others.
    """
    if model.reader is None or model.background is None:
        return [list(compare_many(model, scorer, *one)) for one in asked]
    for query, targets, _ in asked:
        check(model, [query, *targets], "video", numbers=False)
    found: list[list[Match | Unread]] = [[Unread.nothing] * len(targets) for _, targets, _ in asked]
    scores, peaks = _by_query(scorer, asked)
    least = least_promising(model.background)
    worth: list[tuple[int, list[int]]] = []
    for i, ((query, targets, _), own) in enumerate(zip(asked, scores, strict=True)):
        far = peaks[i] < least
        read: list[int] = []
        for j in np.flatnonzero(~far).tolist():
            if len(query) * len(targets[j]) <= leave:
                found[i][j] = Unread.left
            else:
                read.append(j)
        worth += [(i, read)] if read else []
        if not sharing:
            shown = _scores_of_shown(scorer, query, targets, own)
            for j in np.flatnonzero(far).tolist():
                both = partial(scorer.matrices, query.vectors, targets[j].vectors)
                pair = Pair(model.config, scorer, query, targets[j], float(own[j]), float(shown[j]), both)
                found[i][j] = answer(pair, [])
    places = [(i, j) for i, chosen in worth for j in chosen]
    chosen = [(asked[i][0], [asked[i][1][j] for j in some], None) for i, some in worth]
    for (i, j), match in zip(places, _read(model, scorer, chosen), strict=True):
        found[i][j] = match
    return found


def _read(model: Network, scorer: Scorer, asked: Sequence[Asked]) -> Iterator[Match]:
    """The matches of pairs that are read, as many of them together as memory allows."""
    for run in runs(asked, _cells, READ_CELLS):
        if _cells(run[0]) > READ_CELLS:  # alone
            yield from compare_many(model, scorer, *run[0])
        else:
            yield from (answer(*one) for one in measured_together(model, scorer, run))


def _cells(asked: Asked) -> int:
    return len(asked[0]) * sum(map(len, asked[1]))


Numbers = NDArray[np.float64]


def _by_query(scorer: Scorer, asked: Sequence[Asked]) -> tuple[list[Numbers], list[Numbers]]:
    """Scores and largest similarities of each query's targets; of pairs too long for that, none are known."""
    short = [
        [len(query) * len(target) <= scorer.wide_cells for target in targets] for query, targets, _ in asked
    ]
    taken = [
        [target.vectors for target, fits in zip(targets, own, strict=True) if fits]
        for (_, targets, _), own in zip(asked, short, strict=True)
    ]
    every = scorer.first_pass([query.vectors for query, _, _ in asked], taken)
    ends = np.cumsum([len(some) for some in taken])[:-1]
    both: tuple[list[Numbers], list[Numbers]] = ([], [])
    for known, flat in zip(both, every, strict=True):
        for own, part in zip(short, np.split(flat, ends), strict=True):
            known.append(np.full(len(own), np.nan))
            known[-1][own] = part
    return both


def _scores_of_shown(
    scorer: Scorer, query: VideoFeatures, targets: Sequence[VideoFeatures], scores: Numbers
) -> Numbers:
    """Scores without blank frames, which any two videos have in common."""
    own, others = shown_vectors(query), [shown_vectors(target) for target in targets]
    blank = [len(own) < len(query) or len(one) < len(t) for one, t in zip(others, targets, strict=True)]
    if not any(blank):
        return scores
    left = [i for i, some in enumerate(blank) if some and len(own) and len(others[i])]
    found = np.where(blank, NOTHING_SHOWN, scores)
    found[left] = scorer.first_pass([own], [[others[i] for i in left]])[0]
    return found
