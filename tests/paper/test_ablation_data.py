"""The ablation as data: which recipe a row or a point of a curve is."""

from __future__ import annotations

from visil.paper.ablation import CURVES, curve_recipe, row_recipe
from visil.training.recipes import RECIPES


def test_a_point_of_a_curve_is_the_recipe_with_one_setting_changed() -> None:
    paper = RECIPES["paper"]
    for name, value, setting in (
        ("gamma", 1.0, "loss.margin"),
        ("r", 0.5, "loss.regularisation"),
        ("w", 96, "data.window"),
    ):
        recipe = curve_recipe(CURVES[name], value)
        one, other = paper.config.decisive(), recipe.config.decisive()
        assert {key for key in one if one[key] != other[key]} == {setting}
        assert other[setting] == value
    assert curve_recipe(CURVES["gamma"], 0.5) == curve_recipe(CURVES["w"], 64) == paper


def test_rows_of_table_9_pool_as_they_are_called() -> None:
    assert row_recipe("ViSiL_v MP-AP/MP-AP") == row_recipe("ViSiL_v") == RECIPES["paper"]
    model = row_recipe("ViSiL_v AP-AP/MP-AP").model()
    assert (model.frame_pool, model.video_pool) == (("mean", "mean"), ("max", "mean"))
