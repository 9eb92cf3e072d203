"""The paper's figures on a workbench: precision over recall, matrices of pairs, attention, curves and times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from visil.errors import UsageError
from visil.evaluation.benchmark import Benchmark, RankedTargets
from visil.evaluation.datasets.fivr import Fivr
from visil.evaluation.metrics import interpolated_precision
from visil.evaluation.predictions import Scores
from visil.matching.match import Match
from visil.model.features import VideoFeatures
from visil.paper.builtin import BuiltIn
from visil.paper.short_training import Refined
from visil.paper.sources import BuiltInVideos
from visil.paper.tables import MadeRow, MadeTable, Value
from visil.paper.timing import STAGES
from visil.paper.workbench import Unavailable, Workbench
from visil.plots.attention_figure import attention_figure
from visil.plots.heat import HEAT
from visil.plots.panels import FAINT, INK

LINES = ("#1f5f8b", "#d9772b", "#4a9d5b", "#8a5aa8", "#c23b4b", "#7a7f87", "#b59a2b", "#3fa7b5", "#1b1f27")
POINTS = 21
ATTENDED = 6
"""Frames in the picture of attention, each of another video."""


def make_precision_recall(bench: Workbench, systems: Sequence[str]) -> MadeTable:
    """Interpolated precision at 21 recalls for duplicate scenes (DSVR): :func:`precision_recall` of each system."""
    benchmark = bench.videos.benchmark
    recalls = [f"{recall:.2f}" for recall in np.linspace(0, 1, POINTS)]
    bench.prepare(dict.fromkeys(systems))
    rows = []
    for name in systems:
        try:
            scores = bench.predictions(name).scores
        except Unavailable as error:
            rows.append(MadeRow(name, {}, {}, str(error)))
            continue
        mean = precision_recall(bench, scores).tolist()
        ours: dict[str, Value] = dict(zip(recalls, mean, strict=True))
        rows.append(MadeRow(name, ours, {}))
    return MadeTable(
        "pr-curves",
        f"Precision over recall, DSVR, {_how(benchmark)}",
        bench.videos.described,
        "FIVR-200K",
        recalls,
        [],
        rows,
    )


def precision_recall(bench: Workbench, scores: Scores) -> NDArray[np.float64]:
    """As FIVR's authors draw it, the mean over queries; on the built-in benchmark all pairs in one ranking.

    A query with one video to find has the same precision at every recall: a mean of such lines would say nothing.
    """
    benchmark = bench.videos.benchmark
    database = frozenset(bench.bank.readable(sorted(benchmark.database)))
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


def precision_recall_figure(table: MadeTable) -> Figure:
    """A line for each system."""
    figure, axes = _one_panel(table.title)
    lines = [row for row in table.rows if row.ours]
    for number, row in enumerate(lines):
        values = [float(value) for value in row.ours.values() if isinstance(value, float)]
        axes.plot(
            np.linspace(0, 1, len(values)),
            values,
            color=LINES[number % len(LINES)],
            linestyle="-" if number < len(LINES) else "--",
            linewidth=1.5,
            label=row.label,
        )
    axes.set_xlabel("recall", fontsize=8.5, color=FAINT)
    axes.set_ylabel("precision", fontsize=8.5, color=FAINT)
    axes.set_xlim(0, 1.005)
    axes.set_ylim(0, 1.02)
    axes.legend(fontsize=7.5, frameon=False, loc="lower left")
    return figure


def curve_figure(table: MadeTable, sign: str) -> Figure:
    """A line for each task over the values of γ, r or W."""
    figure, axes = _one_panel(table.title)
    labels = [row.label for row in table.rows]
    for number, column in enumerate(table.columns):
        values = [float(row.ours.get(column) or 0) for row in table.rows]
        axes.plot(labels, values, marker="o", markersize=4, color=LINES[number % len(LINES)], label=column)
    axes.set_xlabel(sign, fontsize=8.5, color=FAINT)
    axes.set_ylabel("mAP", fontsize=8.5, color=FAINT)
    axes.legend(fontsize=7.5, frameon=False)
    return figure


def time_figure(table: MadeTable) -> Figure:
    """Stages laid end to end: of a video on the left, of a pair on the right."""
    figure = Figure((8.2, 2.6), facecolor="white", layout="constrained")
    panels = figure.subplots(1, 2)
    labels = [row.label for row in table.rows[::-1]]
    for axes, unit, what in zip(panels, ("s", "ms"), ("a video", "a pair"), strict=True):
        stages = [stage for stage in STAGES if stage.endswith(f" {unit}")]
        left = np.zeros(len(labels))
        for number, stage in enumerate(stages):
            values = np.array([float(row.ours.get(stage) or 0) for row in table.rows[::-1]])
            name = stage.removesuffix(f" {unit}")
            axes.barh(labels, values, left=left, height=0.6, color=LINES[number], label=name)
            left += values
        _plain(axes)
        axes.set_title(f"{what}, {unit}", fontsize=9, color=INK, loc="left")
        axes.legend(fontsize=7, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3)
    figure.suptitle(table.title, fontsize=10.5, color=INK, x=0.01, ha="left")
    return figure


def make_matrices(bench: Workbench) -> tuple[MadeTable, Figure]:
    """Figure 7: S_f and the network's output for a copy, a pair of one scene where there is one, and strangers."""
    model = bench.trained("ViSiL_v")
    system = Refined(model, "ViSiL_v")
    bench.bank.prepare([system.reads])
    pairs = example_pairs(bench)
    rows: list[MadeRow] = []
    figure = Figure((7.4, 0.5 + 2.5 * len(pairs)), facecolor="white", layout="constrained")
    panels = figure.subplots(len(pairs), 3, squeeze=False, width_ratios=(1.1, 1, 1))
    matches = [
        model.compare(*(_refined(bench, system, name) for name in (query, target)))
        for _, query, target in pairs
    ]
    limits = [_limits([np.asarray(match.frame_matrix) for match in matches])]
    limits.append(_limits([np.asarray(match.output_matrix) for match in matches]))
    for axes, (kind, query, target), match in zip(panels, pairs, matches, strict=True):
        rows.append(MadeRow(f"{kind}: {query}, {target}", {"score": float(match.score)}, {}))
        _draw_pair(axes, bench, kind, query, target, match, limits)
    figure.suptitle("Input and output of ViSiL_v", fontsize=10.5, color=INK, x=0.01, ha="left")
    table = MadeTable(
        "matrices", "Input and output of ViSiL_v", bench.videos.described, "FIVR-200K", ["score"], [], rows
    )
    return table, figure


