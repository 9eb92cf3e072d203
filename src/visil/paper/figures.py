"""The paper's figures on an experiment: 1, 7 (matrices), 4 (mistakes), 5 (curves), 6 (attention); precision, recall."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError, VideoError
from visil.evaluation.benchmark import Benchmark, RankedTargets
from visil.evaluation.datasets.fivr import TASKS, Fivr, hardest_part
from visil.evaluation.metrics import interpolated_precision
from visil.evaluation.predictions import Scores
from visil.matching.match import Match
from visil.model.features import VideoFeatures
from visil.paper.ablation import CURVES, curve_recipe
from visil.paper.baselines.system import ComparedSystem
from visil.paper.built_in import BuiltIn
from visil.paper.experiment import Experiment, Unavailable
from visil.paper.feature_bank import FeatureBank
from visil.paper.tables import MadeRow, MadeTable, Value, flat, noted
from visil.plots.attention_figure import attention_figure
from visil.plots.heat import HEAT
from visil.plots.panels import INK
from visil.training.recipes import Recipe

PUBLISHED: dict[str, Value] = {
    "queries": "50",
    "videos": "5000",
    "DSVR": "1081",
    "CSVR": "1322",
    "ISVR": "1945",
}
"""FIVR-5K as its authors published it (``fivr.pickle``)."""

MISTAKES = 6
"""Pairs in the picture of mistakes."""

POINTS = 21
WIDER = {
    True: {"CSVR": "same folder", "ISVR": "same top-level folder"},
    False: {"CSVR": "complementary scene", "ISVR": "same incident"},
}
"""Relations beyond duplicates, on the built-in benchmark or not, by the task that counts them."""

Pair = tuple[str, str, str]
"""A relation, a query and a target."""

ATTENDED = 6
"""Frames in the picture of attention, each of another video."""


def precision_recall_table(experiment: Experiment, systems: Sequence[str]) -> MadeTable:
    """Interpolated precision at 21 recalls for duplicate scenes (DSVR): :func:`precision_recall` of each system."""
    benchmark = experiment.videos.benchmark
    require_duplicates(benchmark)
    recalls = [f"{recall:.2f}" for recall in np.linspace(0, 1, POINTS)]
    experiment.prepare(dict.fromkeys(systems))
    rows = []
    for name in systems:
        try:
            scores = experiment.predictions(name).scores
        except Unavailable as error:
            rows.append(MadeRow(name, {}, {}, str(error)))
            continue
        mean = precision_recall(experiment, scores).tolist()
        ours: dict[str, Value] = dict(zip(recalls, mean, strict=True))
        rows.append(MadeRow(name, ours, {}))
    title = f"Precision over recall, DSVR, {_how(benchmark)}"
    return _table(experiment, "pr-curves", title, recalls, rows, models=systems)


def precision_recall(experiment: Experiment, scores: Scores) -> NDArray[np.float64]:
    """As FIVR's authors draw it, the mean over queries; on the built-in benchmark all pairs in one ranking.

    A query with one video to find has the same precision at every recall: a mean of such lines would say nothing.
    """
    benchmark = experiment.videos.benchmark
    database = frozenset(experiment.bank.readable(sorted(benchmark.database)))
    rankings = []
    for query, row in scores.items():
        relevant = duplicates_of(benchmark, query) & database
        if relevant:
            ranked = RankedTargets(row, database, but=query)
            rankings.append((ranked.values, ranked.flags(relevant), len(relevant)))
    if isinstance(benchmark, BuiltIn):
        values, flags, totals = zip(*rankings, strict=True)
        return interpolated_precision(np.concatenate(values), np.concatenate(flags), sum(totals))
    return np.mean([interpolated_precision(*ranking) for ranking in rankings], axis=0)


def _how(benchmark: Benchmark) -> str:
    return "all pairs in one ranking" if isinstance(benchmark, BuiltIn) else "mean over queries"


def figure_4(experiment: Experiment, system: str = "ViSiL_v") -> tuple[MadeTable, Figure]:
    """Figure 4: the pairs that a system finds most alike of those without a label, one a query.

    In the paper these are mistakes of the annotation, seen by looking at them; here they are put where they can be
    looked at. On the built-in benchmark, whose truth is known, they are mistakes of the system.
    """
    found: dict[frozenset[str], tuple[float, int, str, str]] = {}
    for pair in unannotated(experiment, system):
        found.setdefault(frozenset(pair[2:]), pair)  # two queries may be each other's
    pairs = list(found.values())[:MISTAKES]
    if not pairs:
        raise UsageError("every pair of this benchmark is annotated: there is no mistake to show")
    rows = [
        MadeRow(f"{query}, {target}", {"score": score, "rank": str(rank)}, {})
        for score, rank, query, target in pairs
    ]
    figure = Figure((7.4, 0.5 + 1.5 * len(pairs)), facecolor="white", layout="constrained")
    for axes, (score, rank, query, target) in zip(
        figure.subplots(len(pairs), 2, squeeze=False), pairs, strict=True
    ):
        for panel, name in zip(axes, (query, target), strict=True):
            panel.imshow(strip(experiment, name), aspect="equal")
            panel.set_axis_off()
        axes[0].set_title(short(query), fontsize=7.5, color=INK, loc="left")
        axes[1].set_title(
            f"{short(target)}: score {score:.3f}, rank {rank}", fontsize=7.5, color=INK, loc="left"
        )
    built_in = isinstance(experiment.videos.benchmark, BuiltIn)
    kind = "Not duplicates by the annotation" if built_in else "Without a label in the annotation"
    title = f"{kind}, yet alike to {system}"
    figure.suptitle(title, fontsize=10.5, color=INK, x=0.01, ha="left")
    note = "Pairs that share a scene but no footage are among them." if built_in else ""
    return _table(experiment, "mistakes", title, ["score", "rank"], rows, note, models=(system,)), figure


def unannotated(experiment: Experiment, system: str) -> list[tuple[float, int, str, str]]:
    """(score, rank, query, target) of each query's highest target without a label, highest scores first."""
    benchmark = require_duplicates(experiment.videos.benchmark)
    experiment.prepare({system: None})
    database = frozenset(experiment.bank.readable(sorted(benchmark.database)))
    found = []
    for query, row in experiment.predictions(system).scores.items():
        ranked = RankedTargets(row, database, but=query)
        wrong = np.flatnonzero(~ranked.flags(labelled(benchmark, query)))
        if len(wrong):
            best = wrong[np.argmax(ranked.values[wrong])]
            rank = int((ranked.values > ranked.values[best]).sum()) + 1
            found.append((float(ranked.values[best]), rank, query, ranked.targets[best]))
    return sorted(found, key=lambda pair: (-pair[0], pair[2]))


