"""Tables and figures by name: made, and written as Markdown, CSV and a picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from visil.errors import UsageError
from visil.paper.ablation import CURVES, curve_recipe
from visil.paper.experiment import Experiment, Setup
from visil.paper.stage_times import KINDS
from visil.paper.tables import TABLES, MadeTable, make_table, rows_of
from visil.training.recipes import Recipe

NAMES: dict[str, str] = {
    **{name: spec.title for name, spec in TABLES.items() if name != "systems"},
    "table-10": "Time per stage, and what it buys",
    "systems": TABLES["systems"].title,
    "pr-curves": "Precision over recall",
    "gamma": "ViSiL_v trained with other margins γ (Fig. 5a)",
    "r": "ViSiL_v trained with other weights r of L_reg (Fig. 5b)",
    "w": "ViSiL_v trained with snippets of other lengths W (Fig. 5c)",
    "pairs": "Input and output matrices of two pairs (Fig. 1)",
    "mistakes": "Pairs that rank high and are not annotated (Fig. 4)",
    "matrices": "Input and output matrices (Fig. 7)",
    "attention": "Attention over frames (Fig. 6)",
    "time-per-stage": "Table 10 as a picture",
    "fivr-5k": "FIVR-5K made from FIVR-200K: its hardest queries by LBoW, as a list for --ids",
}
"""Everything that ``visil tables`` makes."""

FIGURES: dict[str, tuple[str, ...]] = {
    "figure-1": ("pairs",),
    "figure-4": ("mistakes",),
    "figure-5": ("gamma", "r", "w"),
    "figure-6": ("attention",),
    "figure-7": ("matrices",),
}
"""The paper's numbers of figures, and the functions that make each."""

PR_SYSTEMS = ("LBoW", "DP", "TN", "ViSiL_f", "ViSiL_sym", "ViSiL_v")
"""Systems of the precision-recall curves, if no others are asked for."""


@dataclass(frozen=True)
class Made:
    """A table and the files that hold it."""

    table: MadeTable
    files: list[Path]


def chosen_names(names: Sequence[str]) -> list[str]:
    """Names in the order given, each once; "all" is everything, "figure-5" the three curves of Figure 5."""
    found: list[str] = []
    for name in names:
        if name != "all" and name not in NAMES and name not in FIGURES:
            raise UsageError(f"unknown table {name!r}: choose from {', '.join((*NAMES, *FIGURES))}, or all")
        everything = [one for one in NAMES if one != "fivr-5k"]
        found += everything if name == "all" else FIGURES.get(name, (name,))
    return list(dict.fromkeys(found))


def missing(
    names: Sequence[str],
    setup: Setup,
    *,
    systems: Sequence[str] | None = None,
    values: Sequence[float] | None = None,
) -> list[str]:
    """The options that these tables need and that were not given; nothing is read or computed for it."""
    from visil.paper.figures import curve_points

    rows: dict[str | Recipe, str | None] = {}
    for name in names:
        match name:
            case "table-10" | "time-per-stage":
                rows |= dict.fromkeys(KINDS)
            case "pr-curves":
                rows |= dict.fromkeys(systems or PR_SYSTEMS)
            case "fivr-5k":
                rows["LBoW"] = None
            case "mistakes":
                rows |= dict.fromkeys((systems or ("ViSiL_v",))[:1])
            case "gamma" | "r" | "w":
                curve = CURVES[name]
                rows |= {curve_recipe(curve, value): None for value in curve_points(name, values)}
            case "pairs" | "matrices" | "attention":
                rows["ViSiL_v"] = None
            case "systems" if not systems:
                pass  # rows that cannot be made say so
            case _:
                rows |= {row.name: row.reads for row in rows_of(name, setup, systems)}
    return setup.missing(rows)


def make(
    name: str,
    experiment: Experiment,
    *,
    systems: Sequence[str] | None = None,
    values: Sequence[float] | None = None,
) -> Made:
    """Make one table or figure, and write it to the experiment's folder."""
    from visil.paper import figures
    from visil.paper.output import save_figure, to_csv, to_figure, to_markdown, write_text

    table, figure = _made(name, experiment, systems, values)
    out = experiment.out
    files = [
        write_text(out / f"{name}.md", to_markdown(table)),
        write_text(out / f"{name}.csv", to_csv(table)),
    ]
    if name == "fivr-5k":
        ids = figures.fivr_5k_ids(experiment)
        files.append(write_text(out / "fivr-5k.json", json.dumps(ids, indent=0)))
    else:
        files.append(save_figure(figure or to_figure(table), out / f"{name}.png", toy=table.quick))
    return Made(table, files)


def _made(
    name: str, experiment: Experiment, systems: Sequence[str] | None, values: Sequence[float] | None
) -> tuple[MadeTable, Figure | None]:
    from visil.paper import figures, output
    from visil.paper.stage_times import table_10

    match name:
        case "table-10":
            return table_10(experiment), None
        case "time-per-stage":
            table = table_10(experiment, name)
            return table, output.time_figure(table)
        case "pr-curves":
            table = figures.precision_recall_table(experiment, systems or PR_SYSTEMS)
            return table, output.precision_recall_figure(table)
        case "fivr-5k":
            return figures.fivr_5k_table(experiment), None
        case "mistakes":
            return figures.figure_4(experiment, *(systems or ())[:1])
        case "gamma" | "r" | "w":
            table = figures.figure_5(name, experiment, values)
            return table, output.curve_figure(table, CURVES[name].sign)
        case "pairs":
            return figures.figure_1(experiment)
        case "attention":
            return figures.figure_6(experiment)
        case "matrices":
            return figures.figure_7(experiment)
    return make_table(name, experiment, systems), None