def make_attention(bench: Workbench) -> tuple[MadeTable, Figure]:
    """Figure 6: frames of some videos under the attention of ViSiL_v."""
    videos = bench.videos
    if not isinstance(videos, BuiltInVideos):
        raise UsageError("the picture of attention is made from the built-in benchmark: leave --dataset out")
    model = bench.trained("ViSiL_v")
    names = sorted(videos.benchmark.database)
    names = names[:: max(1, len(names) // ATTENDED)][:ATTENDED]
    frames = []
    for name in names:
        images, _ = videos.frames(name)
        frames.append(images[len(images) // 2])
    pictures = torch.stack(frames)
    weights = model.attention_weights(pictures)
    rows = [
        MadeRow(name, {"least": float(own.min()), "mean": float(own.mean()), "most": float(own.max())}, {})
        for name, own in zip(names, weights, strict=True)
    ]
    table = MadeTable(
        *("attention", "Attention of ViSiL_v", videos.described, "FIVR-200K"),
        *(["least", "mean", "most"], [], rows, "Weights of the nine regions of one frame of each video."),
    )
    return table, attention_figure(pictures.numpy(), weights.double().numpy(), None)


def duplicates_of(benchmark: Benchmark, query: str) -> frozenset[str]:
    """What DSVR has to find, on the benchmarks that have it."""
    match benchmark:
        case BuiltIn():
            return benchmark.truth["DSVR"][query]
        case Fivr():
            return benchmark.relevant(query, "DSVR")
    raise UsageError(
        f"{benchmark.name} has no duplicate scenes: choose fivr-5k, fivr-200k or the built-in benchmark"
    )


def example_pairs(bench: Workbench) -> list[tuple[str, str, str]]:
    """(kind, query, target): a copy, one of the same scene where the truth has any, and a stranger."""
    benchmark = bench.videos.benchmark
    queries = bench.bank.readable(benchmark.queries)
    targets = bench.bank.readable(sorted(benchmark.database))
    pairs: list[tuple[str, str, str]] = []
    related: frozenset[str] = frozenset()
    for query in queries[len(queries) // 2 :] + queries:
        same = [target for target in targets if target in duplicates_of(benchmark, query)]
        if not same:
            continue
        pairs.append(("duplicate scene", query, same[0]))
        related = frozenset(same)
        if isinstance(benchmark, BuiltIn):
            for task, kind in (("CSVR", "same folder"), ("ISVR", "same top-level folder")):
                wider = benchmark.truth.get(task, {}).get(query, related)
                more = [target for target in targets if target in wider - related]
                pairs += [(kind, query, target) for target in more[:1]]
                related |= wider
        strangers = [target for target in targets if target not in related and target != query]
        pairs += [("unrelated", query, target) for target in strangers[:1]]
        break
    if not pairs:
        raise UsageError("no query has anything to find: no pair can be drawn")
    return pairs


def _refined(bench: Workbench, system: Refined, name: str) -> VideoFeatures:
    features = bench.bank.features(name, system.reads)
    return VideoFeatures(system.describe(features).clone(), features.timestamps, None, name, features.blank)


def _draw_pair(
    axes: NDArray[np.object_],
    bench: Workbench,
    kind: str,
    query: str,
    target: str,
    match: Match,
    limits: Sequence[Normalize],
) -> None:
    first, second, third = axes
    strips = strip(bench, query), strip(bench, target)
    if strips[0] is not None and strips[1] is not None:
        first.imshow(np.concatenate([strips[0], strips[1]], axis=0), aspect="equal")
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
    """One scale for all: what is bright in one is as alike as what is bright in another."""
    low, high = min(float(m.min()) for m in matrices), max(float(m.max()) for m in matrices)
    return Normalize(low, max(high, low + 1e-6))


def strip(bench: Workbench, name: str) -> NDArray[np.uint8] | None:
    """Two frames side by side."""
    if not isinstance(bench.videos, BuiltInVideos):
        return None
    images, _ = bench.videos.frames(name)
    chosen = images[[len(images) // 4, min(3 * len(images) // 4, len(images) - 1)]].numpy()
    return np.concatenate(list(chosen), axis=1)


def short(name: str) -> str:
    """A name that fits above a picture."""
    return name if len(name) <= 28 else "…" + name[-27:]


def _one_panel(title: str) -> tuple[Figure, Axes]:
    figure = Figure((5.6, 4.2), facecolor="white", layout="constrained")
    axes = figure.subplots()
    _plain(axes)
    axes.grid(color="#e9ecf0", linewidth=0.8)
    axes.set_title(title, fontsize=10, color=INK, loc="left")
    return figure, axes


def _plain(axes: Axes) -> None:
    axes.tick_params(labelsize=7.5, labelcolor=FAINT, color=FAINT, length=2)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_axisbelow(True)
