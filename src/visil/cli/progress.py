"""Progress bars of the commands: on standard error, and only when that is a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from visil.cli.verbosity import is_quiet

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from visil.collection.intake import AddProgress
    from visil.progress import Counted, OnCount, OnPairs
    from visil.training.run import Report

Counter = Callable[[str], Callable[[int], None]]


@contextmanager
def progress_bars(unit: str, quiet: bool = False) -> Iterator[Progress | None]:
    """Rich's bars: description, done of how many ``unit``, the task's field ``figures``, time left.

    None where nothing is to be shown: ``quiet``, or standard error is no terminal.
    """
    if quiet or is_quiet() or not sys.stderr.isatty():
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


@contextmanager
def frame_counter(quiet: bool = False) -> Iterator[Counter]:
    """A counter for each video: how many of its frames are embedded, and how long the rest will take."""
    from visil.video import probe

    with progress_bars("frames", quiet) as bars:

        def counter(video: str) -> Callable[[int], None]:
            if bars is None:
                return lambda _: None
            duration = probe(video).duration
            total = duration and max(1, round(duration))
            task = bars.add_task(os.path.basename(video), total=total, figures="")
            return lambda done: bars.update(task, completed=done)

        yield counter


@contextmanager
def add_progress(quiet: bool = False) -> Iterator[Callable[[AddProgress], None] | None]:
    """A bar for ``add``: files done, frames a second, time left."""
    started = time.monotonic()
    with progress_bars("files", quiet) as bars:
        if bars is None:
            yield None
            return
        task = bars.add_task("adding", total=None, figures="")

        def show(state: AddProgress) -> None:
            rate = f"{state.frames / max(time.monotonic() - started, 1e-9):.0f} frames/s"
            bars.update(task, completed=state.files, total=state.total, figures=rate)

        yield show


@contextmanager
def duplicates_progress(quiet: bool = False) -> Iterator[tuple[OnPairs | None, OnCount | None]]:
    """Two bars for ``duplicates``: videos compared, with the pairs found; likely copies shown picture by picture."""
    with progress_bars("videos", quiet) as bars:
        if bars is None:
            yield None, None
            return
        comparing = bars.add_task("comparing", total=None, figures="0 pairs")
        proving = bars.add_task("picture by picture", total=None, visible=False, figures="")

        def on_pairs(done: int, total: int, pairs: int) -> None:
            bars.update(comparing, completed=done, total=total, figures=f"{pairs} pairs")

        def on_proof(done: int, total: int) -> None:
            bars.update(proving, completed=done, total=total, visible=True)

        yield on_pairs, on_proof


@contextmanager
def count_progress(unit: str, quiet: bool = False) -> Iterator[OnCount | None]:
    """A bar for anything that is counted: done, in all, time left."""
    with progress_bars(unit, quiet) as bars:
        if bars is None:
            yield None
            return
        task = bars.add_task("", total=None, figures="")
        yield lambda done, total: bars.update(task, completed=done, total=total)


@contextmanager
def evaluation_progress(
    quiet: bool = False,
) -> Iterator[tuple[Callable[[AddProgress], None] | None, OnPairs | None]]:
    """Two bars for ``evaluate``: files embedded, then videos compared."""
    with progress_bars("videos", quiet) as bars:
        if bars is None:
            yield None, None
            return
        adding = bars.add_task("embedding", total=None, visible=False, figures="")
        comparing = bars.add_task("comparing", total=None, visible=False, figures="")

        def on_add(state: AddProgress) -> None:
            bars.update(adding, completed=state.files, total=state.total, visible=True)

        def on_pairs(done: int, total: int, _: int) -> None:
            bars.update(comparing, completed=done, total=total, visible=True)

        yield on_add, on_pairs


@contextmanager
def table_progress(
    quiet: bool = False,
) -> Iterator[tuple[Counted | None, Callable[[str], None]]]:
    """A bar over videos for ``tables``, and a function that says in front of it what is being done."""
    with progress_bars("videos", quiet) as bars:
        if bars is None:
            yield None, lambda _: None
            return
        task = bars.add_task("reading videos", total=None, figures="")

        def on_videos(done: int, total: int, _: str) -> None:
            bars.update(task, completed=done, total=total)

        yield on_videos, lambda line: bars.update(task, description=line)


@contextmanager
def training_progress(quiet: bool = False) -> Iterator[Report]:
    """Lines on standard error for ``train``; on a terminal a bar for each thing it does: videos read, steps made."""
    from visil.training.run import Reading
    from visil.training.trainer import Step

    with progress_bars("", quiet) as bars:
        tasks: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int, figures: str, description: str | None = None) -> None:
            if bars is not None:
                if what not in tasks:
                    tasks[what] = bars.add_task(what, total=total, figures="")
                description = description or what
                bars.update(
                    tasks[what], completed=done, total=total, figures=figures, description=description
                )

        def report(fact: str | Reading | Step) -> None:
            if isinstance(fact, Reading):
                show(fact.what, fact.done, fact.total, os.path.basename(fact.path))
            elif isinstance(fact, Step):
                loss, data = fact.figures["loss"], f"data {fact.data_share:.0%}"
                if fact.stage == "frames":
                    found = f"loss {loss:.3f}, found {fact.figures['accuracy']:.0%}"
                    show("frames", fact.done, fact.total, f"steps, {found}, {fact.rate:.0f} pairs/s, {data}")
                else:
                    items = "triplets" if fact.stage == "videos" else "pairs"
                    figures = f"{items}, loss {loss:.4f}, {fact.rate:.1f}/s, {data}"
                    done = (fact.epoch - 1) * fact.total + fact.done
                    description = f"epoch {fact.epoch} of {fact.epochs}"
                    show("epochs", done, fact.epochs * fact.total, figures, description)
            elif bars is not None:
                bars.console.print(fact, markup=False, highlight=False)
            elif not is_quiet():
                print(fact, file=sys.stderr)

        yield report
