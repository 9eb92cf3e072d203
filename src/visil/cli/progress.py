"""Progress of long work: on standard error, and only when that is a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Counter = Callable[[str], Callable[[int], None]]


@contextmanager
def frame_counter(quiet: bool = False) -> Iterator[Counter]:
    """Gives a counter per video: how many frames are done, how fast, and how long it will take."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from visil.video import probe

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("frames"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:

        def counter(video: str) -> Callable[[int], None]:
            duration = probe(video).duration
            task = bar.add_task(os.path.basename(video), total=duration and max(1, round(duration)))
            return lambda done: bar.update(task, completed=done)

        yield counter
