"""Times, stretches and verdicts as the commands print them; bars on a terminal alone."""

from __future__ import annotations

import io
import sys

import pytest

from visil.cli.output import moment, relation, stretch
from visil.cli.progress import count_progress, duplicates_progress, evaluation_progress, table_progress
from visil.collection.intake import AddProgress
from visil.matching.localize import Segment


@pytest.mark.parametrize(
    ("seconds", "told"), [(12, "0:12"), (75.5, "1:15.5"), (3725, "1:02:05"), (59.96, "1:00"), (0.04, "0:00")]
)
def test_times_have_tenths_where_there_are_some(seconds: float, told: str) -> None:
    assert moment(seconds) == told


def test_a_verdict_is_a_sentence() -> None:
    segments = [Segment((0.0, 6.0), (5.0, 11.0), 0.9), Segment((4.0, 8.5), (20.0, 24.5), 0.8)]
    assert stretch(segments[1].query) == "0:04 – 0:08.5"
    assert relation("copy", segments) == (
        "copy: 8 s shared, in 2 stretches, from 0:00 in the query and 0:05 in the target"
    )
    assert relation("copy", [Segment((0.0, 6.0), (5.0, 11.0), 0.9, reversed=True)]) == (
        "copy: 6 s shared, backwards, from 0:00 in the query and 0:05 in the target"
    )
    assert relation("unrelated", segments) == "unrelated: no shared footage found"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bars_are_drawn_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "xterm")
    with duplicates_progress() as (show_pairs, show_proofs):
        assert show_pairs is not None
        assert show_proofs is not None
        show_pairs(2, 5, 7)
        show_proofs(4, 13)
    with count_progress("shards") as count:
        assert count is not None
        count(3, 4)
    with evaluation_progress() as (on_add, on_pairs):
        assert on_add is not None
        assert on_pairs is not None
        on_add(AddProgress(1, 6, 10, None))
        on_pairs(8, 9, 0)
    with table_progress() as (on_videos, tell):
        assert on_videos is not None
        on_videos(10, 11, "a.mp4")
        tell("table-2")
    shown = terminal.getvalue()
    for part in (
        "comparing",
        "2/5",
        "7 pairs",
        "picture by picture",
        "4/13",
        "3/4",
        "shards",
        "embedding",
        "1/6",
        "8/9",
        "10/11",
        "table-2",
    ):
        assert part in shown


def test_elsewhere_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    with duplicates_progress() as show, evaluation_progress() as both, table_progress() as (on_videos, tell):
        assert (show, both, on_videos) == ((None, None), (None, None), None)
        tell("nothing is shown")
    assert screen.getvalue() == ""
