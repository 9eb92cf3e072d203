"""Progress of long work: on standard error, and only when that is a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visil.collection import AddProgress

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


@contextmanager
def add_progress(quiet: bool = False) -> Iterator[Callable[[AddProgress], None] | None]:
    """A bar for ``add``: files done, frames a second, time left."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    import time

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        *(TextColumn("adding"), BarColumn(), MofNCompleteColumn(), TextColumn("files")),
        *(TextColumn("{task.fields[rate]}"), TimeRemainingColumn()),
    )
    started = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, rate="")

        def tell(state: AddProgress) -> None:
            rate = f"{state.frames / max(time.monotonic() - started, 1e-9):.0f} frames/s"
            bar.update(task, completed=state.files, total=state.total, rate=rate)

        yield tell


@contextmanager
def pair_progress(quiet: bool = False) -> Iterator[Callable[[int, int, int], None] | None]:
    """A bar for ``duplicates``: videos done, pairs found, time left."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        *(TextColumn("comparing"), BarColumn(), MofNCompleteColumn(), TextColumn("videos,")),
        *(TextColumn("{task.fields[pairs]} pairs"), TimeRemainingColumn()),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, pairs=0)
        yield lambda done, total, pairs: bar.update(task, completed=done, total=total, pairs=pairs)


@contextmanager
def count_progress(unit: str, quiet: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """A bar for anything that is counted: done, in all, time left."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
