"""``visil compare QUERY TARGET``: how two videos relate, and where; or each video of a folder with each of another."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visil.cli.options import (
    DEVICE_VARIABLE,
    AsJson,
    Device,
    Exports,
    ModelName,
    Precision,
    check_folder,
    choose_device,
    import_torch,
    wake_gpu,
)
from visil.cli.output import (
    SOME_FAILED,
    check_exports,
    print_json,
    print_left_out,
    relation,
    say_written,
    stretch,
    write_exports,
)
from visil.cli.progress import frame_counter, video_progress
from visil.cli.verbosity import is_quiet
from visil.errors import UsageError, VideoError, printable

if TYPE_CHECKING:
    from visil.compare.visil import ViSiL
    from visil.matching.calibration import Verdict
    from visil.matching.match import Match
    from visil.model.features import VideoFeatures


EXIT: dict[Verdict, int] = {"copy": 0, "related": 4, "unrelated": 5, "unclear": 6}
"""Exit status of ``--exit-code`` by verdict, the surest first."""


def compare(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="A video file, a folder of images, or a folder of videos.")
    ],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="What to compare it with.")],
    device: Device = None,
    precision: Precision = None,
    as_json: AsJson = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the match: .png, .svg, .pdf or .jpg.")
    ] = None,
    export: Exports = None,
    refine: Annotated[
        bool,
        typer.Option(
            "--refine/--no-refine",
            help="Look at more frames a second around the ends of each stretch; also tells copies from other moments "
            "before the same camera.",
        ),
    ] = True,
    exit_code: Annotated[
        bool,
        typer.Option(
            "--exit-code",
            help="Exit with 0 for copy, 4 for related, 5 for unrelated, 6 for unclear; of folders, by the surest pair.",
        ),
    ] = False,
    model: ModelName = None,
) -> None:
    """How QUERY and TARGET relate: do they share footage, where, and how sure is it.

    Of folders of videos, each of the one is compared with each of the other; for more than a few, make a collection.
    Files with the same bytes are copies, whatever they show.
    """
    choose_device(device, precision)
    if plot is not None:
        from visil.plots import check_plot_path

        check_plot_path(plot)
        check_folder(plot)
    from visil.collection.discover import videos_named
    from visil.video import probe

    queries, targets = videos_named(query), videos_named(target)
    check_exports(export, len(queries))
    single = (queries, targets) == ([query], [target])
    if single:
        for video in (query, target):
            probe(video)  # a bad file is named at once, before the network is loaded
    elif plot is not None:
        raise UsageError("--plot draws one match: name two videos, not folders of them")
    wake_gpu(os.environ.get(DEVICE_VARIABLE))
    import_torch()
    from visil.compare.loading import load

    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if as_json else "default")
        network = load(model)
    if not single:
        found, whole = _each_with_each(network, queries, targets, as_json, export, refine)
        _end(found, exit_code)
        if not whole:
            raise typer.Exit(SOME_FAILED)
        return
    with frame_counter(quiet=as_json) as counter:
        features = [network.embed(video, progress=counter(video)) for video in (query, target)]
    match = network.compare(*features, refine=refine)
    if plot is not None:
        match.plot(plot)
    _export([match], export)
    if as_json:
        print_json(match.to_dict())
    else:
        _tell(match, plot)
        say_written(export or ())
    _end([match], exit_code)


def _end(found: list[Match], exit_code: bool) -> None:
    """Tell scripts the verdict, if they want to know it."""
    if exit_code:
        raise typer.Exit(min((EXIT[match.verdict] for match in found), default=EXIT["unclear"]))


def _export(found: list[Match], files: list[Path] | None) -> None:
    if files:
        from visil.report.relations import Relation

        write_exports([Relation.of_match(match) for match in found], files)


def _each_with_each(
    network: ViSiL,
    queries: list[str],
    targets: list[str],
    as_json: bool,
    export: list[Path] | None,
    refine: bool,
) -> tuple[list[Match], bool]:
    """Every pair of two different files, each video embedded once; what cannot be read is left out and named.

    And whether nothing was left out.
    """
    from visil.compare.judge import same_files

    failed: dict[str, str] = {}
    held: dict[str, VideoFeatures] = {}
    videos = sorted({*queries, *targets})
    with video_progress("reading", quiet=as_json) as progress:
        for done, video in enumerate(videos, 1):
            try:
                held[video] = network.embed(video)
            except VideoError as error:
                failed[video] = error.reason
            if progress is not None:
                progress(done, len(videos), video)
    found: list[Match] = []
    for query in (one for one in queries if one in held):
        others = [
            held[one] for one in targets if one in held and os.path.abspath(one) != os.path.abspath(query)
        ]
        for other, match in zip(others, network.compare_many(held[query], others), strict=True):
            closely = (refine and match.shares) or same_files(held[query], other)
            found.append(network.compare(held[query], other, refine=refine) if closely else match)
    print_left_out(list(failed.items()))
    _export(found, export)
    if as_json:
        print_json([match.to_dict() for match in found])
    else:
        related = [match for match in found if match.shares]
        for match in sorted(related, key=lambda match: -match.evidence):
            names = f"{printable(match.query_path or '')} and {printable(match.target_path or '')}"
            typer.echo(f"{match.confidence:.3f}  {names}")
            typer.echo(f"       {relation(match.verdict, match.segments, match.note)}")
        unclear = sum(match.verdict == "unclear" for match in found)
        more = f", {unclear} show too little to judge" if unclear else ""
        typer.echo(f"{len(related)} of {len(found)} pairs share footage{more}")
        say_written(export or ())
    if not found and failed:
        raise VideoError(*next(iter(failed.items())))
    return found, not failed


def _tell(match: Match, plot: Path | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    # One line whatever the width: a terminal breaks lines itself, and in a file they are not to be broken.
    console.print(Text(relation(match.verdict, match.segments, match.note), style="bold"), soft_wrap=True)
    meaning = "probability that they share footage" if match.calibrated else "not calibrated for this model"
    if match.verdict != "unclear":
        told = f"confidence {match.confidence:.3f} ({meaning}), score {match.score:.3f}"
        console.print(told, soft_wrap=True)
    if match.segments:
        columns = ["query", "target", "length", "score", "confidence"]
        if any(segment.reversed for segment in match.segments):
            columns.append("")
        table = Table(*columns, box=None, pad_edge=False, header_style="dim")
        for segment in match.segments:
            length = segment.query[1] - segment.query[0]
            spans = stretch(segment.query), stretch(segment.target)
            how = f"{length:.0f} s", f"{segment.score:.3f}", f"{segment.confidence:.3f}"
            table.add_row(*spans, *how, *(["backwards"] if segment.reversed else []))
        console.print(table)
    if plot is not None and not is_quiet():
        console.print(Text(f"plot: {plot}"), soft_wrap=True)