def figure_5(name: str, experiment: Experiment, values: Sequence[float] | None = None) -> MadeTable:
    """Figure 5 of the supplementary: ViSiL_v trained with other γ, r or W, one model a point.

    A model is trained for each value, unless it lies in the output folder already.
    """
    curve = CURVES[name]
    points = {value: curve_recipe(curve, value) for value in curve_points(name, values)}
    names = {value: f"ViSiL_v {curve.sign} {value:g}" for value in points}
    experiment.prepare_outcomes({names[value]: recipe for value, recipe in points.items()})
    rows = []
    for value, recipe in points.items():
        found = experiment.figures_of(recipe, names[value])
        figures = flat({key: one for key, one in found.items() if key != "edits"})
        rows.append(MadeRow(f"{value:g}", figures, {}, recipe=experiment.setup.recipe_name(recipe)))
    columns = list(dict.fromkeys(column for row in rows for column in row.ours))
    title = f"ViSiL_v trained with other {curve.sign}"
    models = list(points.values())
    return _table(experiment, name, title, columns, rows, curve.paper_says, "FIVR-5K", models=models)


def curve_points(name: str, values: Sequence[float] | None = None) -> tuple[float, ...]:
    """The values that a curve of Figure 5 is made for."""
    curve = CURVES[name]
    for value in values or ():
        if curve.setting == "window" and (value != round(value) or value < 4):
            raise UsageError(f"W must be a whole number of at least 4 frames, not {value:g}")
    return tuple(values or curve.values)


def figure_6(experiment: Experiment) -> tuple[MadeTable, Figure]:
    """Figure 6: frames of some videos under the attention of ViSiL_v."""
    videos = experiment.videos
    model = experiment.trained("ViSiL_v")
    shown = _middles(experiment, sorted(videos.benchmark.database))
    pictures = torch.from_numpy(np.stack(list(shown.values())))
    weights = model.attention_weights(pictures)
    rows = [
        MadeRow(name, {"least": float(own.min()), "mean": float(own.mean()), "most": float(own.max())}, {})
        for name, own in zip(shown, weights, strict=True)
    ]
    note = f"Weights of the {weights.shape[1]} regions of one frame of each video."
    columns = ["least", "mean", "most"]
    table = _table(experiment, "attention", "Attention of ViSiL_v", columns, rows, note, models=("ViSiL_v",))
    return table, attention_figure(pictures.numpy(), weights.double().numpy(), None)


