"""Progress of training: on standard error, and only when that is a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

    from visil.training.trainer import Step


@contextmanager
def step_progress(quiet: bool = False) -> Iterator[Callable[[Step], None] | None]:
    """A bar over all epochs: triplets done, loss, triplets a second, time spent on data, time left."""
    with _bar(quiet, "triplets,", "{task.fields[figures]}") as bar:
        if bar is None:
            yield None
            return
        task = bar.add_task("", total=None, figures="")

        def tell(step: Step) -> None:
            bar.update(
                task,
                description=f"epoch {step.epoch} of {step.epochs}",
                completed=(step.epoch - 1) * step.total + step.done,
                total=step.epochs * step.total,
                figures=f"loss {step.loss:.4f}, {step.rate:.1f}/s, data {step.data_share:.0%}",
            )

        yield tell


@contextmanager
def frame_progress(steps: int, quiet: bool = False) -> Iterator[Callable[[dict[str, Any]], None] | None]:
    """A bar over the steps of the frame stage: loss, how many views were found, frame pairs a second, time left."""
    with _bar(quiet, "steps,", "{task.fields[figures]}") as bar:
        if bar is None:
            yield None
            return
        task = bar.add_task("frames", total=steps, figures="")

        def tell(line: dict[str, Any]) -> None:
            figures = f"loss {line['loss']:.3f}, found {line['accuracy']:.0%}, {line['pairs/s']:.0f} pairs/s"
            bar.update(task, completed=line["step"], figures=f"{figures}, data {line['data']:.0%}")

        yield tell


@contextmanager
def video_progress(what: str, quiet: bool = False) -> Iterator[Callable[[int, int, str], None] | None]:
    """A bar over videos: how many are done, of how many, and the last one's name."""
    with _bar(quiet, "videos", "{task.fields[name]}") as bar:
        if bar is None:
            yield None
            return
        task = bar.add_task(what, total=None, name="")
        yield lambda done, total, path: bar.update(
            task, completed=done, total=total, name=os.path.basename(path)
        )


@contextmanager
def _bar(quiet: bool, unit: str, tail: str) -> Iterator[Progress | None]:
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        *(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
        ),
        *(TextColumn(tail, markup=False), TimeRemainingColumn()),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield bar
