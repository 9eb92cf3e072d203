"""Questions for the tests of :mod:`visil.collection.spread`, which worker processes can import."""

from __future__ import annotations

import os
import signal
import time

from visil.collection.index import Index
from visil.errors import UsageError


def process(index: Index, asked: tuple[int, int]) -> tuple[int, int]:
    """An item, and which process answers; where that is the one that asks, a moment late: others may be starting."""
    item, parent = asked
    if os.getpid() == parent:
        time.sleep(0.2)
    return item, os.getpid()


def killed(index: Index, parent: int) -> int:
    """A question that ends the worker that it is put to."""
    if os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    return len(index)


def refused(index: Index, item: int) -> int:
    """A question that is not answered."""
    raise UsageError(f"{index.location}: not {item}")
