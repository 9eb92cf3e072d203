"""Threads that wait asleep.

OpenMP's threads and OpenBLAS's go on looking for work for some time when they have none, and have none most of the
time: with sixteen of them, a command that computes for a tenth of a second kept all cores busy for its whole life, and
whatever else ran on the machine, our own worker processes too, waited for it.
"""

from __future__ import annotations

import os

ASLEEP = {
    "OMP_WAIT_POLICY": "PASSIVE",
    "OPENBLAS_THREAD_TIMEOUT": "4",  # the logarithm of the cycles; the least there is
}
"""Read by those libraries once, when they are loaded."""


def wait_asleep() -> None:
    """For a process of our own that has not loaded NumPy or torch, and those it starts; what the user says holds."""
    for name, value in ASLEEP.items():
        os.environ.setdefault(name, value)
