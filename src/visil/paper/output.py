"""Tables for people and programs: Markdown, CSV, and pictures with the paper's numbers beside ours."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from visil.files import replacing
from visil.paper.stage_times import STAGES
from visil.paper.tables import MadeTable, Value
from visil.plots.panels import FAINT, INK

OURS, PAPER = "#1f5f8b", "#d9772b"
LINES = ("#1f5f8b", "#d9772b", "#4a9d5b", "#8a5aa8", "#c23b4b", "#7a7f87", "#b59a2b", "#3fa7b5", "#1b1f27")
MOST_PANELS = 3
ROW_HEIGHT = 0.24
DPI = 160


def to_markdown(table: MadeTable) -> str:
    """A heading, the data it was measured on, and the table: our columns, then the paper's."""
    paper = [f"paper: {column}" for column in table.paper_columns]
    theirs = f"The paper: {table.paper_on}." if paper else ""
    lines = [
        f"### {_heading(table)}",
        "",
        " ".join(part for part in (f"Ours: {table.on}.", theirs, table.note) if part),
        "",
        _line(["", *table.columns, *paper]),
        "|" + "---|" * (1 + len(table.columns) + len(paper)),
    ]
    best = {column: _best(table, column) for column in table.columns}
    for row in table.rows:
        cells = [_bold(_text(row.ours.get(c), c), row.ours.get(c), best[c]) for c in table.columns]
        if row.note:
            cells = [row.note, *[""] * (len(table.columns) - 1)]
        cells += [_text(row.paper.get(column), column) for column in table.paper_columns]
        lines.append(_line([row.label, *cells]))
    return "\n".join(lines) + "\n"


def to_csv(table: MadeTable) -> str:
    """One line a row, every digit; empty where there is no figure."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    paper = [f"paper {column}" for column in table.paper_columns]
    rows.writerow(["row", *table.columns, *paper, "note"])
    for row in table.rows:
        ours = [_plain(row.ours.get(column)) for column in table.columns]
        rows.writerow([row.label, *ours, *(_plain(row.paper.get(c)) for c in table.paper_columns), row.note])
    return text.getvalue()


def to_figure(table: MadeTable) -> Figure:
    """A panel for each of the first columns: ours as bars, the paper's as diamonds."""
    columns = _shown(table)
    rows = table.rows[::-1]
    height = 1.2 + ROW_HEIGHT * len(rows)
    figure = Figure((2.2 + 2.6 * len(columns), height), facecolor="white", layout="constrained")
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for axes, column in zip(panels, columns, strict=True):
        ours = [_number(row.ours.get(column)) for row in rows]
        axes.barh(range(len(rows)), [value or 0 for value in ours], height=0.62, color=OURS, label="ours")
        theirs = _beside(table, column)
        marks = [
            (value, place)
            for place, row in enumerate(rows)
            if (value := _number(row.paper.get(theirs))) is not None
        ]
        if marks:
            axes.scatter(
                *zip(*marks, strict=True),
                marker="D",
                s=22,
                facecolor="white",
                edgecolor=PAPER,
                linewidth=1.3,
                zorder=3,
                label=f"paper{'' if theirs == column else ', ' + theirs}, on {table.paper_on}",
            )
        axes.set_title(column, fontsize=9, color=INK, loc="left")
        axes.set_yticks(range(len(rows)), [row.label for row in rows], fontsize=7.5, color=INK)
        axes.tick_params(axis="x", labelsize=7, labelcolor=FAINT, color=FAINT, length=2)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color="#e9ecf0", linewidth=0.8)
        axes.set_axisbelow(True)
        if all(value is None or value <= 1 for value in ours) and " " not in column:
            axes.set_xlim(0, 1.02)
        for side in ("top", "right", "left", "bottom"):
            axes.spines[side].set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower right", fontsize=7.5, frameon=False, ncols=2)
    figure.suptitle(_heading(table), fontsize=10.5, color=INK, x=0.01, ha="left")
    return figure


def precision_recall_figure(table: MadeTable) -> Figure:
    """A line for each system."""
    figure, axes = _one_panel(_heading(table))
    lines = [row for row in table.rows if row.ours]
    for number, row in enumerate(lines):
        values = [float(value) for value in row.ours.values() if isinstance(value, float)]
        axes.plot(
            np.linspace(0, 1, len(values)),
            values,
            color=LINES[number % len(LINES)],
            linestyle="-" if number < len(LINES) else "--",
            linewidth=1.5,
            label=row.label,
        )
    axes.set_xlabel("recall", fontsize=8.5, color=FAINT)
    axes.set_ylabel("precision", fontsize=8.5, color=FAINT)
    axes.set_xlim(0, 1.005)
    axes.set_ylim(0, 1.02)
    axes.legend(fontsize=7.5, frameon=False, loc="lower left")
    return figure


