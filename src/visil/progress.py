"""Progress bars of long work: on standard error, and only when that is a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

Counted = Callable[[int, int, str], None]
"""Called with how many are done, how many there are, and the path of the last one."""


@contextmanager
def progress_bars(unit: str, quiet: bool = False) -> Iterator[Progress | None]:
    """Rich's bars: description, done of how many ``unit``, the task's field ``figures``, time left.

    None where nothing is to be shown: ``quiet``, or standard error is no terminal.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        *(TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()),
        *(TextColumn(unit, markup=False), TextColumn("{task.fields[figures]}", markup=False)),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield bars


@contextmanager
def video_progress(what: str, quiet: bool = False) -> Iterator[Counted | None]:
    """A bar over videos: how many are done, of how many, and the last one's name."""
    with progress_bars("videos", quiet) as bars:
        if bars is None:
            yield None
            return
        task = bars.add_task(what, total=None, figures="")
        yield lambda done, total, path: bars.update(
            task, completed=done, total=total, figures=os.path.basename(path)
        )
