"""How two files relate, as one HTML file to look at: matrix, the same moments of both, every stretch with timecodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from visil.collection.catalogue import Video
from visil.collection.duplicates import Pair
from visil.collection.identity import stamp_of
from visil.files import replacing
from visil.matching.localize import Segment
from visil.plots.times import duration, span
from visil.report.footage import FileFootage, FramesAt
from visil.report.pair import CARD, FOOT, Numbered, facts, head, longest, pair_html, percent, strip_html, text
from visil.report.relations import USUAL_RATE
from visil.report.timelines import timecode
from visil.video import VideoInfo, frames_at, probe

if TYPE_CHECKING:
    from visil.compare.visil import ViSiL
    from visil.matching.match import Match
    from visil.model.features import VideoFeatures

FILMSTRIPS = 20
"""Stretches that get a filmstrip of their own, the longest."""

TITLE = "How two videos relate"


def write_pair_report(
    model: ViSiL,
    query: VideoFeatures,
    target: VideoFeatures,
    match: Match,
    path: str | os.PathLike[str],
    *,
    names: tuple[str | None, str | None] = (None, None),
    reader: Reader | None = None,
) -> None:
    """Write a match of two files, whose features are given with their paths, as one HTML file without scripts.

    ``names`` are shown instead of the paths of files that are called something else; ``reader`` reads the files.
    """
    reader = reader or Reader()
    sides = [
        _Side(place, number, features, name, reader)
        for place, number, features, name in (("query", 1, query, names[0]), ("target", 2, target, names[1]))
    ]
    footage = FileFootage(model, {side.video.id: side.features for side in sides}, reader.frames_at)
    with replacing(path) as fresh, fresh.open("w", encoding="utf-8") as file:
        file.write(head(TITLE))
        file.write(_summary(match, model, sides))
        file.write("<main>\n")
        for piece in _pieces(footage, match, sides):
            file.write(piece)
        file.write(f"</main>\n{FOOT}")


@dataclass(frozen=True)
class Reader:
    """Reads the files of a report: in this process, or in one of its own."""

    probe: Callable[[Path], VideoInfo] = probe
    frames_at: FramesAt = frames_at


class _Side:
    """One of the two files."""

    def __init__(
        self, name: str, number: int, features: VideoFeatures, shown: str | None, reader: Reader
    ) -> None:
        assert features.path is not None, "a report shows files"
        info = reader.probe(Path(features.path))
        self.features = features
        self.rate = info.fps or USUAL_RATE
        seconds = features.duration if features.duration is not None else float(features.ends[-1])
        self.video = Video(
            *(0, name, shown or os.path.abspath(features.path), len(features), seconds),
            *(info.width, info.height, info.codec, info.bit_rate),
            *(stamp_of(Path(features.path)).size, 0, False),
        )
        self.shown = Numbered(number, self.video)


def _summary(match: Match, model: ViSiL, sides: list[_Side]) -> str:
    numbers = [
        ("verdict", match.verdict),
        ("confidence", percent(match.confidence)),
        ("score", f"{match.score:.2f}"),
        ("stretch" if len(match.segments) == 1 else "stretches", f"{len(match.segments):,}"),
    ]
    shown = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in numbers)
    when = f"{datetime.now().astimezone():%Y-%m-%d %H:%M %Z}"
    meaning = (
        "is the probability that the two share footage"
        if match.calibrated
        else "was not fitted for this model"
    )
    return (
        f"<header><h1>{TITLE}</h1>"
        f'<p class="faint">{text(when)} · model <bdi>{text(model.config.name)}</bdi></p>'
        f'<dl class="numbers">{shown}</dl>'
        f"{f'<p>{text(match.note)}</p>' if match.note else ''}"
        f'<p class="faint">Confidence {meaning}; the score is how well the first is covered by the second, from −1 to '
        f"1. Frames are numbered at each file's own rate, {sides[0].rate:.5g} and {sides[1].rate:.5g} a second.</p>"
        "</header>\n"
    )


def _pieces(footage: FileFootage, match: Match, sides: list[_Side]) -> Iterator[str]:
    query, target = (side.shown for side in sides)
    yield '<section aria-label="The two videos"><ul class="cards">'
    for side in sides:
        yield _card(footage, side)
    yield "</ul></section>\n"
    pair = Pair(
        query.video.id,
        target.video.id,
        match.score,
        match.confidence,
        match.segments,
        match.verdict,
        common=False,
    )
    yield '<section aria-labelledby="shared"><h2 id="shared">What they share</h2>\n'
    yield pair_html(footage, pair, query, target, unfolded=True)
    yield "</section>\n"
    if match.segments:
        yield from _stretches(match.segments, sides)
    if len(match.segments) > 1:
        yield '<section aria-labelledby="strips"><h2 id="strips">Stretch by stretch</h2>\n'
        chosen = longest(match.segments, FILMSTRIPS)
        for number, segment in enumerate(match.segments, 1):
            if segment in chosen:
                yield f"<h3>{number}. {span(segment.query)} and {span(segment.target)}</h3>\n"
                yield strip_html(footage, [segment], query, target, first=number - 1)
        yield "</section>\n"


def _card(footage: FileFootage, side: _Side) -> str:
    shots = footage.pictures(side.video, [side.video.duration * 0.3], CARD)
    picture = (
        f'<div class="shot none">{text(shots)}</div>'
        if isinstance(shots, str)
        else f'<img class="shot" src="{shots[0]}" alt="A frame of video {side.shown.number}">'
    )
    return (
        f'<li class="card">{picture}<div>'
        f'<p class="name"><span class="number">{side.shown.number}</span><bdi>{text(side.shown.name)}</bdi></p>'
        f'<p class="facts">{facts(side.video)}</p>'
        f'<p class="path"><bdi>{text(side.video.path)}</bdi></p></div></li>\n'
    )


def _stretches(segments: list[Segment], sides: list[_Side]) -> Iterator[str]:
    columns = ("", "video 1", "video 2", "length", "speed", "score")
    heads = "".join(f'<th scope="col"{_right(place)}>{name}</th>' for place, name in enumerate(columns))
    yield '<section aria-labelledby="times"><h2 id="times">Stretches</h2>\n'
    yield f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>\n'
    for number, segment in enumerate(segments, 1):
        lengths = [end - start for start, end in (segment.query, segment.target)]
        cells = (
            str(number),
            *(
                f"{timecode(start, side.rate)} – {timecode(end, side.rate)}"
                for (start, end), side in zip((segment.query, segment.target), sides, strict=True)
            ),
            duration(lengths[0]),
            f"{lengths[1] / lengths[0]:.2f}×" if lengths[0] > 0 else "",
            f"{segment.score:.2f}",
        )
        yield (
            "<tr>"
            + "".join(f"<td{_right(place)}>{cell}</td>" for place, cell in enumerate(cells))
            + "</tr>\n"
        )
    yield "</tbody></table></div></section>\n"


def _right(column: int) -> str:
    return ' class="n"' if column in (0, 3, 4, 5) else ""
