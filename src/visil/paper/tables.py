"""The paper's tables as data (:data:`TABLES`), and how one is made on an experiment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from visil.errors import UsageError
from visil.evaluation.benchmark import Figures
from visil.paper import numbers
from visil.paper.experiment import Experiment, Setup, Unavailable
from visil.paper.feature_kinds import kind_size
from visil.paper.numbers import PaperTable
from visil.training.recipes import Recipe

Value = float | str | None


@dataclass(frozen=True)
class RowSpec:
    """A row to be made: the system ``name``, called ``label`` in the table, on other features where ``reads``."""

    label: str
    name: str
    reads: str | None = None


@dataclass(frozen=True)
class TableSpec:
    """A table of the paper: its rows, and the data it is made on."""

    title: str
    rows: tuple[RowSpec, ...]
    note: str = ""


@dataclass(frozen=True)
class MadeRow:
    """Figures of a row: ours by column, the paper's by column, and what there is to say."""

    label: str
    ours: dict[str, Value]
    paper: dict[str, Value]
    note: str = ""
    recipe: str | None = None
    """By which its model was made, where it is one of ViSiL's."""


@dataclass(frozen=True)
class MadeTable:
    """A table with its figures."""

    name: str
    title: str
    on: str
    """The data that our figures were measured on."""
    paper_on: str
    """The data of the paper's figures."""
    columns: list[str]
    paper_columns: list[str]
    rows: list[MadeRow] = field(default_factory=list)
    note: str = ""
    quick: bool = False
    """A toy: not trained as the paper's."""

    def to_dict(self) -> dict[str, Any]:
        """As ``visil tables --json`` prints it."""
        rows = [
            {
                "label": row.label,
                "ours": row.ours,
                "paper": row.paper,
                **({"recipe": row.recipe} if row.recipe else {}),
                **({"note": row.note} if row.note else {}),
            }
            for row in self.rows
        ]
        result = {
            "name": self.name,
            "title": self.title,
            "on": self.on,
            "paper_on": self.paper_on,
            "quick": self.quick,
            "rows": rows,
        }
        return result | ({"note": self.note} if self.note else {})


def _rows(*names: str) -> tuple[RowSpec, ...]:
    return tuple(RowSpec(name, name) for name in names)


_POOLED = ("MP-AP/MP-AP", "AP-AP/MP-AP", "MP-AP/AP-AP", "AP-AP/AP-AP")
_VISIL = ("ViSiL_f", "ViSiL_sym", "ViSiL_v")
_QUICK = "Quick: a toy. What learns was trained for minutes where the paper trains for days."

TABLES: dict[str, TableSpec] = {
    "table-2": TableSpec(
        "Frame features with dot product, videos compared by CS",
        _rows(
            *("MAC", "SPoC", "R-MAC", "GeM", "iMAC"),
            *("L2-iMAC", "L2-iMAC reduced", "L3-iMAC", "L3-iMAC reduced"),
        ),
        "Reduced: by PCA, without whitening, to 4×512 and 9×256 at most.",
    ),
    "table-3": TableSpec(
        "The parts of ViSiL, one after the other",
        _rows("ViSiL_f", "ViSiL_f+W", "ViSiL_f+W+A", "ViSiL_sym", "ViSiL_v"),
    ),
    "table-4": TableSpec("Similarity regularisation L_reg", _rows("without L_reg", "with L_reg")),
    "table-5": TableSpec("Near-duplicate video retrieval", _rows("DML", "CTE", "DP", "TN", *_VISIL)),
    "table-6": TableSpec("Fine-grained incident video retrieval", _rows("LBoW", "DP", "TN", *_VISIL)),
    "table-7": TableSpec(
        "Event video retrieval",
        _rows("LAMV", "LAMV+QE", *_VISIL),
        "The paper has its events by number, in the order of those who made the data set.",
    ),
    "table-8": TableSpec("Action video retrieval", _rows("DML", "VReL", "DP", "TN", *_VISIL)),
    "table-9": TableSpec(
        "Pooling between frames / between videos (MP: best, AP: mean)",
        tuple(RowSpec(pools, f"ViSiL_v {pools}") for pools in _POOLED),
    ),
    "systems": TableSpec(
        "Every compared system",
        (),
        "QE averages a query with its ten nearest, which helps where a query has many videos to find.",
    ),
}
"""By name; Table 10 is made in :mod:`visil.paper.stage_times`."""


