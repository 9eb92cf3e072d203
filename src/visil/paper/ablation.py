"""The ablation as data: the recipes behind the rows of Tables 3 to 10 and the points of Figure 5.

``visil tables`` trains them (:mod:`visil.paper.trained_models`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from visil.paper.baselines.visil_systems import POOLED, POOLINGS
from visil.training.recipes import RECIPES, Recipe

Setting = Literal["margin", "regularisation", "window"]
"""The setting that a curve changes: γ of Eq. 7, r of Eq. 9, W."""


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
