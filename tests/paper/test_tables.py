"""Tables: rows and figures against the systems run by hand; the paper's numbers; every writer's output read back."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from toy_bench import SMALL, small_experiment, small_model, write_clips
from visil.errors import UsageError
from visil.model.similarity import frame_matrix
from visil.paper import numbers
from visil.paper.baselines.registry import SYSTEMS, system
from visil.paper.experiment import Experiment, Unavailable
from visil.paper.feature_kinds import FeatureMaker
from visil.paper.output import save_figure, to_csv, to_figure, to_markdown
from visil.paper.reproduce import NAMES, chosen_names
from visil.paper.tables import TABLES, MadeRow, MadeTable, flat, make_table, rows_of

MADE = MadeTable(
    "table-3",
    "Parts",
    "some clips",
    "FIVR-5K",
    ["DSVR", "online ms"],
    ["DSVR"],
    [
        MadeRow("ViSiL_f", {"DSVR": 0.5, "online ms": 12.3456}, {"DSVR": 0.838}),
        MadeRow("a|b", {"DSVR": 0.75, "online ms": 3.0}, {"DSVR": None}),
        MadeRow("I3D", {}, {}, "needs a file"),
    ],
    "A note.",
)


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clips(tmp_path_factory.mktemp("clips"), 8)


@pytest.fixture(scope="module")
def experiment(clips: Path, tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return small_experiment(clips, tmp_path_factory.mktemp("out"), small_model())


def test_a_row_is_the_system_run_by_hand(experiment: Experiment) -> None:
    """MAC by the plain formulas from the frames themselves, float64: the same scores, the same mAP."""
    videos = experiment.videos
    maker = FeatureMaker(["mac"], backbone="efficientnet-lite0")
    found = experiment.predictions("MAC").scores
    vectors = {
        name: torch.cat([part["mac"].vectors for part in maker.parts(videos.batches(name))]).half().double()
        for name in (*videos.benchmark.queries, *videos.benchmark.database)
    }
    ranks = []
    for query, row in found.items():
        expected = [
            float(frame_matrix(vectors[query], vectors[target]).amax(dim=1).mean()) for target in row.targets
        ]
        assert row.values == pytest.approx(np.array(expected), abs=1e-5)
        order = [row.targets[place] for place in np.argsort(-np.array(expected))]
        ranks.append(1 / (1 + order.index(query.partition("#")[0])))
    assert experiment.figures("MAC")["DSVR"] == pytest.approx(np.mean(ranks))


def test_systems_that_learn_see_only_the_learning_part(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str | None] = []
    made = system("DP")
    monkeypatch.setattr(type(made), "learn", lambda _, videos, **__: seen.extend(v.path for v in videos))
    experiment.teach(made)
    assert sorted(map(str, seen)) == sorted(experiment.videos.learning)
    assert not set(map(str, seen)) & set(experiment.videos.benchmark.database)


def test_a_second_experiment_computes_nothing(
    experiment: Experiment, clips: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = experiment.figures("MAC")
    again = small_experiment(clips, experiment.out, small_model())

    def never(*_: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(FeatureMaker, "parts", never)
    monkeypatch.setattr("visil.paper.experiment.score_system", never)
    assert again.figures("MAC") == first


def test_rows_that_cannot_be_made_say_why(experiment: Experiment) -> None:
    table = make_table("systems", experiment, ["MAC", "I3D", "model"])
    assert [row.label for row in table.rows] == ["MAC", "I3D", "model"]
    assert "--i3d-weights" in table.rows[1].note
    assert table.rows[1].ours == {}
    assert table.rows[0].paper["DSVR"] == 0.747
    assert 0 < float(table.rows[2].ours["DSVR"] or 0) <= 1
    with pytest.raises(Unavailable, match="--i3d-weights"):
        experiment.predictions("DML", "i3d")
    with pytest.raises(UsageError, match=r"unknown system 'MACK'.*MAC, MAC \+PCA"):
        make_table("table-2", experiment, ["MACK"])
    assert [row.label for row in rows_of("table-4", experiment.setup, ["without L_reg"])] == ["without L_reg"]


def test_every_name_of_the_registry_is_in_the_table_of_systems(experiment: Experiment) -> None:
    assert set(experiment.setup.names()) == {*SYSTEMS, "I3D"}
    listed = {row.name for spec in TABLES.values() for row in spec.rows if "L_reg" not in row.name}
    assert listed <= set(experiment.setup.names())


def test_trained_models_are_kept(
    experiment: Experiment, clips: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = experiment.trained("ViSiL_v")
    monkeypatch.setattr("visil.training.run.train", lambda *_, **__: pytest.fail("trained again"))
    again = small_experiment(clips, experiment.out).trained("ViSiL_v")
    assert first.state_dict().keys() == again.state_dict().keys()
    assert all((one == again.state_dict()[name]).all() for name, one in first.state_dict().items())
    assert again.config.sampling.crop == SMALL.crop
    assert small_experiment(clips, experiment.out).trained("ViSiL_f+W").comparator is None  # nothing to train


def test_tables_of_the_paper() -> None:
    """A few numbers read off the paper again, and the rows that every table must have."""
    assert numbers.TABLES["table-3"].row("ViSiL_v") == {"DSVR": 0.880, "CSVR": 0.869, "ISVR": 0.777}
    assert numbers.TABLES["table-5"].row("CTE")["cc_web*"] is None
    assert numbers.TABLES["table-7"].row("ViSiL_v")["event 13"] == 0.855
    assert numbers.TABLES["table-10"].row("iMAC")["online ms"] == 2.3
    for name, table in numbers.TABLES.items():
        assert all(len(row) == len(table.columns) for row in table.rows.values())
        if name in TABLES:
            assert list(table.rows) == [row.label for row in TABLES[name].rows]
    # EVVE's mAP weighs events by their queries, so it is no plain mean, but lies between the events.
    for row in numbers.TABLES["table-7"].rows.values():
        mean, *events = [value for value in row if isinstance(value, float)]
        assert len(events) == 13
        assert min(events) < mean < max(events)


def test_markdown_is_read_back() -> None:
    lines = to_markdown(MADE).splitlines()
    assert lines[0] == "### Table 3: Parts"
    assert lines[2] == "Ours: some clips. The paper: FIVR-5K. A note."
    cells = [[cell.strip() for cell in line.replace("\\|", "¦").strip("|").split("|")] for line in lines[4:]]
    assert cells[0] == ["", "DSVR", "online ms", "paper: DSVR"]
    assert cells[2] == ["ViSiL_f", "0.500", "12.3", "0.838"]
    assert cells[3] == ["a¦b", "**0.750**", "3", "–"]
    assert cells[4] == ["I3D", "needs a file", "", "–"]
    assert len({len(line) for line in cells}) == 1


def test_csv_is_read_back() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(MADE))))
    assert [row["row"] for row in rows] == ["ViSiL_f", "a|b", "I3D"]
    assert float(rows[0]["online ms"]) == 12.3456
    assert (rows[1]["paper DSVR"], rows[2]["DSVR"], rows[2]["note"]) == ("", "", "needs a file")


def test_picture_shows_both(tmp_path: Path) -> None:
    figure = to_figure(MADE)
    (axes,) = figure.axes
    widths = [bar.get_path().get_extents(bar.get_patch_transform()).width for bar in axes.patches]
    assert widths == pytest.approx([0, 0.75, 0.5])  # the first row on top
    assert np.asarray(axes.collections[0].get_offsets()).tolist() == [[0.838, 2]]
    with Image.open(save_figure(figure, tmp_path / "deep" / "table.png")) as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 100


def test_figures_laid_flat() -> None:
    figures = {"mAP": 0.5, "events": {"1": 0.25, "2": None}, "queries": 3}
    assert flat(figures) == {"mAP": 0.5, "1": 0.25}


def test_names() -> None:
    assert chosen_names(["table-3", "systems", "table-3"]) == ["table-3", "systems"]
    assert chosen_names(["all"]) == [name for name in NAMES if name != "fivr-5k"]  # which is no table
    assert chosen_names(["figure-5", "r", "figure-7"]) == ["gamma", "r", "w", "matrices"]
    assert {f"table-{number}" for number in range(2, 11)} < set(NAMES)
    with pytest.raises(UsageError, match=r"unknown table 'table-1': choose from table-2, .*, or all"):
        chosen_names(["table-1"])


def test_unreadable_videos_are_left_out_of_the_truth(clips: Path, tmp_path: Path) -> None:
    own = small_experiment(clips, tmp_path)
    gone = sorted(own.videos.benchmark.database)[0]
    own.bank.left_out(gone, gone, "damaged")
    figures = own.figures("MAC")
    assert figures["missing_videos"] == 1
    row = own.predictions("MAC").scores[own.videos.benchmark.queries[0]]
    assert gone not in row.targets
    again = small_experiment(clips, tmp_path)  # scores are read back: the truth is the same
    assert again.figures("MAC") == figures
    assert again.videos.failed == [(gone, "damaged")]
