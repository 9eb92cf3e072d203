"""``visil duplicates INDEX``: groups of videos that share footage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visil.cli.options import AsJson, Device, Location, Precision, RayAddress, choose_device, opened_over
from visil.cli.output import check_folder, print_json, say_written
from visil.cli.progress import pair_progress
from visil.errors import printable

if TYPE_CHECKING:
    from visil.collection import Duplicates, Group


def duplicates(
    index: Location,
    min_confidence: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Leave out pairs that are less sure.")
    ] = 0.5,
    references: Annotated[
        bool, typer.Option("--references", help="Compare new files with reference folders only.")
    ] = False,
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
) -> None:
    """Groups of videos that share footage, with a suggestion which to keep. Deletes nothing."""
    choose_device(device, precision)
    for file in (csv, html):
        check_folder(file)
    with opened_over(index, ray) as collection:
        with pair_progress(quiet=as_json) as progress:
            found = collection.find_duplicates(
                min_confidence, new_against_references=references, progress=progress
            )
        if csv is not None:
            from visil.report.tables import write_csv

            write_csv(collection, found, csv)
        if html is not None:
            from visil.report.html import write_report

            write_report(collection, found, html, min_confidence=min_confidence)
    if as_json:
        print_json(found.to_dict())
        return
    _tell(found)
    say_written((csv, html))


def _tell(found: Duplicates) -> None:
    several = "" if len(found.groups) == 1 else "s"
    typer.echo(f"{len(found.groups)} group{several} of videos that share footage")
    for number, group in enumerate(found.groups, 1):
        _tell_group(number, group)
    if found.common:
        pairs = "1 pair shares" if len(found.common) == 1 else f"{len(found.common)} pairs share"
        typer.echo(f"\n{pairs} only footage that many videos share (an intro, say), or very little")


def _tell_group(number: int, group: Group) -> None:
    files = sum(len(group.paths(video)) for video in group.videos)
    several = "1 video" if group.identical else f"{len(group.videos)} videos"
    typer.echo(f"\n{number}. {several}{f' in {files} files' if files > len(group.videos) else ''}")
    for video in group.videos:
        note = group.reason if video.id == group.keep else group.notes.get(video.id, "")
        mark = "keep " if video.id == group.keep or video.id in group.also else "     "
        first, *others = group.paths(video)
        told = f"  ({printable(note)})" if note else ""
        typer.echo(f"  {mark} {video.width}x{video.height} {video.duration:6.1f} s  {printable(first)}{told}")
        for path in others:
            typer.echo(f"        the same bytes: {printable(path)}")
