"""Figures: what is drawn against numbers worked out by hand, and pictures that open."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from toy_bench import QUICK, SMALL, small_experiment, small_model, write_clips
from visil.compare.visil import ViSiL
from visil.errors import UsageError, VideoError
from visil.evaluation.datasets.activitynet import ActivityNet
from visil.evaluation.datasets.fivr import Fivr
from visil.evaluation.predictions import as_scores
from visil.model.config import ViSiLConfig
from visil.model.features import VideoFeatures
from visil.model.formula import Formula
from visil.model.whitening import Whitening
from visil.paper import stage_times
from visil.paper.experiment import Experiment
from visil.paper.feature_bank import Networks
from visil.paper.figures import (
    duplicates_of,
    example_pairs,
    figure_4,
    figure_5,
    figure_6,
    figure_7,
    precision_recall,
    precision_recall_table,
    unannotated,
)
from visil.paper.output import curve_figure, precision_recall_figure, time_figure
from visil.paper.stage_times import STAGES, Timed, table_10
from visil.paper.tables import MadeRow, MadeTable
from visil.paper.trained_models import DONE


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    clips = write_clips(tmp_path_factory.mktemp("clips"), 8)
    return small_experiment(clips, tmp_path_factory.mktemp("out"), small_model())


def test_precision_recall_of_known_scores(experiment: Experiment) -> None:
    """All originals above all others: precision 1 everywhere; one stranger above all: hits/(hits + 1)."""
    benchmark = experiment.videos.benchmark
    perfect = {
        query: {target: float(target in duplicates_of(benchmark, query)) for target in benchmark.database}
        for query in benchmark.queries
    }
    assert precision_recall(experiment, as_scores(perfect)) == pytest.approx(np.ones(21))
    query = benchmark.queries[0]
    (stranger, *_) = sorted(set(benchmark.database) - duplicates_of(benchmark, query))
    perfect[query][stranger] = 2.0
    found = precision_recall(experiment, as_scores(perfect))
    # All originals share one score: they come at once, as many as there are queries.
    count = len(benchmark.queries)
    assert found == pytest.approx(np.full(21, count / (count + 1)))


def test_precision_recall_is_drawn(experiment: Experiment) -> None:
    table = precision_recall_table(experiment, ["MAC", "I3D"])
    assert [bool(row.ours) for row in table.rows] == [True, False]
    assert len(table.columns) == 21
    (axes,) = precision_recall_figure(table).axes
    (line,) = axes.lines
    assert line.get_ydata() == pytest.approx(list(table.rows[0].ours.values()))


def test_a_curve_is_drawn_of_the_models_of_its_values(experiment: Experiment) -> None:
    """Trainings with other values: ``test_reproduce.py``."""
    table = figure_5("gamma", experiment, [0.5])
    assert [row.label for row in table.rows] == ["0.5"]
    finished = [file.parent.name for file in experiment.models_folder.glob(f"*/{DONE}")]
    folders = {name.rpartition("-")[0] for name in finished}
    assert folders == {"paper-quick-changed"}  # γ = 0.5 is the row itself
    (axes,) = curve_figure(table, "γ").axes
    assert len(axes.lines) == len(table.columns)
    assert axes.lines[0].get_ydata() == pytest.approx([row.ours["DSVR"] for row in table.rows])
    with pytest.raises(UsageError, match="W must be a whole number of at least 4 frames, not 2"):
        figure_5("w", experiment, [2])


def test_pairs_of_the_truth(experiment: Experiment) -> None:
    pairs = example_pairs(experiment)
    assert next(kind for kind, _, _ in pairs) == "duplicate scene"
    (_, query, source) = pairs[0]
    assert query.startswith(f"{source}#")
    for kind, own, target in pairs[1:]:
        assert own == query
        assert target != source
        if kind == "same folder":
            assert target.split("/")[0] == source.split("/")[0]


def test_matrices_are_those_of_the_model(experiment: Experiment) -> None:
    table, figure = figure_7(experiment)
    assert len(figure.axes) == 3 * len(table.rows)
    assert all(-1 <= float(row.ours["score"] or 0) <= 1 for row in table.rows)
    frames, outputs = figure.axes[1].images[0].get_array(), figure.axes[2].images[0].get_array()
    assert frames is not None
    assert outputs is not None
    assert [max(4, side) // 4 for side in frames.shape] == list(outputs.shape)  # the network's two poolings


def test_a_model_of_another_network_is_drawn_and_timed_on_its_own_features(experiment: Experiment) -> None:
    """Its whitening does not fit the vectors that the other rows read; where it would, the figure would be wrong."""
    config = ViSiLConfig("own", "efficientnet-lite0", (1,), levels=(2,), dim=8, attention="context")
    model = ViSiL(
        config.replaced(comparator="replicate", sampling=SMALL), with_backbone=False
    ).load_backbone()
    videos, networks, out = experiment.videos, experiment.networks, experiment.out
    given = Experiment(videos, networks, out, SMALL, changes=QUICK, models={"ViSiL_v": model})
    table, _ = figure_7(given)
    query, target = table.rows[0].label.removeprefix("duplicate scene: ").split(", ")
    embedded = [
        model.embed_frames(torch.from_numpy(np.concatenate([batch.images for batch in videos.batches(name)])))
        for name in (query, target)
    ]
    assert table.rows[0].ours["score"] == pytest.approx(model.compare(*embedded).score, abs=1e-3)
    assert table_10(given).rows[3].recipe == "given: own"


def test_of_a_pair_that_cannot_be_read_another_is_drawn(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = experiment.bank
    monkeypatch.setattr(bank, "unreadable", {})
    monkeypatch.setattr(bank.videos, "failed", [])
    first = example_pairs(experiment)[0][2]
    prepare = bank.prepare

    def prepare_all_but_the_first(kinds: list[str], names: list[str]) -> None:
        if first in names:
            bank.left_out(first, first, "damaged")
        prepare(kinds, names)

    monkeypatch.setattr(bank, "prepare", prepare_all_but_the_first)
    table, _ = figure_7(experiment)
    assert table.rows[0].label.startswith("duplicate scene: ")
    assert all(first not in row.label.split(", ") for row in table.rows)
    assert bank.videos.failed == [(first, "damaged")]


def test_of_a_video_whose_picture_cannot_be_read_another_is_drawn(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank, videos = experiment.bank, experiment.videos
    monkeypatch.setattr(bank, "unreadable", {})
    monkeypatch.setattr(videos, "failed", [])
    first = figure_6(experiment)[0].rows[0].label
    pictures = videos.pictures

    def all_but_the_first(name: str, places: Sequence[float]) -> NDArray[np.uint8]:
        if name == first:
            raise VideoError(name, "damaged")
        return pictures(name, places)

    monkeypatch.setattr(videos, "pictures", all_but_the_first)
    assert first not in [row.label for row in figure_6(experiment)[0].rows]
    assert videos.failed == [(first, "damaged")]


def test_attention_is_drawn(experiment: Experiment) -> None:
    table, figure = figure_6(experiment)
    assert len(figure.axes) == 2 * len(table.rows) + 1
    for row in table.rows:
        assert (
            0 <= float(row.ours["least"] or 0) <= float(row.ours["mean"] or 0) <= float(row.ours["most"] or 0)
        )


def test_times_add_up(experiment: Experiment) -> None:
    row = Timed(0.5, 1.0, 0.25, 0.002, 0.001).row()
    assert row["offline s"] == 1.25
    assert row["online ms"] == pytest.approx(3)
    table = table_10(experiment)
    assert [made.label for made in table.rows] == ["MAC", "iMAC", "ViSiL_f", "ViSiL_v"]
    assert all(float(made.ours[stage] or 0) >= 0 for made in table.rows for stage in STAGES)
    assert float(table.rows[0].ours["refine s"] or 0) == 0
    assert float(table.rows[3].ours["refine s"] or 0) > 0
    assert table.rows[3].paper["online ms"] == 9.5


def test_stages_are_timed_where_the_networks_are(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another device, which torch has without a GPU: vectors of the maker come from the CPU, as all makers' do."""
    elsewhere = torch.device("meta")
    seen: list[torch.device] = []

    class Maker:
        def embed_frames(self, frames: Tensor) -> dict[str, VideoFeatures]:
            return {"l3-imac": VideoFeatures(torch.ones(len(frames), 9, 16), torch.arange(len(frames)))}

    class Recorder:
        def __init__(self, _: Formula, device: torch.device) -> None:
            seen.append(device)

        def frames(self, query: Tensor, targets: Sequence[Tensor]) -> None:
            seen.extend(vectors.device for vectors in (query, *targets))

        def pair(self, query: Tensor, target: Tensor) -> None:
            seen.extend((query.device, target.device))

    monkeypatch.setattr(Networks, "maker", lambda *_: Maker())
    monkeypatch.setattr(stage_times, "Scorer", Recorder)
    monkeypatch.setattr(experiment, "networks", Networks(device=elsewhere))
    clips = [torch.zeros(count, 8, 8, 3, dtype=torch.uint8) for count in (4, 5)]
    model = ViSiL(ViSiLConfig(backbone="efficientnet-lite0"), with_backbone=False)
    for own in (None, model):
        seen.clear()
        if own is not None:
            own.whitening = Whitening.unfitted(16, 8)
        stage_times._times(experiment, "l3-imac", clips, 0.5, own)
        assert set(seen) == {elsewhere}
    assert model.device == elsewhere


