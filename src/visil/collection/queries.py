"""One query to a collection: its features, the videos that it is compared with, and the hits."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visil.collection.candidates import PROBES, Probes
from visil.collection.first_look import check_first_look
from visil.collection.identity import content_id, stamp_of
from visil.collection.parts import FRESH_S
from visil.collection.search import Hits, best_of, identical, shown_anew
from visil.errors import UsageError, VideoError, VisilError

if TYPE_CHECKING:
    from visil.collection.catalogue import Video
    from visil.collection.index import Index
    from visil.collection.parts import AnyCatalogue, Parts
    from visil.collection.search import Hit
    from visil.collection.spread import Spread
    from visil.compare.pair_reading import Common
    from visil.model.features import VideoFeatures
    from visil.video.thumbnails import SamplesAt

CANDIDATES = 100
"""Videos that a search compares exactly, at the least."""


def search(
    index: Index,
    query: str | os.PathLike[str] | VideoFeatures,
    k: int,
    *,
    exhaustive: bool,
    first_look: int | None,
    min_confidence: float,
    verdicts: Collection[str] | None,
    among: Collection[str] | None,
    refine: bool,
) -> Hits:
    """See :meth:`visil.Index.search`."""
    check_options(k, exhaustive, first_look, min_confidence, among)
    parts = index.parts
    parts.follow(FRESH_S)
    question = Question.of(index, query)
    wanted = to_choose_from(k, verdicts)
    found = _compared(parts, question, wanted, exhaustive=exhaustive, first_look=first_look, among=among)
    if among is not None and question.own is not None and question.own.id not in among:
        question = replace(question, own=None)
    return _told(parts, question, found, k, wanted, min_confidence, verdicts, refine)


def search_together(
    index: Index,
    queries: Sequence[str | os.PathLike[str] | VideoFeatures],
    k: int,
    *,
    min_confidence: float = 0.0,
    verdicts: Collection[str] | None = None,
    refine: bool = False,
    spread: Spread | None = None,
) -> list[Hits | VisilError]:
    """:func:`search` for several queries: their candidates are voted for, and compared, all at once.

    ``spread``: workers read where pairs that may share footage do so.
    """
    check_options(k, False, None, min_confidence, None)
    parts = index.parts
    parts.follow(FRESH_S)
    asked: list[Question | VisilError] = []
    for query in queries:
        try:
            asked.append(Question.of(index, query))
        except VisilError as error:
            asked.append(error)
    sound = [one for one in asked if isinstance(one, Question)]
    wanted = to_choose_from(k, verdicts)
    probes = Probes.of_each([one.features for one in sound], [PROBES] * len(sound))
    votes = parts.vote(probes, max(CANDIDATES, 4 * k))
    calls: dict[int, list[tuple[int, Compare]]] = defaultdict(list)
    for i, (one, chosen) in enumerate(zip(sound, votes, strict=True)):
        for place, some in parts.by_place(vote.number for vote in chosen).items():
            calls[place].append((i, (one.features, one.common, some)))
    found: list[dict[str, Hit]] = [{} for _ in sound]
    leave = 0 if spread is None else spread.leave
    arguments = {
        place: ([question for _, question in some], wanted, False, leave) for place, some in calls.items()
    }
    unread: list[tuple[int, ToRead]] = []
    for place, answers in parts.connection.some("compare_each", arguments).items():
        for (i, (features, common, _)), (hits, left) in zip(calls[place], answers, strict=True):
            found[i] |= {hit.id: hit for hit in hits}
            if left:
                here = replace(features, vectors=features.vectors.cpu())
                unread.append((i, (place, here, common, left, wanted)))
    if spread is not None:
        questions = [question for _, question in unread]
        for (i, _), hits in zip(unread, spread.map(read_there, questions, len(questions)), strict=True):
            found[i] |= {hit.id: hit for hit in hits}
    told = iter(
        [
            _told(parts, one, hits, k, wanted, min_confidence, verdicts, refine)
            for one, hits in zip(sound, found, strict=True)
        ]
    )
    return [next(told) if isinstance(one, Question) else one for one in asked]


def read_there(index: Index, asked: ToRead) -> list[Hit]:
    """The hits of a query among some videos of one part."""
    place, *rest = asked
    hits: list[Hit] = index.parts.connection.call(place, "compare", *rest)
    return hits


def answered(
    index: Index, asked: tuple[Sequence[Any], int, dict[str, Any]], spread: Spread | None = None
) -> list[Hits | VisilError]:
    """For each of some queries the answer of :meth:`visil.Index.search`, or the fault of the query."""
    queries, k, options = asked
    others = {name: options[name] for name in options.keys() - {"exhaustive", "first_look", "among"}}
    by_votes = not options.get("exhaustive") and options.get("first_look") is options.get("among") is None
    if len(queries) > 1 and by_votes:
        with suppress(VisilError):  # each names its own fault
            return search_together(index, queries, k, **others, spread=spread)
    return [_answer(index, query, k, options) for query in queries]


def _answer(index: Index, query: Any, k: int, options: dict[str, Any]) -> Hits | VisilError:
    try:
        return index.search(query, k, **options)
    except VisilError as error:
        return error


def check_options(
    k: int, exhaustive: bool, first_look: int | None, min_confidence: float, among: Collection[str] | None
) -> None:
    """Refuse what nothing can be looked for with."""
    if k < 1:
        raise UsageError(f"k must be at least 1, not {k}")
    if among is not None and (exhaustive or first_look is not None):
        raise UsageError("videos to look among are compared without a first look, and are few or likely ones")
    check_confidence(min_confidence)
    check_first_look(first_look)


def check_confidence(least: float) -> None:
    """Refuse a number that is no probability."""
    if not 0 <= least <= 1:
        raise UsageError(f"min_confidence must be from 0 to 1, not {least}")


# ---------------------------------------------------------------------- the query


Compare = tuple["VideoFeatures", "Common | None", list[int]]
"""A query, how common its frames are, and the numbers of videos that it is compared with."""


ToRead = tuple[int, "VideoFeatures", "Common | None", list[int], int]
"""The place of a part, a query, how common its frames are, numbers there, and how many hits are wanted."""


@dataclass(frozen=True, eq=False)
class Question:
    """A query as it is compared."""

    own: Video | None
    """The video of the collection that it is, if it is one."""
    features: VideoFeatures
    common: Common | None

    @classmethod
    def of(cls, index: Index, query: str | os.PathLike[str] | VideoFeatures) -> Question:
        """A file, an id or features as a query."""
        own = held(index.parts.catalogue, query)
        features = features_of(index.parts, query, own)
        return cls(own, features, index.common_here().beyond_typical(features))


def held(catalogue: AnyCatalogue, query: str | os.PathLike[str] | VideoFeatures) -> Video | None:
    """The video of a collection that a query is: by id, or by the bytes of its file, whatever that is called."""
    from visil.model.features import VideoFeatures

    path = query.path if isinstance(query, VideoFeatures) else os.fspath(query)
    if path is None or not os.path.exists(path):
        return None if path is None or isinstance(query, VideoFeatures) else catalogue.video(path)
    whole = Path(os.path.abspath(path))
    known = catalogue.file(os.fspath(whole))
    try:
        unchanged = known is not None and known[1] == stamp_of(whole)
        return catalogue.video(known[0] if known is not None and unchanged else content_id(whole))
    except VideoError:
        return None  # whoever reads it says it better


def features_of(
    parts: Parts, query: str | os.PathLike[str] | VideoFeatures, known: Video | None
) -> VideoFeatures:
    """Features of a query that is ``known`` in the collection, or not; those it has are not made again."""
    from visil.model.features import VideoFeatures

    if isinstance(query, VideoFeatures):
        return query
    name = os.fspath(query)
    if known is not None and not os.path.exists(name):
        return parts.store.read(known.id, path=known.path)
    features = None if known is None else parts.store.try_read(known)
    return parts.model.embed(query) if features is None else replace(features, path=name)


# ---------------------------------------------------------------------- whom it is compared with


def _compared(
    parts: Parts,
    question: Question,
    k: int,
    *,
    exhaustive: bool,
    first_look: int | None,
    among: Collection[str] | None,
) -> dict[str, Hit]:
    """The best ``k`` or more of those that are compared at all, by id."""
    features, common = question.features, question.common
    count = parts.catalogue.count()[0]
    if (exhaustive and first_look is None) or (first_look is not None and first_look >= count):
        # While shards are rebalanced, a video may be in two of them: that is one hit.
        return {hit.id: hit for hits in parts.connection.each("best", features, common, k) for hit in hits}
    if first_look is not None:
        numbers = _most_alike(parts, features, common, first_look)
    else:
        numbers = _likely(parts, features, max(CANDIDATES, 4 * k), among)
    return _compared_with(parts, features, common, numbers, k)


def _compared_with(
    parts: Parts, features: VideoFeatures, common: Common | None, numbers: Collection[int], k: int
) -> dict[str, Hit]:
    """Of the videos with these numbers, each part's best ``k``."""
    asked = {place: (features, common, some, k) for place, some in parts.by_place(numbers).items()}
    return {hit.id: hit for hits in parts.connection.some("compare", asked).values() for hit in hits}


