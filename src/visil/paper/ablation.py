"""The ablation as data: the recipes behind the rows of Tables 3 to 10 and the points of Figure 5.

``visil tables`` trains them (:mod:`visil.paper.trained_models`); ``benchmarks/ablation.py`` does so with vectors that
all of them share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from visil.model.config import ViSiLConfig
from visil.paper import numbers
from visil.paper.baselines.visil_systems import POOLED, POOLINGS, ROWS
from visil.training.recipes import RECIPES, Recipe

Setting = Literal["margin", "regularisation", "window"]
"""What a curve changes: γ of Eq. 7, r of Eq. 9, W."""


@dataclass(frozen=True)
class Curve:
    """One curve of Figure 5."""

    title: str
    setting: Setting
    sign: str
    values: tuple[float, ...]
    """Tried by ``visil tables`` unless others are asked for."""
    paper_says: str


CURVES: dict[str, Curve] = {
    "gamma": Curve(
        "Margin γ",
        "margin",
        "γ",
        (0.25, 0.5, 0.75, 1.0),
        "The paper: DSVR rises with γ; ISVR is highest from 0.25 to 0.5 and falls beyond.",
    ),
    "r": Curve(
        "Regularisation r",
        "regularisation",
        "r",
        (0.01, 0.05, 0.1, 0.5, 1.0),
        "The paper: DSVR and CSVR are highest at r = 1, ISVR at r = 0.1.",
    ),
    "w": Curve(
        "Snippets W",
        "window",
        "W",
        (32, 64, 96),
        "The paper: DSVR and CSVR rise with W, 0.880 and 0.870 at W = 96; ISVR hardly changes.",
    ),
}
"""By the name that ``visil tables`` has for each."""


RECIPE_OF: dict[str, str] = {
    "ViSiL_f": "paper-f",
    "ViSiL_f+W": "paper-f+w",
    "ViSiL_f+W+A": "paper-f+w+a",
    "ViSiL_sym": "paper-sym",
    "ViSiL_v": "paper",
    "without L_reg": "paper-without-reg",
    "with L_reg": "paper",
}
"""The rows that are ViSiL itself."""


def row_recipe(name: str) -> Recipe:
    """The recipe of a row: of Tables 3 to 8 and 10, or of Table 9 ("ViSiL_v AP-AP/MP-AP")."""
    row, frames, videos = POOLED.get(name, (name, "MP-AP", "MP-AP"))
    plain = RECIPES[RECIPE_OF[row]]
    if frames == videos == "MP-AP":
        return plain
    pools = {"frame_pool": POOLINGS[frames], "video_pool": POOLINGS[videos]}
    return plain.with_settings(f"{plain.name}, {frames}/{videos}", model=pools)


def curve_recipe(curve: Curve, value: float) -> Recipe:
    """The recipe of a point of Figure 5: the paper's with another γ, r or W."""
    paper = RECIPES["paper"]
    part = "data" if curve.setting == "window" else "loss"
    chosen = round(value) if curve.setting == "window" else value
    if getattr(getattr(paper.config, part), curve.setting) == chosen:
        return paper
    changed: dict[str, Any] = {curve.setting: chosen}
    return paper.with_settings(f"paper, {curve.setting}={value:g}", **{part: changed})


@dataclass(frozen=True)
class Variant:
    """A model of the ablation: a row of Table 3, and how it is trained where there is something to train."""

    row: str = "ViSiL_v"
    margin: float = 0.5
    regularisation: float = 0.1
    window: int = 64
    lr: float | None = None
    """None: as for all."""
    epochs: int | None = None
    """None: as for all."""
    seed: int = 0
    """Of the parts that learn."""
    joined: bool = False
    """Clips joined into videos of minutes, and the paper's own triplets of them: all of a snippet can be shared."""

    @property
    def preset(self) -> ViSiLConfig:
        """The paper's model of that row."""
        return ROWS[self.row]

    @property
    def trained(self) -> bool:
        """Whether anything in it learns."""
        return self.preset.attention is not None or self.preset.comparator is not None

    def config(self, backbone: str, dim: int) -> ViSiLConfig:
        """The preset on a backbone and, where it whitens, of a width."""
        return self.preset.replaced(backbone=backbone, dim=dim if self.preset.dim is not None else None)


