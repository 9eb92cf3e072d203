"""Shared stretches as timelines of OpenTimelineIO: the query on one track, each target on tracks of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from visil.errors import printable
from visil.matching.localize import Segment
from visil.report.relations import Media, Relation, by_query


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
    """Rows of stretches, none of which overlap in the query: what a track can hold."""
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
