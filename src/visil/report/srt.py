"""Shared stretches as subtitles of the query: while it plays, they say what is seen, and where else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from visil.errors import printable
from visil.plots.times import clock
from visil.report.relations import Relation


def srt(relations: Sequence[Relation]) -> Iterator[str]:
    """Lines of the file; ``relations`` are those of one query, cues in its order."""
    cues = sorted(
        ((segment, relation) for relation in relations for segment in relation.shared),
        key=lambda cue: (cue[0].query, cue[1].target),
    )
    for number, (segment, relation) in enumerate(cues, 1):
        yield str(number)
        yield " --> ".join(stamp(time) for time in segment.query)
        start, end = (clock(time, tenths=True) for time in segment.target)
        yield f"{printable(relation.target_media.name)} {start} – {end}"
        yield f"{relation.verdict}, {relation.confidence:.1%}"
        yield ""


def stamp(seconds: float) -> str:
    """A time as SubRip writes it: 00:01:02,500."""
    whole, thousandths = divmod(round(seconds * 1000), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02},{thousandths:03}"
