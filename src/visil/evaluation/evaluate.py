"""A benchmark evaluated from a score file, from videos, or from a collection; what `visil evaluate` prints."""

from __future__ import annotations

import os
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Protocol

from visil.collection.feature_writer import FeatureWriter
from visil.collection.index import Index
from visil.collection.intake import Engine, OnProgress
from visil.collection.local_engine import AddMethod, ModelEmbedder, decode_here
from visil.compare.loading import load
from visil.compare.visil import ViSiL
from visil.errors import FileError, UsageError
from visil.evaluation.annotations import AnyPath, sha256_of
from visil.evaluation.benchmark import Benchmark, Figures
from visil.evaluation.datasets import read_dataset
from visil.evaluation.predictions import Predictions, read_predictions
from visil.evaluation.scoring import Answers, ModelSystem, find_segments, score_videos
from visil.evaluation.streaming import Passer, ScoreLog, Streamed, stream_scores
from visil.evaluation.videos import PATTERN, KnownVideos, files_of, ids_of, videos_by_name
from visil.machine.processor import usable_cores
from visil.progress import OnPairs


class Scoring(Protocol):
    """Who compares the videos: this process (:func:`score_here`), or a cluster."""

    def __call__(self, collection: Index, videos: KnownVideos, progress: OnPairs | None = None) -> Answers:
        """Scores of every query with its candidates, and where they match if the benchmark asks for that."""


def score_here(collection: Index, videos: KnownVideos, progress: OnPairs | None = None) -> Answers:
    """Compare in this process, with the collection's model."""
    work = find_segments if "segments" in videos.benchmark.measures else score_videos
    return work(collection.model, videos.reader(collection), videos.queries, videos.candidates, progress)


@dataclass(frozen=True)
class Task:
    """Which benchmark, by which files: what every evaluation needs to know."""

    dataset: str
    annotations: AnyPath
    ids: AnyPath | None = None
    """The list of ids or pairs that some benchmarks have beside their annotation."""

    def to_dict(self) -> dict[str, object]:
        """The benchmark and the hashes of its files."""
        files = {"annotations": _pinned(self.annotations)}
        return {"dataset": self.dataset, **files, **({"list": _pinned(self.ids)} if self.ids else {})}

    def benchmark(self) -> Benchmark:
        """The benchmark with its annotation read."""
        return read_dataset(self.dataset, self.annotations, self.ids)


@dataclass(frozen=True)
class Evaluation:
    """The figures of one run, and the facts behind them."""

    task: Task
    figures: Figures
    predictions: Predictions
    model: str | None = None
    failed: list[tuple[str, str]] = field(default_factory=list)
    """Videos that were there but could not be read: (path, reason)."""

    def to_dict(self) -> dict[str, object]:
        """As ``visil evaluate --json`` prints it."""
        result: dict[str, object] = {"dataset": self.task.dataset, **self.figures}
        result |= self.task.to_dict()
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
    index: AnyPath | None = None,
    model: ViSiL | str | None = None,
    workers: int | None = None,
    on_add: OnProgress | None = None,
    on_pairs: OnPairs | None = None,
    engine: Engine | None = None,
    scoring: Scoring = score_here,
) -> Evaluation:
    """A benchmark evaluated from videos on disk, as far as they are there.

    They are embedded into the collection ``index`` (by default beside them: ``evaluate-DATASET.visil``), which a run
    that was stopped goes on with; ``workers`` is how many cores to use for that, all by default. ``engine`` and
    ``scoring`` do the work somewhere else than in this process.
    """
    benchmark = task.benchmark()
    files = files_of(benchmark, videos, pattern)
    folder = index or videos / f"evaluate-{task.dataset}.visil"
    with Index(folder, model=model) as collection:
        report = collection.add(files.values(), workers=workers, progress=on_add, engine=engine)
        entries = {name: collection.catalogue.file(os.path.abspath(file)) for name, file in files.items()}
        known = {name: entry[0] for name, entry in entries.items() if entry is not None}
        return _evaluated(task, collection, KnownVideos(benchmark, known), report.failed, on_pairs, scoring)


