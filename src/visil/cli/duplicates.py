"""``visil duplicates INDEX``: groups of videos that share footage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visil.cli.options import (
    AsJson,
    Device,
    Location,
    Precision,
    RayAddress,
    Workers,
    check_folder,
    choose_device,
    opened_over,
)
from visil.cli.output import counted, print_json, say_written
from visil.cli.progress import duplicates_progress
from visil.errors import printable

if TYPE_CHECKING:
    from visil.collection.duplicates import Duplicates, Group


def duplicates(
    index: Location,
    min_confidence: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Leave out pairs of lower confidence.")
    ] = 0.5,
    references: Annotated[
        bool, typer.Option("--references", help="Compare new files with reference folders only.")
    ] = False,
    workers: Workers = None,
    ray: RayAddress = None,
    device: Device = None,
    precision: Precision = None,
    as_json: AsJson = False,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="One row a pair and stretch.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="A report to look at, in one file.")
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="FILE",
            help="One row a file, keep or drop, as .csv or .json: for you to review and `visil apply` to carry out; "
            "or a .sh script that moves files into a folder.",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Do not read the files again: then only files with the same bytes may go."
        ),
    ] = False,
) -> None:
    """Groups of videos that share footage, and which files need not be kept. Deletes nothing.

    A file need not be kept where another has the same bytes, or was shown, picture by picture, to hold all of it.
    """
    choose_device(device, precision)
    for file in (csv, html, plan):
        check_folder(file)
    with opened_over(index, ray, many=True) as collection:
        with duplicates_progress(quiet=as_json) as (progress, proving):
            found = collection.find_duplicates(
                min_confidence,
                new_against_references=references,
                progress=progress,
                prove=not quick,
                proving=proving,
                workers=workers,
            )
        if csv is not None:
            from visil.report.tables import write_csv

            write_csv(collection, found, csv)
        if html is not None:
            from visil.report.html import write_report

            write_report(collection, found, html, min_confidence=min_confidence)
        if plan is not None:
            from visil.collection.plan_file import write_plan

            write_plan(found.groups, plan)
    if as_json:
        print_json(found.to_dict())
        return
    _tell(found)
    say_written((csv, html, plan))


def _tell(found: Duplicates) -> None:
    several = "" if len(found.groups) == 1 else "s"
    typer.echo(f"{len(found.groups)} group{several} of videos that share footage")
    for number, group in enumerate(found.groups, 1):
        _tell_group(number, group)
    if found.common:
        pairs = "1 pair shares" if len(found.common) == 1 else f"{len(found.common)} pairs share"
        typer.echo(f"\n{pairs} only footage that many videos share (an intro, say), or very little")
    going = [file for group in found.groups for file in group.files if file.action == "drop"]
    if going:
        typer.echo(
            f"\n{counted(len(going), 'file')} may go, {sum(file.bytes for file in going) / 1e6:.1f} MB"
        )


def _tell_group(number: int, group: Group) -> None:
    files = sum(len(group.paths(video)) for video in group.videos)
    several = "1 video" if group.identical else f"{len(group.videos)} videos"
    typer.echo(f"\n{number}. {several}{f' in {files} files' if files > len(group.videos) else ''}")
    for video in group.videos:
        for row in group.plan(video):
            mark = "gone" if row.action == "missing" else row.action
            told = f"  ({printable(row.reason)})" if row.reason else ""
            size = f"{video.width}x{video.height} {video.duration:6.1f} s"
            typer.echo(f"  {mark:<5} {size}  {printable(row.path)}{told}")
