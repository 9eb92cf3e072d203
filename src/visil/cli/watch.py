"""``visil watch INDEX FOLDER...``: new files in folders join the collection, and are told with their matches."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visil.cli.file_selection import (
    Exclude,
    FollowLinks,
    Include,
    MaxDuration,
    MinDuration,
    MinSize,
    seconds_of,
    selection_of,
)
from visil.cli.options import Device, Precision, Verdicts, choose_device
from visil.cli.output import say, stretch
from visil.errors import UsageError, printable, require_extra

if TYPE_CHECKING:
    from visil.collection.watch import Arrival

TICK_MS = 500
"""Milliseconds after which files are looked at that may have stopped growing."""


def watch(
    index: Annotated[
        str,
        typer.Argument(
            metavar="INDEX", help="The collection's folder or URL; a new one is made if there is none."
        ),
    ],
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER...", help="Folders to watch, and those in them.")
    ],
    include: Include = None,
    exclude: Exclude = None,
    min_size: MinSize = None,
    min_duration: MinDuration = None,
    max_duration: MaxDuration = None,
    follow_links: FollowLinks = False,
    settle: Annotated[
        str,
        typer.Option(metavar="TIME", help="Take a file when it has stayed as it is for so long."),
    ] = "5s",
    k: Annotated[int, typer.Option("-k", min=1, help="Matches of each file, at the most.")] = 10,
    min_confidence: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Leave out matches of lower confidence.")
    ] = 0.5,
    verdict: Verdicts = None,
    poll: Annotated[
        bool,
        typer.Option(
            "--poll", help="Look at regular times, for network drives, which do not report changes."
        ),
    ] = False,
    device: Device = None,
    precision: Precision = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, for each file that came.")
    ] = False,
) -> None:
    """Add videos in FOLDER..., and new ones as they come, and tell the matches of each. Stop with Ctrl-C."""
    choose_device(device, precision)
    require_extra("`visil watch`", "watch", "watchfiles")
    selection = selection_of(include, exclude, min_size, min_duration, max_duration, follow_links)
    seconds = seconds_of("--settle", settle)
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{printable(os.fspath(folder))}: is no folder that can be watched")
    from visil.collection.index import Index
    from visil.collection.watch import Matching
    from visil.collection.watch import watch as arrivals

    matching = Matching(k, min_confidence, {one.value for one in verdict} if verdict else None)
    with _stopped_by_signals(), Index(index) as collection:
        if not as_json:
            say(f"watching {', '.join(printable(os.fspath(folder)) for folder in folders)}; stop with Ctrl-C")
        changes = _changes(folders, poll)
        for arrival in arrivals(
            *(collection, folders, changes), selection=selection, settle=seconds, matching=matching
        ):
            _tell(arrival, as_json)
    if not as_json:
        say("stopped")


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Ctrl-C, and being asked to end, are how this is meant to end: finished work is kept."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _changes(folders: list[Path], poll: bool) -> Iterator[list[str]]:
    """Paths where something happened, twice a second, also when nothing did."""
    from watchfiles import watch as watched

    try:
        for found in watched(
            *folders,
            watch_filter=None,
            rust_timeout=TICK_MS,
            yield_on_timeout=True,
            force_polling=poll or None,
            ignore_permission_denied=True,
        ):
            yield sorted({os.path.abspath(path) for _, path in found})
    except (RuntimeError, OSError) as error:  # too many folders for the system, or one that is gone
        reason = " ".join(str(error).splitlines())
        raise UsageError(f"the folders cannot be watched ({reason}); --poll may help") from error


def _tell(arrival: Arrival, as_json: bool) -> None:
    if as_json:
        json.dump(arrival.to_dict(), sys.stdout)
        print(flush=True)
        return
    name = printable(arrival.path)
    if arrival.reason is not None:
        typer.echo(f"{name}: not added: {arrival.reason}")
        return
    matches = len(arrival.same_bytes) + len(arrival.hits)
    typer.echo(f"{name}: added, {matches or 'no'} match{'' if matches == 1 else 'es'}")
    for path in arrival.same_bytes:
        typer.echo(f"  same bytes      {printable(path)}")
    for hit in arrival.hits:
        typer.echo(f"  {hit.confidence:.3f}  {hit.verdict:<8} {printable(hit.path)}")
        for segment in hit.segments[:5]:
            typer.echo(f"         {stretch(segment.query)} is {stretch(segment.target)} there")
    sys.stdout.flush()