def make_table(name: str, experiment: Experiment, systems: Sequence[str] | None = None) -> MadeTable:
    """Run every row of a table; ``systems`` are other rows than its own."""
    spec, rows = TABLES[name], rows_of(name, experiment.setup, systems)
    paper = numbers.TABLES.get(name, numbers.SYSTEMS)
    note = spec.note
    if name == "table-8" and experiment.networks.i3d_weights is None:
        note += " Not on I3D features, as the paper's: --i3d-weights is not given."
    experiment.prepare({row.name: row.reads for row in rows})

    def make(row: RowSpec) -> dict[str, Value]:
        size: dict[str, Value] = {"dims": _size(experiment, row)} if name == "table-2" else {}
        return size | _figures(experiment, row)

    return table_of(name, spec.title, experiment, rows, make, paper, note)


def _size(experiment: Experiment, row: RowSpec) -> str | None:
    """Regions of a frame and channels of each, as Table 2 has them: 9×3840, or 2048 of a whole frame."""
    kind = row.reads or experiment.setup.reads(row.name)
    size = None if kind is None else kind_size(kind, experiment.networks.backbone)
    return None if size is None else "×".join(str(number) for number in size if number > 1)


def rows_of(name: str, setup: Setup, systems: Sequence[str] | None = None) -> tuple[RowSpec, ...]:
    """The rows of a table: its own, or ``systems``; those of Table 8 read I3D's features wherever these can be had."""
    if systems:
        known = list(dict.fromkeys([*setup.names(), *(row.name for row in TABLES[name].rows)]))
        for one in systems:
            if one not in known:
                raise UsageError(f"unknown system {one!r}: choose one of {', '.join(known)}")
    rows = _rows(*systems) if systems else TABLES[name].rows or _rows(*setup.names())
    if name == "table-8" and (setup.networks.i3d_weights is not None or not setup.changes.quick):
        rows = tuple(RowSpec(row.label, row.name, "i3d") for row in rows)
    return rows


def table_of(
    name: str,
    title: str,
    experiment: Experiment,
    rows: Sequence[RowSpec],
    make: Callable[[RowSpec], dict[str, Value]],
    paper: PaperTable,
    note: str = "",
) -> MadeTable:
    """A table out of what ``make`` gives for each row; rows that cannot be made say why."""
    made = []
    for row in rows:
        try:
            ours, why = make(row), ""
        except Unavailable as error:
            ours, why = {}, str(error)
        made.append(
            MadeRow(row.label, ours, paper.row(row.label), why, experiment.setup.recipe_name(row.name))
        )
    columns = list(dict.fromkeys(column for row in made for column in row.ours))
    return MadeTable(
        name,
        title,
        experiment.videos.described,
        paper.dataset,
        columns,
        list(paper.columns),
        made,
        " ".join(filter(None, (noted(experiment, [row.name for row in rows]), note))),
        experiment.changes.quick,
    )


def noted(experiment: Experiment, rows: Sequence[str | Recipe]) -> str:
    """Differences from the paper in all rows that learn, and models that were not trained here."""
    said = [_QUICK] if experiment.changes.quick else []
    said += [f"On {experiment.networks.backbone}."] if experiment.networks.backbone != "resnet50" else []
    changed = [f"{k} {v:g}" for part in experiment.changes.settings.values() for k, v in part.items()]
    said += [f"Not as the recipes have it: {', '.join(changed)}."] if changed else []
    if experiment.changes.base != "paper":
        said.append(f"Variants of the recipe {experiment.changes.base}.")
    if "LBoW" in rows:
        own = f"LBoW reads {experiment.networks.backbone}, not VGG-16 as in the paper: --vgg-weights is not given."
        said.append("LBoW reads VGG-16." if experiment.networks.vgg_weights else own)
    given = dict.fromkeys(name for row in rows if (name := experiment.setup.given(row)) is not None)
    models = [f"{name} ({experiment.models[name].config.name})" for name in given]
    said += [f"Given by --model: {', '.join(models)}."] if models else []
    return " ".join(said)


def flat(figures: Figures) -> dict[str, Value]:
    """The figures that a table shows: all but counts; those of DSVR by edit, or of events, under their names."""
    found: dict[str, Value] = {}
    for name, value in figures.items():
        match value:
            case dict():
                found |= {str(inner): one for inner, one in value.items() if isinstance(one, float)}
            case float():
                found[name] = value
    return found


def _figures(experiment: Experiment, row: RowSpec) -> dict[str, Value]:
    return flat(experiment.figures(row.name, row.reads))
