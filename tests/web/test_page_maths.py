"""The page's own sums, run in Chromium, against what the package computes in Python."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import visil
from visil.matching.localize import Segment
from visil.plots.axes import Axis
from visil.plots.heat import HEAT, STOPS
from visil.plots.times import clock, duration, shared_seconds
from visil.report.pair import percent
from web.page_stub import Server, Stub

pytest_plugins = ["web.page_browser"]

SECONDS = [0.0, 0.4, 7.46, 9.97, 12.0, 59.6, 61.0, 119.5, 200.0, 3599.7, 3600.0, 3725.2, 86399.9]


def run(page: Any, module: str, expression: str, given: Any) -> Any:
    """An expression in ``m``, the module, and ``x``, what is given."""
    load = f"const m = await import('/static/js/{module}.js');"
    return page.evaluate(f"async (x) => {{ {load} return {expression}; }}", given)


@pytest.fixture(scope="module")
def page(browser: Any) -> Iterator[Any]:
    with Server(Stub()) as server:
        page = browser.new_page()
        page.goto(f"{server.url}#/add")
        yield page
        page.close()


def test_words(page: Any) -> None:
    assert run(page, "words", "x.map((s) => m.clock(s))", SECONDS) == [clock(s) for s in SECONDS]
    expected = [clock(s, tenths=True) for s in SECONDS]
    assert run(page, "words", "x.map((s) => m.clock(s, true))", SECONDS) == expected
    assert run(page, "words", "x.map(m.duration)", SECONDS) == [duration(s) for s in SECONDS]
    shares = [0.0, 0.04, 0.63, 0.981, 0.993, 0.9989, 0.9991, 1.0]
    assert run(page, "words", "x.map(m.percent)", shares) == [percent(s) for s in shares]
    spans = [(1.0, 6.0), (4.0, 9.0), (20.0, 21.0), (20.2, 20.5)]
    expected_sum = shared_seconds([Segment(span, span, 1.0) for span in spans])
    assert run(page, "words", "m.sharedSeconds(x.map((query) => ({query})))", spans) == pytest.approx(
        expected_sum
    )


def test_alignment_is_the_straight_line_through_a_segment(page: Any) -> None:
    segment = {"query": [10.0, 14.0], "target": [100.0, 106.0]}
    there = run(page, "alignment", "[10, 11, 14, 20].map((q) => m.toTarget(m.ofSegment(x), q))", segment)
    assert there == [100.0, 101.5, 106.0, 115.0]
    back = run(page, "alignment", "[100, 101.5, 91].map((t) => m.toQuery(m.ofSegment(x), t))", segment)
    assert back == [10.0, 11.0, 4.0]
    point = {"query": [3.0, 3.0], "target": [5.0, 5.0]}  # no length, no speed of its own
    assert run(page, "alignment", "m.toTarget(m.ofSegment(x), 4)", point) == 6.0


def test_of_crossing_segments_the_closest_line_counts(page: Any) -> None:
    segments = [{"query": [0, 10], "target": [0, 10]}, {"query": [0, 10], "target": [4, 24]}]
    points = [[5, 5.2], [1, 5.5], [9, 9.9], [9, 20], [11, 11]]
    found = run(page, "alignment", "x[1].map(([q, t]) => m.segmentAt(x[0], q, t))", [segments, points])
    assert found == [0, 1, 0, 1, -1]


@pytest.mark.parametrize(
    "times", [np.arange(50) * 0.5 + 3, np.cumsum(np.r_[0, 0.2, np.ones(30), 7, np.ones(30) / 3])]
)
def test_cells_lie_where_the_figures_put_them(
    page: Any, times: np.ndarray[Any, np.dtype[np.float64]]
) -> None:
    axis = Axis.of(times)
    edges = run(page, "heatmap", "[...m.edges(x, x.length)]", times.tolist())
    assert edges == pytest.approx([*axis.starts, axis.end])
    cells = len(times) // 4
    folded = axis.grouped(cells, 4)
    edges = run(page, "heatmap", "[...m.edges(x[0], x[1])]", [times.tolist(), cells])
    assert edges == pytest.approx([*folded.starts, folded.end])
    steps = 97
    given = [times.tolist(), axis.start, axis.end, steps]
    bins = run(page, "heatmap", "m.bins(m.edges(x[0], x[0].length), ...x.slice(1))", given)
    for place, (first, last) in enumerate(bins):
        start, end = (axis.start + axis.seconds * (place + k) / steps for k in (0, 1))
        ends = np.append(axis.starts[1:], axis.end)
        shown = np.flatnonzero((axis.starts < end - 1e-5) & (ends > start + 1e-5))
        assert (first, last) == (shown[0], shown[-1] + 1)


def test_colours_are_those_of_the_figures(page: Any) -> None:
    table = np.array(run(page, "heatmap", "[...m.HEAT]", None)).reshape(256, 3)
    truth = HEAT(np.arange(256))[:, :3] * 255
    assert np.abs(table - truth).max() <= 1.5
    # Lightness never falls, so that more is always lighter.
    assert (np.diff(table @ [0.2126, 0.7152, 0.0722]) >= 0).all()


@pytest.mark.parametrize("sheet", ["web/static/css/match.css", "report/style.css"])
def test_scales_in_style_sheets_have_the_same_colours(sheet: str) -> None:
    text = (Path(visil.__file__).parent / sheet).read_text("utf-8").replace(" ", "")
    assert f"linear-gradient(90deg,{','.join(STOPS)})" in text


def test_paint_keeps_the_highest_value_of_each_pixel(page: Any) -> None:
    values = np.random.default_rng(3).random((7, 9)).astype(np.float32)
    values[5, 2] = np.nan
    rows, columns = [[0, 3], [3, 4], [4, 7], [0, 0]], [[0, 2], [2, 5], [5, 9]]
    pixels = run(
        page, "heatmap",
        "(() => { const c = document.createElement('canvas');"
        "m.paint(c, {columns: 9, values: Float32Array.from(x[0], (v) => v ?? NaN)}, x[1], x[2], [0, 1]);"
        "return [...c.getContext('2d').getImageData(0, 0, 3, 4).data]; })()",
        [[None if np.isnan(v) else float(v) for v in values.ravel()], rows, columns],
    )  # fmt: skip
    table = np.array(run(page, "heatmap", "[...m.HEAT]", None)).reshape(256, 3)
    drawn = np.array(pixels).reshape(4, 3, 4)
    for i, (top, bottom) in enumerate(rows[:3]):
        for j, (left, right) in enumerate(columns):
            highest = np.nanmax(values[top:bottom, left:right])
            assert drawn[i, j].tolist() == [*table[int(np.floor(highest * 255 + 0.5))], 255]
    assert (drawn[3] == 0).all()  # no cell: nothing is drawn
