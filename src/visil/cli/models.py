"""``visil models``: list models, fetch, import and export them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visil.cli.commands import Commands
from visil.cli.options import AsJson
from visil.cli.output import print_json, say

app = Commands(help="Models and weights.", no_args_is_help=True)


@app.command("list")
def list_models(as_json: AsJson = False) -> None:
    """Presets, and backbones with where their weights are."""
    from visil.compare.loading import default_folder
    from visil.model.backbones import BACKBONES
    from visil.model.config import PRESETS, read_config

    default = read_config(default_folder())
    found = {name: spec.weights.find() for name, spec in BACKBONES.items()}
    if as_json:
        listing = {
            "default": {"name": default.name, "backbone": default.backbone},
            "presets": list(PRESETS),
            "backbones": {name: str(path) if path else None for name, path in found.items()},
        }
        print_json(listing)
        return
    typer.echo(f"default    {default.name} (on {default.backbone})")
    for name in PRESETS:
        typer.echo(f"preset     {name}")
    for name, path in found.items():
        typer.echo(f"backbone   {name:<20} {path or 'not here: visil models pull ' + name}")


@app.command("pull")
def pull(name: Annotated[str, typer.Argument(help="A backbone, or a hub id.")] = "resnet50") -> None:
    """Fetch a backbone's weights, or a model from the hub, into the cache."""
    from visil.compare.visil import ViSiL
    from visil.model.backbones import BACKBONES

    if name in BACKBONES:
        typer.echo(BACKBONES[name].weights.pull())
    else:
        typer.echo(f"{name}: {ViSiL.from_pretrained(name).config.name}")


@app.command("import")
def import_official(
    weights: Annotated[Path, typer.Argument(help="visil.pth, visil_symmetric.pth, or a DnS/S2VS student.")],
    folder: Annotated[Path, typer.Argument(help="Where to write the model.")],
    pca: Annotated[Path, typer.Option(help="The authors' PCA file.")],
    backbone_weights: Annotated[
        Path | None, typer.Option(help="ResNet-50 weights; the hub cache if not given.")
    ] = None,
    symmetric: Annotated[bool, typer.Option("--symmetric", help="For visil_symmetric.pth.")] = False,
) -> None:
    """Turn the authors' files into a model folder that `--model` takes."""
    from visil.compare.visil import ViSiL
    from visil.model.backbones import backbone_spec

    backbone = backbone_weights or backbone_spec("resnet50").weights.locate()
    model = ViSiL.from_official(weights, pca, backbone_weights=backbone, symmetric=symmetric)
    model.save_pretrained(folder)
    say(f"{folder}: {model.config.name}")


@app.command("export")
def export(
    folder: Annotated[Path, typer.Argument(help="Where to write the model.")],
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="The model; the default one if not given.")
    ] = None,
    onnx: Annotated[
        bool, typer.Option("--onnx", help="As ONNX graphs that run without torch: docs/onnx.md.")
    ] = False,
) -> None:
    """Write a model with its backbone as config.json and model.safetensors, or as ONNX."""
    from visil.compare.loading import load

    if not onnx:
        load(model).save_pretrained(folder)
        say(str(folder))
        return
    from visil.onnx import export_onnx

    done = export_onnx(load(model), folder)
    say(str(folder))
    say(
        f"in ONNX Runtime as in torch: to {done.extractor_difference:.0e} (extractor)"
        f" and {done.similarity_difference:.0e} (similarity)"
    )
