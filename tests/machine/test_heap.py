"""Memory that is free goes back to the system, where that can be asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from visil.machine.heap import bound_arenas, give_back

HELD_BY_A_THREAD = """
import threading
from pathlib import Path
from visil.machine.heap import bound_arenas, give_back

def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) // 1024

held = []
bound_arenas()
before = resident()
thread = threading.Thread(target=lambda: held.append([bytes(1000) for _ in range(60_000)]))
thread.start()
thread.join()
full = resident()
keep = held[0][-1]  # the last one stays, so that the heap cannot simply shrink
held.clear()
give_back()
print(full - before, resident() - before)
"""
"""Prints the megabytes that a thread took, and those that stay once they are free. A process of its own does it."""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's own")
def test_what_threads_held_comes_back() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HELD_BY_A_THREAD], capture_output=True, text=True, check=True
    )
    taken, kept = map(int, done.stdout.split())
    assert taken > 40
    assert kept < 20


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    bound_arenas()
    give_back()
