"""Items in order, as many at once as a budget allows: the one place where work is cut into runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def runs(items: Iterable[Item], size: Callable[[Item], int], most: float) -> Iterator[list[Item]]:
    """Runs of neighbours whose sizes add up to ``most`` at most; a larger item is a run of its own."""
    run: list[Item] = []
    total = 0
    for item in items:
        more = size(item)
        if run and total + more > most:
            yield run
            run, total = [], 0
        run.append(item)
        total += more
    if run:
        yield run


def slices(sizes: Sequence[int], most: int) -> list[slice]:
    """Where :func:`runs` cuts a list of items of these sizes."""
    cut = runs(range(len(sizes)), sizes.__getitem__, most)
    return [slice(run[0], run[-1] + 1) for run in cut]
