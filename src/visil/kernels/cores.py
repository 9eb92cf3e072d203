"""Independent pieces of work on all cores, one thread each.

torch's own threads meet at a barrier in every operation: beside another busy process the slowest of them sets the pace,
and small operations take ten times as long. Threads that each have work of their own never wait for one another.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import torch

Piece = TypeVar("Piece")


def usable_cores() -> int:
    """Cores that this process may use: those it may run on, or fewer where its control group is given less time."""
    if not hasattr(os, "sched_getaffinity"):  # macOS, Windows
        return os.cpu_count() or 1
    quota = time_quota(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
    return max(1, math.ceil(min(len(os.sched_getaffinity(0)), quota)))


def time_quota(process: Path, root: Path) -> float:
    """Cores' worth of time that control groups leave this process; without end where they set no limit."""
    least = math.inf
    with suppress(OSError, ValueError):  # no control groups here
        for line in process.read_text("utf-8").splitlines():
            _, controllers, group = line.split(":", 2)
            if not controllers:  # version 2
                folder, names = root, ["cpu.max"]
            elif "cpu" in controllers.split(","):  # version 1
                folder, names = root / "cpu", ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
            else:
                continue
            for above in _upwards(group):  # the limit of any group above counts too
                with suppress(OSError, ValueError, ZeroDivisionError):  # "max", or no such file
                    quota, period = " ".join((folder / above / n).read_text("utf-8") for n in names).split()
                    if int(quota) > 0:
                        least = min(least, int(quota) / int(period))
    return least


def _upwards(group: str) -> list[str]:
    parts = [part for part in group.split("/") if part]
    return ["/".join(parts[:depth]) for depth in range(len(parts), -1, -1)]


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
