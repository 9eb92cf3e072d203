"""``visil report QUERY TARGET``: how two videos relate, as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visil.cli.options import AsJson, Device, ModelName, Precision, check_folder, choose_device, import_torch
from visil.cli.output import print_json, relation, say_written
from visil.cli.progress import frame_counter


def report(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A video file, or a folder of images.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The video to compare it with.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where the report goes.")] = Path(
        "report.html"
    ),
    device: Device = None,
    precision: Precision = None,
    as_json: AsJson = False,
    model: ModelName = None,
) -> None:
    """How QUERY and TARGET relate, to look at: the matrix, the same moments of both, every stretch with timecodes."""
    choose_device(device, precision)
    check_folder(out)
    from visil.video import probe

    for video in (query, target):
        probe(video)  # a bad file is named at once, before the network is loaded
    import_torch()
    from visil.compare.loading import load
    from visil.report.one_pair import write_pair_report

    network = load(model)
    with frame_counter(quiet=as_json) as counter:
        first, second = (network.embed(video, progress=counter(video)) for video in (query, target))
    match = network.compare(first, second)
    write_pair_report(network, first, second, match, out)
    if as_json:
        print_json(match.to_dict() | {"report": str(out)})
        return
    typer.echo(relation(match.verdict, match.segments, match.note))
    say_written([out])
