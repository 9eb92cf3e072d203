"""Memory that the C library keeps for later, bounded and given back: glibc holds on to what each thread once used."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress

ARENAS = 2
"""Heaps that threads share; by default glibc makes eight for each core, and each grows to the most it ever held."""

M_ARENA_MAX = -8


def bound_arenas() -> None:
    """Let all threads of this process share a few heaps. For a process of our own: it holds until that ends."""
    _glibc(lambda library: library.mallopt(M_ARENA_MAX, ARENAS))


def give_back() -> None:
    """Give memory that is free to the system, which costs some milliseconds."""
    _glibc(lambda library: library.malloc_trim(0))


def _glibc(call: Callable[..., object]) -> None:
    if sys.platform != "linux":
        return
    import ctypes

    with suppress(OSError, AttributeError):  # another C library
        call(ctypes.CDLL(None))