def test_a_gpu_is_waited_for_at_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: done.append(str(device)))
    stage_times._timed(lambda: done.append("work"), torch.device("cuda", 1))
    assert done == ["cuda:1", "work", "cuda:1"]
    stage_times._timed(lambda: done.append("work"))
    assert done[3:] == ["work"]


def test_stages_are_laid_end_to_end() -> None:
    rows = [MadeRow("x", Timed(1.0, 2.0, 3.0, 0.004, 0.005).row(), {})]
    figure = time_figure(MadeTable("time-per-stage", "Time", "", "", [], [], rows))
    boxes = [
        [bar.get_path().get_extents(bar.get_patch_transform()) for bar in a.patches] for a in figure.axes
    ]
    spans = [[(box.x0, box.width) for box in some] for some in boxes]
    assert np.array(spans[0]) == pytest.approx(np.array([(0, 1), (1, 2), (3, 3)]))
    assert np.array(spans[1]) == pytest.approx(np.array([(0, 4), (4, 5)]))


def test_benchmarks_without_duplicate_scenes() -> None:
    with pytest.raises(UsageError, match="activitynet has no duplicate scenes"):
        duplicates_of(ActivityNet({"x": frozenset("y")}), "x")


def test_a_figure_of_duplicates_is_refused_before_any_work(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment.videos, "benchmark", ActivityNet({"x": frozenset("y")}))
    monkeypatch.setattr(Experiment, "prepare", lambda *_: pytest.fail("features were made"))
    monkeypatch.setattr(Experiment, "predictions", lambda *_: pytest.fail("videos were scored"))
    with pytest.raises(UsageError, match="activitynet has no duplicate scenes"):
        figure_4(experiment)
    with pytest.raises(UsageError, match="activitynet has no duplicate scenes"):
        precision_recall_table(experiment, ["ViSiL_v"])