def _most_alike(parts: Parts, features: VideoFeatures, common: Common | None, count: int) -> list[int]:
    """Numbers of the videos that a first look at all of them finds most alike."""
    looks = parts.connection.each("first_look", features, common, count)
    best = sorted(
        (score, video, parts.number(place, number))
        for place, some in enumerate(looks)
        for score, video, number in some
    )
    return [number for *_, number in best[:count]]


def _likely(parts: Parts, features: VideoFeatures, count: int, among: Collection[str] | None) -> list[int]:
    """Numbers of the videos, ``among`` some or all, whose frames are nearest to the query's."""
    if among is None:
        (votes,) = parts.vote([Probes.of(features)], count)
        return [vote.number for vote in votes]
    known = [video.number for name in set(among) if (video := parts.catalogue.video(name)) is not None]
    if len(known) <= count:
        return known
    allowed = set(known)
    (votes,) = parts.vote([Probes.of(features)], parts.catalogue.count()[0])
    return [vote.number for vote in votes if vote.number in allowed][:count]


# ---------------------------------------------------------------------- the answer


def _told(
    parts: Parts,
    question: Question,
    found: dict[str, Hit],
    k: int,
    wanted: int,
    min_confidence: float,
    verdicts: Collection[str] | None,
    refine: bool,
) -> Hits:
    """The best ``k`` hits, as they are told; a video with the query's bytes is a copy."""
    from visil.compare.judge import too_little

    own, features = question.own, question.features
    if own is not None:
        if own.id not in found:
            found |= _compared_with(parts, features, question.common, [own.number], wanted)
        if own.id in found:
            found[own.id] = identical(found[own.id], own)
    nearest = [_where_it_is(parts.catalogue, hit) for hit in best_of(found.values(), wanted)]
    if refine:
        nearest = closely(parts, features, nearest)
    return Hits(chosen(nearest, k, min_confidence, verdicts), too_little(query=features))


