"""The progress bars of training; how a bar looks: :mod:`visil.progress`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from visil.progress import progress_bars

if TYPE_CHECKING:
    from visil.training.trainer import Step


@contextmanager
def step_progress(quiet: bool = False) -> Iterator[Callable[[Step], None] | None]:
    """A bar over all epochs: triplets done, loss, triplets a second, time spent on data, time left."""
    with progress_bars("triplets,", quiet) as bar:
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
    with progress_bars("steps,", quiet) as bar:
        if bar is None:
            yield None
            return
        task = bar.add_task("frames", total=steps, figures="")

        def tell(line: dict[str, Any]) -> None:
            figures = f"loss {line['loss']:.3f}, found {line['accuracy']:.0%}, {line['pairs/s']:.0f} pairs/s"
            bar.update(task, completed=line["step"], figures=f"{figures}, data {line['data']:.0%}")

        yield tell
