"""Duplicates as one HTML file to look at: it holds its pictures, asks nothing of any network, and runs no script."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime

from visil.collection.catalogue import Video
from visil.collection.duplicates import Duplicates, Group, Pair
from visil.collection.index import Index
from visil.errors import printable
from visil.files import replacing
from visil.plots.lettering import shortened
from visil.report.footage import CollectionFootage, FramesAt
from visil.report.pair import CARD, FOOT, Numbered, facts, head, pair_html, pair_rows, text
from visil.video import frames_at

PICTURED_PAIRS = 200
"""Pairs that get pictures: first the strongest of each group, then the next of each, and so on."""
PICTURED_VIDEOS = 1000
OPEN_CARDS = 12
"""Videos of a group that are shown at once; the others unfold."""
MOST_CARDS = 500
MOST_ROWS = 1000
"""Pairs of a group that are listed."""
OPEN_LINKS = 12
"""Up to so many groups, the table of contents is unfolded from the start."""
MOST_LINKS = 2000
"""Groups that the table of contents names."""


def write_report(
    index: Index,
    found: Duplicates,
    path: str | os.PathLike[str],
    *,
    min_confidence: float | None = None,
    frames_at: FramesAt = frames_at,
) -> None:
    """Groups, their videos and the shared footage of each pair, with frames, timelines and matrices, as one HTML file.

    It is written piece by piece, so memory is that of one pair. A video that cannot be read any more
    gets a placeholder. ``min_confidence`` is only stated in the page. ``frames_at`` decodes.
    """
    with replacing(path) as fresh, fresh.open("w", encoding="utf-8") as file:
        for piece in _Report(index, found, min_confidence, frames_at).pieces():
            file.write(piece)


class _Report:
    def __init__(
        self, index: Index, found: Duplicates, min_confidence: float | None, frames_at: FramesAt
    ) -> None:
        self.index = index
        self.found = found
        self.min_confidence = min_confidence
        self.footage = CollectionFootage(index, frames_at)
        self.pictured = pictured(found)
        self.pictures_left = PICTURED_VIDEOS

    def pieces(self) -> Iterator[str]:
        groups = self.found.groups
        yield head("Videos that share footage")
        yield self._summary()
        yield "<main>\n"
        if len(groups) > 1:
            yield self._contents()
        for number, group in enumerate(groups, 1):
            yield from self._group(number, group)
        if self.found.common:
            yield from self._common()
        yield f"</main>\n{FOOT}"

    # ------------------------------------------------------------------ the top

    def _summary(self) -> str:
        groups = self.found.groups
        pairs = sum(len(group.pairs) for group in groups)
        numbers = [
            ("videos in the collection", f"{len(self.index):,}"),
            ("group" if len(groups) == 1 else "groups", f"{len(groups):,}"),
            ("videos in groups", f"{sum(len(group.videos) for group in groups):,}"),
            ("matching pair" if pairs == 1 else "matching pairs", f"{pairs:,}"),
            ("worth keeping of them", f"{sum(sum(map(group.kept, group.videos)) for group in groups):,}"),
        ]
        if self.min_confidence is not None:
            numbers.append(("lowest confidence shown", f"{self.min_confidence:.0%}"))
        shown = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in numbers)
        model = self.index.catalogue.fact("model") or "unknown"
        when = f"{datetime.now().astimezone():%Y-%m-%d %H:%M %Z}"
        none = "" if groups else "<p>No duplicates found.</p>"
        return (
            "<header><h1>Videos that share footage</h1>"
            f'<p class="faint">{text(when)} · collection <bdi>{text(self.index.location)}</bdi>'
            f" · model <bdi>{text(model)}</bdi></p>"
            f'<dl class="numbers">{shown}</dl>{none}'
            '<p class="faint">Confidence is the probability that two videos share footage; the score is how well '
            "one is covered by the other, from −1 to 1. Videos marked “keep” are a suggestion: all of the others was "
            "shown, picture by picture, to be in a file that is kept.</p></header>\n"
        )

    def _contents(self) -> str:
        groups = self.found.groups
        items = "".join(
            f'<li value="{number}"><a href="#group-{number}">'
            f"<bdi>{text(shortened(printable(_name(group.videos[0])), 60))}</bdi></a>"
            f' <span class="faint">{text(_others(group))}</span></li>'
            for number, group in enumerate(groups[:MOST_LINKS], 1)
        )
        if self.found.common:
            items += '<li class="plain"><a href="#common">Common footage</a></li>'
        more = len(groups) - MOST_LINKS
        rest = f'<p class="faint">… and {more:,} groups more</p>' if more > 0 else ""
        unfolded = " open" if len(groups) <= OPEN_LINKS else ""
        return (
            f'<nav id="groups" aria-label="Groups"><details{unfolded}><summary><h2>{_count(len(groups), "group")}</h2>'
            f"</summary><ol>{items}</ol>{rest}</details></nav>\n"
        )

    # ------------------------------------------------------------------ one group

    def _group(self, number: int, group: Group) -> Iterator[str]:
        title = f"Group {number}: {_size(group)}"
        yield (
            f'<section id="group-{number}" aria-labelledby="title-{number}"><div class="head">'
            f'<h2 id="title-{number}">{title}</h2>{self._ways(number)}</div>\n'
        )
        named = {video.id: Numbered(place, video) for place, video in enumerate(group.videos, 1)}
        yield '<ul class="cards">'
        for one in list(named.values())[:OPEN_CARDS]:
            yield self._card(one, group)
        yield "</ul>\n"
        others = list(named.values())[OPEN_CARDS:]
        if others:
            yield f"<details><summary>{_count(len(others), 'more video')}</summary>"
            yield '<ul class="cards">'
            for one in others[:MOST_CARDS]:
                yield self._card(one, group)
            yield "</ul>"
            if len(others) > MOST_CARDS:
                yield f'<p class="faint">… and {len(others) - MOST_CARDS:,} more that are not shown here.</p>'
            yield "</details>\n"
        if group.identical:
            yield '<p class="faint">The same bytes in every file: one is enough.</p>\n'
        elif group.pairs:
            yield "<h3>What they share</h3>\n"
            yield from self._pairs(group.pairs, named)
        else:
            yield '<p class="faint">Grouped because someone marked them as a match.</p>\n'
        yield "</section>\n"

    def _ways(self, number: int) -> str:
        """Links from a group to its neighbours and to the list."""
        last = len(self.found.groups)
        if last == 1:
            return ""
        ways = [
            f'<a href="#group-{number - 1}">previous</a>' if number > 1 else "",
            f'<a href="#group-{number + 1}">next</a>' if number < last else "",
            '<a href="#groups">all groups</a>',
        ]
        return f'<p class="ways">{" ".join(filter(None, ways))}</p>'

    def _card(self, one: Numbered, group: Group) -> str:
        video, best = one.video, one.video.id == group.keep
        keep = group.kept(video)
        badges = ""
        if keep:
            badges += f'<p class="badge keep">keep{f": {text(group.reason)}" if best else ""}</p> '
        elif group.missing(video):
            badges += '<p class="badge">gone</p> '
        elif any(row.video == video.id and row.action == "drop" for row in group.files):
            badges += '<p class="badge">drop</p> '
        if video.reference:
            badges += '<p class="badge">reference</p> '
        if video.damaged:
            badges += '<p class="badge">damaged</p> '
        note = group.notes.get(video.id)
        said = f'<p class="note"><bdi>{text(note)}</bdi></p>' if note else ""
        actions = {row.path: f" ({row.action})" for row in group.files}
        path, *copies = group.paths(video)
        also = "".join(
            f'<p class="path">identical: <bdi>{text(other)}</bdi>{actions.get(other, "")}</p>'
            for other in copies
        )
        return (
            f'<li class="card{" keep" if keep else ""}">{self._shot(one)}<div>{badges}'
            f'<p class="name"><span class="number">{one.number}</span><bdi>{text(one.name)}</bdi></p>'
            f'<p class="facts">{facts(video)}</p>{said}'
            f'<p class="path"><bdi>{text(path)}</bdi></p>{also}</div></li>\n'
        )

    def _shot(self, one: Numbered) -> str:
        if self.pictures_left <= 0:
            return '<div class="shot none">no picture: there are too many</div>'
        self.pictures_left -= 1
        shots = self.footage.pictures(one.video, [one.video.duration * 0.3], CARD)
        if isinstance(shots, str):
            return f'<div class="shot none" role="img" aria-label="no picture: {text(shots)}">{text(shots)}</div>'
        return f'<img class="shot" src="{shots[0]}" alt="A frame of video {one.number}">'

    # ------------------------------------------------------------------ pairs

    def _pairs(self, pairs: list[Pair], named: dict[str, Numbered]) -> Iterator[str]:
        """Those with pictures, the first unfolded; the others as a table."""
        ordered = sorted(pairs, key=_strength)
        shown = [pair for pair in ordered if id(pair) in self.pictured]
        for place, pair in enumerate(shown):
            query, target = named[pair.query], named[pair.target]
            yield pair_html(self.footage, pair, query, target, unfolded=place == 0)
        rest = [pair for pair in ordered if id(pair) not in self.pictured]
        if rest:
            yield f"<details{'' if shown else ' open'}><summary>{_count(len(rest), 'pair')} without pictures</summary>"
            yield from pair_rows(rest[:MOST_ROWS], named)
            if len(rest) > MOST_ROWS:
                yield f'<p class="faint">… and {len(rest) - MOST_ROWS:,} more: the CSV file has all.</p>'
            yield "</details>\n"

    def _common(self) -> Iterator[str]:
        common = self.found.common
        yield (
            '<section id="common" aria-labelledby="title-common"><h2 id="title-common">Common footage</h2>'
            f"<p>{len(common):,} {'pair shares' if len(common) == 1 else 'pairs share'} only little that is their own: "
            "an intro, a jingle or a title card that many videos of the collection show, or a few seconds. "
            "That says that they have a source in common, not that they are copies, so it makes no group.</p>\n"
        )
        named: dict[str, Numbered] = {}
        for pair in common:
            for video in (pair.query, pair.target):
                known = named.get(video) or self.index.catalogue.video(video)
                if isinstance(known, Video):
                    named[video] = Numbered(len(named) + 1, known, whole_path=True)
        there = [pair for pair in common if pair.query in named and pair.target in named]
        yield from self._pairs(there, named)
        yield "</section>\n"


def _strength(pair: Pair) -> tuple[float, float]:
    return -pair.confidence, -pair.score


def pictured(found: Duplicates) -> set[int]:
    """``id()`` of the pairs that get pictures; groups take turns, common footage last."""
    turns: list[tuple[bool, int, tuple[float, float], int]] = []
    for pairs in (*(group.pairs for group in found.groups if not group.identical), found.common):
        for turn, pair in enumerate(sorted(pairs, key=_strength)[:PICTURED_PAIRS]):
            turns.append((pairs is found.common, turn, _strength(pair), id(pair)))
    return {identity for *_, identity in sorted(turns)[:PICTURED_PAIRS]}


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _size(group: Group) -> str:
    files = sum(len(group.paths(video)) for video in group.videos)
    videos = _count(len(group.videos), "video")
    return f"{videos} in {files:,} files" if files > len(group.videos) else videos


def _others(group: Group) -> str:
    return "in several files" if group.identical else f"and {len(group.videos) - 1} more"


def _name(video: Video) -> str:
    return os.path.basename(video.path) or video.path
