"""Shared stretches as an edit decision list, CMX 3600: the query's timeline, cut together from the targets.

An event is two lines of times: where it is in the target (source), where in the query (record), in hours, minutes,
seconds and frames of the query's frame rate. ``M2`` says how fast the source runs where the two are not equally long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from visil.errors import printable
from visil.report.relations import Relation


def edl(relations: Sequence[Relation]) -> Iterator[str]:
    """Lines of the list; ``relations`` are those of one query, events in its order."""
    query = relations[0].query_media
    rate = query.rate
    yield f"TITLE: {printable(query.name)}"
    yield "FCM: NON-DROP FRAME"
    events = sorted(
        ((segment, relation) for relation in relations for segment in relation.shared),
        key=lambda event: (event[0].query, event[1].target),
    )
    for number, (segment, relation) in enumerate(events, 1):
        times = (*segment.target, *segment.query)
        yield ""
        yield f"{number:03}  AX       V     C        {' '.join(timecode(time, rate) for time in times)}"
        played, lasts = (end - start for start, end in (segment.target, segment.query))
        if abs(played - lasts) * rate >= 1 and lasts > 0:
            speed = rate * played / lasts
            yield f"M2   AX       {speed:05.1f}                {timecode(segment.target[0], rate)}"
        yield f"* FROM CLIP NAME: {printable(relation.target_media.name)}"
        yield f"* SOURCE FILE: {printable(relation.target)}"
        yield f"* {relation.verdict.upper()} CONFIDENCE {relation.confidence:.3f} SCORE {segment.score:.3f}"


def timecode(seconds: float, rate: float) -> str:
    """Hours, minutes, seconds and frames; no number is dropped, so at 29.97 they run slower than a clock."""
    whole = round(rate)
    count, frames = divmod(round(seconds * rate), whole)
    return f"{count // 3600:02}:{count // 60 % 60:02}:{count % 60:02}:{frames:02}"
