"""A benchmark evaluated from a score file, from videos, or from a collection; what `visil evaluate` prints."""

from __future__ import annotations

import os
from collections.abc import Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from visil.collection import Index
from visil.collection.extraction import OnProgress
from visil.compare.visil import ViSiL
from visil.errors import FileError, UsageError
from visil.evaluation.benchmark import Benchmark, Figures
from visil.evaluation.datasets import read_dataset
from visil.evaluation.finding import PATTERN, find_videos, videos_by_name
from visil.evaluation.layout import AnyPath, sha256_of
from visil.evaluation.predictions import Predictions
from visil.evaluation.score_file import read_predictions
from visil.evaluation.scoring import OnPairs, find_segments, score_videos
from visil.model.features import VideoFeatures

if TYPE_CHECKING:
    from visil.cluster.ray_session import Cluster


@dataclass(frozen=True)
class Task:
    """Which benchmark, by which files: what every evaluation needs to know."""

    dataset: str
    annotations: AnyPath
    ids: AnyPath | None = None
    """The list of ids or pairs that some benchmarks have beside their annotation."""

    def benchmark(self) -> Benchmark:
        """The benchmark with its annotation read."""
        return read_dataset(self.dataset, self.annotations, self.ids)


@dataclass(frozen=True)
class Evaluation:
    """The figures of one run, and what they rest on."""

    task: Task
    figures: Figures
    predictions: Predictions
    model: str | None = None
    failed: list[tuple[str, str]] = field(default_factory=list)
    """Videos that were there but could not be read: (path, reason)."""

    def to_dict(self) -> dict[str, object]:
        """As ``visil evaluate --json`` prints it."""
        result: dict[str, object] = {"dataset": self.task.dataset, **self.figures}
        result["annotations"] = _pinned(self.task.annotations)
        if self.task.ids is not None:
            result["list"] = _pinned(self.task.ids)
        if self.model is not None:
            result["model"] = self.model
            result["failed"] = [{"path": path, "reason": reason} for path, reason in self.failed]
        return result


def evaluate_scores(task: Task, scores: AnyPath | Predictions, *, scored_only: bool = False) -> Evaluation:
    """A benchmark evaluated from a score file, or from predictions at hand.

    ``scored_only``: videos that have no score with any query are taken as not available, so they are left out of the
    truth; without it they count as not found.
    """
    benchmark = task.benchmark()
    predictions = scores if isinstance(scores, Predictions) else read_predictions(scores)
    available = _scored(predictions) if scored_only else None
    try:
        return Evaluation(task, _figures(benchmark, predictions, available), predictions)
    except UsageError as error:
        if isinstance(scores, Predictions):
            raise
        raise FileError(scores, str(error)) from error


def evaluate_videos(
    task: Task,
    videos: Path,
    *,
    pattern: str = PATTERN,
    index: Path | None = None,
    model: ViSiL | str | None = None,
    on_add: OnProgress | None = None,
    on_pairs: OnPairs | None = None,
    cluster: Cluster | None = None,
) -> Evaluation:
    """A benchmark evaluated from videos on disk, as far as they are there.

    They are embedded into the collection ``index`` (by default beside them: ``evaluate-DATASET.visil``), which a run
    that was stopped goes on with. Embedding and scoring are spread over a ``cluster`` where one was joined.
    """
    benchmark = task.benchmark()
    wanted = _ids(benchmark)
    files = find_videos(videos, wanted, pattern)
    if not files:
        raise FileError(videos, f"holds none of the {len(wanted)} videos of {task.dataset} as {pattern}")
    if not any(query in files for query in benchmark.queries):
        raise FileError(videos, f"holds none of the {len(benchmark.queries)} queries of {task.dataset}")
    folder = index or videos / f"evaluate-{task.dataset}.visil"
    with Index(folder, model=model) as collection:
        if cluster is not None:
            from visil.cluster.ray_extraction import over

            collection.engine = over(cluster)
        report = collection.add(files.values(), progress=on_add)
        entries = {name: collection.catalogue.file(os.path.abspath(file)) for name, file in files.items()}
        known = {name: entry[0] for name, entry in entries.items() if entry is not None}
        return _evaluated(task, benchmark, collection, known, report.failed, on_pairs, cluster)


def evaluate_index(
    task: Task,
    index: Path,
    *,
    model: ViSiL | str | None = None,
    on_pairs: OnPairs | None = None,
    cluster: Cluster | None = None,
) -> Evaluation:
    """A benchmark evaluated from a collection: its videos are known by the names of their files."""
    benchmark = task.benchmark()
    with Index(index, model=model, create=False) as collection:
        catalogue = collection.catalogue
        copies = catalogue.copies()
        paths = {
            video.id: [path for path, _ in copies.get(video.id, [])] or [video.path]
            for video in catalogue.videos()
        }
        known = videos_by_name(_ids(benchmark), paths)
        if not any(query in known for query in benchmark.queries):
            raise FileError(
                index,
                f"holds none of the {len(benchmark.queries)} queries of {task.dataset}: "
                f"files are expected to be called by their ids, such as {benchmark.queries[0]}.mp4",
            )
        return _evaluated(task, benchmark, collection, known, [], on_pairs, cluster)


def _evaluated(
    task: Task,
    benchmark: Benchmark,
    collection: Index,
    known: dict[str, str],
    failed: list[tuple[str, str]],
    on_pairs: OnPairs | None,
    cluster: Cluster | None,
) -> Evaluation:
    """Score everything that is ``known`` ({id: video of the collection}), then evaluate."""
    model = collection.model
    entries = {video.id: video for video in collection.catalogue.videos()}

    def read(name: str) -> VideoFeatures | None:
        video = entries.get(known[name])
        return None if video is None else collection.store.try_read(video)

    def candidates(query: str) -> list[str]:
        return [target for target in benchmark.candidates(query) if target in known]

    work = find_segments if "segments" in benchmark.measures else score_videos
    queries = [query for query in benchmark.queries if query in known]
    if cluster is None:
        answers = work(model, read, queries, candidates, on_pairs)
    else:
        from visil.cluster.ray_evaluation import spread_scores

        answers = spread_scores(cluster, collection, benchmark, known, queries, on_pairs)
    available = frozenset(known) - answers.unreadable
    figures = _figures(benchmark, answers.predictions, available)
    return Evaluation(task, figures, answers.predictions, model.config.name, failed)


def _figures(benchmark: Benchmark, predictions: Predictions, available: Set[str] | None) -> Figures:
    return benchmark.evaluate(predictions.scores, available, segments=predictions.segments)


def _ids(benchmark: Benchmark) -> list[str]:
    return sorted({*benchmark.queries, *benchmark.database})


def _scored(predictions: Predictions) -> frozenset[str]:
    pairs = {video for pair in predictions.segments or () for video in pair}
    return frozenset(predictions.scores).union(pairs, *(row.targets for row in predictions.scores.values()))


def _pinned(path: AnyPath) -> dict[str, str]:
    return {"file": os.path.basename(os.fspath(path)), "sha256": sha256_of(path)}
