"""``visil tables NAME...``: a table or figure of the paper, on a folder of videos or a benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visil.cli.evaluate import Dataset
from visil.cli.options import AsJson, BackboneWeights, RecipeName, numbers
from visil.cli.output import failures_as_json, note, print_json, print_left_out, say
from visil.cli.progress import table_progress
from visil.errors import FileError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from visil.paper.experiment import Experiment, Setup
    from visil.paper.reproduce import Made
    from visil.video import Sampling


def tables(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...",
            help="table-2 to table-10, figure-1, figure-4 to figure-7, systems, pr-curves, …; all.",
        ),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the tables and figures.")] = False,
    videos: Annotated[
        Path | None,
        typer.Option(
            "--videos", metavar="DIR", help="Videos: of the dataset, or any for the built-in benchmark."
        ),
    ] = None,
    dataset: Annotated[
        Dataset | None,
        typer.Option("--dataset", metavar="DATASET", help="A benchmark in place of the built-in one."),
    ] = None,
    annotations: Annotated[
        Path | None, typer.Option("--annotations", metavar="FILE", help="Its annotation.")
    ] = None,
    ids: Annotated[
        Path | None,
        typer.Option("--ids", metavar="FILE", help="A list of ids that belongs to the annotation."),
    ] = None,
    pattern: Annotated[str, typer.Option(help="Where the video of an id is below DIR.")] = "{id}.*",
    training: Annotated[
        Path | None,
        typer.Option("--training", metavar="DIR", help="With --dataset, videos to learn from: VCDB's."),
    ] = None,
    training_annotations: Annotated[
        Path | None,
        typer.Option(
            "--training-annotations",
            metavar="FILE",
            help="Annotation of stretches that show the same: VCDB's.",
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FOLDER", help="Folder of results, and of work kept for the next run."),
    ] = Path("tables"),
    systems: Annotated[
        list[str] | None,
        typer.Option("--systems", metavar="NAME", help="Rows instead of the table's own; may be repeated."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="The row 'model'; or ROW=MODEL for a row of ViSiL's; may be repeated.",
        ),
    ] = None,
    recipe: RecipeName = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream", help="With --dataset: keep no features, score each video for all rows as it passes."
        ),
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="A toy: systems that learn are trained for minutes, and the table says so."
        ),
    ] = False,
    backbone: Annotated[
        str | None,
        typer.Option(help="Network of the compared features; resnet50, with --quick efficientnet-lite0."),
    ] = None,
    backbone_weights: BackboneWeights = None,
    i3d_weights: Annotated[
        Path | None, typer.Option("--i3d-weights", metavar="FILE", help="Weights of I3D.")
    ] = None,
    vgg_weights: Annotated[
        Path | None,
        typer.Option(
            "--vgg-weights", metavar="FILE", help="Weights of VGG-16, for LBoW; else it reads the backbone."
        ),
    ] = None,
    clips: Annotated[int | None, typer.Option(min=6, help="Videos of the folder to use, at most.")] = None,
    flat: Annotated[
        bool, typer.Option("--flat", help="Folders mean nothing: only edited copies count.")
    ] = False,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Of each training, in place of the recipe's.")
    ] = None,
    triplets: Annotated[
        int | None, typer.Option(min=1, help="Of each epoch and pool, in place of the recipe's.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Triplets of one step, in place of the recipe's.")
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate, in place of the recipe's.")] = None,
    values: Annotated[str | None, typer.Option(help="Of a curve, such as 0.25,0.5,1.")] = None,
    pictures: Annotated[
        str | None,
        typer.Option(
            help="'paper': frames of 256 px, the centre 224; 'model', as --quick has it: as the model samples them."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random choices.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Make tables and figures of the paper: its figures beside ours, as Markdown, CSV and a picture.

    Rows of ViSiL's are recipes, trained as visil train does, kept in FOLDER and used again. What is missing is said
    before anything is done. With --videos alone, on the built-in benchmark: edited copies of the videos in a folder.
    """
    if listed:
        _list(as_json)
        return
    from visil.paper.reproduce import chosen_names, make, missing

    if not names:
        raise UsageError("which tables? visil tables --list names them")
    wanted = chosen_names(names)
    points = None if values is None else numbers("--values", values, float)
    pictures = pictures or ("model" if quick else "paper")
    if pictures not in ("model", "paper"):
        raise UsageError(f"--pictures is 'model' or 'paper', not {pictures!r}")
    if videos is None:
        raise UsageError("no videos: give --videos DIR")
    if (dataset is None) != (annotations is None):
        raise UsageError("--dataset and --annotations go together")
    if dataset is None and (training is not None or ids is not None):
        raise UsageError(
            "--training and --ids go with --dataset: the built-in benchmark holds out videos itself"
        )
    if dataset is None and stream:
        raise UsageError("--stream goes with --dataset: the built-in benchmark is small")
    if training_annotations is not None and training is None:
        raise UsageError("--training-annotations are those of --training: give both")
    base = recipe or "paper"
    if base not in ("paper", "paper-512"):
        raise UsageError(f"rows are variants of the recipe paper or paper-512, not of {base}")
    if dataset is not None and (flat or clips is not None):
        raise UsageError("--flat and --clips go with the built-in benchmark: leave --dataset out")
    options = _Options(
        videos=videos,
        dataset=dataset,
        annotations=annotations,
        ids=ids,
        pattern=pattern,
        training=training,
        training_annotations=training_annotations,
        out=out,
        model=model or [],
        base=base,
        quick=quick,
        stream=stream,
        backbone=backbone or ("efficientnet-lite0" if quick else "resnet50"),
        backbone_weights=backbone_weights,
        i3d_weights=i3d_weights,
        vgg_weights=vgg_weights,
        clips=clips,
        flat=flat,
        epochs=epochs,
        triplets=triplets,
        batch=batch,
        lr=lr,
        pictures=pictures,
        seed=seed,
        device=device,
    )
    note(f"recipe {base}{', quick: a toy' if quick else ''}, on {options.backbone}")
    setup, sampling = _setup(options)
    lacking = missing(wanted, setup, systems=systems, values=points)
    if lacking:
        toy = "" if quick or "--training DIR" in lacking else "; or --quick for a toy"
        raise UsageError(f"{', '.join(wanted)}: missing {', '.join(lacking)}{toy}")
    made = []
    with table_progress(as_json) as (on_videos, tell):
        experiment = _experiment(options, setup, sampling, on_videos, tell)
        for name in wanted:
            tell(name)
            done = make(name, experiment, systems=systems, values=points)
            made.append(done)
            if not as_json:
                _tell(done)
    failed = experiment.videos.failed
    if as_json:
        document = {
            "tables": [one.table.to_dict() | {"files": [str(file) for file in one.files]} for one in made],
            "failed": failures_as_json(failed),
        }
        print_json(document)
        return
    print_left_out(failed)