def test_mistakes_are_the_highest_pairs_that_the_truth_does_not_know(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark = experiment.videos.benchmark
    expected = []
    for query, row in experiment.predictions("MAC").scores.items():
        truth = duplicates_of(benchmark, query)
        values = dict(zip(row.targets, row.values.tolist(), strict=True))
        highest = max(value for target, value in values.items() if target not in truth)
        expected.append((highest, 1 + sum(value > highest for value in values.values()), query))
    found = unannotated(experiment, "MAC")
    assert sorted(pair[:3] for pair in found) == sorted(expected)
    assert [pair[0] for pair in found] == sorted((pair[0] for pair in found), reverse=True)
    assert all(target not in duplicates_of(benchmark, query) for _, _, query, target in found)
    table, figure = figure_4(experiment, "MAC")
    assert len(figure.axes) == 2 * len(table.rows)
    a, b, c = sorted(benchmark.database)[:3]
    twice = [(0.9, 1, a, b), (0.8, 1, b, a), (0.7, 1, c, a)]
    monkeypatch.setattr("visil.paper.figures.unannotated", lambda *_: twice)
    assert [row.label for row in figure_4(experiment, "MAC")[0].rows] == [f"{a}, {b}", f"{c}, {a}"]


def test_what_has_any_label_is_no_mistake_of_the_annotation() -> None:
    """FIVR knows more than duplicates: a complementary scene that ranks high was labelled, and is none."""
    labels = {"q": {"ND": frozenset("a"), "CS": frozenset("b"), "DA": frozenset("c")}}
    fivr = Fivr("fivr-5k", labels, ("q",), frozenset("abcd"))
    scores = as_scores({"q": {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6}})
    made = SimpleNamespace(
        videos=SimpleNamespace(benchmark=fivr),
        bank=SimpleNamespace(readable=list),
        prepare=lambda _: None,
        predictions=lambda _: SimpleNamespace(scores=scores),
    )
    assert unannotated(cast(Experiment, made), "MAC") == [(0.6, 4, "q", "d")]
