"""Memory that is free goes back to the system, where that can be asked for."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from visil.heap import bound_arenas, give_back


def resident() -> int:
    """MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) // 1024


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's own")
def test_what_threads_held_comes_back() -> None:
    held: list[list[bytes]] = []

    def take() -> None:
        held.append([bytes(1000) for _ in range(60_000)])

    bound_arenas()
    give_back()
    before = resident()
    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    full = resident()
    keep = held[0][-1]  # the last one stays, so that the heap cannot simply shrink
    held.clear()
    give_back()
    assert full - before > 40
    assert resident() - before < 20
    assert len(keep) == 1000


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    bound_arenas()
    give_back()