@dataclass(frozen=True)
class _PassingVideo:
    """:class:`visil.collection.extraction_work.Task`: a video that is embedded, compared and forgotten."""

    name: str
    path: Path
    writers: Mapping[str, FeatureWriter]


def evaluate_streaming(
    task: Task,
    videos: Path,
    folder: Path,
    *,
    pattern: str = PATTERN,
    model: ViSiL | str | None = None,
    workers: int | None = None,
    on_pairs: OnPairs | None = None,
) -> Evaluation:
    """A benchmark evaluated from videos on disk in one pass that keeps no features, only scores, in ``folder``.

    Every video is read once; a run that was stopped goes on with those that have no scores yet.
    """
    benchmark = task.benchmark()
    if "scores" not in benchmark.measures:
        raise UsageError(
            f"{task.dataset} asks where videos match, which needs their features: leave --stream out"
        )
    files = files_of(benchmark, videos, pattern)
    chosen = model if isinstance(model, ViSiL) else load(model)
    queries = [query for query in benchmark.queries if query in files]
    identity = {"dataset": task.to_dict(), "model": chosen.fingerprint()}
    method = AddMethod(ModelEmbedder(chosen), chosen.config.sampling, decode_here)
    passer = Passer(
        method,
        ("model",),
        lambda name, writers: _PassingVideo(name, files[name], writers),
        workers or usable_cores(),
    )
    targets = sorted(name for name in benchmark.database if name in files)
    streamed = {"model": Streamed(ModelSystem(chosen), itemgetter("model"))}
    with ScoreLog(folder, identity, queries) as log:
        stream_scores(streamed, targets, passer, log, on_pairs)
    found = log.predictions("model")
    figures = _figures(benchmark, found, frozenset(files).difference(log.failed))
    failed = [(os.fspath(files[name]), reason) for name, reason in log.failed.items()]
    return Evaluation(task, figures, found, chosen.config.name, failed)


def evaluate_index(
    task: Task,
    index: AnyPath,
    *,
    model: ViSiL | str | None = None,
    on_pairs: OnPairs | None = None,
    scoring: Scoring = score_here,
) -> Evaluation:
    """A benchmark evaluated from a collection, at a folder or URL: its videos are known by the names of their files."""
    benchmark = task.benchmark()
    with Index(index, model=model, create=False) as collection:
        catalogue = collection.catalogue
        copies = catalogue.copies()
        paths = {
            video.id: [path for path, _ in copies.get(video.id, [])] or [video.path]
            for video in catalogue.videos()
        }
        known = videos_by_name(ids_of(benchmark), paths)
        if not any(query in known for query in benchmark.queries):
            raise FileError(
                index,
                f"holds none of the {len(benchmark.queries)} queries of {task.dataset}: "
                f"files are expected to be called by their ids, such as {benchmark.queries[0]}.mp4",
            )
        return _evaluated(task, collection, KnownVideos(benchmark, known), [], on_pairs, scoring)


def _evaluated(
    task: Task,
    collection: Index,
    videos: KnownVideos,
    failed: list[tuple[str, str]],
    on_pairs: OnPairs | None,
    scoring: Scoring,
) -> Evaluation:
    """Compare all videos that the collection has, then evaluate."""
    answers = scoring(collection, videos, on_pairs)
    figures = _figures(videos.benchmark, answers.predictions, frozenset(videos.ids) - answers.unreadable)
    return Evaluation(task, figures, answers.predictions, collection.model.config.name, failed)


def _figures(benchmark: Benchmark, predictions: Predictions, available: Set[str] | None) -> Figures:
    return benchmark.evaluate(predictions.scores, available, segments=predictions.segments)


def _scored(predictions: Predictions) -> frozenset[str]:
    pairs = {video for pair in predictions.segments or () for video in pair}
    return frozenset(predictions.scores).union(pairs, *(row.targets for row in predictions.scores.values()))


def _pinned(path: AnyPath) -> dict[str, str]:
    return {"file": os.path.basename(os.fspath(path)), "sha256": sha256_of(path)}
