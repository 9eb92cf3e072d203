"""Independent pieces of work on all cores, one thread each.

torch's own threads meet at a barrier in every operation: beside another busy process the slowest of them sets the pace,
and small operations take ten times as long. Threads that each have work of their own never wait for one another.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeVar

import torch

Piece = TypeVar("Piece")


@contextmanager
def using_cores(count: int) -> Iterator[None]:
    """While this is open, :func:`on_all_cores` uses so many, whatever the number of torch's own threads is."""
    global _in_use
    before, _in_use = _in_use, count
    try:
        yield
    finally:
        _in_use = before


_in_use: int | None = None


def on_all_cores(work: Callable[[Piece], None], pieces: Sequence[Piece], on: torch.device) -> None:
    """``work`` on every piece, as many at once as torch has threads; in turn where there is one, or on a GPU."""
    usual = torch.get_num_threads()
    threads = _in_use or usual
    if on.type != "cpu" or min(threads, len(pieces)) < 2:
        for piece in pieces:
            work(piece)
        return
    try:
        for _ in _workers(threads).map(work, pieces):
            pass
    finally:
        # torch's number of threads belongs to each thread, but new ones start with the last that was set.
        torch.set_num_threads(usual)


@lru_cache(maxsize=1)
def _workers(threads: int) -> ThreadPoolExecutor:
    """Threads that stay: each keeps its work space and the library's plans."""
    return ThreadPoolExecutor(threads, "visil", initializer=torch.set_num_threads, initargs=(1,))


if hasattr(os, "register_at_fork"):  # a forked process has none of its parent's threads
    os.register_at_fork(after_in_child=_workers.cache_clear)
