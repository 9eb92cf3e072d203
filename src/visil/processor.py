"""What this machine's processor can do."""

from __future__ import annotations

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
