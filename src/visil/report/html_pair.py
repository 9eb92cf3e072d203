"""One pair in a report: a sentence, frames side by side, a timeline, the matrix."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from visil.collection.catalogue import Video
from visil.collection.collection import Index
from visil.collection.duplicates import Pair
from visil.errors import printable
from visil.matching.localize import Segment
from visil.plots.axes import Axis
from visil.plots.lettering import shortened
from visil.plots.times import clock, duration, shared_seconds, span
from visil.report.html_pictures import STRIP, TALL, FramesAt, matrix_picture, moments, pictures

COLOURS = 4
"""Stretches take turns with these; the style sheet names them."""
MOST_STRETCHES = 60
"""Stretches that are drawn, the longest."""
LONGEST_NAME = 72
"""Characters of a name beside a video's number; its card has all of them."""
FLATTEST = 2.5
"""A matrix is drawn at most this much longer one way than the other."""


@dataclass(frozen=True)
class Named:
    """A video with its number in the group."""

    number: int
    video: Video
    whole_path: bool = False
    """Whether its name alone does not say which file is meant."""

    @property
    def name(self) -> str:
        """The file's name."""
        path = self.video.path
        return path if self.whole_path else os.path.basename(path) or path


def text(raw: str) -> str:
    """Any string as HTML text or attribute; what cannot be printed is spelled out."""
    return html.escape(printable(raw), quote=True)


def pair_html(
    index: Index, pair: Pair, query: Named, target: Named, frames_at: FramesAt, *, unfolded: bool
) -> str:
    """A pair with its pictures, to unfold."""
    stretches = longest(pair.segments)
    body = _strip(index, stretches, query, target, frames_at) + _timeline(stretches, query, target)
    return (
        f'<details class="match"{" open" if unfolded else ""}><summary>{_label(query)} and {_label(target)} · '
        f'<span class="sure">confidence {percent(pair.confidence)}</span>, score {pair.score:.2f}'
        f'<span class="says">{sentence(pair, query, target)}</span></summary>\n'
        f'<div class="pair"><div>{body}</div>{_matrix(index, pair, stretches, query, target)}</div></details>\n'
    )


def pair_rows(pairs: Iterable[Pair], named: dict[str, Named]) -> Iterator[str]:
    """Pairs as a table."""
    yield (
        '<div class="wide"><table><thead><tr><th scope="col">video</th><th scope="col">and</th>'
        '<th scope="col" class="n">confidence</th><th scope="col" class="n">score</th>'
        '<th scope="col">what they share</th></tr></thead><tbody>\n'
    )
    for pair in pairs:
        yield (
            f"<tr><td>{_label(named[pair.query])}</td><td>{_label(named[pair.target])}</td>"
            f'<td class="n">{percent(pair.confidence)}</td><td class="n">{pair.score:.2f}</td>'
            f"<td>{sentence(pair, named[pair.query], named[pair.target])}</td></tr>\n"
        )
    yield "</tbody></table></div>\n"


def sentence(pair: Pair, query: Named, target: Named) -> str:
    """What a pair shares, in words."""
    if not pair.segments:
        return "no stretch stands out"
    first = pair.segments[0]
    parts = f" in {len(pair.segments)} stretches" if len(pair.segments) > 1 else ""
    starts = ((first.query[0], query), (first.target[0], target))
    where = " and ".join(f"from {clock(time)} in video {one.number}" for time, one in starts)
    return f"shares {duration(shared_seconds(pair.segments))}{parts}, {where}"


def percent(confidence: float) -> str:
    """A confidence, without rounding it to certainty."""
    if confidence > 0.999:
        return "over 99.9%"
    return f"{confidence:.1%}" if confidence > 0.99 else f"{confidence:.0%}"


def longest(segments: list[Segment]) -> list[Segment]:
    """The longest stretches, in the order they came in."""
    chosen = sorted(segments, key=lambda s: s.query[0] - s.query[1])[:MOST_STRETCHES]
    return [segment for segment in segments if segment in chosen]


def _label(one: Named) -> str:
    return f'<span class="number">{one.number}</span><bdi>{text(shortened(printable(one.name), LONGEST_NAME))}</bdi>'


