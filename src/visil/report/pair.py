"""The pieces of reports: head and foot of a page, and one pair as a sentence, frames side by side, a timeline, and the
matrix. Pictures are data URIs.
"""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from visil.collection.catalogue import Video
from visil.collection.duplicates import Pair
from visil.errors import VisilError, printable
from visil.matching.localize import Segment
from visil.plots.axes import Axis, shrink
from visil.plots.heat import heat_png
from visil.plots.lettering import shortened
from visil.plots.times import clock, duration, shared_seconds, span
from visil.report.footage import Footage, data_uri

CARD = (160, 120)
"""Largest width and height of a video's picture."""
STRIP = (128, 72)
"""Largest width and height of one frame of a strip."""
TALL = (96, 128)
"""The same where both videos are upright."""
COLUMNS = 6
"""Moments that a strip shows of both videos."""
CELLS = 160
"""Cells a side of a drawn matrix, at most."""
FRAMES = 960
"""Frames a side that a matrix is computed from, at most: of longer videos, every second frame, every third …"""
COLOURS = 4
"""Stretches take turns with these; the style sheet names them."""
MOST_STRETCHES = 60
"""Stretches that are drawn, the longest."""
LONGEST_NAME = 72
"""Characters of a name beside a video's number; its card has all of them."""
FLATTEST = 2.5
"""A matrix is drawn at most this much longer one way than the other."""


@dataclass(frozen=True)
class Numbered:
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


def pair_html(footage: Footage, pair: Pair, query: Numbered, target: Numbered, *, unfolded: bool) -> str:
    """A pair with its pictures, to unfold."""
    stretches = longest(pair.segments)
    body = strip_html(footage, stretches, query, target) + _timeline(stretches, query, target)
    return (
        f'<details class="match"{" open" if unfolded else ""}><summary>{_label(query)} and {_label(target)} · '
        f'<span class="sure">confidence {percent(pair.confidence)}</span>, score {pair.score:.2f}'
        f'<span class="says">{sentence(pair, query, target)}</span></summary>\n'
        f'<div class="pair"><div>{body}</div>{_matrix(footage, pair, stretches, query, target)}</div></details>\n'
    )


def pair_rows(pairs: Iterable[Pair], named: dict[str, Numbered]) -> Iterator[str]:
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


def sentence(pair: Pair, query: Numbered, target: Numbered) -> str:
    """The shared footage of a pair, in words."""
    if not pair.segments:
        return "no shared footage found"
    first = pair.segments[0]
    parts = f" in {len(pair.segments)} stretches" if len(pair.segments) > 1 else ""
    starts = ((first.query[0], query), (first.target[0], target))
    where = " and ".join(f"from {clock(time)} in video {one.number}" for time, one in starts)
    way = ", backwards" if first.reversed else ""
    return f"shares {duration(shared_seconds(pair.segments))}{parts}{way}, {where}"


def percent(confidence: float) -> str:
    """A confidence, without rounding it to certainty."""
    if confidence > 0.999:
        return "over 99.9%"
    return f"{confidence:.1%}" if confidence > 0.99 else f"{confidence:.0%}"


def longest(segments: list[Segment], most: int = MOST_STRETCHES) -> list[Segment]:
    """The longest stretches, in the order they came in."""
    chosen = sorted(segments, key=lambda s: s.query[0] - s.query[1])[:most]
    return [segment for segment in segments if segment in chosen]


def _label(one: Numbered) -> str:
    return f'<span class="number">{one.number}</span><bdi>{text(shortened(printable(one.name), LONGEST_NAME))}</bdi>'


def strip_html(
    footage: Footage, stretches: list[Segment], query: Numbered, target: Numbered, *, first: int = 0
) -> str:
    """The same moments of both videos, one above the other; ``first`` is the place of the first stretch of them."""
    if not stretches:
        return ""
    shown = moments(stretches)
    tenths = shared_seconds(stretches) < 2 * len(shown)  # or neighbours would show the same time
    upright = all(one.video.height > one.video.width for one in (query, target))
    largest = TALL if upright else STRIP
    above = footage.pictures(query.video, [time for _, time, _ in shown], largest)
    below = footage.pictures(target.video, [time for _, _, time in shown], largest)
    items = []
    for place, (stretch, time, second) in enumerate(shown):
        one = _frame(above, place, query.number, time)
        other = _frame(below, place, target.number, second)
        times = (
            f"<time><b>{n}</b> {clock(t, tenths=tenths)}</time>"
            for n, t in ((query.number, time), (target.number, second))
        )
        items.append(
            f'<li class="t{(first + stretch) % COLOURS}">{next(times)}{one}{other}{next(times)}</li>'
        )
    kind = "strip tall" if upright else "strip"
    return f'<ul class="{kind}" aria-label="The same moments in both videos">{"".join(items)}</ul>\n'


