"""Which videos of a collection are worth comparing with each other, and what comparing them says.

Each video votes for others, as a query does in a search; a pair is compared once, the earlier of the two as the query.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visil.collection.candidates import Probes
    from visil.collection.catalogue import Video
    from visil.collection.index import Index
    from visil.collection.parts import Parts
    from visil.collection.search import Hit
    from visil.collection.spread import Spread
    from visil.compare.pair_reading import Common
    from visil.model.features import VideoFeatures

CANDIDATES = 40
"""Videos that each video is compared with exactly, at the most."""

TOGETHER = 16
"""Videos that vote together, at the least."""


@dataclass(frozen=True)
class Compared:
    """A video, and others that it is to be compared with."""

    place: int
    """Of its part."""
    id: str
    others: list[int]
    """Their numbers in the collection."""


class Listed:
    """All videos of a collection, counted from 1 in the order in which they came.

    Which of a pair is the query, and the order of groups, hang on that order, whichever parts the videos are in.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.videos = dict(enumerate(parts.catalogue.videos(), 1))
        self.counts = {video.number: i for i, video in self.videos.items()}
        self.places_of_ids = {video.id: i for i, video in self.videos.items()}

    def place(self, i: int) -> int:
        """Of the part that has a video."""
        return next(iter(self.parts.by_place([self.videos[i].number])))

    def batches(self, chosen: Iterable[int], together: int) -> list[tuple[int, list[int]]]:
        """Videos of one part at a time, a few together, with the part's place."""
        places: dict[int, list[int]] = defaultdict(list)
        for i in chosen:
            places[self.place(i)].append(i)
        return [
            (place, some[start : start + together])
            for place, some in places.items()
            for start in range(0, len(some), together)
        ]


def worth_comparing(spread: Spread, listed: Listed, new_against_references: bool) -> dict[int, set[int]]:
    """For each video, the later ones that it voted for or that voted for it."""
    videos = listed.videos
    asking = [i for i, video in videos.items() if not (new_against_references and video.reference)]
    batches = listed.batches(asking, max(TOGETHER, 4 * spread.together))
    worth: dict[int, set[int]] = {}
    items = ((place, [videos[i].id for i in some]) for place, some in batches)
    here = (voted(spread.index, item) for item in items)  # a GPU's work
    answers = here if spread.screens else spread.map(voted, items, len(batches))
    for (_, some), votes in zip(batches, answers, strict=True):
        for i, chosen in zip(some, votes, strict=True):
            for number in chosen:
                other = listed.counts.get(number)
                if other is None or other == i or (new_against_references and not videos[other].reference):
                    continue
                worth.setdefault(min(i, other), set()).add(max(i, other))
    return worth


def voted(index: Index, asked: tuple[int, list[str]]) -> list[list[int]]:
    """The numbers of the videos that each of some videos of one part votes for; of one that cannot be read, none."""
    place, ids = asked
    probes: list[Probes | None] = index.parts.connection.call(place, "probes", ids)
    readable = [one for one in probes if one is not None]
    votes = iter(index.parts.vote(readable, CANDIDATES + 1))
    return [[] if one is None else [vote.number for vote in next(votes)] for one in probes]


def compared(
    spread: Spread, listed: Listed, worth: dict[int, set[int]], decided: Collection[tuple[str, str]]
) -> Iterator[tuple[int, list[Hit]]]:
    """Each video worth comparing with others, by its count, and its hits; less pairs that are decided."""
    videos = listed.videos
    asked: dict[int, Compared] = {}
    for a in videos:
        others = [b for b in sorted(worth.get(a, ())) if key_of(videos[a], videos[b]) not in decided]
        if others:
            numbers = [videos[b].number for b in others]
            asked[a] = Compared(listed.place(a), videos[a].id, numbers)
    every = list(asked.values())
    answers = _screened(spread, every) if spread.screens else spread.map(comparison, every, len(every))
    yield from zip(asked, answers, strict=True)


def _screened(spread: Spread, asked: Sequence[Compared]) -> Iterator[list[Hit]]:
    """The hits of each video: a GPU finds who may share footage, some videos at a time, and workers read where."""
    found: deque[tuple[list[Hit], bool]] = deque()

    def left() -> Iterator[Compared]:
        for start in range(0, len(asked), spread.together):
            some = asked[start : start + spread.together]
            for one, (hits, others) in zip(some, screened(spread.index, some, spread.leave), strict=True):
                found.append((hits, bool(others)))
                if others:
                    yield replace(one, others=others)

    for hits in spread.map(comparison, left(), len(asked)):
        while not found[0][1]:
            yield found.popleft()[0]
        yield found.popleft()[0] + hits
    while found:
        yield found.popleft()[0]


def screened(index: Index, asked: Sequence[Compared], leave: int) -> list[tuple[list[Hit], list[int]]]:
    """The hits of each of some videos that are found at once, and the numbers of others that are to be read yet."""
    parts = index.parts
    questions: dict[int, list[tuple[int, tuple[VideoFeatures, Common | None, list[int]]]]] = defaultdict(list)
    for i, one in enumerate(asked):
        query: VideoFeatures | None = parts.connection.call(one.place, "features", one.id)
        if query is not None:
            common = index.common_here().beyond_typical(query)
            for place, some in parts.by_place(one.others).items():
                questions[place].append((i, (query, common, some)))
    found: list[tuple[list[Hit], list[int]]] = [([], []) for _ in asked]
    calls = {
        place: ([question for _, question in some], None, True, leave) for place, some in questions.items()
    }
    for place, answers in parts.connection.some("compare_each", calls).items():
        for (i, _), (hits, left) in zip(questions[place], answers, strict=True):
            found[i][0].extend(hits)
            found[i][1].extend(parts.number(place, number) for number in left)
    return found


def comparison(index: Index, asked: Compared) -> list[Hit]:
    """The hits of a video among others of the collection; none where it cannot be read."""
    parts = index.parts
    query: VideoFeatures | None = parts.connection.call(asked.place, "features", asked.id)
    if query is None:
        return []
    common = index.common_here().beyond_typical(query)
    chosen = parts.by_place(asked.others)
    answers = parts.connection.some(
        "compare", {place: (query, common, some) for place, some in chosen.items()}
    )
    return [hit for hits in answers.values() for hit in hits]


def key_of(a: Video, b: Video) -> tuple[str, str]:
    """How verdicts name a pair."""
    return (a.id, b.id) if a.id < b.id else (b.id, a.id)