def curve_figure(table: MadeTable, sign: str) -> Figure:
    """A line for each task over the values of γ, r or W."""
    figure, axes = _one_panel(_heading(table))
    labels = [row.label for row in table.rows]
    for number, column in enumerate(table.columns):
        values = [float(row.ours.get(column) or 0) for row in table.rows]
        axes.plot(labels, values, marker="o", markersize=4, color=LINES[number % len(LINES)], label=column)
    axes.set_xlabel(sign, fontsize=8.5, color=FAINT)
    axes.set_ylabel("mAP", fontsize=8.5, color=FAINT)
    axes.legend(fontsize=7.5, frameon=False)
    return figure


def time_figure(table: MadeTable) -> Figure:
    """Stages laid end to end: of a video on the left, of a pair on the right."""
    figure = Figure((8.2, 2.6), facecolor="white", layout="constrained")
    panels = figure.subplots(1, 2)
    labels = [row.label for row in table.rows[::-1]]
    for axes, unit, what in zip(panels, ("s", "ms"), ("a video", "a pair"), strict=True):
        stages = [stage for stage in STAGES if stage.endswith(f" {unit}")]
        left = np.zeros(len(labels))
        for number, stage in enumerate(stages):
            values = np.array([float(row.ours.get(stage) or 0) for row in table.rows[::-1]])
            name = stage.removesuffix(f" {unit}")
            axes.barh(labels, values, left=left, height=0.6, color=LINES[number], label=name)
            left += values
        _plain_axes(axes)
        axes.set_title(f"{what}, {unit}", fontsize=9, color=INK, loc="left")
        axes.legend(fontsize=7, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3)
    figure.suptitle(_heading(table), fontsize=10.5, color=INK, x=0.01, ha="left")
    return figure


def write_text(path: Path, text: str) -> Path:
    """Text on disk, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as fresh:
        fresh.write_text(text, "utf-8")
    return path


def save_figure(figure: Figure, path: Path, *, toy: bool = False) -> Path:
    """A picture on disk, whole or not at all; one of a toy says so in its corner."""
    if toy:
        figure.text(0.995, 0.995, "quick: a toy", fontsize=7, color=FAINT, ha="right", va="top")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as fresh:
        figure.savefig(fresh, dpi=DPI, format="png", metadata={"Software": "visil"})
    return path


def _heading(table: MadeTable) -> str:
    number = table.name.replace("-", " ").capitalize()
    title = f"{number}: {table.title}" if table.name.startswith("table-") else table.title
    return f"{title} (quick: a toy)" if table.quick else title


def _shown(table: MadeTable) -> list[str]:
    """Columns worth a panel: those that the paper has too, or the first ones."""
    numbers = [c for c in table.columns if any(_number(row.ours.get(c)) is not None for row in table.rows)]
    common = [column for column in numbers if column in table.paper_columns]
    return (common or numbers or ["DSVR"])[:MOST_PANELS]


def _beside(table: MadeTable, column: str) -> str:
    return column if column in table.paper_columns or not table.paper_columns else table.paper_columns[0]


def _best(table: MadeTable, column: str) -> float | None:
    if not _is_share(column):
        return None
    return max(
        (value for row in table.rows if (value := _number(row.ours.get(column))) is not None), default=None
    )


def _is_share(column: str) -> bool:
    """Whether more is better: all columns but times."""
    return column.rpartition(" ")[2] not in ("s", "ms")


def _bold(text: str, value: Value, best: float | None) -> str:
    return f"**{text}**" if best is not None and _number(value) == best else text


def _text(value: Value, column: str) -> str:
    match value:
        case None:
            return "–"
        case str():
            return value
    return f"{value:.3f}" if _is_share(column) else f"{value:.3g}"


def _plain(value: Value) -> str:
    return "" if value is None else value if isinstance(value, str) else repr(float(value))


def _number(value: Value) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _one_panel(title: str) -> tuple[Figure, Axes]:
    figure = Figure((5.6, 4.2), facecolor="white", layout="constrained")
    axes = figure.subplots()
    _plain_axes(axes)
    axes.grid(color="#e9ecf0", linewidth=0.8)
    axes.set_title(title, fontsize=10, color=INK, loc="left")
    return figure, axes


def _plain_axes(axes: Axes) -> None:
    axes.tick_params(labelsize=7.5, labelcolor=FAINT, color=FAINT, length=2)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_axisbelow(True)
