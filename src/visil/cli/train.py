"""``visil train`` and ``visil fit-whitening``: learn a model from videos."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visil.cli.options import BackboneName, BackboneWeights, RecipeName, numbers
from visil.cli.output import note, print_left_out, say
from visil.errors import UsageError

if TYPE_CHECKING:
    from visil.training.config import TrainConfig
    from visil.training.trainer import Outcome


def train(
    config: Annotated[
        Path | None, typer.Argument(metavar="CONFIG", help="A YAML file; without one, a recipe.")
    ] = None,
    recipe: RecipeName = None,
    backbone: BackboneName = None,
    backbone_weights: BackboneWeights = None,
    videos: Annotated[
        list[Path] | None, typer.Option("--videos", metavar="PATH", help="Videos or folders to learn from.")
    ] = None,
    pictures: Annotated[
        list[Path] | None,
        typer.Option(
            "--pictures",
            metavar="FOLDER",
            help="Pictures that frames are learned from as well; sub-folders are kinds. Without CONFIG: the "
            "default model's own recipe.",
        ),
    ] = None,
    validation: Annotated[
        list[Path] | None,
        typer.Option(
            "--validation", metavar="PATH", help="Videos or folders to validate on; else some are held out."
        ),
    ] = None,
    annotations: Annotated[
        Path | None,
        typer.Option("--annotations", metavar="FILE", help="Annotation of stretches that show the same."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FOLDER", help="Where the model goes.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="The model to start from.")
    ] = None,
    teacher: Annotated[
        str | None,
        typer.Option("--teacher", metavar="MODEL", help="The teacher of a student (recipes dns-…)."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs, the best of which is kept.")] = None,
    triplets: Annotated[
        int | None, typer.Option(min=1, help="Triplets that each pool gives an epoch.")
    ] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Triplets of one step.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of all random choices.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Go on from the checkpoint in the output folder.")
    ] = True,
    tensorboard: Annotated[
        bool | None, typer.Option("--tensorboard", help="Write TensorBoard scalars beside the log.")
    ] = None,
) -> None:
    """Train a model on videos, by a named recipe or as a file says. Run it again to go on where it was stopped.

    --recipe paper is the paper's training to the letter; without any, attention and comparator are trained on the
    default model's features.

    On several GPUs: torchrun --nproc-per-node 4 -m visil train CONFIG
    """
    from visil.cli.progress import training_progress
    from visil.compare.loading import DEFAULT, default_folder
    from visil.training.config_file import read_train_config
    from visil.training.distributed import own_rank
    from visil.training.recipes import recipe_called
    from visil.training.run import train as run

    if config is None and pictures:  # as the default model was taught by pictures, from the default model on
        config, model = default_folder() / "train-3.yaml", model or DEFAULT
    if config is not None and recipe is not None:
        raise UsageError("a recipe and a file: leave one out, or write recipe: NAME into the file")
    settings = read_train_config(config) if config is not None else recipe_called(recipe or "default").config
    sections: dict[str, dict[str, Any]] = {
        "data": {
            "videos": tuple(map(str, videos)) if videos else None,
            "pictures": tuple(map(str, pictures)) if pictures else None,
            "validation": tuple(map(str, validation)) if validation else None,
            "annotations": annotations and str(annotations),
            "triplets": triplets,
        },
        "model": {
            "start": model,
            "backbone": backbone,
            "backbone_weights": backbone_weights and str(backbone_weights),
        },
        "loss": {"teacher": teacher},
        "optim": {"epochs": epochs, "batch": batch, "lr": lr},
    }
    changed: dict[str, Any] = {
        name: replace(getattr(settings, name), **_given(values)) for name, values in sections.items()
    }
    top = {"out": out and str(out), "seed": seed, "device": device, "tensorboard": tensorboard}
    settings = replace(settings, **changed, **_given(top))
    with training_progress() as report:
        outcome = run(settings, resume=resume, report=report)
    line = f"{settings.out}: {_words(outcome, settings)}"
    if outcome.stopped:
        line = f"stopped after step {outcome.steps}: the same command goes on from there"
    if own_rank() == 0:
        say(line)
    if outcome.stopped:
        raise typer.Exit(128 + signal.SIGINT)


def fit_whitening(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Videos and folders.")],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the model goes.")],
    recipe: RecipeName = None,
    backbone: Annotated[
        str | None, typer.Option(help="lite0, lite1, lite2 or resnet50; lite0 if there is no recipe.")
    ] = None,
    backbone_weights: BackboneWeights = None,
    stages: Annotated[
        str | None, typer.Option(help="Stages pooled, such as 1,2,3; the usual ones if not given.")
    ] = None,
    levels: Annotated[
        str | None, typer.Option(help="Grids of regions, such as 3 or 1,2,3; 3 if not given.")
    ] = None,
    dim: Annotated[int | None, typer.Option(min=1, help="Channels kept; all if not given.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Fit the whitening of a backbone on videos, and write ViSiL_f+W: a model without anything trained.

    On a million region vectors, as in the paper, spread evenly over all videos.
    """
    from visil.cli.progress import video_progress
    from visil.kernels.devices import chosen_device
    from visil.training.whitening import fit_whitening as fit
    from visil.training.whitening import recipe_config, whitened_config

    pooled = tuple(numbers("stages", stages, int)) if stages is not None else None
    if recipe is not None:
        if pooled is not None or levels is not None:
            raise UsageError("a recipe says which stages and levels: leave --stages and --levels out")
        config = recipe_config(recipe, backbone, dim)
        note(f"recipe {recipe}: {config.backbone}, whitened to {config.dim:,} dimensions")
    else:
        grids = tuple(numbers("levels", levels or "3", int))
        config = whitened_config(backbone or "lite0", pooled, grids, dim)
    with video_progress("reading") as progress:
        result = fit(paths, config, chosen_device(device), progress, weights=backbone_weights)
    print_left_out(result.failed)
    result.model.save_pretrained(out)
    say(f"{out}: {config.name}, fitted on {result.vectors} vectors of {result.videos} videos")


def _words(outcome: Outcome, settings: TrainConfig) -> str:
    """The outcome of a run that was not stopped."""
    if settings.reader.wanted and not settings.reader.epochs:
        return "pairs are ready to learn a reader from"
    figures = f"mAP {outcome.best_map:.3f} on held-out videos ({outcome.start_map:.3f} before training)"
    return f"epoch {outcome.best_epoch} was best, {figures}" if outcome.epochs else figures


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
