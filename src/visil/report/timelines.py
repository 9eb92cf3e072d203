"""Shared stretches as timelines that editors and players open: EDL, SRT, and OpenTimelineIO's.

An edit decision list (CMX 3600) has two lines of times an event: where it is in the target (source), where in the query
(record), in hours, minutes, seconds and frames of the query's frame rate; ``M2`` says how fast the source runs where
the two are not equally long. Subtitles (SRT) say, while the query plays, what is seen and where else. An OTIO timeline
has the query on one track, and each target on tracks of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from visil.errors import printable
from visil.matching.localize import Segment
from visil.plots.times import clock
from visil.report.relations import Media, Relation, by_query


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


def timelines(relations: Sequence[Relation]) -> str:
    """The file's text: a timeline, or a collection of them where there are several queries."""
    import opentimelineio as otio

    found = [_timeline(some) for some in by_query(relations).values()]
    whole = found[0] if len(found) == 1 else otio.schema.SerializableCollection("visil", found)
    text: str = otio.adapters.write_to_string(whole, "otio_json")
    return text


def _timeline(relations: Sequence[Relation]) -> Any:
    import opentimelineio as otio

    media = relations[0].query_media
    timeline = otio.schema.Timeline(printable(media.name))
    own = otio.schema.Track("query", kind=otio.schema.TrackKind.Video)
    last = max(segment.query[1] for relation in relations for segment in relation.shared)
    own.append(_clip(media, 0.0, media.duration or last, media.rate))
    timeline.tracks.append(own)
    for relation in relations:
        target = relation.target_media
        for segments in _beside_each_other(relation.shared):
            track = otio.schema.Track(printable(target.name), kind=otio.schema.TrackKind.Video)
            reached = 0.0
            for segment in segments:
                start, end = segment.query
                if start > reached:
                    track.append(otio.schema.Gap(duration=_time(start - reached, media.rate)))
                clip = _clip(target, segment.target[0], end - start, target.rate)
                played = segment.target[1] - segment.target[0]
                if abs(played - (end - start)) * media.rate >= 1:
                    clip.effects.append(otio.schema.LinearTimeWarp(time_scalar=played / (end - start)))
                clip.metadata["visil"] = {
                    "verdict": relation.verdict,
                    "confidence": relation.confidence,
                    "score": relation.score,
                    "segment": segment.to_dict(),
                }
                track.append(clip)
                reached = end
            timeline.tracks.append(track)
    return timeline


def _clip(media: Media, start: float, seconds: float, rate: float) -> Any:
    import opentimelineio as otio

    address = Path(os.path.abspath(media.path)).as_uri()
    length = media.duration
    known = None if length is None else otio.opentime.TimeRange(_time(0.0, rate), _time(length, rate))
    return otio.schema.Clip(
        printable(media.name),
        media_reference=otio.schema.ExternalReference(address, known),
        source_range=otio.opentime.TimeRange(_time(start, rate), _time(seconds, rate)),
    )


def _time(seconds: float, rate: float) -> Any:
    from opentimelineio.opentime import RationalTime

    return RationalTime(round(seconds * rate), rate)


def _beside_each_other(segments: Sequence[Segment]) -> list[list[Segment]]:
    """Rows of stretches, none of which overlap in the query, so that a track can hold them."""
    rows: list[list[Segment]] = []
    for segment in sorted(segments, key=lambda one: one.query):
        if segment.query[1] <= segment.query[0]:
            continue
        free = next((row for row in rows if row[-1].query[1] <= segment.query[0]), None)
        if free is None:
            rows.append([segment])
        else:
            free.append(segment)
    return rows