@dataclass(frozen=True)
class _Options:
    videos: Path
    dataset: Dataset | None
    annotations: Path | None
    ids: Path | None
    pattern: str
    training: Path | None
    training_annotations: Path | None
    out: Path
    model: list[str]
    base: str
    quick: bool
    stream: bool
    backbone: str
    backbone_weights: Path | None
    i3d_weights: Path | None
    clips: int | None
    flat: bool
    epochs: int | None
    triplets: int | None
    batch: int | None
    lr: float | None
    pictures: str
    seed: int
    device: str
    vgg_weights: Path | None = None


def _setup(options: _Options) -> tuple[Setup, Sampling]:
    """The settings of rows, and how frames are seen."""
    from visil.collection.discover import discover
    from visil.compare.loading import load
    from visil.kernels.devices import chosen_device
    from visil.paper.ablation import RECIPE_OF
    from visil.paper.baselines.visil_systems import POOLED
    from visil.paper.experiment import Changes, Setup, is_ours
    from visil.paper.feature_bank import Networks
    from visil.video import Sampling

    rows = dict(given.split("=", 1) for given in options.model if "=" in given)
    for row in rows:
        if not is_ours(row):
            raise UsageError(
                f"--model: unknown row {row!r}: choose one of {', '.join((*RECIPE_OF, *POOLED))}"
            )
    plain = [given for given in options.model if "=" not in given]
    if len(plain) > 1:
        raise UsageError(
            "--model: one model is 'model'; others are given as ROW=MODEL, such as ViSiL_v=FOLDER"
        )
    if options.training is not None and not options.training.is_dir():
        raise FileError(options.training, "is no folder of videos")
    if options.training is not None and next(discover([options.training]), None) is None:
        raise FileError(options.training, "holds no videos")
    device = chosen_device(options.device)
    needed = bool(plain) or options.pictures == "model"
    at_hand = load(plain[0] if plain else None, device=str(device)) if needed else None
    sampling = at_hand.config.sampling if at_hand and options.pictures == "model" else Sampling()
    networks = Networks(
        options.backbone,
        str(options.backbone_weights) if options.backbone_weights else None,
        at_hand,
        str(options.i3d_weights) if options.i3d_weights else None,
        str(options.vgg_weights) if options.vgg_weights else None,
        device,
    )
    given: dict[str, dict[str, float | None]] = {
        "optim": {"epochs": options.epochs, "batch": options.batch, "lr": options.lr},
        "data": {"triplets": options.triplets},
    }
    asked = {part: {k: v for k, v in own.items() if v is not None} for part, own in given.items()}
    settings = {part: own for part, own in asked.items() if own}
    models = {row: load(name, device=str(device)) for row, name in rows.items()}
    built_in = options.dataset is None
    changes = Changes(options.base, options.quick, settings)
    learning = built_in or options.training is not None
    annotated = built_in or options.training_annotations is not None
    return Setup(networks, models, changes, learning, annotated), sampling


def _experiment(
    options: _Options,
    setup: Setup,
    sampling: Sampling,
    on_videos: Callable[[int, int, str], None] | None,
    tell: Callable[[str], None],
) -> Experiment:
    from visil.evaluation.evaluate import Task
    from visil.paper.experiment import Experiment
    from visil.paper.videos import BuiltInVideos, DatasetVideos, Videos

    videos: Videos
    if options.dataset is None:
        videos = BuiltInVideos(
            *(options.videos, options.out / "cache", sampling),
            clips=options.clips,
            seed=options.seed,
            flat=options.flat,
            progress=on_videos,
        )
    else:
        assert options.annotations is not None
        task = Task(options.dataset.value, options.annotations, options.ids)
        videos = DatasetVideos(
            *(task, options.videos, sampling), training=options.training, pattern=options.pattern
        )
    return Experiment(
        *(videos, setup.networks, options.out, sampling),
        changes=setup.changes,
        annotations=options.training_annotations,
        seed=options.seed,
        models=setup.models,
        streaming=options.stream,
        on_videos=on_videos,
        tell=tell,
    )


def _tell(made: Made) -> None:
    from visil.paper.output import to_markdown

    typer.echo(to_markdown(made.table))
    say(f"written: {', '.join(str(file) for file in made.files)}\n")


def _list(as_json: bool) -> None:
    from visil.paper.reproduce import FIGURES, NAMES

    if as_json:
        print_json({"tables": NAMES, "figures": FIGURES})
        return
    for name, title in NAMES.items():
        typer.echo(f"{name:15} {title}")
    for name, parts in FIGURES.items():
        typer.echo(f"{name:15} the same as {', '.join(parts)}")
