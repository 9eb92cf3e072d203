"""``visil evaluate DATASET``: a benchmark by its own protocol."""

from __future__ import annotations

from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visil.cli.options import (
    AsJson,
    BackboneName,
    BackboneWeights,
    Device,
    Precision,
    RayAddress,
    RecipeName,
    Workers,
    choose_device,
    joined,
)
from visil.cli.output import MOST_FAILURES, note, print_json
from visil.cli.progress import evaluation_progress
from visil.errors import UsageError

if TYPE_CHECKING:
    from visil.cluster.ray_session import Cluster
    from visil.collection.intake import Engine
    from visil.compare.visil import ViSiL
    from visil.evaluation import Evaluation, Scoring, Task


class Dataset(StrEnum):
    """``visil.evaluation.DATASETS``, which would take torch to import."""

    fivr_200k = "fivr-200k"
    fivr_5k = "fivr-5k"
    cc_web_video = "cc-web-video"
    evve = "evve"
    activitynet = "activitynet"
    vcdb = "vcdb"
    svd = "svd"
    vcsl = "vcsl"
    dvsc_2023 = "dvsc-2023"


def evaluate(
    dataset: Annotated[Dataset, typer.Argument(metavar="DATASET", help=", ".join(Dataset))],
    annotations: Annotated[
        Path, typer.Option("--annotations", metavar="FILE", help="The benchmark's annotation.")
    ],
    videos: Annotated[
        Path | None, typer.Option("--videos", metavar="DIR", help="A folder of its videos.")
    ] = None,
    pattern: Annotated[
        str, typer.Option(help="Where the video of an id is below DIR; * is anything.")
    ] = "{id}.*",
    scores: Annotated[
        Path | None,
        typer.Option(
            "--scores", metavar="FILE", help="Scores instead of videos: JSON, {query: {target: score}}."
        ),
    ] = None,
    index: Annotated[
        str | None,
        typer.Option(
            "--index",
            metavar="INDEX",
            help="A folder or URL: with --videos, where their features are kept; alone, a collection to evaluate.",
        ),
    ] = None,
    stream: Annotated[
        Path | None,
        typer.Option(
            "--stream",
            metavar="FOLDER",
            help="Keep no features: read each video once, compare it with all queries, keep the scores in FOLDER.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="MODEL", help="A preset, a folder or a hub id, for a new collection."
        ),
    ] = None,
    recipe: RecipeName = None,
    backbone: BackboneName = None,
    backbone_weights: BackboneWeights = None,
    ids: Annotated[
        Path | None,
        typer.Option(
            "--ids", "--list", metavar="FILE", help="A list of ids or pairs that belongs to the annotation."
        ),
    ] = None,
    scored_only: Annotated[
        bool,
        typer.Option("--scored-only", help="Leave videos out of the truth that no query has a score for."),
    ] = False,
    out_scores: Annotated[
        Path | None,
        typer.Option(
            "--out-scores", metavar="FILE", help="Keep the scores, to evaluate them again with --scores."
        ),
    ] = None,
    workers: Workers = None,
    ray: RayAddress = None,
    device: Device = None,
    precision: Precision = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate by a benchmark's own protocol: from videos, from a collection, or from a score file."""
    choose_device(device, precision)
    if scores is None and videos is None and index is None:
        raise UsageError("nothing to evaluate: give --videos, --index or --scores")
    weighed = recipe is not None or backbone is not None or backbone_weights is not None
    if scores is not None and (videos is not None or index is not None or model is not None or weighed):
        raise UsageError("--scores needs no videos, index or model: leave either out")
    if weighed and videos is None:
        raise UsageError("--recipe and --backbone-weights go with --videos: a collection has its model")
    if stream is not None and (videos is None or index is not None or ray is not None):
        raise UsageError("--stream goes with --videos, and without --index, --scores and --ray")
    if backbone is not None and recipe is None:
        raise UsageError("--backbone goes with --recipe: a finished model has its own")
    if scored_only and scores is None:
        raise UsageError("--scored-only goes with --scores; from videos, only those at hand count anyway")
    if ray is not None and scores is not None:
        raise UsageError("--ray has nothing to do for --scores: leave it out")
    from visil.evaluation import Task, write_predictions
    from visil.files import replacing

    task = Task(dataset.value, annotations, ids)
    with ExitStack() as kept:
        # A place that cannot be written to is found out before the work, not after it.
        fresh = None if out_scores is None else kept.enter_context(replacing(out_scores))
        cluster = kept.enter_context(joined(ray, workers=workers))
        chosen = model if not weighed else _outcome(recipe, backbone, backbone_weights, model)
        if stream is not None:
            assert videos is not None
            result = _stream(task, videos, stream, pattern, chosen, workers, as_json)
        else:
            result = _run(
                task, videos, pattern, scores, index, chosen, scored_only, as_json, cluster, workers
            )
        if fresh is not None:
            write_predictions(fresh, result.predictions)
    if as_json:
        print_json(result.to_dict())
    else:
        _tell(result)


def _outcome(recipe: str | None, backbone: str | None, weights: Path | None, model: str | None) -> ViSiL:
    """The model that a recipe asks for, told of in the first line; or any with a file of its backbone's weights."""
    from visil.compare.loading import load

    file = None if weights is None else str(weights)
    if recipe is None:
        return load(model, backbone_weights=file)
    from visil.training.recipes import described, finished_model, recipe_called

    chosen = recipe_called(recipe).on(backbone, file)
    note(described(chosen.config, chosen.model()))
    return finished_model(chosen, model)


def _stream(
    task: Task,
    videos: Path,
    folder: Path,
    pattern: str,
    model: ViSiL | str | None,
    workers: int | None,
    quiet: bool,
) -> Evaluation:
    from visil.evaluation import evaluate_streaming

    with evaluation_progress(quiet) as (_, on_pairs):
        return evaluate_streaming(
            task, videos, folder, pattern=pattern, model=model, workers=workers, on_pairs=on_pairs
        )


def _run(
    task: Task,
    videos: Path | None,
    pattern: str,
    scores: Path | None,
    index: str | None,
    model: ViSiL | str | None,
    scored_only: bool,
    quiet: bool,
    cluster: Cluster | None,
    workers: int | None,
) -> Evaluation:
    from visil.evaluation import evaluate_index, evaluate_scores, evaluate_videos, score_here

    if scores is not None:
        return evaluate_scores(task, scores, scored_only=scored_only)
    scoring: Scoring = score_here
    engine: Engine | None = None
    if cluster is not None:
        from functools import partial

        from visil.cluster.ray_evaluation import spread_scores
        from visil.cluster.ray_extraction import over

        scoring, engine = partial(spread_scores, cluster), over(cluster, workers=workers)
    with evaluation_progress(quiet) as (on_add, on_pairs):
        if videos is None:
            assert index is not None
            return evaluate_index(task, index, model=model, on_pairs=on_pairs, scoring=scoring)
        return evaluate_videos(
            task,
            videos,
            pattern=pattern,
            index=index,
            model=model,
            workers=workers,
            on_add=on_add,
            on_pairs=on_pairs,
            engine=engine,
            scoring=scoring,
        )


def _tell(result: Evaluation) -> None:
    typer.echo(result.task.dataset)
    for line in _lines(result.figures):
        typer.echo(f"  {line}")
    for path, reason in result.failed[:MOST_FAILURES]:
        typer.echo(f"  not read: {path}: {reason}")
    if len(result.failed) > MOST_FAILURES:
        typer.echo(f"  and {len(result.failed) - MOST_FAILURES} more not read")


def _lines(figures: dict[str, Any], above: str = "") -> list[str]:
    lines = []
    for name, value in figures.items():
        label = f"{above}{name}".replace("_", " ") if isinstance(value, int) else f"{above}{name}"
        match value:
            case dict():
                lines += _lines(value, f"{name}: ")
            case int():
                lines.append(f"{label}: {value}")
            case float():
                lines.append(f"{label}: {value:.4f}")
            case None:
                lines.append(f"{label}: –")
    return lines
