"""How well a model finds originals: edited copies of held-out videos as queries, their mean average precision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from visil.edits.temporal import FOREIGN, draw
from visil.training.batch_similarity import VideoBatch, compare_all
from visil.training.distributed import Processes
from visil.training.hard_negatives import related_groups
from visil.training.segments import MIN_OVERLAP, SegmentPair, Span
from visil.training.snippets import ForeignClips, Snippet

if TYPE_CHECKING:
    from visil.training.embedding import SnippetEmbedder
    from visil.training.footage import Footage

LONGEST = 256
"""Frames of a held-out video that take part: its first ones."""

SLACK = 1e-6
"""Seconds that rounding may cost."""

TOGETHER = 32
"""Queries, and items of the database, compared at once."""


@dataclass(frozen=True)
class Query:
    """An edited copy, and which items of the database it was made from."""

    snippet: Snippet
    relevant: frozenset[int]


def average_precision(scores: Sequence[float] | Tensor, relevant: Set[int]) -> float:
    """AP of a ranking by score: the mean, over relevant items, of the share of relevant ones down to each.

    With one relevant item it is 1 / rank. Equal scores are ranked as unluckily as they could be.
    """
    values = torch.as_tensor(scores, dtype=torch.float64).tolist()
    ranking = sorted(range(len(values)), key=lambda i: (-values[i], i in relevant))
    found, total = 0, 0.0
    for rank, item in enumerate(ranking, start=1):
        if item in relevant:
            found += 1
            total += found / rank
    return total / max(len(relevant), 1)


def edited_copies(
    footage: Footage,
    window: int,
    seed: int,
    pairs: Iterable[SegmentPair[int]] = (),
    *,
    strung: bool = False,
) -> tuple[list[Query], list[Snippet]]:
    """A query for every video, a stretch of it changed in time and picture; and the database, the videos themselves.

    Relevant are the video itself and those of which annotated ``pairs`` say that they show some of the very stretch
    that the query was made from: five seconds of it, or all that is annotated or shown. ``strung``, for short clips
    that training strings together: every second video is left out of the database and stands around the copies of the
    others instead, ``window`` frames in all. Alone, a short clip is found so surely that no epoch differs.
    """
    pairs = list(pairs)
    groups = related_groups(len(footage), [(pair.query, pair.target) for pair in pairs])
    annotated = _by_video(pairs)
    listed = range(0, len(footage), 2 if strung else 1)
    shown = {int(groups[video]) for video in listed}
    listed_or_related = frozenset(video for video in range(len(footage)) if int(groups[video]) in shown)
    foreign_clips = ForeignClips([min(len(footage.times(video)), LONGEST) for video in range(len(footage))])
    queries, database = [], []
    for video in listed:
        rng = np.random.default_rng([seed, video])
        length = foreign_clips.lengths[video]
        database.append(Snippet(tuple((video, position) for position in range(length)), None))
        size = min(length, window)
        start = int(rng.integers(length - size + 1))
        _, positions = draw(size, rng)
        frames = [(video, start + position) for position in positions if position != FOREIGN][:window]
        stretch = stretch_of(footage, video, [position for _, position in frames])
        same = {video} | {
            pair.target
            for pair in annotated.get(video, ())
            if shares(
                pair, stretch, stretch_of(footage, pair.target, [0, foreign_clips.lengths[pair.target] - 1])
            )
        }
        relevant = frozenset(place for place, item in enumerate(listed) if item in same)
        chosen = int(rng.integers(2**31))
        if strung:
            frames = foreign_clips.around(frames, window, listed_or_related, rng)
        queries.append(Query(Snippet(tuple(frames), chosen), relevant))
    return queries, database


def stretch_of(footage: Footage, video: int, positions: Sequence[int]) -> Span:
    """Seconds from the first to the end of the last of some frames."""
    times = footage.times(video).tolist()
    step = times[1] - times[0] if len(times) > 1 else 1.0
    return times[min(positions)], times[max(positions)] + step


def shares(pair: SegmentPair[int], query: Span, target: Span) -> bool:
    """Whether stretches of a pair's two videos show enough of their annotated common footage."""
    (start, end), (begin, finish) = pair.query_span, pair.target_span
    rate = (finish - begin) / (end - start)
    first, last = max(start, query[0]), min(end, query[1])
    inside = (max(target[0], begin + (first - start) * rate), min(target[1], begin + (last - start) * rate))
    shared = min(last - first, inside[1] - inside[0])
    return shared >= min(MIN_OVERLAP, pair.overlap, query[1] - query[0]) - SLACK


def _by_video(pairs: Iterable[SegmentPair[int]]) -> dict[int, list[SegmentPair[int]]]:
    """The pairs that each video is in, turned round so that it is the query."""
    found: dict[int, list[SegmentPair[int]]] = {}
    for pair in pairs:
        found.setdefault(pair.query, []).append(pair)
        turned = SegmentPair(pair.target, pair.target_span, pair.query, pair.query_span)
        found.setdefault(pair.target, []).append(turned)
    return found


class Validation:
    """Queries and a database whose frozen vectors are computed once, and kept in main memory in half precision."""

    def __init__(
        self, embedder: SnippetEmbedder, queries: Sequence[Query], database: Sequence[Snippet]
    ) -> None:
        self.embedder = embedder
        self.queries = list(queries)
        self.database = list(database)
        self._frozen: dict[Snippet, Tensor] = {}

    @torch.no_grad()
    def mean_average_precision(self, processes: Processes | None = None) -> float:
        """mAP of the model as it is now; every process takes its share of the queries."""
        processes = processes or Processes()
        mine = processes.mine(self.queries)
        # A backbone that learns is run once for each; else they come from main memory, some at a time.
        fresh = {q.snippet: self._vectors(q.snippet) for q in mine} if self.embedder.backbone_learns else {}
        columns = []
        for start in range(0, len(self.database), TOGETHER):
            targets = VideoBatch.of([self._vectors(s) for s in self.database[start : start + TOGETHER]])
            rows = []
            for some in _parts(mine, TOGETHER):
                asked = [fresh[q.snippet] if fresh else self._vectors(q.snippet) for q in some]
                compared = compare_all(self.embedder.model, VideoBatch.of(asked), targets)
                rows.append(compared.similarity.cpu())
            columns.append(torch.cat(rows) if rows else torch.empty(0, len(targets)))
        scores = torch.cat(columns, dim=1)
        found = [average_precision(row, q.relevant) for row, q in zip(scores, mine, strict=True)]
        total, count = processes.summed([sum(found), len(found)])
        return total / max(count, 1)

    def _vectors(self, snippet: Snippet) -> Tensor:
        embedder = self.embedder
        if embedder.backbone_learns:
            return embedder([snippet], [embedder.pictures(snippet)])[0]
        if snippet not in self._frozen:
            (vectors,) = embedder.frozen([snippet], [embedder.pictures(snippet)])
            self._frozen[snippet] = vectors.half().cpu()
        return embedder.learned(self._frozen[snippet].to(embedder.model.device).float())


def _parts(items: list[Query], size: int) -> Iterator[list[Query]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
