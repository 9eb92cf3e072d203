"""``visil compare QUERY TARGET``: how two videos relate, and where."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visil.cli.options import AsJson, Device, Precision, choose_device, import_torch
from visil.cli.output import check_folder, print_json, relation, stretch
from visil.cli.progress import frame_counter
from visil.cli.verbosity import is_quiet

if TYPE_CHECKING:
    from visil.matching.match import Match


def compare(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A video file, or a folder of images.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The video to compare it with.")],
    device: Device = None,
    precision: Precision = None,
    as_json: AsJson = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the match: .png, .svg, .pdf or .jpg.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="MODEL", help="A preset, a folder or a hub id; the default model if not given."
        ),
    ] = None,
) -> None:
    """How QUERY and TARGET relate: do they share footage, where, and how sure is it."""
    choose_device(device, precision)
    if plot is not None:
        from visil.plots import check_plot_path

        check_plot_path(plot)
        check_folder(plot)
    from visil.video import probe

    for video in (query, target):
        probe(video)  # a bad file is named at once, before the network is loaded
    import_torch()
    from visil.compare.loading import load

    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if as_json else "default")
        network = load(model)
    with frame_counter(quiet=as_json) as counter:
        features = [network.embed(video, progress=counter(video)) for video in (query, target)]
    match = network.compare(*features)
    if plot is not None:
        match.plot(plot)
    if as_json:
        print_json(match.to_dict())
        return
    _tell(match, plot)


def _tell(match: Match, plot: Path | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    console.print(Text(relation(match.verdict, match.segments), style="bold"))
    meaning = "probability that they share footage" if match.calibrated else "not calibrated for this model"
    console.print(f"confidence {match.confidence:.3f} ({meaning}), score {match.score:.3f}")
    if match.segments:
        table = Table("query", "target", "length", "score", box=None, pad_edge=False, header_style="dim")
        for segment in match.segments:
            length = segment.query[1] - segment.query[0]
            spans = stretch(segment.query), stretch(segment.target)
            table.add_row(*spans, f"{length:.0f} s", f"{segment.score:.3f}")
        console.print(table)
    if plot is not None and not is_quiet():
        console.print(Text(f"plot: {plot}"))
