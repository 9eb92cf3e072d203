"""Figure 5 of the supplementary: ViSiL_v trained with other γ, r or W, one model a point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from visil.errors import UsageError
from visil.paper.short_training import Lesson
from visil.paper.tables import MadeRow, MadeTable, flat
from visil.paper.workbench import Workbench

SETTINGS: dict[str, tuple[str, str, tuple[float, ...]]] = {
    "gamma": ("margin", "γ", (0.25, 0.5, 0.75, 1.0)),
    "r": ("regularisation", "r", (0.01, 0.1, 1.0)),
    "w": ("window", "W", (8, 16, 32, 64)),
}
"""Names of the curves: what is changed, its sign, and the values tried."""

PAPER_SAYS = {
    "gamma": "The paper: DSVR rises with γ; ISVR is highest from 0.25 to 0.5 and falls beyond.",
    "r": "The paper: DSVR and CSVR are highest at r = 1, ISVR at r = 0.1.",
    "w": "The paper: DSVR and CSVR rise with W, 0.880 and 0.870 at W = 96; ISVR hardly changes.",
}


def make_curve(name: str, bench: Workbench, values: Sequence[float] | None = None) -> MadeTable:
    """Train a model for each value, unless it lies in the output folder already, and evaluate it."""
    setting, sign, usual = SETTINGS[name]
    chosen = tuple(values or usual)
    rows = []
    for value in chosen:
        if setting == "window" and (value != round(value) or value < 4):
            raise UsageError(f"W must be a whole number of at least 4 frames, not {value:g}")
        lesson = _changed(bench.lesson, setting, value)
        folder = "ViSiL_v" if lesson == bench.lesson else f"ViSiL_v-{name}-{value:g}"
        model = bench.trained("ViSiL_v", lesson, folder)
        found = bench.judged(model, f"ViSiL_v {sign} {value:g}")
        ours = flat({key: one for key, one in found.items() if key != "edits"})
        rows.append(MadeRow(f"{value:g}", ours, {}))
    columns = list(dict.fromkeys(column for row in rows for column in row.ours))
    title = f"ViSiL_v trained with other {sign}"
    return MadeTable(name, title, bench.videos.described, "FIVR-5K", columns, [], rows, PAPER_SAYS[name])


def _changed(lesson: Lesson, setting: str, value: float) -> Lesson:
    match setting:
        case "margin":
            return replace(lesson, margin=value)
        case "regularisation":
            return replace(lesson, regularisation=value)
    return replace(lesson, window=round(value))