def _strip(index: Index, stretches: list[Segment], query: Named, target: Named, frames_at: FramesAt) -> str:
    """The same moments of both videos, one above the other."""
    if not stretches:
        return ""
    shown = moments(stretches)
    tenths = shared_seconds(stretches) < 2 * len(shown)  # or neighbours would show the same time
    upright = all(one.video.height > one.video.width for one in (query, target))
    largest = TALL if upright else STRIP
    above = pictures(index.catalogue, query.video, [time for _, time, _ in shown], largest, frames_at)
    below = pictures(index.catalogue, target.video, [time for _, _, time in shown], largest, frames_at)
    items = []
    for place, (stretch, first, second) in enumerate(shown):
        one = _frame(above, place, query.number, first)
        other = _frame(below, place, target.number, second)
        times = (
            f"<time><b>{n}</b> {clock(t, tenths=tenths)}</time>"
            for n, t in ((query.number, first), (target.number, second))
        )
        items.append(f'<li class="t{stretch % COLOURS}">{next(times)}{one}{other}{next(times)}</li>')
    kind = "strip tall" if upright else "strip"
    return f'<ul class="{kind}" aria-label="The same moments in both videos">{"".join(items)}</ul>\n'


def _frame(shots: list[str] | str, place: int, number: int, time: float) -> str:
    if isinstance(shots, str):
        return f'<div class="shot none">{text(shots)}</div>'
    return f'<img class="shot" src="{shots[place]}" alt="Video {number} at {clock(time)}">'


def _timeline(stretches: list[Segment], query: Named, target: Named) -> str:
    """Two bars, each as long as its video, with what they share in colour and joined."""
    drawn = []
    for place, segment in enumerate(stretches):
        (a, b), (c, d) = (
            _placed(times, one.video.duration)
            for times, one in ((segment.query, query), (segment.target, target))
        )
        kind = place % COLOURS
        drawn.append(
            f'<polygon class="k{kind}" points="{a},14 {b},14 {d},48 {c},48"/>'
            f'<rect class="c{kind}" x="{a}" y="0" width="{b - a:.2f}" height="14"/>'
            f'<rect class="c{kind}" x="{c}" y="48" width="{d - c:.2f}" height="14"/>'
        )
    said = "; ".join(f"{span(s.query)} is {span(s.target)}" for s in stretches[:10])
    return (
        f'<div class="line"><span>{_label(query)}</span><span>{clock(query.video.duration)}</span></div>'
        f'<svg class="timeline" viewBox="0 0 1000 62" preserveAspectRatio="none" role="img" '
        f'aria-label="Where they match, first video then second: {said}">'
        '<rect class="track" width="1000" height="14"/><rect class="track" y="48" width="1000" height="14"/>'
        f"{''.join(drawn)}</svg>"
        f'<div class="line"><span>{_label(target)}</span><span>{clock(target.video.duration)}</span></div>\n'
    )


def _placed(times: tuple[float, float], length: float, room: float = 1000) -> tuple[float, float]:
    """Where on a bar a stretch begins and ends; never too short to see."""
    length = max(length, times[1], 1e-3)
    start, end = times[0] / length * room, times[1] / length * room
    missing = max(0.0, 4 - (end - start)) / 2
    return round(max(0.0, start - missing), 2), round(min(room, end + missing), 2)


def _matrix(index: Index, pair: Pair, stretches: list[Segment], query: Named, target: Named) -> str:
    drawn = matrix_picture(index, pair)
    if drawn is None:
        return '<p class="faint">No matrix: the features cannot be read.</p>'
    picture, rows, columns = drawn
    shape = min(max(columns.seconds / rows.seconds, 1 / FLATTEST), FLATTEST)
    width, height = (240.0, 240 / shape) if shape > 1 else (240 * shape, 240.0)
    outlines = "".join(
        f'<rect class="c{place % COLOURS}" {_outlined(segment, rows, columns, width, height)}/>'
        for place, segment in enumerate(stretches)
    )
    size = f'width="{width:.0f}" height="{height:.0f}"'
    label = "Similarity of every frame of the one to every frame of the other"
    return (
        f'<figure class="matrix"><svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'style="max-width:{width:.0f}px" aria-label="{label}">'
        f'<image href="{picture}" {size} preserveAspectRatio="none"/>{outlines}</svg>'
        f"<figcaption>Frames of video {query.number} (down) against those of video {target.number} (across). "
        '<span class="sure">Similarity 0<span class="scale"></span>1</span></figcaption></figure>'
    )


def _outlined(segment: Segment, rows: Axis, columns: Axis, width: float, height: float) -> str:
    (top, bottom), (left, right) = (
        tuple(min(max((time - axis.start) / axis.seconds, 0.0), 1.0) * room for time in times)
        for times, axis, room in ((segment.query, rows, height), (segment.target, columns, width))
    )
    # Inside by half the line, so that none of it is cut off at the edge.
    left, top = min(left + 1.2, width - 4), min(top + 1.2, height - 4)
    right, bottom = max(right - 1.2, left + 3), max(bottom - 1.2, top + 3)
    return f'x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}"'
