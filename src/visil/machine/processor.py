"""The processor: which instructions it has, and how many of its cores this process may use."""

from __future__ import annotations

import math
import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path


def has(*instructions: str) -> bool:
    """Whether it is known to have all of these, by their names in Linux; elsewhere nothing is known."""
    return set(instructions) <= _known()


@cache
def _known() -> frozenset[str]:
    if sys.platform == "linux":
        with suppress(OSError):
            return frozenset(Path("/proc/cpuinfo").read_text(errors="replace").split())
    return frozenset()


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