VARIANTS: dict[str, Variant] = {
    "f": Variant("ViSiL_f"),
    "f+W": Variant("ViSiL_f+W"),
    "f+W+A": Variant("ViSiL_f+W+A", lr=1e-2),
    "sym": Variant("ViSiL_sym"),
    "v": Variant(),
    "r=0": Variant(regularisation=0.0),
    "gamma=0.25": Variant(margin=0.25),
    "gamma=0.75": Variant(margin=0.75),
    "gamma=1": Variant(margin=1.0),
    "W=16": Variant(window=16),
    "W=32": Variant(window=32),
    "r=1": Variant(regularisation=1.0),
    "r=0.05": Variant(regularisation=0.05),
    "r=0.5": Variant(regularisation=0.5),
    "W=96": Variant(window=96),
    "joined, W=16": Variant(window=16, joined=True),
    "joined, W=32": Variant(window=32, joined=True),
    "joined, W=64": Variant(joined=True),
    "joined, W=96": Variant(window=96, joined=True),
    "v, seed 1": Variant(seed=1),
    "v, seed 2": Variant(seed=2),
    "W=16, seed 1": Variant(window=16, seed=1),
    "W=16, seed 2": Variant(window=16, seed=2),
    "joined, W=16, seed 1": Variant(window=16, joined=True, seed=1),
    "joined, W=64, seed 1": Variant(joined=True, seed=1),
    "joined, W=16, seed 2": Variant(window=16, joined=True, seed=2),
    "joined, W=64, seed 2": Variant(joined=True, seed=2),
    "lr 3e-4": Variant(lr=3e-4),
    "lr 1e-4": Variant(lr=1e-4),
    "sym, seed 1": Variant("ViSiL_sym", seed=1),
    "r=0, seed 1": Variant(regularisation=0.0, seed=1),
    "gamma=0.25, seed 1": Variant(margin=0.25, seed=1),
    "gamma=1, seed 1": Variant(margin=1.0, seed=1),
}
"""In the order they are trained: what a run that is cut short misses are points of a curve."""

TABLES: dict[str, dict[str, str]] = {
    "Table 3: components": {
        "ViSiL_f": "f",
        "ViSiL_f+W": "f+W",
        "ViSiL_f+W+A": "f+W+A",
        "ViSiL_sym": "sym",
        "ViSiL_v": "v",
    },
    "Table 4: similarity regularisation": {"without L_reg": "r=0", "with L_reg": "v"},
    CURVES["gamma"].title: {"0.25": "gamma=0.25", "0.5": "v", "0.75": "gamma=0.75", "1": "gamma=1"},
    CURVES["r"].title: {"0": "r=0", "0.05": "r=0.05", "0.1": "v", "0.5": "r=0.5", "1": "r=1"},
    CURVES["w"].title: {"16": "W=16", "32": "W=32", "64": "v", "96": "W=96"},
    "Snippets W of videos of minutes": {
        "16": "joined, W=16",
        "32": "joined, W=32",
        "64": "joined, W=64",
        "96": "joined, W=96",
    },
    "Other seeds": {name: name for name in VARIANTS if "seed" in name},
    "Other rates": {"1e-4": "lr 1e-4", "3e-4": "lr 3e-4", "1e-3": "v"},
}
"""Each table's lines, and the variant that each shows."""


def paper_dsvr() -> dict[str, float]:
    """What the paper has for the variants of Tables 3 and 4: mAP on FIVR-5K, DSVR."""
    found: dict[str, float] = {}
    for name, lines in zip(("table-3", "table-4"), TABLES.values(), strict=False):
        for label, variant in lines.items():
            value = numbers.TABLES[name].row(label)["DSVR"]
            if value is not None:
                found[variant] = value
    return found