def _middles(experiment: Experiment, names: Sequence[str]) -> dict[str, NDArray[np.uint8]]:
    """The middle frames of some videos, spread evenly over those that can be read."""
    bank, step = experiment.bank, max(1, len(names) // ATTENDED)
    spread = [*names[::step], *(name for place, name in enumerate(names) if place % step)]
    found: dict[str, NDArray[np.uint8]] = {}
    for name in bank.readable(spread):
        if len(found) == ATTENDED:
            break
        try:
            (found[name],) = experiment.videos.pictures(name, [0.5])
        except VideoError as error:
            bank.left_out(name, error.path, error.reason)
    if not found:
        raise UsageError("no video of the benchmark can be read: no frame can be drawn")
    return found


def figure_1(experiment: Experiment) -> tuple[MadeTable, Figure]:
    """Figure 1: S_f and the network's output for a pair that shares footage, and for one that does not."""
    return _matrices(experiment, "pairs", lambda pairs: [pairs[0], pairs[-1]])


def figure_7(experiment: Experiment) -> tuple[MadeTable, Figure]:
    """Figure 7: frames, S_f and the network's output for each kind of relation that the truth knows, and for none."""
    return _matrices(experiment, "matrices", lambda pairs: pairs)


def _matrices(
    experiment: Experiment, name: str, chosen: Callable[[list[Pair]], list[Pair]]
) -> tuple[MadeTable, Figure]:
    require_duplicates(experiment.videos.benchmark)
    model = experiment.trained("ViSiL_v")
    system, bank, _ = experiment.placed("ViSiL_v")
    while True:  # a video that cannot be read is found out here, and others are taken
        pairs = chosen(example_pairs(experiment))
        names = [video for _, *both in pairs for video in both]
        bank.prepare([system.reads], names)
        if len(bank.readable(names)) == len(names):
            break
    rows: list[MadeRow] = []
    figure = Figure((7.4, 0.5 + 2.5 * len(pairs)), facecolor="white", layout="constrained")
    panels = figure.subplots(len(pairs), 3, squeeze=False, width_ratios=(1.1, 1, 1))
    matches = [
        model.compare(*(_refined(bank, system, name) for name in (query, target)))
        for _, query, target in pairs
    ]
    limits = [_limits([np.asarray(match.frame_matrix) for match in matches])]
    limits.append(_limits([np.asarray(match.output_matrix) for match in matches]))
    for axes, (kind, query, target), match in zip(panels, pairs, matches, strict=True):
        rows.append(MadeRow(f"{kind}: {query}, {target}", {"score": float(match.score)}, {}))
        _draw_pair(axes, experiment, kind, query, target, match, limits)
    title = "Input and output of ViSiL_v"
    figure.suptitle(title, fontsize=10.5, color=INK, x=0.01, ha="left")
    return _table(experiment, name, title, ["score"], rows, models=("ViSiL_v",)), figure


def _table(
    experiment: Experiment,
    name: str,
    title: str,
    columns: list[str],
    rows: list[MadeRow],
    note: str = "",
    paper_on: str = "FIVR-200K",
    *,
    models: Sequence[str | Recipe] = (),
) -> MadeTable:
    """The figure of ``models``, as a table."""
    said = " ".join(filter(None, (noted(experiment, models), note)))
    described = experiment.videos.described
    return MadeTable(name, title, described, paper_on, columns, [], rows, said, experiment.changes.quick)


def require_duplicates(benchmark: Benchmark) -> BuiltIn | Fivr:
    """The benchmark, once it is known to have DSVR: said before any work on it."""
    if not isinstance(benchmark, BuiltIn | Fivr):
        raise UsageError(
            f"{benchmark.name} has no duplicate scenes: choose fivr-5k, fivr-200k or the built-in benchmark"
        )
    return benchmark


def duplicates_of(benchmark: Benchmark, query: str) -> frozenset[str]:
    """The videos that DSVR has to find, on the benchmarks that have it."""
    known = require_duplicates(benchmark)
    return known.truth["DSVR"][query] if isinstance(known, BuiltIn) else known.relevant(query, "DSVR")


def labelled(benchmark: BuiltIn | Fivr, query: str) -> frozenset[str]:
    """Videos that the annotation relates to a query, whatever the label; on the built-in benchmark, its duplicates."""
    if isinstance(benchmark, BuiltIn):
        return benchmark.truth["DSVR"][query]
    return frozenset().union(*benchmark.labels[query].values())


def example_pairs(experiment: Experiment) -> list[Pair]:
    """(kind, query, target) of the query that has most kinds of relations: duplicates first, an unrelated one last."""
    benchmark = experiment.videos.benchmark
    targets = frozenset(experiment.bank.readable(sorted(benchmark.database)))
    queries = experiment.bank.readable(benchmark.queries)
    found = [_pairs_of(benchmark, query, targets) for query in queries[len(queries) // 2 :] + queries]
    pairs = max(found, key=len, default=[])
    if not pairs:
        raise UsageError("no query has anything to find: no pair can be drawn")
    return pairs


def _pairs_of(benchmark: Benchmark, query: str, targets: frozenset[str]) -> list[Pair]:
    """One target of each relation that a query has; none where it has no duplicate here."""
    related = (duplicates_of(benchmark, query) & targets) - {query}
    if not related:
        return []
    pairs = [("duplicate scene", query, min(related))]
    for task, kind in WIDER[isinstance(benchmark, BuiltIn)].items():
        wider = (_wider(benchmark, query, task) & targets) - {query}
        pairs += [(kind, query, target) for target in sorted(wider - related)[:1]]
        related |= wider
    strangers = targets - related - {query}
    return pairs + ([("unrelated", query, min(strangers))] if strangers else [])


def _wider(benchmark: Benchmark, query: str, task: str) -> frozenset[str]:
    match benchmark:
        case BuiltIn():
            return benchmark.truth.get(task, {}).get(query, frozenset())
        case Fivr():
            return benchmark.relevant(query, task)
    return frozenset()


def _refined(bank: FeatureBank, system: ComparedSystem[Tensor], name: str) -> VideoFeatures:
    features = bank.features(name, system.reads)
    return VideoFeatures(system.describe(features).clone(), features.timestamps, None, name, features.blank)


def _draw_pair(
    axes: NDArray[np.object_],
    experiment: Experiment,
    kind: str,
    query: str,
    target: str,
    match: Match,
    limits: Sequence[Normalize],
) -> None:
    first, second, third = axes
    strips = [strip(experiment, name) for name in (query, target)]
    first.imshow(np.concatenate(strips, axis=0), aspect="equal")
    first.set_title(f"{kind}\n{short(query)}\n{short(target)}", fontsize=7.5, color=INK, loc="left")
    assert match.output_matrix is not None
    for panel, matrix, norm, name in (
        (second, match.frame_matrix, limits[0], "S_f"),
        (third, match.output_matrix, limits[1], f"S_v, score {match.score:.3f}"),
    ):
        panel.imshow(matrix, cmap=HEAT, norm=norm, aspect="auto", interpolation="nearest")
        panel.set_title(name, fontsize=8, color=INK, loc="left")
    for panel in axes:
        panel.set_xticks([])
        panel.set_yticks([])
        for side in panel.spines.values():
            side.set_visible(False)


def _limits(matrices: Sequence[NDArray[np.floating]]) -> Normalize:
    """One scale for all: equal colours mean equal similarity in all panels."""
    low, high = min(float(m.min()) for m in matrices), max(float(m.max()) for m in matrices)
    return Normalize(low, max(high, low + 1e-6))


def strip(experiment: Experiment, name: str) -> NDArray[np.uint8]:
    """Two frames side by side."""
    return np.concatenate(list(experiment.videos.pictures(name, [0.25, 0.75])), axis=1)


def short(name: str) -> str:
    """A name that fits above a picture."""
    return name if len(name) <= 28 else "…" + name[-27:]


def fivr_5k_ids(experiment: Experiment) -> dict[str, list[str]]:
    """FIVR-5K's queries and database, chosen by the scores of LBoW on FIVR-200K."""
    benchmark = experiment.videos.benchmark
    if not isinstance(benchmark, Fivr):
        raise UsageError(f"FIVR-5K is a part of FIVR-200K, not of {benchmark.name}: give --dataset fivr-200k")
    experiment.prepare({"LBoW": None})
    return hardest_part(benchmark, experiment.predictions("LBoW").scores, seed=experiment.seed)


def fivr_5k_table(experiment: Experiment) -> MadeTable:
    """The chosen part of FIVR, in numbers."""
    ids = fivr_5k_ids(experiment)
    benchmark = experiment.videos.benchmark
    assert isinstance(benchmark, Fivr)
    database = frozenset(ids["database"])
    columns = ["queries", "videos", *TASKS]
    ours: dict[str, Value] = {"queries": str(len(ids["query"])), "videos": str(len(database))}
    for task in TASKS:
        ours[task] = str(sum(len(benchmark.relevant(query, task) & database) for query in ids["query"]))
    rows = [MadeRow("made here", ours, {}), MadeRow("the published list", dict(PUBLISHED), {})]
    note = "Under DSVR, CSVR and ISVR: how many videos are to be found, over all queries."
    title = "FIVR-5K out of FIVR-200K"
    return _table(experiment, "fivr-5k", title, columns, rows, note, "FIVR-5K", models=("LBoW",))