def _frame(shots: list[str] | str, place: int, number: int, time: float) -> str:
    if isinstance(shots, str):
        return f'<div class="shot none">{text(shots)}</div>'
    return f'<img class="shot" src="{shots[place]}" alt="Video {number} at {clock(time)}">'


def _timeline(stretches: list[Segment], query: Numbered, target: Numbered) -> str:
    """Two bars, each as long as its video, with what they share in colour and joined."""
    drawn = []
    for place, segment in enumerate(stretches):
        (a, b), (c, d) = (
            _placed(times, one.video.duration)
            for times, one in ((segment.query, query), (segment.target, target))
        )
        kind = place % COLOURS
        ends = (d, c) if segment.reversed else (c, d)
        drawn.append(
            f'<polygon class="k{kind}" points="{a},14 {b},14 {ends[1]},48 {ends[0]},48"/>'
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


def _matrix(footage: Footage, pair: Pair, stretches: list[Segment], query: Numbered, target: Numbered) -> str:
    drawn = matrix_picture(footage, pair)
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


# ---------------------------------------------------------------------- pictures


def moments(segments: list[Segment], count: int = COLUMNS) -> list[tuple[int, float, float]]:
    """(stretch, time in the query, time in the target) at even distances over all that a pair shares."""
    lengths = np.array([max(segment.query[1] - segment.query[0], 1e-3) for segment in segments])
    ends = np.cumsum(lengths)
    chosen = []
    for place in (np.arange(count) + 0.5) / count * ends[-1]:
        number = min(int(np.searchsorted(ends, place, "right")), len(segments) - 1)
        share = float(1 - (ends[number] - place) / lengths[number])
        (start, end), (other_start, other_end) = segments[number].query, segments[number].target
        if segments[number].reversed:
            other_start, other_end = other_end, other_start
        chosen.append(
            (number, start + share * (end - start), other_start + share * (other_end - other_start))
        )
    return chosen


def matrix_picture(footage: Footage, pair: Pair) -> tuple[str, Axis, Axis] | None:
    """S_f as a data URI, the query downwards, with its axes; None where the features cannot be read.

    From the features that there are, every second or third frame of long videos; nothing is judged again.
    """
    try:
        videos = [footage.features(video) for video in (pair.query, pair.target)]
        query, target = (video.vectors[:: _step(len(video))] for video in videos)
        with torch.inference_mode():
            matrix, _ = footage.model.scorer().matrices(query, target)
    except VisilError:
        return None
    rows, columns = (Axis.of(video.timestamps.numpy()[:: _step(len(video))]) for video in videos)
    return data_uri("png", heat_png(shrink(matrix, rows.bins(CELLS), columns.bins(CELLS)))), rows, columns


def _step(frames: int) -> int:
    return -(-frames // FRAMES)


STYLE = Path(__file__).with_name("style.css")
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
FOOT = "<footer><p>Made by visil. Nothing was deleted, moved or changed.</p></footer></body></html>\n"


def head(title: str) -> str:
    """Down to where the page's body begins."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{STYLE.read_text('utf-8')}</style></head><body>\n"
    )


def facts(video: Video) -> str:
    """Size, length, bytes, bit rate and codec of a video, on one line."""
    told = [f"{video.width}×{video.height}", clock(video.duration), _bytes(video.bytes)]
    if video.bit_rate:
        told.append(_bit_rate(video.bit_rate))
    if video.codec:
        told.append(text(video.codec))
    return " · ".join(told)


def _bytes(size: int) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.{0 if size >= 100 * scale else 1}f} {unit}"
    return f"{size} bytes"


def _bit_rate(rate: int) -> str:
    return f"{rate / 1e6:.1f} Mbit/s" if rate >= 1e6 else f"{rate / 1e3:.0f} kbit/s"