def to_choose_from(k: int, verdicts: Collection[str] | None) -> int:
    """How many hits are told apart where ``k`` with some verdicts are wanted."""
    return k if verdicts is None else max(k, CANDIDATES)


def chosen(hits: Sequence[Hit], k: int, min_confidence: float, verdicts: Collection[str] | None) -> list[Hit]:
    """The best of some hits that are sure enough, and have one of the verdicts."""
    sure = [hit for hit in hits if hit.confidence >= min_confidence]
    return sure if verdicts is None else [hit for hit in sure if hit.verdict in verdicts][:k]


def _where_it_is(catalogue: AnyCatalogue, hit: Hit) -> Hit:
    """A hit with a file that is there; marked as missing where there is none."""
    if os.path.exists(hit.path):
        return hit
    path = next(filter(os.path.exists, catalogue.paths(hit.id)), None)
    return replace(hit, missing=True) if path is None else replace(hit, path=path)


def file_of(catalogue: AnyCatalogue, video: str) -> str | None:
    """A file that holds a video now; None where there is none."""
    for path in filter(os.path.exists, catalogue.paths(video)):
        now = held(catalogue, path)
        if now is not None and now.id == video:
            return path
    return None


def closely(
    parts: Parts, query: VideoFeatures, hits: Iterable[Hit], decode: SamplesAt | None = None
) -> list[Hit]:
    """Hits as more frames a second show them, best first; ``decode`` reads those from files."""
    found = [_closely(parts, query, hit, decode) for hit in hits]
    return best_of(found, len(found))


def _closely(parts: Parts, query: VideoFeatures, hit: Hit, decode: SamplesAt | None) -> Hit:
    """A hit as more frames a second show it; as it was where it is not likely to share anything or cannot be read."""
    calibration = parts.model.config.calibration
    likely = hit.shares if calibration is None else hit.shares or hit.evidence >= calibration.enough
    if hit.missing or not likely or hit.note:
        return hit
    try:
        path = file_of(parts.catalogue, hit.id)
        if path is None:
            return hit
        found = parts.store.read(hit.id, path=path)
        target = shown_anew(parts.model, found, hit.segments, decode)
        match = parts.model.compare(query, target, refine=decode or True)
    except VisilError:
        return hit
    return replace(
        hit,
        confidence=match.confidence,
        verdict=match.verdict,
        segments=list(match.segments),
        evidence=match.evidence,
    )
