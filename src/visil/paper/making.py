"""Tables and figures by name: made, and written as Markdown, CSV and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from visil.errors import UsageError
from visil.paper.tables import TABLES, MadeTable, make_table
from visil.paper.workbench import Workbench

NAMES: dict[str, str] = {
    **{name: spec.title for name, spec in TABLES.items() if name != "systems"},
    "table-10": "Time per stage, and what it buys",
    "systems": TABLES["systems"].title,
    "pr-curves": "Precision over recall",
    "gamma": "ViSiL_v trained with other margins γ (Fig. 5a)",
    "r": "ViSiL_v trained with other weights r of L_reg (Fig. 5b)",
    "w": "ViSiL_v trained with snippets of other lengths W (Fig. 5c)",
    "mistakes": "Pairs that rank high and are not annotated (Fig. 4)",
    "matrices": "Input and output matrices (Fig. 7)",
    "attention": "Attention over frames (Fig. 6)",
    "time-per-stage": "Table 10 as a picture",
}
"""Everything that ``visil tables`` makes."""

CURVED = ("LBoW", "DP", "TN", "ViSiL_f", "ViSiL_sym", "ViSiL_v")
"""Systems of the precision-recall curves, if no others are asked for."""


@dataclass(frozen=True)
class Made:
    """A table and the files that hold it."""

    table: MadeTable
    files: list[Path]


def chosen_names(names: Sequence[str]) -> list[str]:
    """Names in the order given, each once; "all" is everything."""
    found: list[str] = []
    for name in names:
        if name != "all" and name not in NAMES:
            raise UsageError(f"unknown table {name!r}: choose from {', '.join(NAMES)}, or all")
        found += list(NAMES) if name == "all" else [name]
    return list(dict.fromkeys(found))


def make(
    name: str,
    bench: Workbench,
    *,
    systems: Sequence[str] | None = None,
    values: Sequence[float] | None = None,
) -> Made:
    """Make one table or figure, and write it to the workbench's folder."""
    from visil.paper.table_output import save_figure, to_csv, to_figure, to_markdown, write_text

    table, figure = _made(name, bench, systems, values)
    out = bench.place.out
    files = [
        write_text(out / f"{name}.md", to_markdown(table)),
        write_text(out / f"{name}.csv", to_csv(table)),
    ]
    files.append(save_figure(figure or to_figure(table), out / f"{name}.png"))
    return Made(table, files)


def _made(
    name: str, bench: Workbench, systems: Sequence[str] | None, values: Sequence[float] | None
) -> tuple[MadeTable, Figure | None]:
    from visil.paper import curves, figures
    from visil.paper.mistakes import make_mistakes
    from visil.paper.timing import make_times

    match name:
        case "table-10":
            return make_times(bench), None
        case "time-per-stage":
            table = make_times(bench, name)
            return table, figures.time_figure(table)
        case "pr-curves":
            table = figures.make_precision_recall(bench, systems or CURVED)
            return table, figures.precision_recall_figure(table)
        case "mistakes":
            return make_mistakes(bench, *(systems or ())[:1])
        case "matrices":
            return figures.make_matrices(bench)
        case "attention":
            return figures.make_attention(bench)
    if name in curves.SETTINGS:
        table = curves.make_curve(name, bench, values)
        return table, figures.curve_figure(table, curves.SETTINGS[name][1])
    return make_table(name, bench, systems), None
