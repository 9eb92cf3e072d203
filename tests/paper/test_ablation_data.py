"""The ablation as data: curves change one setting, tables name what is trained, the paper's numbers beside it."""

from __future__ import annotations

from visil.paper.ablation import CURVES, TABLES, VARIANTS, paper_dsvr
from visil.paper.short_training import ShortTraining


def test_a_curve_changes_one_setting_of_v() -> None:
    for curve in CURVES.values():
        for label, name in TABLES[curve.title].items():
            assert vars(VARIANTS[name]) == {**vars(VARIANTS["v"]), curve.setting: float(label)}


def test_every_variant_is_in_a_table() -> None:
    assert {name for lines in TABLES.values() for name in lines.values()} == set(VARIANTS)


def test_the_paper_beside_it() -> None:
    assert paper_dsvr() == {"f": 0.838, "f+W": 0.844, "f+W+A": 0.856, "sym": 0.830, "v": 0.880, "r=0": 0.859}


def test_short_trainings_start_from_the_same_settings() -> None:
    usual, v = ShortTraining(), VARIANTS["v"]
    assert (usual.margin, usual.regularisation, usual.window) == (v.margin, v.regularisation, v.window)
    assert usual.with_setting("window", 16.0) == ShortTraining(window=16)
    assert usual.with_setting("margin", 1.0).margin == 1.0
    assert usual.with_setting("regularisation", 0.0).regularisation == 0.0
